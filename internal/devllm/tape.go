package devllm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// tape records a real provider's answers, or plays them. A recording is two files: NAME.json says which request it answers
// (method, path and a fingerprint of the body), status and headers; NAME.body has the answer's bytes as they came. Neither
// has the request, nor a key.
type tape struct {
	dir       string
	upstream  *url.URL // nil: it plays
	transport http.RoundTripper

	mu     sync.Mutex
	takes  map[string]int      // how often a request was answered
	stored map[string][]string // the recordings of a request, in their order
	failed error               // the first answer that could not be kept
}

// taped is what NAME.json has.
type taped struct {
	Method  string            `json:"method"`
	Path    string            `json:"path"`
	Request string            `json:"request"`
	Take    int               `json:"take"`
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers"`
}

// tapedHeaders are the headers of answers that are kept, by how they begin: what says who asked is not.
func tapedHeaders() []string {
	return []string{"content-type", "retry-after", "x-ratelimit-", "anthropic-ratelimit-", "x-should-retry", "request-id", "x-request-id", "openai-processing-ms"}
}

func openTape(o Options) (*tape, error) {
	t := &tape{dir: o.Record + o.Replay, transport: o.Transport, takes: map[string]int{}, stored: map[string][]string{}}
	if o.Record != "" {
		u, err := url.Parse(o.Upstream)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, bad("--upstream https://api.example.com").of("the address to record, %q, is no URL", o.Upstream)
		}
		t.upstream = u
		if err := os.MkdirAll(t.dir, 0o700); err != nil {
			return nil, bad("name a directory that can be written").of("the directory for recordings cannot be made: %v", err)
		}
	}
	files, err := filepath.Glob(filepath.Join(t.dir, "*.json"))
	if err != nil || len(files) == 0 && t.upstream == nil {
		return nil, bad("agentkernel devllm --record DIR --upstream URL makes some").of("%s has no recordings", t.dir)
	}
	slices.Sort(files)
	for _, f := range files {
		m, err := readTaped(f)
		if err != nil {
			return nil, err
		}
		t.stored[m.name()] = append(t.stored[m.name()], strings.TrimSuffix(f, ".json"))
		t.takes[m.name()] = max(t.takes[m.name()], m.Take)
	}
	if t.upstream == nil {
		clear(t.takes)
	}
	return t, nil
}

func readTaped(path string) (taped, error) {
	var m taped
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err != nil {
		return m, bad("delete it, or record again").of("%s is no recording: %v", path, err)
	}
	return m, nil
}

// name tells requests apart.
func (m taped) name() string { return m.Method + " " + m.Path + " " + m.Request }

func (t *tape) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return // the client has gone
	}
	m := taped{Method: r.Method, Path: withoutKeys(r.URL), Request: bodyHash(body)}
	if t.upstream != nil {
		t.record(w, r, body, m)
		return
	}
	t.mu.Lock()
	takes := t.stored[m.name()]
	at := min(t.takes[m.name()], len(takes)-1) // the last one is played again and again
	t.takes[m.name()]++
	t.mu.Unlock()
	if at < 0 {
		writeJSON(w, http.StatusNotFound, map[string]any{"error": map[string]any{"type": "not_recorded", "code": "not_recorded",
			"message": fmt.Sprintf("%s has no recording of %s", t.dir, m.name())}})
		return
	}
	play(w, takes[at])
}

// withoutKeys is a path with its query, of which some providers have keys in it.
func withoutKeys(u *url.URL) string {
	q := u.Query()
	for _, name := range []string{"key", "api_key", "api-key", "token", "sig"} {
		q.Del(name)
	}
	if len(q) == 0 {
		return u.EscapedPath()
	}
	return u.EscapedPath() + "?" + q.Encode()
}

func play(w http.ResponseWriter, file string) {
	m, err := readTaped(file + ".json")
	var body []byte
	if err == nil {
		body, err = os.ReadFile(file + ".body")
	}
	if err != nil {
		writeJSON(w, http.StatusInternalServerError, map[string]any{"error": map[string]any{"message": err.Error()}})
		return
	}
	for k, v := range m.Headers {
		w.Header().Set(k, v)
	}
	w.WriteHeader(m.Status)
	_, _ = w.Write(body)
}

