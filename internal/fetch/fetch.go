package fetch

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"

	"agentkernel"
	"agentkernel/internal/clip"
	"agentkernel/internal/incoming"
)

// Bounds of a request.
const (
	MaxBody       = 64 << 20 // largest max_bytes, and largest body that is sent
	defaultBody   = 10 << 20
	maxURL        = 8 << 10
	mostRedirects = 20
)

// Config says how to fetch. The zero value works, without secrets.
type Config struct {
	// Secrets are entries of the setting secrets: "NAME env:VARIABLE HOST..." or "NAME file:PATH HOST...".
	Secrets []string
	// Env looks a variable of a secret up; nil: there are none.
	Env func(string) (string, bool)
	// Roots are the certificate authorities that count; nil: those of the system.
	Roots *x509.CertPool
	// Resolver finds addresses; nil: the system's.
	Resolver resolver
	// Own says whether an address is this machine's own; nil: its network interfaces are asked.
	Own func(netip.Addr) bool
	// Room is what all that is being received has together; nil: one of its own, for any machine.
	Room *incoming.Room
	// Version stands in the User-Agent of requests that set none.
	Version string
}

func (c *Config) tls() *tls.Config {
	return &tls.Config{RootCAs: c.Roots, MinVersion: tls.VersionTLS12}
}

// Fetcher implements agentkernel.Fetcher.
type Fetcher struct {
	cfg     Config
	secrets atomic.Pointer[map[string]*secret]
	own     func(netip.Addr) bool
	public  *http.Transport
	named   *http.Transport // for private addresses that a user has named
	keyed   *http.Transport // for the same, with secrets
}

var _ agentkernel.Fetcher = (*Fetcher)(nil)

// New makes a Fetcher. CodeInvalid: an entry of Secrets is none.
func New(cfg Config) (*Fetcher, error) {
	if cfg.Env == nil {
		cfg.Env = func(string) (string, bool) { return "", false }
	}
	if cfg.Resolver == nil {
		cfg.Resolver = net.DefaultResolver
	}
	if cfg.Own == nil {
		cfg.Own = ownAddress
	}
	if cfg.Room == nil {
		cfg.Room = incoming.New(math.MaxInt64)
	}
	f := &Fetcher{cfg: cfg, own: cfg.Own}
	if err := f.SetSecrets(cfg.Secrets); err != nil {
		return nil, err
	}
	f.public, f.named, f.keyed = transport(&f.cfg, f.dialPublic), transport(&f.cfg, f.dialNamed), transport(&f.cfg, f.dialKeyed)
	return f, nil
}

// SetSecrets replaces Config.Secrets. CodeInvalid: an entry is none, and nothing has changed.
func (f *Fetcher) SetSecrets(entries []string) error {
	secrets, err := parseSecrets(entries)
	if err == nil {
		f.secrets.Store(&secrets)
	}
	return err
}

// Close ends the connections that are kept for the next request.
func (f *Fetcher) Close() error {
	f.public.CloseIdleConnections()
	f.named.CloseIdleConnections()
	f.keyed.CloseIdleConnections()
	return nil
}

// CheckHosts implements agentkernel.Fetcher.
func (f *Fetcher) CheckHosts(patterns []string) error {
	for _, p := range patterns {
		if _, err := parsePattern(p); err != nil {
			return err
		}
	}
	return nil
}

// Admit implements agentkernel.Fetcher.
func (f *Fetcher) Admit(r agentkernel.FetchRequest) error {
	_, err := f.admit(&r)
	return err
}

