package mcpserver

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"

	"agentkernel"
)

// Who may call over HTTP. An MCP session is its principal's alone: the user of a named token, the bearer of a nameless
// one, the subject of an issuer. To anybody else it does not exist: whoever learns the id of a session can neither end it
// nor read it, nor answer the questions in it.

const sessionHeader = "Mcp-Session-Id"

// principalKey is where a token's TokenInfo names its principal.
const principalKey = "principal"

// principal names who holds a token. No two lists of parts are one name.
func principal(parts ...string) map[string]any {
	return map[string]any{principalKey: fmt.Sprintf("%q", parts)}
}

func principalOf(info *auth.TokenInfo) string {
	name, _ := info.Extra[principalKey].(string)
	return name
}

// knownToken is a listed token.
type knownToken struct {
	sum  [sha256.Size]byte
	user string
}

// Check says what is wrong with the tokens and keys, before anybody is told that they are served by.
func (c *HTTPConfig) Check() error {
	_, err := c.verifier(time.Now)
	return err
}

// verifier tells who the bearer of a token is.
func (c *HTTPConfig) verifier(now func() time.Time) (auth.TokenVerifier, error) {
	if len(c.Tokens) == 0 && c.JWT == nil {
		return nil, agentkernel.Errorf(agentkernel.CodeInvalid, "mcp", "no bearer token: anybody could call").WithHint("name a file of tokens with --token-file")
	}
	known := make([]knownToken, 0, len(c.Tokens))
	for token, user := range c.Tokens {
		if len(token) < minToken {
			return nil, agentkernel.Errorf(agentkernel.CodeInvalid, "mcp", "a token is shorter than %d characters", minToken) // which, ParseTokens says: what is taken for the user may be the token
		}
		known = append(known, knownToken{sha256.Sum256([]byte(token)), user})
	}
	var signed *jwtVerifier
	if c.JWT != nil {
		var err error
		if signed, err = newJWTVerifier(c.JWT, now); err != nil {
			return nil, err
		}
	}
	// The far end of the token's validity is required by the SDK, not by us.
	never := now().AddDate(tokenYears, 0, 0)
	return func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		sum := sha256.Sum256([]byte(token))
		for _, k := range known {
			if subtle.ConstantTimeCompare(sum[:], k.sum[:]) != 1 {
				continue
			}
			who := principal("user", k.user)
			if k.user == "" {
				who = principal("token", hex.EncodeToString(sum[:]))
			}
			return &auth.TokenInfo{UserID: k.user, Expiration: never, Extra: who}, nil
		}
		if signed != nil {
			return signed.verify(token)
		}
		return nil, auth.ErrInvalidToken
	}, nil
}

// authorized lets bearers of tokens in, each to its own sessions.
func (h *server) authorized(verify auth.TokenVerifier, next http.Handler) http.Handler {
	own := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.strangers.known(r)
		w.Header().Del("WWW-Authenticate")
		w.Header().Del("Connection")
		if id := r.Header.Get(sessionHeader); id != "" {
			if !h.clients.owns(principalOf(auth.TokenInfoFromContext(r.Context())), id) {
				http.Error(w, "session not found", http.StatusNotFound)
				return
			}
			if r.Method == http.MethodDelete {
				h.clients.hangUp(id)
			}
		}
		next.ServeHTTP(w, r)
	})
	bearers := auth.RequireBearerToken(verify, nil)(own)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("WWW-Authenticate", challenge(r)) // these go out with a refusal alone
		w.Header().Set("Connection", "close")
		bearers.ServeHTTP(w, r)
	})
}

// challenge says how a client gets in (RFC 6750, section 3): an error only where it has shown a token.
func challenge(r *http.Request) string {
	const realm = `Bearer realm="agentkernel"`
	if r.Header.Get("Authorization") == "" {
		return realm
	}
	return realm + `, error="invalid_token"`
}

// What a web page of an allowed origin may send and read.
var (
	corsMethods = "GET, POST, DELETE"
	corsSends   = strings.Join([]string{"Accept", "Authorization", "Content-Type", "Last-Event-ID", "Mcp-Method", "Mcp-Name",
		"Mcp-Protocol-Version", sessionHeader}, ", ")
	corsReads = strings.Join([]string{sessionHeader, "Mcp-Protocol-Version", "WWW-Authenticate"}, ", ")
)

// corsKept is how many seconds a browser may keep the answer to its question whether a page may call.
const corsKept = "600"

// fromOrigins lets web pages of this machine and of the named origins call, and no others. A page calls with a token, never with
// what the browser keeps for it, so that no credentials are allowed (Fetch standard, "CORS protocol").
func (c *HTTPConfig) fromOrigins(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Add("Vary", "Origin")
		origin := r.Header.Get("Origin")
		switch {
		case origin == "":
		case !c.allows(origin):
			http.Error(w, "this origin may not call", http.StatusForbidden)
			return
		default:
			header.Set("Access-Control-Allow-Origin", origin)
			header.Set("Access-Control-Expose-Headers", corsReads)
			if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
				header.Set("Access-Control-Allow-Methods", corsMethods)
				header.Set("Access-Control-Allow-Headers", corsSends)
				header.Set("Access-Control-Max-Age", corsKept)
				w.WriteHeader(http.StatusNoContent)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// allows says whether pages of an origin may call.
func (c *HTTPConfig) allows(origin string) bool {
	return slices.Contains(c.Origins, origin) || localOrigin(origin)
}

// toHosts refuses requests for another host: a web page whose name was made to stand for this machine (DNS rebinding) calls
// by that name. An address cannot be one, but a server that is asked over the loopback has no other there.
func (c *HTTPConfig) toHosts(next http.Handler) http.Handler {
	names := map[string]bool{"localhost": true}
	for _, name := range c.Hosts {
		names[hostName(name)] = true
	}
	urls := c.Origins
	if c.JWT != nil {
		urls = append(slices.Clone(urls), c.JWT.Audience)
	}
	for _, text := range urls {
		if u, err := url.Parse(text); err == nil && u.Hostname() != "" {
			names[hostName(u.Host)] = true
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := hostName(r.Host)
		addr, err := netip.ParseAddr(name)
		local, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
		if !names[name] && (err != nil || local != nil && local.IP.IsLoopback() && !addr.IsLoopback()) {
			http.Error(w, fmt.Sprintf("this server is not known as %q: call it by its address, or name the host with --host", name), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// hostName is a host without port, brackets and the dot of the root, in lower case.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}
