package mcpserver

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentkernel"
)

// HTTPConfig says who may call over HTTP.
type HTTPConfig struct {
	// Tokens are the bearer tokens that are let in, with the user that each is. One is needed, or JWT.
	Tokens map[string]string
	// JWT lets signed tokens in; their subject is the user. Nil: none.
	JWT *JWTConfig
	// Origins are web origins ("https://app.example.org") that browsers may call from, beside those of this
	// machine.
	Origins []string
}

// Bounds of a connection and of a request.
const (
	maxRequest     = 48 << 20 // a program of the largest size, escaped
	headerPatience = 10 * time.Second
	sessionPause   = time.Hour // a client that says nothing for so long is gone
	tokenYears     = 100
	minToken       = 16
)

// Handler serves clients over streamable HTTP at any path. It lets nobody in without a token, nor a web page
// of another origin: a browser on this machine must not become anybody's way to the kernel.
func (s *Server) Handler(cfg HTTPConfig) (http.Handler, error) {
	if len(cfg.Tokens) == 0 && cfg.JWT == nil {
		return nil, agentkernel.Errorf(agentkernel.CodeInvalid, "mcp", "no bearer token: anybody could call").WithHint("name a file of tokens with --token-file")
	}
	known := make(map[[sha256.Size]byte]string, len(cfg.Tokens))
	for token, user := range cfg.Tokens {
		if len(token) < minToken {
			return nil, agentkernel.Errorf(agentkernel.CodeInvalid, "mcp", "the token of user %q is shorter than %d characters", user, minToken)
		}
		known[sha256.Sum256([]byte(token))] = user
	}
	var signed *jwtVerifier
	if cfg.JWT != nil {
		var err error
		if signed, err = newJWTVerifier(cfg.JWT, s.h.cfg.Now); err != nil {
			return nil, err
		}
	}
	streams := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s.Server },
		&mcp.StreamableHTTPOptions{Logger: s.h.cfg.Logger, SessionTimeout: sessionPause, MaxRequestBodyBytes: maxRequest})
	// The far end of the token's validity is required by the SDK, not by us.
	never := s.h.cfg.Now().AddDate(tokenYears, 0, 0)
	authorized := auth.RequireBearerToken(func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		sum := sha256.Sum256([]byte(token))
		for have, user := range known {
			if subtle.ConstantTimeCompare(sum[:], have[:]) == 1 {
				return &auth.TokenInfo{UserID: user, Expiration: never}, nil
			}
		}
		if signed != nil {
			return signed.verify(token)
		}
		return nil, auth.ErrInvalidToken
	}, nil)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			s.h.clients.hangUp(r.Header.Get("Mcp-Session-Id"), auth.TokenInfoFromContext(r.Context()).UserID)
		}
		streams.ServeHTTP(w, r)
	}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if origin := r.Header.Get("Origin"); origin != "" && !cfg.allows(origin) {
			http.Error(w, "this origin may not call", http.StatusForbidden)
			return
		}
		authorized.ServeHTTP(w, r)
	}), nil
}

// allows says whether pages of an origin may call.
func (c *HTTPConfig) allows(origin string) bool {
	if slices.Contains(c.Origins, origin) {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return false
	}
	host := u.Hostname()
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// ServeHTTP serves clients on a listener until ctx ends; then nil, once their calls have ended.
func (s *Server) ServeHTTP(ctx context.Context, ln net.Listener, cfg HTTPConfig) error {
	handler, err := s.Handler(cfg)
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	srv := &http.Server{Handler: handler, ReadHeaderTimeout: headerPatience, MaxHeaderBytes: 64 << 10}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(ln) }()
	select {
	case err := <-failed:
		return agentkernel.AsError(err, agentkernel.CodeUnavailable, "mcp")
	case <-ctx.Done():
	}
	s.Close()
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), endPatience)
	defer cancel()
	if err := srv.Shutdown(bounded); err != nil {
		_ = srv.Close()
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return agentkernel.AsError(err, agentkernel.CodeUnavailable, "mcp")
	}
	return nil
}

// ParseTokens reads a file of tokens: one a line, alone or behind the name of its user; # begins a comment.
func ParseTokens(text string) (map[string]string, error) {
	out := map[string]string{}
	line := 0
	for row := range strings.Lines(text) {
		line++
		fields := strings.Fields(row)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		user, token := "", fields[0]
		if len(fields) == 2 {
			user, token = fields[0], fields[1]
		}
		if len(fields) > 2 || !plainUser(user) {
			return nil, agentkernel.Errorf(agentkernel.CodeInvalid, "mcp", "line %d of the tokens is not `TOKEN` or `USER TOKEN`", line)
		}
		if _, twice := out[token]; twice {
			return nil, agentkernel.Errorf(agentkernel.CodeInvalid, "mcp", "line %d of the tokens repeats a token", line)
		}
		out[token] = user
	}
	return out, nil
}

// plainUser is what a user may be called.
func plainUser(name string) bool {
	const most = 64
	return len(name) <= most && strings.IndexFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._@-", r)
	}) < 0
}