// admit checks all that can be checked without a network.
func (f *Fetcher) admit(r *agentkernel.FetchRequest) (*hop, error) {
	switch {
	case agentkernel.FetchEffect(r.Method) == "":
		return nil, invalid("the method %q is not one of GET, HEAD, OPTIONS, PUT, DELETE, POST, PATCH", clip.Short(r.Method))
	case len(r.URL) > maxURL:
		return nil, invalid("the url is %d bytes long; the limit is %d", len(r.URL), maxURL)
	case len(r.Body) > MaxBody:
		return nil, invalid("the body is %d bytes long; the limit is %d", len(r.Body), MaxBody)
	case r.MaxBytes < 0 || r.MaxBytes > MaxBody:
		return nil, invalid("max_bytes is %d; it may be up to %d", r.MaxBytes, int64(MaxBody))
	case r.Redirects < 0 || r.Redirects > mostRedirects:
		return nil, invalid("redirects is %d; it may be 0 to %d", r.Redirects, mostRedirects)
	case r.Timeout < 0:
		return nil, invalid("the timeout is negative")
	}
	u, err := url.Parse(r.URL)
	if err != nil {
		return nil, invalid("%q is no url: %s", clip.Short(r.URL), urlProblem(err))
	}
	if err := checkHeaders(r.Headers); err != nil {
		return nil, err
	}
	h := &hop{method: r.Method, url: u, headers: maps.Clone(r.Headers), body: r.Body}
	return h, f.direct(h, r.Hosts)
}

// direct finds where a hop leads, and whether it and its secrets may go there.
func (f *Fetcher) direct(h *hop, hosts []string) error {
	var err error
	if h.to, err = targetOf(h.url); err != nil {
		return err
	}
	if err := allow(hosts, h.to); err != nil {
		return err
	}
	if h.secrets, err = f.references(h.headers); err != nil {
		return err
	}
	for _, s := range h.secrets {
		if err := s.mayGo(h.to); err != nil {
			return err
		}
	}
	return f.checkWhole(h)
}

// urlProblem is what url.Parse found, without the URL.
func urlProblem(err error) string {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return clip.Short(e.Err.Error())
	}
	return "it cannot be parsed"
}

// Fetch implements agentkernel.Fetcher.
func (f *Fetcher) Fetch(ctx context.Context, r agentkernel.FetchRequest) (agentkernel.FetchResponse, error) {
	settled := agentkernel.FetchResponse{Settled: true}
	h, err := f.admit(&r)
	if err != nil {
		return settled, err
	}
	vals, err := f.values(h.secrets)
	if err != nil {
		return settled, err
	}
	if r.Timeout == 0 {
		r.Timeout = agentkernel.DefaultFetchTimeout
	}
	if r.MaxBytes == 0 {
		r.MaxBytes = defaultBody
	}
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	// What comes back is cleaned of all values that the process may have sent, also behind a redirect that dropped them.
	red := vals.redactor(f.known(r.Hosts))
	res, err := f.follow(ctx, h, &r, vals, red)
	return res, red.failure(err)
}

// hop is one request of a chain of redirects.
type hop struct {
	method  string
	url     *url.URL
	to      target
	headers map[string]string
	secrets []*secret
	body    []byte
}

// follow makes the request and those that redirects ask for.
func (f *Fetcher) follow(ctx context.Context, h *hop, r *agentkernel.FetchRequest, vals values, red *redactor) (agentkernel.FetchResponse, error) {
	var made error // not nil: a request that writes was made and answered with where to look
	for left := r.Redirects; ; left-- {
		res, location, err := f.one(ctx, h, r, vals, red)
		if err != nil || location == "" || r.Redirects == 0 {
			return res, lost(made, err)
		}
		if writes(h.method) && !writes(methodAfter(res.Status, h.method)) {
			made = agentkernel.Errorf(agentkernel.CodeAnswerLost, op, "%s took the %s and answered with a redirect (%d)", h.to.host, h.method, res.Status)
		}
		settled := agentkernel.FetchResponse{Settled: true} // the server has answered; what follows is another request
		if left == 0 {
			return settled, lost(made, agentkernel.Errorf(agentkernel.CodeLimit, op, "%s redirects more than %d times", h.to.host, r.Redirects))
		}
		holds := red.String(location) != location
		next, err := f.redirected(h, res.Status, location, r.Hosts)
		switch {
		case holds && err != nil: // the error may have a part of it
			return settled, lost(made, denied("%s redirects to a url with a secret in it, which cannot be followed", h.to.host))
		case err != nil:
			return settled, lost(made, err)
		case holds && next.to != h.to:
			return settled, lost(made, denied("%s redirects to another host with a secret in the url", h.to.host))
		}
		h = next
	}
}

