package devllm

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// A refused request says which limit it was and when to come again, and passes then.
func TestLimitsOverHTTP(t *testing.T) {
	for _, c := range []struct {
		profile, path, limits string
		body                  map[string]any
		limit                 string
		after, ms             string
	}{
		{"openai", "/v1/chat/completions", `{"requests":2,"total":0}`, chatOf("gpt-dev", "x"), "requests", "30", ""},
		{"openai", "/v1/chat/completions", `{"requests":0,"total":210}`, chatOf("gpt-dev", "x", "max_tokens", 101), "total", "30", ""},
		{"azure", "/openai/v1/chat/completions", `{"requests":12,"total":0,"window":"10s"}`, chatOf("gpt-dev", "x"), "requests", "10", "10000"},
		{"anthropic", "/v1/messages", `{"requests":0,"input":12,"output":0}`, claudeOf("x"), "input", "20", ""},
		{"anthropic", "/v1/messages", `{"requests":0,"input":0,"output":1000}`, claudeOf("x"), "output", "2", ""},
	} {
		r := newRig(t, c.profile, nil)
		if g := r.do("POST", "/devllm/limits", c.limits); g.status != 200 {
			t.Fatalf("%d %s", g.status, g.body)
		}
		pass := 2
		if c.profile == "anthropic" && c.limit == "input" {
			pass = 3
		}
		refused := got{}
		for i := range pass + 40 {
			if refused = r.post(c.path, c.body); refused.status != 200 {
				if i == 0 {
					t.Errorf("the first one is refused: %s", refused.body)
				}
				break
			}
		}
		if refused.status != 429 || refused.header.Get("retry-after") != c.after || refused.header.Get("retry-after-ms") != c.ms {
			t.Errorf("%s %s: %d, %q and %q: %s", c.profile, c.limit, refused.status, refused.header.Get("retry-after"), refused.header.Get("retry-after-ms"), refused.body)
		}
		if got := r.Totals(Filter{}); got.Refused[c.limit] != 1 {
			t.Errorf("%s: %+v", c.profile, got)
		}
		last := r.Log(Filter{})
		r.clock.Advance(time.Duration(last[len(last)-1].RetryAfter) - 1)
		if g := r.post(c.path, c.body); g.status != 429 && c.profile != "openai" { // there a refused one counts
			t.Errorf("%s: it passes too early: %d", c.profile, g.status)
		}
		r.clock.Advance(time.Minute)
		if g := r.post(c.path, c.body); g.status != 200 {
			t.Errorf("%s: %d %s", c.profile, g.status, g.body)
		}
	}
}

