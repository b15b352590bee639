// Package transport carries the requests of providers over HTTP: it opens connections, adds the key, watches for silence and
// size, reads limits, and says in one form why a request has failed. It must never follow a redirect (the key would travel
// along), send anything twice, wait, or let a key or what was asked into a message.
package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"time"

	"agentkernel/internal/llm"
	"agentkernel/internal/portowner"
)

// What applies where Options say nothing.
const (
	defaultIdle = 5 * time.Minute
	maxWords    = 8 << 20  // of an answer, in bytes
	maxVectors  = 64 << 20 // of one with embeddings: two thousand texts of three thousand numbers
)

// maxHead bounds the head of an answer, and maxFailure the body of one that says why a request has failed.
const (
	maxHead    = 256 << 10
	maxFailure = 64 << 10
)

// Dialect is what one kind of server does its own way.
type Dialect struct {
	BaseURL string // where Options name none
	// Auth puts the key into the head of a request. It is not called without one.
	Auth func(h http.Header, key string)
	// Headers go along with each request.
	Headers map[string]string
	// RequestIDs are the headers that may name a request, the best first.
	RequestIDs []string
	// Limits reads what the server says of its limits; nil: it says nothing. now is its own clock.
	Limits func(h http.Header, now time.Time) []llm.Limit
	// Fault reads why a request has failed.
	Fault func(body []byte) Fault
}

// Server is a server that requests are sent to. Its methods may be called by many goroutines.
type Server struct {
	base      string
	dialect   Dialect
	key       func(context.Context) (string, error)
	headers   http.Header
	client    *http.Client
	idle      time.Duration
	maxAnswer int64
}

// New makes a server. The error says which of the options is wrong; it has no value of a header.
func New(opts llm.Options, d Dialect) (*Server, error) {
	base := strings.TrimRight(opts.BaseURL, "/")
	if base == "" {
		base = d.BaseURL
	}
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, errors.New("the base URL is not an http or https address")
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("the base URL has a password, a query or a fragment: keys and versions have settings of their own")
	}
	s := &Server{base: base, dialect: d, key: opts.Key, headers: http.Header{}, idle: opts.Idle, maxAnswer: opts.MaxAnswer}
	for name, value := range d.Headers {
		s.headers.Set(name, value)
	}
	if s.idle <= 0 {
		s.idle = defaultIdle
	}
	client := http.Client{Transport: newTransport(u, opts.Key != nil)}
	if opts.Client != nil {
		client = *opts.Client
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	client.Jar = nil // a cookie would tie requests of different agents together
	s.client = &client
	return s, nil
}

// newTransport makes connections. Where there is a key, those to a port of this machine are closed, and nothing sent, if another user
// listens there.
func newTransport(server *url.URL, keyed bool) *http.Transport {
	var dialer portowner.Dialer = &net.Dialer{Timeout: 15 * time.Second, KeepAlive: 15 * time.Second}
	if keyed {
		dialer = portowner.For(server, dialer)
	}
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            dialer.DialContext,
		TLSHandshakeTimeout:    15 * time.Second,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		MaxIdleConnsPerHost:    256, // a connection for each call that is under way; the default keeps two
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: maxHead,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
	}
}

// Official says whether the server's host is domain, or below it.
func (s *Server) Official(domain string) bool {
	u, err := url.Parse(s.base)
	return err == nil && (u.Hostname() == domain || strings.HasSuffix(u.Hostname(), "."+domain))
}

// Base is the address that paths of calls are behind.
func (s *Server) Base() string { return s.base }

// Call is one request.
type Call struct {
	Path   string   // behind the base, with a query
	Body   [][]byte // in pieces, which are not changed
	Stream bool     // the answer is asked for in bits
	// Vectors says that the answer has many numbers, and may be larger than words are.
	Vectors bool
	// Asked are the texts of the request, as far as a message of the server may repeat them.
	Asked iter.Seq[string]
	Input int64 // the tokens of the request, estimated
	Watch llm.Watch
}

// errSilent ends a request to which nothing comes.
var errSilent = errors.New("the server is silent")

// most is how many bytes an answer may have.
func (s *Server) most(call Call) int64 {
	switch {
	case s.maxAnswer > 0:
		return s.maxAnswer
	case call.Vectors:
		return maxVectors
	}
	return maxWords
}

// Send sends a request once and reads the head of its answer. The error is an [*llm.Error]. The exchange must be closed.
func (s *Server) Send(ctx context.Context, call Call) (*Exchange, error) {
	x := &Exchange{server: s, call: call, parent: ctx, idle: s.idle, left: s.most(call)}
	if !call.Stream {
		x.idle = 2 * s.idle // it comes in one piece when all is done
	}
	if err := ctx.Err(); err != nil {
		return nil, x.fail(err)
	}
	head, err := x.requestHead(ctx)
	if err != nil {
		return nil, err
	}
	var cancel context.CancelCauseFunc
	x.ctx, cancel = context.WithCancelCause(ctx)
	x.cancel = cancel
	var drop func()
	trace := httptrace.ClientTrace{WroteHeaders: func() { x.leaves(drop) }} // the body goes along, and how far it has come nobody knows
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(x.ctx, &trace), http.MethodPost, s.base+call.Path, nil)
	if err != nil {
		cancel(nil)
		return nil, &llm.Error{Kind: llm.Invalid, Message: "the address of the request is wrong"}
	}
	req.Header = head
	var size int
	req.Body, drop, size = open(call.Body)
	req.ContentLength = int64(size)
	req.GetBody = func() (io.ReadCloser, error) { // net/http asks for it only where it knows that no server got the first one
		x.sent.Store(false)
		var body io.ReadCloser
		body, drop, _ = open(call.Body)
		return body, nil
	}
	x.silence = time.AfterFunc(x.idle, func() { cancel(errSilent) })
	resp, err := s.client.Do(req)
	x.silence.Stop()
	if err != nil {
		defer x.Close()
		return nil, x.fail(err)
	}
	x.resp = resp
	if err := x.readHead(); err != nil {
		defer x.Close()
		return nil, err
	}
	return x, nil
}

// leaves tells that the body is about to go out, or drops it: a server has no question then that it could answer.
func (x *Exchange) leaves(drop func()) {
	if leaves := x.call.Watch.Leaves; leaves != nil {
		if err := leaves(); err != nil {
			drop()
			x.cancel(refused{err})
			return
		}
	}
	x.sent.Store(true)
}

// requestHead is the head of a request, with the key.
func (x *Exchange) requestHead(ctx context.Context) (http.Header, error) {
	s := x.server
	h := s.headers.Clone()
	h.Set("Content-Type", "application/json")
	h.Set("Accept", "application/json")
	if x.call.Stream {
		h.Set("Accept", "text/event-stream, application/x-ndjson, application/json")
		h.Set("Accept-Encoding", "identity") // what compresses holds bits of an answer back
	}
	if h.Get("User-Agent") == "" {
		h.Set("User-Agent", "agentkernel")
	}
	if s.key == nil {
		return h, nil
	}
	key, err := s.key(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil, &llm.Error{Kind: llm.Canceled, Message: "the request was canceled while its key was asked for", Err: context.Cause(ctx)}
		}
		return nil, &llm.Error{Kind: llm.Auth, Message: "the key of the provider is not available", Err: err}
	}
	if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return nil, &llm.Error{Kind: llm.Auth, Message: "the key of the provider has a space, an end of a line, or a letter that no key has"}
	}
	if key != "" {
		s.dialect.Auth(h, key)
		x.key = key
	}
	return h, nil
}
