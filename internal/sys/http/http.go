// Package http is the family of HTTP requests: http.fetch. They are made by an agentkernel.Fetcher; here it is decided what
// recovery may do with them, and what an answer looks like to a program.
package http

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"agentkernel"
	"agentkernel/internal/clip"
	"agentkernel/internal/journal"
	"agentkernel/internal/places"
	"agentkernel/internal/sys"
)

const fetch = "http.fetch"

// Family is the family of HTTP requests, which fetcher makes; nil: they are refused.
func Family(fetcher agentkernel.Fetcher) sys.Family {
	if fetcher == nil {
		fetcher = noFetcher{}
	}
	f := &family{fetcher: fetcher, places: map[string]*places.Places{}}
	return sys.Family{Name: "http", Check: f.check, Ops: []sys.Op{
		{Subject: subject, Admit: f.admit, Outside: f.fetch, Syscall: agentkernel.Syscall{
			Name: fetch, Guest: fetch, Effect: agentkernel.EffectByMethod, Capability: "http",
			Doc: "Makes an HTTP request to a host that --allow-host allows. An answer with any status is an answer, not an error.",
			Args: []agentkernel.Param{
				{Name: "url", Type: "string", Doc: "https://host/path; http only where the port is allowed by name"},
				{Name: "method", Type: "string", Optional: true, Default: "'GET'", Doc: "GET, HEAD, OPTIONS (read), PUT, DELETE (idempotent), POST, PATCH (write)"},
				{Name: "headers", Type: "object", Optional: true, Default: "None", Doc: "dict of str; a value may name a secret: 'Bearer {{secret:NAME}}'"},
				{Name: "body", Type: "any", Optional: true, Default: "None", Doc: "str or bytes; anything else is sent as JSON"},
				{Name: "timeout", Type: "number", Optional: true, Default: "30.0", Doc: "seconds for everything; then TimeoutError"},
				{Name: "max_bytes", Type: "integer", Optional: true, Default: "10485760", Doc: "largest body, decompressed; LimitError beyond it"},
				{Name: "redirects", Type: "integer", Optional: true, Default: "10", Doc: "how many are followed, each checked as the first request; 0: none is"},
			},
			Result: "Response", ResultDoc: "status, url, headers (names in lower case), text (None if the body is not text), json(), bytes()"}},
	}}
}

// atOnce is how many requests of one namespace are under way. More wait, for one another and not for those of others.
const atOnce = 64

type family struct {
	fetcher agentkernel.Fetcher

	mu     sync.Mutex
	places map[string]*places.Places // by namespace
}

// noFetcher is that of a kernel without one.
type noFetcher struct{}

func (noFetcher) CheckHosts([]string) error { return errNoFetcher() }

func (noFetcher) Admit(agentkernel.FetchRequest) error { return errNoFetcher() }

func (noFetcher) Fetch(context.Context, agentkernel.FetchRequest) (agentkernel.FetchResponse, error) {
	return agentkernel.FetchResponse{Settled: true}, errNoFetcher()
}

func errNoFetcher() error {
	return agentkernel.Errorf(agentkernel.CodeUnsupported, fetch, "this kernel was built without http.fetch")
}

func (f *family) check(s *agentkernel.Spec) error {
	if len(s.AllowHosts) == 0 {
		return nil
	}
	return f.fetcher.CheckHosts(s.AllowHosts)
}

// admit settles what kind of call it is and whether it may be made.
func (f *family) admit(c *sys.Call) (sys.Admission, error) {
	r, err := request(c)
	if err != nil {
		return sys.Admission{}, err
	}
	turn := f.turn(c, &r)
	a := sys.Admission{Effect: agentkernel.FetchEffect(r.Method), Subject: brief(r.Method, r.URL), Value: admitted{r, turn}, Name: fetch, Pattern: fetch, Matches: c.Matches,
		Turn: turn, Waiting: turn.Waiting}
	return a, f.fetcher.Admit(r)
}

// admitted is a request that may be made when it is its turn.
type admitted struct {
	agentkernel.FetchRequest
	turn *places.Turn
}

// turn is for what a request of a namespace waits.
func (f *family) turn(c *sys.Call, r *agentkernel.FetchRequest) *places.Turn {
	namespace := c.Spec.Namespace
	f.mu.Lock()
	defer f.mu.Unlock()
	of := f.places[namespace]
	if of == nil {
		of = places.New(atOnce, "the namespace "+strconv.Quote(namespace))
		f.places[namespace] = of
	}
	limit := cmp.Or(r.Timeout, agentkernel.DefaultFetchTimeout)
	limit -= min(limit/10, time.Second) // for the request itself
	return of.Turn(namespace, c.Since, limit, func(ctx context.Context) error {
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return ctx.Err()
		}
		return agentkernel.Errorf(agentkernel.CodeTimeout, fetch, "%d other requests of the namespace were under way for %s; this one was not sent", atOnce, limit).
			WithHint("timeout=SECONDS sets the time, also that in the queue; limits.call_wait bounds it")
	})
}

// subject names a journalled request.
func subject(raw json.RawMessage) string {
	var a args
	if json.Unmarshal(raw, &a) != nil {
		return ""
	}
	return brief(strings.ToUpper(cmp.Or(a.Method, http.MethodGet)), a.URL)
}

// brief names a request in few words: what a URL has behind its host may be long, or private.
func brief(method, text string) string {
	host := "?"
	if u, err := url.Parse(text); err == nil && u.Host != "" {
		host = clip.Short(u.Host)
	}
	return clip.Short(method) + " " + host
}