// lost is the error of a request to which another was redirected. Where that one wrote it says so: to make it again would
// write again.
func lost(made, err error) error {
	if made == nil || err == nil {
		return err
	}
	first, then := agentkernel.AsError(made, agentkernel.CodeAnswerLost, op), agentkernel.AsError(err, agentkernel.CodeUnavailable, op)
	e := agentkernel.Errorf(first.Code, op, "%s, which cannot be followed: %s", first.Message(), then.Message())
	e.Hint = then.Hint
	return e
}

func writes(method string) bool { return agentkernel.FetchEffect(method) == agentkernel.EffectWrite }

// one makes one request. location is where it redirects to, if it does.
func (f *Fetcher) one(ctx context.Context, h *hop, r *agentkernel.FetchRequest, vals values, red *redactor) (res agentkernel.FetchResponse, location string, err error) {
	// From the moment there is a connection the request may be on its way.
	var sent atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent.Store(true) }})
	harmless := !writes(h.method) // as a GET behind a POST that was answered
	resp, err := f.transportFor(h).RoundTrip(h.request(traced, f.agent(), r.Key, vals))
	if err != nil {
		return agentkernel.FetchResponse{Settled: harmless || !sent.Load()}, "", timedOut(ctx, h, r, err)
	}
	defer func() { _ = resp.Body.Close() }()
	res = agentkernel.FetchResponse{Status: resp.StatusCode, URL: red.String(h.url.Redacted()), Headers: red.header(resp.Header), Settled: true}
	if location = redirection(resp); location != "" && r.Redirects > 0 {
		return res, location, nil // its body is nobody's
	}
	expect := resp.ContentLength
	if h.method == http.MethodHead {
		expect = 0
	}
	held := f.cfg.Room.Hold()
	body, err := read(resp.Body, r.MaxBytes, expect, held)
	switch {
	case errors.Is(err, errTooLarge):
		return res, "", tooLarge(resp.StatusCode, r.MaxBytes)
	case errors.Is(err, errNoRoom):
		return res, "", noRoom()
	case err != nil:
		res.Settled = harmless
		return res, "", timedOut(ctx, h, r, err)
	}
	res.Body, res.Done = red.Bytes(body), held.Release
	return res, location, nil
}

func (f *Fetcher) transportFor(h *hop) *http.Transport {
	switch {
	case !h.to.addr.IsValid() || classify(h.to.addr) != private:
		return f.public
	case len(h.secrets) > 0 && h.url.Scheme == "http": // https has a certificate say whose the server is
		return f.keyed
	}
	return f.named // admit has seen that it was named
}

func (f *Fetcher) agent() string { return "AgentKernel/" + f.cfg.Version }

// request makes the request of a hop, with its secrets filled in.
func (h *hop) request(ctx context.Context, agent, key string, vals values) *http.Request {
	u := *h.url
	u.Fragment, u.RawFragment = "", ""
	u.Host = h.to.hostPort() // what was checked is what is asked for
	req := &http.Request{Method: h.method, URL: &u, Host: h.to.hostPort(), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}}
	req.Header.Set("User-Agent", agent)
	for name, value := range h.headers {
		req.Header.Set(name, vals.fill(value))
	}
	if len(h.body) > 0 {
		// Without GetBody the transport sends it once only, whatever happens to the connection.
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(h.body)), int64(len(h.body))
	}
	if agentkernel.FetchEffect(h.method) == agentkernel.EffectWrite {
		if req.Header.Get(idempotencyKey) == "" && key != "" {
			req.Header.Set(idempotencyKey, key)
		}
		// A request with these net/http would send again by itself, should its connection break. It does not know them
		// by this spelling, which is the same to servers.
		for _, name := range []string{idempotencyKey, "X-" + idempotencyKey} {
			if v := req.Header[name]; v != nil {
				delete(req.Header, name)
				req.Header[strings.ToLower(name)] = v
			}
		}
	}
	return req.WithContext(ctx)
}

const idempotencyKey = "Idempotency-Key"
