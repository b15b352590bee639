package mcpserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentkernel"
	"agentkernel/internal/connlimit"
	"agentkernel/internal/deadline"
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
	// Hosts are the names by which clients call, beside addresses, localhost, and the hosts of Origins and of an
	// audience that is a URL.
	Hosts []string
}

// Bounds of a connection and of a request.
const (
	maxRequest     = 48 << 20 // a program of the largest size, escaped
	headerPatience = 10 * time.Second
	bodyPatience   = 2 * time.Minute // a request that is not there by then is given up
	sessionPause   = time.Hour       // a client that says nothing for so long is gone
	tokenYears     = 100
	minToken       = 16
)

// Handler serves clients over streamable HTTP at any path. It lets nobody in without a token, nor a web page
// of another origin: a browser on this machine must not become anybody's way to the kernel.
func (s *Server) Handler(cfg HTTPConfig) (http.Handler, error) {
	verify, err := cfg.verifier(s.h.cfg.Now)
	if err != nil {
		return nil, err
	}
	streams := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s.Server },
		&mcp.StreamableHTTPOptions{Logger: s.h.cfg.Logger, SessionTimeout: sessionPause, MaxRequestBodyBytes: maxRequest, EventStore: mcp.NewMemoryEventStore(nil),
			DisableLocalhostProtection: true}) // toHosts knows more names
	return deadline.Bodies(bodyPatience, cfg.toHosts(cfg.fromOrigins(s.h.authorized(verify, s.h.untilEnding(s.h.withRequestID(newBodies(maxBodies, maxOwnBodies), resumable(streams))))))), nil
}

// untilEnding takes no more requests once the server ends, so that clients make them again.
func (h *server) untilEnding(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h.clients.ended() {
			refuseEnding(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func refuseEnding(w http.ResponseWriter) {
	w.Header().Set("Retry-After", bodyPause)
	http.Error(w, errEnding.Error()+": "+sameCall, http.StatusServiceUnavailable)
}

// resumable tells clients how long to wait before they take up a stream that broke, with the event that makes them able to
// (SEP-1699). The SDK says it only where the server ends a stream.
func resumable(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(retrying{w}, r) })
}

type retrying struct{ http.ResponseWriter }

// retryAfter is how many milliseconds a client waits.
const retryAfter = "1000"

func (w retrying) Write(b []byte) (int, error) {
	if !bytes.HasPrefix(b, []byte("event: prime\n")) {
		return w.ResponseWriter.Write(b)
	}
	if _, err := w.ResponseWriter.Write([]byte("retry: " + retryAfter + "\n")); err != nil {
		return 0, err
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w retrying) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// localOrigin says whether an origin is a page of this machine.
func localOrigin(origin string) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return false
	}
	host := u.Hostname()
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// ServeHTTP serves clients on a listener until ctx ends; then nil, once their calls are answered.
func (s *Server) ServeHTTP(ctx context.Context, ln net.Listener, cfg HTTPConfig) error {
	handler, err := s.Handler(cfg)
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	srv := &http.Server{Handler: handler, ReadHeaderTimeout: headerPatience, MaxHeaderBytes: 64 << 10, IdleTimeout: idlePatience,
		ConnContext: s.h.strangers.opened, ConnState: s.h.strangers.changed}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(connlimit.Bound(ln, connlimit.Most(4), crowded())) }() // the socket has two quarters
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

// crowded is what a client is sent beyond the bound on connections.
func crowded() []byte {
	const body = "this server has as many connections open as its descriptors allow for; nothing of the request was done: send it again later\n"
	return fmt.Appendf(nil, "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\n"+
		"Retry-After: %s\r\nConnection: close\r\n\r\n%s", len(body), bodyPause, body)
}

// ParseTokens reads a file of tokens: one a line, alone or behind the name of its user; # begins a comment. Its errors name
// the line, and nothing that stands there.
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
			return nil, agentkernel.Errorf(agentkernel.CodeInvalid, "mcp", "line %d is not `TOKEN` or `USER TOKEN`", line)
		}
		if len(token) < minToken { // no name is said: where the two are the wrong way round, it is the token
			return nil, agentkernel.Errorf(agentkernel.CodeInvalid, "mcp", "the token in line %d is shorter than %d characters", line, minToken).
				WithHint("a line is `TOKEN` or `USER TOKEN`")
		}
		if public(token) {
			return nil, agentkernel.Errorf(agentkernel.CodeInvalid, "mcp", "what line %d has as a token is a public key or a document, which others know", line).
				WithHint("make one: openssl rand -hex 32; public keys are for --jwt-keys")
		}
		if _, twice := out[token]; twice {
			return nil, agentkernel.Errorf(agentkernel.CodeInvalid, "mcp", "line %d repeats a token", line)
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
