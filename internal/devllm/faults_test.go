package devllm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestFaultsInsteadOfAnswers(t *testing.T) {
	for _, profile := range []string{"openai", "anthropic"} {
		r := newRig(t, profile, nil)
		path, body := "/v1/chat/completions", chatOf("gpt-dev", "x")
		if profile == "anthropic" {
			path, body = "/v1/messages", claudeOf("x")
		}
		for _, c := range []struct {
			fault  string
			status int
			retry  string
			says   map[string]string
		}{
			{`{"kind":"500"}`, 500, "", map[string]string{"openai": "server_error", "anthropic": "api_error"}},
			{`{"kind":"503"}`, 503, "", map[string]string{"openai": "server_is_overloaded", "anthropic": "overloaded_error"}},
			{`{"kind":"529"}`, 529, "", map[string]string{"openai": "server_is_overloaded", "anthropic": "overloaded_error"}},
			{`{"kind":"429"}`, 429, "", map[string]string{"openai": "rate_limit_exceeded", "anthropic": "rate_limit_error"}},
			{`{"kind":"429","retry_after":"1.5s"}`, 429, "2", map[string]string{"openai": "rate_limit_exceeded", "anthropic": "rate_limit_error"}},
			{`{"kind":"quota"}`, 429, "", map[string]string{"openai": "insufficient_quota", "anthropic": "enforced_spend_limit_reached"}},
			{`{"kind":"html"}`, 502, "", map[string]string{"openai": "<html>", "anthropic": "<html>"}},
		} {
			if g := r.do("POST", "/devllm/faults", c.fault); g.status != 200 {
				t.Fatalf("%d %s", g.status, g.body)
			}
			if g := r.post(path, body); g.status != c.status || g.header.Get("retry-after") != c.retry || !strings.Contains(g.body, c.says[profile]) {
				t.Errorf("%s: %s: %d, retry %q, %s", profile, c.fault, g.status, g.header.Get("retry-after"), g.body)
			}
			if g := r.post(path, body); g.status != 200 {
				t.Errorf("%s: the fault stays: %d %s", c.fault, g.status, g.body)
			}
		}
		if got := r.Totals(Filter{}); got.Tokens.Output != 7*32 || got.Refused["fault"] != 2 || got.Refused["spend"] != 1 {
			t.Errorf("errors cost nothing: %+v", got)
		}
	}
}

func TestFaultsMeetWhomTheyAreMeantFor(t *testing.T) {
	r := newRig(t, "openai", func(o *Options) { o.Faults = []Fault{{Kind: "500", Count: 2, Skip: 1, Every: 2, Model: "gpt-dev"}} })
	var got []int
	for i := range 7 {
		model := "gpt-dev"
		if i == 3 {
			model = "gpt-dev-mini"
		}
		got = append(got, r.post("/v1/chat/completions", chatOf(model, "x")).status)
	}
	if fmt.Sprint(got) != "[200 200 500 200 200 500 200]" {
		t.Errorf("%v", got)
	}
}

func TestFaultsInStreams(t *testing.T) {
	for _, c := range []struct {
		profile, path string
		body          map[string]any
		usage         string
	}{
		{"openai", "/v1/chat/completions", chatOf("gpt-dev", "x", "stream_options", map[string]any{"include_usage": true}), `"prompt_tokens"`},
		{"openai", "/v1/responses", map[string]any{"model": "gpt-dev", "input": "x"}, `"input_tokens"`},
		{"anthropic", "/v1/messages", claudeOf("x"), `"input_tokens"`},
		{"ollama", "/api/chat", chatOf("llama-dev:3b", "x"), `"eval_count"`},
	} {
		c.body["stream"] = true
		r := newRig(t, c.profile, nil)
		with := func(f Fault) got {
			t.Helper()
			if err := r.AddFault(f); err != nil {
				t.Fatal(err)
			}
			return r.post(c.path, c.body)
		}
		whole := r.post(c.path, c.body)
		if !strings.Contains(whole.body, c.usage) {
			t.Errorf("%s: no usage: %s", c.path, whole.body)
		}
		if g := with(Fault{Kind: "no-usage"}); g.status != 200 || strings.Contains(g.body, c.usage) {
			t.Errorf("%s no-usage: %d %s", c.path, g.status, g.body)
		}
		if g := with(Fault{Kind: "cut", AfterEvents: 4}); !errors.Is(g.err, io.ErrUnexpectedEOF) || g.body == "" || len(g.body) >= len(whole.body) {
			t.Errorf("%s cut: %v %s", c.path, g.err, g.body)
		}
		if g := with(Fault{Kind: "malformed", AfterEvents: 3}); g.err != nil || !strings.Contains(g.body, "half an eve\n") {
			t.Errorf("%s malformed: %v %s", c.path, g.err, g.body)
		}
		if g := with(Fault{Kind: "error-event", AfterEvents: 3}); g.err != nil || !strings.Contains(g.body, "Overloaded") || strings.HasSuffix(g.body, whole.body[len(whole.body)-12:]) {
			t.Errorf("%s error-event: %v %s", c.path, g.err, g.body)
		}
		ctx, cancel := context.WithCancel(t.Context())
		if err := r.AddFault(Fault{Kind: "stall", AfterEvents: 3}); err != nil {
			t.Fatal(err)
		}
		readUntilSilent(ctx, t, r, c.path, c.body, 3)
		cancel()
		list := r.logged(6)
		for i, aborted := range []bool{false, false, true, true, true, true} {
			if list[i].Aborted != aborted || aborted && list[i].Tokens.Output >= 32 {
				t.Errorf("%s: request %d: %+v", c.path, i, list[i])
			}
		}
		if list[5].Status != 499 {
			t.Errorf("%+v", list[5])
		}
	}
}