// record passes a request on and keeps the answer.
func (t *tape) record(w http.ResponseWriter, r *http.Request, body []byte, m taped) {
	to := *t.upstream
	to.Path = strings.TrimSuffix(to.Path, "/") + r.URL.Path
	to.RawQuery = r.URL.RawQuery
	req, err := http.NewRequestWithContext(r.Context(), r.Method, to.String(), bytes.NewReader(body))
	if err != nil {
		writeJSON(w, http.StatusBadGateway, map[string]any{"error": map[string]any{"message": err.Error()}})
		return
	}
	req.Header = r.Header.Clone()
	for _, hop := range []string{"Connection", "Accept-Encoding", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Keep-Alive", "Proxy-Authorization"} {
		req.Header.Del(hop)
	}
	req.Header.Set("Accept-Encoding", "identity")
	res, err := t.transport.RoundTrip(req)
	if err != nil {
		writeJSON(w, http.StatusBadGateway, map[string]any{"error": map[string]any{"message": "the provider cannot be reached: " + err.Error()}})
		return
	}
	defer res.Body.Close()
	m.Status, m.Headers = res.StatusCode, map[string]string{}
	res.Header.Del("Content-Length") // so that the client sees the end when the answer has been kept
	for k := range res.Header {
		w.Header().Set(k, res.Header.Get(k))
		if low := strings.ToLower(k); slices.ContainsFunc(tapedHeaders(), func(p string) bool { return strings.HasPrefix(low, p) }) {
			m.Headers[low] = res.Header.Get(k)
		}
	}
	w.WriteHeader(res.StatusCode)
	whole, complete := pass(w, res.Body)
	if !complete {
		return // half an answer is none
	}
	if err := t.keep(m, whole, keyOf(r)); err != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.failed == nil {
			t.failed = err
		}
	}
}

// pass sends on what comes as it comes, and returns all of it.
func pass(w http.ResponseWriter, from io.Reader) (whole []byte, complete bool) {
	flush := http.NewResponseController(w)
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		whole = append(whole, buf[:n]...)
		if _, werr := w.Write(buf[:n]); werr != nil {
			return nil, false
		}
		_ = flush.Flush()
		if err == io.EOF {
			return whole, true
		}
		if err != nil {
			return nil, false
		}
	}
}

// repeats finds the key in a text, of which any character may be escaped as in JSON, several times over too.
func repeats(key string) func(text string) bool {
	if key == "" {
		return func(string) bool { return false }
	}
	var b strings.Builder
	for _, c := range []byte(key) {
		fmt.Fprintf(&b, `(?:\\*%s|\\+u00(?i:%02x))`, regexp.QuoteMeta(string(rune(c))), c)
	}
	re, err := regexp.Compile(b.String())
	if err != nil { // it is too long for one: then only as it is
		return func(text string) bool { return strings.Contains(text, key) }
	}
	return re.MatchString
}

// keep writes a recording. An answer that has the key in its body or its head is not kept.
func (t *tape) keep(m taped, body []byte, key string) error {
	if has := repeats(key); has(string(body)) || slices.ContainsFunc(slices.Collect(maps.Values(m.Headers)), has) {
		return bad("the provider repeats the key; nothing was written").of("an answer to %s was not recorded", m.name())
	}
	t.mu.Lock()
	t.takes[m.name()]++
	m.Take = t.takes[m.name()]
	t.mu.Unlock()
	file := filepath.Join(t.dir, fmt.Sprintf("%s-%04d", bodyHash([]byte(m.name())), m.Take))
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(file+".body", body, 0o600); err != nil {
		return err
	}
	return os.WriteFile(file+".json", append(text, '\n'), 0o600)
}

// RecordingError is the first answer that could not be recorded; nil: all were.
func (s *Server) RecordingError() error {
	if s.tape == nil {
		return nil
	}
	s.tape.mu.Lock()
	defer s.tape.mu.Unlock()
	return s.tape.failed
}
