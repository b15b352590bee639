package kernel

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"mime"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"agentkernel"
	"agentkernel/internal/journal"
)

// httpCalls is the family of HTTP requests. They are made outside, by Config.Fetcher; here it is decided what recovery
// may do with them.
var httpCalls = map[string]handler{
	fetchOp: {outside: httpFetch},
}

const fetchOp = "http.fetch"

// noFetcher is that of a kernel without one.
type noFetcher struct{}

func (noFetcher) CheckHosts([]string) error { return errNoFetcher() }

func (noFetcher) Admit(agentkernel.FetchRequest) error { return errNoFetcher() }

func (noFetcher) Fetch(context.Context, agentkernel.FetchRequest) (agentkernel.FetchResponse, error) {
	return agentkernel.FetchResponse{Settled: true}, errNoFetcher()
}

func errNoFetcher() error {
	return agentkernel.Errorf(agentkernel.CodeUnsupported, fetchOp, "this kernel was built without http.fetch")
}

// admitFetch settles, before anything is journalled, what kind of call it is and whether it may be made.
func (k *Kernel) admitFetch(p *process, f *inflight, canonical json.RawMessage) {
	r, err := k.fetchRequest(p, f)
	if err == nil {
		p.describe(f, nil, fetchLabel(r.Method, r.URL))
		p.mu.Lock()
		if effect := agentkernel.FetchEffect(r.Method); effect != "" && !f.intended() {
			f.effect = effect
		}
		p.mu.Unlock()
		err = k.cfg.Fetcher.Admit(r)
	}
	if err != nil {
		k.answer(p, f, canonical, nil, err)
		return
	}
	if k.doneByPast(p, f, canonical) {
		return
	}
	if k.intend(p, f, canonical) {
		k.goOutside(p, f)
	}
}

// fetchLabel names a request in few words: what a URL has behind its host may be long, or private.
func fetchLabel(method, text string) string {
	host := "?"
	if u, err := url.Parse(text); err == nil && u.Host != "" {
		host = clip(u.Host)
	}
	return fetchOp + " " + clip(method) + " " + host
}

// fetchArgs are the arguments of http.fetch.
type fetchArgs struct {
	URL       string            `json:"url"`
	Method    string            `json:"method"`
	Headers   map[string]string `json:"headers"`
	Body      json.RawMessage   `json:"body"`
	Timeout   *float64          `json:"timeout"`
	MaxBytes  *int64            `json:"max_bytes"`
	Redirects *int              `json:"redirects"`
}

const defaultRedirects = 10

// fetchRequest makes the request of a call.
func (k *Kernel) fetchRequest(p *process, f *inflight) (agentkernel.FetchRequest, error) {
	var a fetchArgs
	none := agentkernel.FetchRequest{}
	if err := decodeArgs(f, &a); err != nil {
		return none, err
	}
	bad := func(format string, args ...any) (agentkernel.FetchRequest, error) {
		return none, agentkernel.Errorf(agentkernel.CodeInvalid, f.op, format, args...)
	}
	r := agentkernel.FetchRequest{
		URL: a.URL, Method: strings.ToUpper(cmp.Or(a.Method, http.MethodGet)), Headers: a.Headers, Hosts: p.spec.AllowHosts,
		Namespace: p.spec.Namespace, Redirects: defaultRedirects, Key: fmt.Sprintf("%s/%d/%d", k.origin.UUIDOf(p.pid), p.pid, f.id),
	}
	if a.Timeout != nil {
		if !(*a.Timeout > 0) || math.IsInf(*a.Timeout, 0) {
			return bad("the timeout must be a number of seconds above 0")
		}
		r.Timeout = max(seconds(*a.Timeout), time.Millisecond)
	}
	if a.MaxBytes != nil {
		if r.MaxBytes = *a.MaxBytes; r.MaxBytes < 1 {
			return bad("max_bytes is %d; it must be above 0", r.MaxBytes)
		}
	}
	if a.Redirects != nil {
		r.Redirects = *a.Redirects
	}
	body, kind, err := fetchBody(a.Body)
	if err != nil {
		return bad("body: %v", err)
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

// fetchBody gives the bytes of a body and what they are: text and bytes as they are, any other value as JSON.
func fetchBody(raw json.RawMessage) (body []byte, contentType string, err error) {
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

// httpFetch makes the request. It is admitted anew: after a crash the settings may be others.
func httpFetch(ctx context.Context, k *Kernel, p *process, f *inflight) (json.RawMessage, string, error) {
	r, err := k.fetchRequest(p, f)
	if err != nil {
		return nil, "", err
	}
	p.describe(f, nil, fetchLabel(r.Method, r.URL))
	res, err := k.cfg.Fetcher.Fetch(ctx, r)
	if err != nil {
		return nil, "", fetchFailure(ctx, f, res.Settled, err)
	}
	result, err := fetchResult(res)
	return result, "", err
}

// fetchFailure says what a failed request means for the program: a write that was sent and not answered may have
// happened.
func fetchFailure(ctx context.Context, f *inflight, settled bool, err error) error {
	e := agentkernel.AsError(err, agentkernel.CodeUnavailable, f.op)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) && e.Code != agentkernel.CodeTimeout {
		e = agentkernel.Errorf(agentkernel.CodeTimeout, f.op, "%s was not answered in time", f.label)
	}
	if f.effect == agentkernel.EffectWrite && !settled {
		return outcomeUnknown(f, e)
	}
	return e
}

// fetchResult is an answer as guests read it: the body is text if it can be, else bytes.
func fetchResult(res agentkernel.FetchResponse) (json.RawMessage, error) {
	out := []byte(`{"status":`)
	out = fmt.Append(out, res.Status)
	out = append(append(out, `,"url":`...), jsonString(res.URL)...)
	out = append(append(out, `,"headers":`...), headerObject(res.Headers)...)
	text, same, ok := bodyText(res.Headers.Get("Content-Type"), res.Body)
	if ok {
		out = append(append(out, `,"text":`...), jsonString(text)...)
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
		out = append(append(out, jsonString(name)...), ':')
		out = append(out, jsonString(strings.ToValidUTF8(strings.Join(h.Values(name), sep), "\uFFFD"))...)
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

// fetchAgain says whether a pattern of Past.Again means HTTP requests.
func fetchAgain(pattern string) bool {
	ok, err := path.Match(pattern, fetchOp)
	return ok && err == nil || pattern == "http"
}

// labelOfFetch is the label of a journalled request.
func labelOfFetch(args json.RawMessage) string {
	var a fetchArgs
	if json.Unmarshal(args, &a) != nil {
		return fetchOp
	}
	return fetchLabel(strings.ToUpper(cmp.Or(a.Method, http.MethodGet)), a.URL)
}