// readUntilSilent reads so many events of a stream and leaves it open.
func readUntilSilent(ctx context.Context, t *testing.T, r *rig, path string, body map[string]any, n int) {
	t.Helper()
	res := open(ctx, t, r, path, body)
	buf, text := make([]byte, 1), ""
	for got := 0; got < n; {
		if _, err := res.Body.Read(buf); err != nil {
			t.Fatalf("%v behind %q", err, text)
		}
		if text += string(buf); strings.HasSuffix(text, "\n\n") || strings.HasSuffix(text, "}\n") && strings.Contains(path, "/api/") {
			got++
		}
	}
}

func open(ctx context.Context, t *testing.T, r *rig, path string, body map[string]any) *http.Response {
	t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(ctx, "POST", r.url+path, strings.NewReader(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer key-1")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	return res
}

func TestFaultsInWholeAnswers(t *testing.T) {
	r := newRig(t, "openai", func(o *Options) {
		o.Faults = []Fault{{Kind: "cut"}, {Kind: "malformed"}, {Kind: "stall", For: Span(time.Hour)}}
	})
	ask := func() got { return r.post("/v1/chat/completions", chatOf("gpt-dev", "x")) }
	if g := ask(); !errors.Is(g.err, io.ErrUnexpectedEOF) {
		t.Errorf("cut: %v %s", g.err, g.body)
	}
	if g := ask(); g.status != 200 || json.Valid([]byte(g.body)) {
		t.Errorf("malformed: %d %s", g.status, g.body)
	}
	done := make(chan got, 1)
	go func() { done <- ask() }()
	if err := r.clock.Await(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	r.clock.Advance(time.Hour)
	if g := <-done; g.status != 200 || g.json(t)["id"] == nil {
		t.Errorf("stall: %d %s", g.status, g.body)
	}
}

func TestBadFaults(t *testing.T) {
	r := newRig(t, "openai", nil)
	for body, says := range map[string]string{
		`{"kind":"stal"}`: "did you mean stall?", `{"kind":"fire"}`: "there are 500", `{"kind":"cut","after":2}`: "there is no field", `[`: "the body",
		`{"kind":"cut","skip":-1}`: "not below zero", `{"kind":"stall","for":"soon"}`: "not a time such as 10s",
	} {
		if g := r.do("POST", "/devllm/faults", body); g.status != 400 || !strings.Contains(g.body, says) {
			t.Errorf("%s: %d %s", body, g.status, g.body)
		}
	}
	r.do("POST", "/devllm/faults", `{"kind":"500","count":-1}`)
	for range 2 {
		if g := r.post("/v1/chat/completions", chatOf("gpt-dev", "x")); g.status != 500 {
			t.Errorf("%d", g.status)
		}
	}
	if g := r.do("DELETE", "/devllm/faults", ""); g.body != "[]" {
		t.Errorf("%s", g.body)
	}
	if g := r.post("/v1/chat/completions", chatOf("gpt-dev", "x")); g.status != 200 {
		t.Errorf("%d", g.status)
	}
}
