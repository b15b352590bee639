package devllm

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// rig is a server over real HTTP, whose clock stands still until it is moved.
type rig struct {
	*Server
	t     *testing.T
	url   string
	clock *Manual
}

func newRig(t *testing.T, profile string, set func(*Options)) *rig {
	t.Helper()
	p, ok := ProfileByName(profile)
	if !ok {
		t.Fatalf("no profile %s", profile)
	}
	clock := NewManual(start())
	o := Options{Profile: p, Clock: clock}
	if set != nil {
		set(&o)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	return &rig{s, t, web.URL, clock}
}

// reply is an answer as it came.
type got struct {
	status int
	header http.Header
	body   string
	err    error // of reading the body
}

func (g got) json(t *testing.T) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(g.body), &v); err != nil {
		t.Fatalf("%v: %s", err, g.body)
	}
	return v
}

func (r *rig) do(method, path, body string, headers ...string) got {
	r.t.Helper()
	return r.doContext(r.t.Context(), method, path, body, headers...)
}

func (r *rig) doContext(ctx context.Context, method, path, body string, headers ...string) got {
	r.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, r.url+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer key-1")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return got{err: err}
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return got{res.StatusCode, res.Header, string(text), err}
}

func (r *rig) post(path string, body any, headers ...string) got {
	r.t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.do("POST", path, string(b), headers...)
}

// dig looks into a JSON value: a key of an object, or a place in a list.
func dig(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[p]
		case int:
			list, _ := v.([]any)
			if p < 0 {
				p += len(list)
			}
			if p < 0 || p >= len(list) {
				return nil
			}
			v = list[p]
		}
	}
	return v
}

// event is one of a stream.
type event struct {
	name string
	data string
}

func (e event) json(t *testing.T) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(e.data), &v); err != nil {
		t.Fatalf("%v: %s", err, e.data)
	}
	return v
}

// events reads a stream of server-sent events, by the rules of the specification and no other code of this package.
func events(text string) (list []event) {
	for part := range strings.SplitSeq(text, "\n\n") {
		var e event
		for line := range strings.SplitSeq(part, "\n") {
			if v, ok := strings.CutPrefix(line, "event: "); ok {
				e.name = v
			}
			if v, ok := strings.CutPrefix(line, "data: "); ok {
				e.data += v
			}
		}
		if e.data != "" {
			list = append(list, e)
		}
	}
	return list
}

func chatOf(model, text string, more ...any) map[string]any {
	m := map[string]any{"model": model, "messages": []any{map[string]any{"role": "user", "content": text}}}
	for i := 0; i < len(more); i += 2 {
		m[more[i].(string)] = more[i+1]
	}
	return m
}

// words is a text of so many tokens.
func words(n int) string { return strings.TrimSpace(strings.Repeat("word ", n)) }

func script(t *testing.T, text string) *Script {
	t.Helper()
	s, err := ParseScript("script.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// logged waits until the log has n entries: an entry is written when the answer has been sent.
func (r *rig) logged(n int) []Entry {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	if err := r.Await(ctx, n); err != nil {
		r.t.Fatalf("%d entries, not %d", len(r.Log(Filter{})), n)
	}
	return r.Log(Filter{})
}