// args are the arguments of http.fetch.
type args struct {
	URL       string            `json:"url"`
	Method    string            `json:"method"`
	Headers   map[string]string `json:"headers"`
	Body      json.RawMessage   `json:"body"`
	Timeout   *float64          `json:"timeout"`
	MaxBytes  *int64            `json:"max_bytes"`
	Redirects *int              `json:"redirects"`
}

const defaultRedirects = 10

// request makes the request of a call.
func request(c *sys.Call) (r agentkernel.FetchRequest, err error) {
	var a args
	if err := c.Decode(&a); err != nil {
		return r, err
	}
	r = agentkernel.FetchRequest{
		URL: a.URL, Method: strings.ToUpper(cmp.Or(a.Method, http.MethodGet)), Headers: a.Headers, Hosts: c.Spec.AllowHosts,
		Redirects: defaultRedirects,
	}
	if a.Timeout != nil {
		if !(*a.Timeout > 0) || math.IsInf(*a.Timeout, 0) {
			return r, c.Invalid("the timeout must be a number of seconds above 0")
		}
		r.Timeout = max(sys.Seconds(*a.Timeout), time.Millisecond)
	}
	if a.MaxBytes != nil {
		if r.MaxBytes = *a.MaxBytes; r.MaxBytes < 1 {
			return r, c.Invalid("max_bytes is %d; it must be above 0", r.MaxBytes)
		}
	}
	if a.Redirects != nil {
		r.Redirects = *a.Redirects
	}
	body, kind, err := requestBody(a.Body)
	if err != nil {
		return r, c.Invalid("body: %v", err)
	}
	r.Body = body
	if kind != "" && !hasHeader(a.Headers, "Content-Type") {
		r.Headers = map[string]string{"Content-Type": kind}
		for name, v := range a.Headers {
			r.Headers[name] = v
		}
	}
	return r, nil
}

func hasHeader(headers map[string]string, name string) bool {
	for h := range headers {
		if strings.EqualFold(h, name) {
			return true
		}
	}
	return false
}

// requestBody gives the bytes of a body and what they are: text and bytes as they are, any other value as JSON.
func requestBody(raw json.RawMessage) (body []byte, contentType string, err error) {
	var text string
	var tagged struct {
		Bytes *[]byte `json:"$bytes"`
	}
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return nil, "", nil
	case json.Unmarshal(raw, &text) == nil:
		return []byte(text), "text/plain; charset=utf-8", nil
	case json.Unmarshal(raw, &tagged) == nil && tagged.Bytes != nil:
		return *tagged.Bytes, "application/octet-stream", nil
	}
	plain, err := journal.PlainExact(raw)
	return plain, "application/json", err
}

// fetch makes the request. A write that was sent and not answered may have happened.
func (f *family) fetch(ctx context.Context, c *sys.Call) (sys.Outcome, error) {
	a := c.Admitted.(admitted)
	r := a.FetchRequest
	r.Key = c.Key
	if waited := a.turn.Waited(); waited > 0 {
		r.Timeout = max(cmp.Or(r.Timeout, agentkernel.DefaultFetchTimeout)-waited, time.Millisecond)
	}
	res, err := f.fetcher.Fetch(ctx, r)
	if err != nil {
		return sys.Outcome{Settled: res.Settled}, err
	}
	result, err := answer(res)
	out := sys.Outcome{Result: result}
	if res.Done != nil {
		out.Done = func(bool) { res.Done() }
	}
	return out, err
}

// answer is an answer as guests read it: the body is text if it can be, else bytes.
func answer(res agentkernel.FetchResponse) (json.RawMessage, error) {
	out := []byte(`{"status":`)
	out = strconv.AppendInt(out, int64(res.Status), 10)
	out = append(append(out, `,"url":`...), journal.String(res.URL)...)
	out = append(append(out, `,"headers":`...), headerObject(res.Headers)...)
	text, same, ok := bodyText(res.Headers.Get("Content-Type"), res.Body)
	if ok {
		out = journal.AppendString(append(out, `,"text":`...), text) // which is UTF-8
	}
	if !same {
		out = append(out, `,"body":{"$bytes":"`...)
		out = base64.StdEncoding.AppendEncode(out, res.Body)
		out = append(out, `"}`...)
	}
	return journal.Canonical(append(out, '}'))
}

// headerObject writes headers by name in lower case. Repeated ones are one, as RFC 9110 (5.3) joins them; cookies,
// which hold commas, are joined by line ends.
func headerObject(h http.Header) []byte {
	dollar := func(name string) bool { return strings.HasPrefix(name, "$") }
	names := make([]string, 0, len(h))
	for name := range h {
		names = append(names, strings.ToLower(name))
	}
	slices.Sort(names)
	names = slices.DeleteFunc(slices.Compact(names), dollar) // docs/values.md keeps such keys for itself; no header has one
	out := []byte{'{'}
	for i, name := range names {
		if i > 0 {
			out = append(out, ',')
		}
		sep := ", "
		if name == "set-cookie" {
			sep = "\n"
		}
		out = append(append(out, journal.String(name)...), ':')
		out = append(out, journal.String(strings.ToValidUTF8(strings.Join(h.Values(name), sep), "\uFFFD"))...)
	}
	return append(out, '}')
}

// bodyText is the text of a body: UTF-8 (same: its bytes are those of the body), or an encoding of one byte a character
// if the header says so.
func bodyText(contentType string, body []byte) (text string, same, ok bool) {
	if utf8.Valid(body) {
		return string(body), true, true
	}
	_, params, _ := mime.ParseMediaType(contentType)
	switch strings.ToLower(params["charset"]) {
	case "iso-8859-1", "latin-1", "latin1":
		var b strings.Builder
		for _, c := range body {
			b.WriteRune(rune(c))
		}
		return b.String(), false, true
	}
	return "", false, false
}
