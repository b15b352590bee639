package llmtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"agentkernel/internal/llm"
)

// answering is a server without a network, because a fuzzer has no time for one.
type answering struct {
	kind string
	body []byte
	got  []byte
}

func (a *answering) RoundTrip(r *http.Request) (*http.Response, error) {
	var err error
	if a.got, err = io.ReadAll(r.Body); err != nil {
		return nil, err
	}
	r.Body.Close()
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {a.kind}}, Body: io.NopCloser(bytes.NewReader(a.body)), Request: r}, nil
}

// Fuzz holds against each other what a provider tells of an answer and the answer itself, whatever a server writes, and sends
// the answer back.
func Fuzz(f *testing.F, s Subject) {
	for _, r := range []Reply{plain(), everything(), {Opaque: true, Text: []string{"a"}, Stop: llm.StopEnd, Usage: &llm.Usage{Input: 5, CacheRead: 3, Output: 2}}} {
		f.Add([]byte(strings.Join(s.Speaker.Stream(r), "")), true)
		f.Add(s.Speaker.Whole(r), false)
	}
	f.Add([]byte(s.Speaker.Fault()), true)
	for _, fault := range s.Speaker.Faults() {
		f.Add([]byte(fault.Body), false)
	}
	f.Fuzz(func(t *testing.T, body []byte, stream bool) {
		server := &answering{kind: "application/json", body: body}
		if stream {
			server.kind = s.Speaker.StreamType()
		}
		opts := s.Options
		opts.BaseURL, opts.Client = "http://models.example"+s.Base, &http.Client{Transport: server}
		p, err := s.New(opts)
		if err != nil {
			t.Fatal(err)
		}
		r := simple()
		h := &told{}
		a, err := p.Complete(t.Context(), r, h.watch(stream))
		if err != nil {
			var e *llm.Error
			if !errors.As(err, &e) || e.Kind == "" || !e.Sent {
				t.Fatalf("%+v", err)
			}
			return
		}
		if stream && h.text != a.Text() {
			t.Fatalf("the deltas are %q, the answer %q", h.text, a.Text())
		}
		u := a.Usage
		if min(u.Input, u.CacheRead, u.CacheWrite, u.CacheWrite1h, u.Output, u.Reasoning) < 0 {
			t.Fatalf("the usage is %+v", u)
		}
		if _, err := json.Marshal(a); err != nil {
			t.Fatalf("%+v: %v", a, err)
		}
		r.Messages = append(r.Messages, a.Message)
		if _, err := p.Complete(t.Context(), r, llm.Watch{}); err != nil {
			var e *llm.Error
			if !errors.As(err, &e) || !e.Sent {
				t.Fatalf("it cannot be sent back: %v\n%+v", err, a.Message)
			}
		}
		if !json.Valid(server.got) {
			t.Fatalf("what is sent back is no JSON: %s", server.got)
		}
	})
}