func TestOpenRouterAndVLLM(t *testing.T) {
	r := newRig(t, "openrouter", func(o *Options) { o.Reasoning = 3; o.FirstToken = 25 * time.Second })
	if g := r.do("POST", "/devllm/limits", `{"requests":1}`); g.status != 200 {
		t.Fatal(g.body)
	}
	done := make(chan got, 1)
	go func() { done <- r.post("/api/v1/chat/completions", chatOf("openai/gpt-dev", "x", "stream", true)) }()
	for range 3 { // 10 s, 10 s, and the rest
		if err := r.clock.Await(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		r.clock.Advance(10 * time.Second)
	}
	g := <-done
	if strings.Count(g.body, ": OPENROUTER PROCESSING\n\n") != 2 || !strings.Contains(g.body, `"reasoning":`) {
		t.Errorf("%d %s", g.status, g.body)
	}
	g = r.post("/api/v1/chat/completions", chatOf("openai/gpt-dev", "x"))
	if g.status != 429 || dig(g.json(t), "error", "code") != 429.0 || dig(g.json(t), "error", "metadata", "headers", "X-RateLimit-Remaining") != "0" || g.header.Get("retry-after") != "" {
		t.Errorf("%d %s", g.status, g.body)
	}
	v := newRig(t, "vllm", func(o *Options) { o.Reasoning = 3 })
	g = v.post("/v1/chat/completions", chatOf("dev/llama-8b", "x"), "Authorization", "")
	if g.status != 200 || dig(g.json(t), "choices", 0, "message", "reasoning_content") == nil {
		t.Errorf("%d %s", g.status, g.body)
	}
}

// One request is served at a time; of those that wait, the lowest priority is next, and one that leaves costs nothing.
func TestTheQueueGoesByPriority(t *testing.T) {
	r := newRig(t, "vllm", func(o *Options) {
		o.Profile.Parallel, o.Profile.Queue = 1, 3
		o.FirstToken = time.Second
	})
	ctx, leave := context.WithCancel(t.Context())
	var all sync.WaitGroup
	send := func(ctx context.Context, text string, priority int) {
		body, err := json.Marshal(chatOf("dev/llama-8b", text, "priority", priority))
		if err != nil {
			t.Error(err)
		}
		all.Go(func() { r.doContext(ctx, "POST", "/v1/chat/completions", string(body)) })
	}
	wait := func(n int) {
		t.Helper()
		for r.Waiting() != n {
			if t.Context().Err() != nil {
				t.Fatal("nobody waits")
			}
		}
	}
	send(t.Context(), "first", 0)
	if err := r.clock.Await(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"late", "leaving", "urgent"} {
		c := t.Context()
		if name == "leaving" {
			c = ctx
		}
		send(c, name, map[string]int{"late": 5, "leaving": 3, "urgent": 1}[name])
		wait(i + 1)
	}
	if g := r.post("/v1/chat/completions", chatOf("dev/llama-8b", "one too many")); g.status != 503 {
		t.Errorf("%d %s", g.status, g.body)
	}
	leave()
	wait(2)
	r.logged(2)
	for i := range 3 {
		if err := r.clock.Await(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		r.clock.Advance(time.Second)
		r.logged(3 + i) // it has ended before the clock goes on
	}
	all.Wait()
	list := r.logged(5)
	if list[0].Limit != "queue" || list[1].Status != 499 || list[1].Nanos != 0 || list[1].Tokens != (Tokens{}) {
		t.Errorf("%+v %+v", list[0], list[1])
	}
	if first, urgent, late := list[2], list[3], list[4]; !first.Ended.Before(urgent.Ended) || !urgent.Ended.Before(late.Ended) || urgent.Request == late.Request {
		t.Errorf("%+v", list)
	}
}

// A client that goes pays for what was made until then.
func TestAnAbandonedStream(t *testing.T) {
	for _, drains := range []bool{false, true} {
		r := newRig(t, "openai", func(o *Options) {
			o.Profile.Drains = drains
			o.FirstToken, o.PerToken = time.Second, 100*time.Millisecond
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan got, 1)
		go func() {
			done <- r.doContext(ctx, "POST", "/v1/chat/completions", compact(chatOf("gpt-dev", "x", "stream", true)))
		}()
		for range 3 { // the first token, and two events of four tokens each
			if err := r.clock.Await(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			r.clock.Advance(time.Second)
		}
		if err := r.clock.Await(t.Context(), 1); err != nil { // it makes the third
			t.Fatal(err)
		}
		cancel()
		<-done
		want := Tokens{Uncached: 4, Output: 8}
		if drains {
			want.Output = 32
		}
		if e := r.logged(1)[0]; e.Status != 499 || !e.Aborted || e.Tokens != want || e.Charged.Output != want.Output {
			t.Errorf("drains %t: %+v", drains, e)
		}
	}
}

// A whole answer that nobody waits for is billed as far as it was made.
func TestAnAbandonedAnswer(t *testing.T) {
	r := newRig(t, "openai", func(o *Options) { o.FirstToken, o.PerToken = time.Second, 100*time.Millisecond })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan got, 1)
	go func() {
		done <- r.doContext(ctx, "POST", "/v1/chat/completions", compact(chatOf("gpt-dev", "x")))
	}()
	for range 2 {
		if err := r.clock.Await(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		r.clock.Advance(time.Second)
	}
	cancel()
	<-done
	if e := r.logged(1)[0]; e.Status != 499 || e.Tokens != (Tokens{Uncached: 4, Output: 11}) {
		t.Errorf("%+v", e)
	}
}

func TestSpendCap(t *testing.T) {
	r := newRig(t, "openai", func(o *Options) { o.SpendCap = 500_000 }) // an answer costs 4 tokens of 2500 and 32 of 10,000
	var got []int
	for range 4 {
		got = append(got, r.post("/v1/chat/completions", chatOf("gpt-dev", "x")).status)
		r.logged(len(got))
	}
	if got[0] != 200 || got[1] != 200 || got[2] != 429 || got[3] != 429 {
		t.Errorf("%v", got)
	}
	if tot := r.Totals(Filter{}); tot.Nanos != 2*330_000 || tot.USD != "0.000660000" {
		t.Errorf("%+v", tot)
	}
}

func TestAdmin(t *testing.T) {
	r := newRig(t, "openai", nil)
	for body, says := range map[string]string{`{"requests":-1}`: "the limit of requests is -1", `{"reqests":1}`: "there is no field", `{"window":"1h"}`: "the window", `x`: "the body", `{"window":5}`: "window"} {
		if g := r.do("POST", "/devllm/limits", body); g.status != 400 || !strings.Contains(g.body, says) || !strings.Contains(g.body, `"hint":"`) {
			t.Errorf("%s: %d %s", body, g.status, g.body)
		}
	}
	if g := r.do("POST", "/devllm/limits", `{"family":"gpt-dev","total":100,"foreign":0.5}`); g.status != 200 || dig(g.json(t), "requests") != 500.0 {
		t.Errorf("%d %s", g.status, g.body)
	}
	if a, b := r.do("GET", "/devllm/limits?family=gpt-dev", "").json(t), r.do("GET", "/devllm/limits", "").json(t); a["total"] != 100.0 || a["foreign"] != 0.5 || b["total"] != 200_000.0 {
		t.Errorf("%v %v", a, b)
	}
	if g := r.do("GET", "/devllm/totals?since=now", ""); g.status != 400 {
		t.Errorf("%d %s", g.status, g.body)
	}
	r.post("/v1/chat/completions", chatOf("gpt-dev", "x"))
	r.logged(1)
	if v := r.do("GET", "/devllm/totals?model=gpt-dev&since=2026-12-01T10:00:00Z", "").json(t); v["requests"] != 1.0 || dig(v, "most", "1s", "requests") != 1.0 {
		t.Errorf("%v", v)
	}
	if g := r.do("DELETE", "/devllm/log", ""); g.json(t)["requests"] != 0.0 {
		t.Errorf("%s", g.body)
	}
	if v := r.do("GET", "/devllm", "").json(t); v["profile"] != "openai" {
		t.Errorf("%v", v)
	}
}

// The log has one line for each request, with which a recount comes to the same totals; it has no key.
func TestTheLogIsTheWholeTruth(t *testing.T) {
	var out bytes.Buffer
	r := newRig(t, "openai", func(o *Options) { o.Log = &out; o.Profile.Limits.Requests = 5 })
	for i := range 10 {
		r.post("/v1/chat/completions", chatOf("gpt-dev", words(i+1), "stream", i%2 == 0))
	}
	r.logged(10)
	var entries []Entry
	for line := range strings.Lines(out.String()) {
		var e Entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		entries = append(entries, e)
	}
	if a, b := compact(sumUp(entries)), compact(r.Totals(Filter{})); a != b || len(entries) != 10 || !strings.Contains(a, `"refused":{"requests":5}`) {
		t.Errorf("%s\n%s", a, b)
	}
	if strings.Contains(out.String(), "key-1") {
		t.Error("the log has the key")
	}
}

func TestBadOptions(t *testing.T) {
	p, _ := ProfileByName("openai")
	for name, o := range map[string]Options{
		"below zero":          {FirstToken: -1},
		"did you mean openai": {Profile: Profile{Name: "opnai"}},
		"recording needs":     {Record: t.TempDir()},
		"not both":            {Record: "x", Upstream: "http://x", Replay: "y"},
		"is no URL":           {Record: t.TempDir(), Upstream: "ftp://x"},
		"has no recordings":   {Replay: t.TempDir()},
		"there is no fault":   {Faults: []Fault{{Kind: "x"}}},
		"too long":            {EchoTokens: 2_000_000},
		"too slow":            {PerToken: time.Hour},
	} {
		_, err := New(o)
		b, ok := err.(*BadOption)
		if !ok || !strings.Contains(b.Message+" "+b.Hint, name) || b.Hint == "" {
			t.Errorf("%s: %+v", name, err)
		}
	}
	if _, err := New(Options{Profile: p}); err != nil {
		t.Error(err)
	}
}

// What other clients take off the same key is missing, and is in no total.
func TestForeignTraffic(t *testing.T) {
	r := newRig(t, "openai", nil)
	r.Foreign("key-1", "gpt-dev", 499, 100, 50)
	g := r.post("/v1/chat/completions", chatOf("gpt-dev", "x", "max_tokens", 40))
	if g.status != 200 || g.header.Get("x-ratelimit-remaining-requests") != "0" || g.header.Get("x-ratelimit-remaining-tokens") != "199806" {
		t.Errorf("%d %v", g.status, g.header)
	}
	if g := r.post("/v1/chat/completions", chatOf("gpt-dev", "x")); g.status != 429 {
		t.Errorf("%d %s", g.status, g.body)
	}
	if g := r.post("/v1/chat/completions", chatOf("gpt-dev", "x"), "Authorization", "Bearer key-2"); g.status != 200 {
		t.Errorf("another key: %d %s", g.status, g.body)
	}
	r.logged(3)
	if got := r.Totals(Filter{}).Charged; got.Requests != 2 || got.Total != 4+40+4+32 {
		t.Errorf("%+v", got)
	}
}

func TestManualClock(t *testing.T) {
	m := NewManual(start())
	ctx, cancel := context.WithCancel(t.Context())
	woken := make(chan error, 2)
	for _, c := range []context.Context{t.Context(), ctx} {
		go func() { woken <- m.Sleep(c, time.Minute) }()
	}
	if err := m.Await(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-woken; err == nil {
		t.Error("who is called off sleeps on")
	}
	m.Advance(time.Minute - 1)
	if err := m.Await(t.Context(), 1); err != nil {
		t.Error(err)
	}
	m.Advance(1)
	if err := <-woken; err != nil || !m.Now().Equal(start().Add(time.Minute)) {
		t.Errorf("%v at %s", err, m.Now())
	}
	if err := m.Await(ctx, 1); err == nil {
		t.Error("nobody sleeps, and somebody is found")
	}
}

// TestHalfARequest: a client that goes in the middle of its request has asked nothing, and has made no mistake.
func TestHalfARequest(t *testing.T) {
	r := newRig(t, "openai", nil)
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer key-1\r\nContent-Length: 100\r\n\r\n{\"model\":"); err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	if e := r.logged(1)[0]; e.Status != 499 || !e.Aborted || e.Nanos != 0 {
		t.Errorf("%+v", e)
	}
}
