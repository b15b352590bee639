package router_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
	"agentkernel/internal/llm"
	"agentkernel/internal/llm/models"
	"agentkernel/internal/llm/router"
)

// fake is a provider whose answers a test gives.
type fake struct {
	kind  string
	dials time.Duration // before a request goes out

	mu    sync.Mutex
	sent  int
	asked []llm.Request
	next  func(n int, r *llm.Request) (*llm.Answer, error) // n counts from 1
	bits  func(n int, tell func(llm.Delta) error) error    // before next, for who is told of them; its error is that of the request
}

func (f *fake) Complete(ctx context.Context, r *llm.Request, w llm.Watch) (*llm.Answer, error) {
	f.mu.Lock()
	f.asked = append(f.asked, *r)
	n := len(f.asked)
	f.mu.Unlock()
	if f.dials > 0 {
		select {
		case <-time.After(f.dials):
		case <-ctx.Done():
			return nil, &llm.Error{Kind: llm.Canceled, Err: ctx.Err()}
		}
	}
	if w.Leaves != nil {
		if err := w.Leaves(); err != nil {
			return nil, &llm.Error{Kind: llm.Canceled, Err: err}
		}
	}
	f.mu.Lock()
	f.sent++
	f.mu.Unlock()
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		return nil, &llm.Error{Kind: llm.Canceled, Sent: true, Err: ctx.Err()}
	}
	if w.Delta != nil {
		if err := f.bits(n, w.Delta); err != nil {
			return nil, err
		}
	}
	a, err := f.next(n, r)
	if w.Head != nil && err == nil {
		w.Head(llm.Head{Status: 200})
	}
	return a, err
}

func (f *fake) Embed(_ context.Context, r *llm.EmbedRequest, _ llm.Watch) (*llm.Embeddings, error) {
	e := &llm.Embeddings{Model: r.Model, Usage: llm.Usage{Input: int64(len(r.Texts))}}
	for range r.Texts {
		e.Vectors = append(e.Vectors, []float32{1, 2})
	}
	return e, nil
}

func (f *fake) Traits() llm.Traits { return llm.Traits{Name: f.kind} }

// text is an answer.
func text(s string) (*llm.Answer, error) {
	return &llm.Answer{Model: "served", Message: llm.Message{Role: llm.Assistant, Parts: []llm.Part{{Text: s}}}, Stop: llm.StopEnd,
		Usage: llm.Usage{Input: 1000, CacheRead: 2000, Output: 100, Reasoning: 100}}, nil
}

// set makes a router of declarations, and the fakes behind it by "kind model", where a test needs more than one: by kind alone.
func set(t *testing.T, next map[string]func(n int, r *llm.Request) (*llm.Answer, error), declared ...string) (*router.Router, map[string]*fake) {
	t.Helper()
	all, err := models.ParseAll(declared)
	if err != nil {
		t.Fatal(err)
	}
	fakes := map[string]*fake{}
	r, err := router.New(router.Config{Models: all, Rand: func() float64 { return 0.9 }, Lookup: func(string) (string, bool) { return "key", true }, Provider: func(kind string, _ llm.Options) (llm.Provider, error) {
		f := &fake{kind: kind, next: next[kind]}
		fakes[kind] = f
		return f, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r, fakes
}

func ask(prompt string) *llm.Query {
	return &llm.Query{PID: 1, Tree: 1, Namespace: "n", Priority: 10, Request: llm.Request{Messages: []llm.Message{{Role: llm.User, Parts: []llm.Part{{Text: prompt}}}}}}
}

// answered plans, waits and asks.
func answered(t *testing.T, r *router.Router, q *llm.Query) (*llm.Result, agentkernel.Amounts, error) {
	t.Helper()
	p, err := r.Plan(q)
	if err != nil {
		t.Fatal(err)
	}
	if !p.Ready() {
		if err := p.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	res, used, err := p.Ask(t.Context(), nil)
	if !q.Capped && used[agentkernel.AmountTokens] > p.Reserve()[agentkernel.AmountTokens] {
		return res, used, err // more than one request may have used what was reserved
	}
	for _, name := range []string{agentkernel.AmountUSD, agentkernel.AmountTokens} {
		if n := used[name]; n > p.Reserve()[name] {
			t.Errorf("%d %s were used, and %d reserved", n, name, p.Reserve()[name])
		}
	}
	classes := int64(0)
	for _, name := range []string{agentkernel.AmountInput, agentkernel.AmountCached, agentkernel.AmountCacheWrite, agentkernel.AmountOutput, agentkernel.AmountReasoning} {
		classes += used[name]
	}
	if classes != used[agentkernel.AmountTokens] {
		t.Errorf("the classes do not add up: %v", used)
	}
	return res, used, err
}

const million = 1_000_000

// TestAnAnswer: what it costs by class, and what was reserved for it.
func TestAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, fakes := set(t, map[string]func(int, *llm.Request) (*llm.Answer, error){"openai": func(int, *llm.Request) (*llm.Answer, error) { return text("pong") }},
			"fast openai:gpt-5-mini max_tokens=300 price=1/10")
		q := ask(strings.Repeat("x", 3000))
		q.Bounded = true
		res, used, err := answered(t, r, q)
		if err != nil {
			t.Fatal(err)
		}
		dollar := int64(agentkernel.USD)
		want := agentkernel.Amounts{"tokens": 3200, "usd": 3000*dollar/million + 200*10*dollar/million,
			"input": 1000, "cached": 2000, "output": 100, "reasoning": 100, "model openai:gpt-5-mini": 1}
		if !maps.Equal(used, want) || res.Text() != "pong" || res.Cost == nil || int64(*res.Cost) != want["usd"] {
			t.Errorf("%v %+v, want %v", used, res, want)
		}
		if got := fakes["openai"].asked[0]; got.Model != "gpt-5-mini" || got.MaxTokens != 300 {
			t.Errorf("%+v", got)
		}
	})
}

// TestWhoIsNamed: of several that were asked the one that has answered; of one without a price that it has none. What is reserved names
// the first.
func TestWhoIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := set(t, map[string]func(int, *llm.Request) (*llm.Answer, error){
			"openai": func(int, *llm.Request) (*llm.Answer, error) { return nil, &llm.Error{Kind: llm.Auth, Status: 401} },
			"vllm":   func(int, *llm.Request) (*llm.Answer, error) { return text("pong") },
			"azure":  func(int, *llm.Request) (*llm.Answer, error) { return text("pong") },
		}, "fast openai:gpt-5-mini price=1/10", "fast vllm:llama url=http://h/v1", "odd azure:mine url=http://h", "odd openai:gpt-5-mini")
		p, err := r.Plan(ask("ping"))
		if err != nil || p.Reserve().Model() != "openai:gpt-5-mini" || p.Reserve()[agentkernel.AmountUnpriced] != 0 {
			t.Errorf("%v %v", p.Reserve(), err)
		}
		p.Drop()
		if _, used, err := answered(t, r, ask("ping")); err != nil || used.Model() != "vllm:llama" || used[agentkernel.AmountUSD] != 0 || used[agentkernel.AmountUnpriced] != 0 {
			t.Errorf("%v %v", used, err)
		}
		q := ask("ping")
		q.Model = "odd"
		if p, err = r.Plan(q); err != nil || p.Reserve()[agentkernel.AmountUnpriced] != 1 {
			t.Errorf("%v %v", p.Reserve(), err)
		}
		p.Drop()
		if _, used, err := answered(t, r, q); err != nil || used.Model() != "azure:mine" || used[agentkernel.AmountUnpriced] != 1 {
			t.Errorf("%v %v", used, err)
		}
	})
}

// TestLimits: what servers say of their limits, what waits, and who does not answer.
func TestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		r, _ := set(t, map[string]func(int, *llm.Request) (*llm.Answer, error){
			"openai": func(n int, _ *llm.Request) (*llm.Answer, error) {
				return nil, &llm.Error{Kind: llm.Auth, Status: 401, Message: "no"}
			},
			"vllm": func(int, *llm.Request) (*llm.Answer, error) { return text("pong") },
		}, "fast openai:gpt-5-mini rpm=500", "fast vllm:llama url=http://h/v1 rpm=1 concurrent=1")
		time.Sleep(time.Minute)
		if _, _, err := answered(t, r, ask("ping")); err != nil {
			t.Fatal(err)
		}
		var waiting []llm.Plan
		for _, priority := range []int{20, 5, 20} {
			q := ask("ping")
			q.Priority, q.ID = priority, fmt.Sprint(len(waiting))
			p, err := r.Plan(q)
			if err != nil {
				t.Fatal(err)
			}
			waiting = append(waiting, p)
			go func() {
				if p.Wait(t.Context()) == nil {
					p.Drop()
				}
			}()
		}
		synctest.Wait()
		l := r.Limits()
		if len(l.Keys) != 2 || len(l.Deployments) != 2 || l.Unplaced != 0 {
			t.Fatalf("%+v", l)
		}
		k := l.Keys[1]
		if k.Key != "vllm at h" || k.Family != "llama" || k.Concurrent != 1 || k.Learned || k.Queued != 3 || k.Waiting != "requests/min" ||
			fmt.Sprint(k.Queue) != "[{5 1} {20 2}]" || len(k.Limits) != 1 {
			t.Errorf("%+v", k)
		}
		if m := k.Limits[0]; m.What != "requests" || m.Source != "config" || m.Amount != 1 || time.Duration(m.Period) != time.Minute || m.Left != 0 {
			t.Errorf("%+v", m)
		}
		d, up := l.Deployments[0], l.Deployments[1]
		if d.Name != "fast" || d.State != agentkernel.ModelAvoided || !d.Since.Equal(begun.Add(61*time.Second)) || !d.Until.Equal(d.Since.Add(time.Minute)) || !strings.Contains(d.Reason, "401") {
			t.Errorf("%+v", d)
		}
		if up.Name != "fast#2" || up.State != agentkernel.ModelUp || !up.Since.IsZero() || up.Queued != 3 {
			t.Errorf("%+v", up)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if d := r.Limits().Deployments[0]; d.State != agentkernel.ModelUp || !d.Since.Equal(begun.Add(121*time.Second)) {
			t.Errorf("later: %+v", d)
		}
	})
}

// TestFailures: which are tried again, what they cost, and what the program is told.
func TestFailures(t *testing.T) {
	fails := func(times int, e llm.Error) func(int, *llm.Request) (*llm.Answer, error) {
		return func(n int, _ *llm.Request) (*llm.Answer, error) {
			if n <= times {
				c := e
				return nil, &c
			}
			return text("pong")
		}
	}
	const (
		ever     = 1 << 30
		reserved = (5032 + 4096*10) * 1000
		known    = (3000 + 200*10) * 1000
	)
	for name, c := range map[string]struct {
		next    func(int, *llm.Request) (*llm.Answer, error)
		bounded bool
		asked   int // how often; 0: it does not matter
		code    agentkernel.Code
		says    string
		unknown bool  // nobody knows what was used
		counts  bool  // it has gone out
		used    int64 // nano-dollars; 0: what the answer has, or nothing
	}{
		"429 once":        {next: fails(1, llm.Error{Kind: llm.RateLimited, Status: 429, RetryAfter: 3 * time.Second, Sent: true}), bounded: true, asked: 2},
		"529 three times": {next: fails(3, llm.Error{Kind: llm.Overloaded, Status: 529, Sent: true}), bounded: true, asked: 4},
		"lost once":       {next: fails(1, llm.Error{Kind: llm.Network, Sent: true}), asked: 2, used: reserved + known},
		"lost twice":      {next: fails(2, llm.Error{Kind: llm.Network, Sent: true}), asked: 3, used: 2*reserved + known},
		"lost for ever":   {next: fails(ever, llm.Error{Kind: llm.Network, Sent: true, Message: "reset"}), asked: 3, code: agentkernel.CodeUnavailable, says: "reset", used: 3 * reserved},
		"charged, and then failed, with a budget": {next: fails(1, llm.Error{Kind: llm.Overloaded, Status: 529, Sent: true, Message: "late", Usage: &llm.Usage{Input: 1000}}), bounded: true, asked: 1,
			code: agentkernel.CodeUnavailable, says: "late", counts: true, used: 1000 * 1000},
		"lost once, with a budget": {next: fails(1, llm.Error{Kind: llm.Network, Sent: true, Message: "reset"}), bounded: true, asked: 1, code: agentkernel.CodeUnavailable, says: "reset", unknown: true},
		"not reached once":         {next: fails(1, llm.Error{Kind: llm.Network}), bounded: true, asked: 2},
		"wrong key":                {next: fails(ever, llm.Error{Kind: llm.Auth, Status: 401, Message: "no"}), asked: 1, code: agentkernel.CodeUnavailable, says: "HTTP 401: no"},
		"no money":                 {next: fails(ever, llm.Error{Kind: llm.Quota, Status: 429, Code: "insufficient_quota", Sent: true}), asked: 1, code: agentkernel.CodeUnavailable, says: "insufficient_quota", counts: true},
		"no such model":            {next: fails(ever, llm.Error{Kind: llm.NoModel, Status: 404}), asked: 1, code: agentkernel.CodeNotFound},
		"too long":                 {next: fails(ever, llm.Error{Kind: llm.TooLong, Status: 400, Sent: true}), asked: 1, code: agentkernel.CodeLimit, counts: true},
		"refused":                  {next: fails(ever, llm.Error{Kind: llm.Invalid, Status: 400, Sent: true}), asked: 1, code: agentkernel.CodeInvalid, counts: true},
		"filtered":                 {next: fails(ever, llm.Error{Kind: llm.Filtered, Status: 400, Sent: true}), asked: 1, code: agentkernel.CodeDenied, counts: true},
		"down for ever":            {next: fails(ever, llm.Error{Kind: llm.Server, Status: 500, Message: "boom"}), code: agentkernel.CodeUnavailable, says: "boom"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, fakes := set(t, map[string]func(int, *llm.Request) (*llm.Answer, error){"openai": c.next}, "fast openai:gpt-5-mini price=1/10")
				q := ask(strings.Repeat("x", 5000))
				q.Bounded, q.Capped = c.bounded, c.bounded
				res, used, err := answered(t, r, q)
				if agentkernel.CodeOf(err) != c.code || err != nil && !strings.Contains(err.Error(), c.says) || err == nil && res.Text() != "pong" {
					t.Errorf("%v, want %q %q", err, c.code, c.says)
				}
				if n := len(fakes["openai"].asked); c.asked > 0 && n != c.asked {
					t.Errorf("it was asked %d times, want %d", n, c.asked)
				}
				want := c.used
				if want == 0 && err == nil {
					want = known
				}
				if (used == nil) != c.unknown || used[agentkernel.AmountUSD] != want {
					t.Errorf("used %v, want %d nano-dollars", used, want)
				}
				if n := used[agentkernel.AmountUncertain]; !c.unknown && n != c.used/reserved {
					t.Errorf("%d requests of unknown outcome: %v", n, used)
				}
				if want == 0 && err != nil && (used[agentkernel.AmountTokens] != 0 || used[agentkernel.AmountUSD] != 0) {
					t.Errorf("used %v", used)
				}
				if counts := used.Model() != ""; err != nil && c.used <= reserved && counts != c.counts { // it has gone out, and costs nothing but that
					t.Errorf("it counts as a call: %v, %v", counts, used)
				}
			})
		})
	}
}

// TestNoTime: who waits too long is told what went wrong before.
func TestNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := set(t, map[string]func(int, *llm.Request) (*llm.Answer, error){"ollama": func(int, *llm.Request) (*llm.Answer, error) {
			return nil, &llm.Error{Kind: llm.Network, Message: "connection refused"}
		}}, "local ollama:x")
		p, err := r.Plan(ask("hi"))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		_, used, err := p.Ask(ctx, nil) // its turn comes by itself
		if agentkernel.CodeOf(err) != agentkernel.CodeTimeout || !strings.Contains(err.Error(), "connection refused") || len(used) > 0 {
			t.Errorf("%v %v", used, err)
		}
	})
}

// TestFallback: the other model answers, and what it may cost was reserved.
func TestFallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, fakes := set(t, map[string]func(int, *llm.Request) (*llm.Answer, error){
			"openai":    func(int, *llm.Request) (*llm.Answer, error) { return nil, &llm.Error{Kind: llm.Auth, Status: 401} },
			"anthropic": func(int, *llm.Request) (*llm.Answer, error) { return text("pong") },
		}, "fast openai:gpt-5-mini price=0.1/0.1 fallback=smart", "smart anthropic:claude-opus-4-8 price=5/25")
		q := ask(strings.Repeat("x", 5000))
		q.Bounded = true
		res, used, err := answered(t, r, q)
		if err != nil || res.Text() != "pong" || used["usd"] != int64(*res.Cost) || len(fakes["anthropic"].asked) != 1 {
			t.Errorf("%+v %v %v", res, used, err)
		}
	})
}

// TestPlans: what cannot be asked is refused before anything waits.
func TestPlans(t *testing.T) {
	r, _ := set(t, nil, "fast openai:gpt-5-mini", "odd openai:nobody-knows", "local ollama:x")
	for name, c := range map[string]struct {
		q    llm.Query
		want string
	}{
		"unknown":           {llm.Query{Model: "fats"}, "did you mean fast?"},
		"unpriced":          {llm.Query{Model: "odd", Bounded: true}, "price=INPUT/OUTPUT"},
		"unpriced, free":    {llm.Query{Model: "odd"}, ""},
		"local is for free": {llm.Query{Model: "local", Bounded: true}, ""},
		"the first":         {llm.Query{Bounded: true}, ""},
		"several answers":   {llm.Query{Request: llm.Request{Extra: map[string]json.RawMessage{"n": json.RawMessage("5")}}}, "several calls"},
		"another cap":       {llm.Query{Request: llm.Request{Extra: map[string]json.RawMessage{"options": json.RawMessage(`{"num_predict":9}`)}}}, "max_tokens caps"},
		"tools of its own":  {llm.Query{Request: llm.Request{Extra: map[string]json.RawMessage{"tools": json.RawMessage(`[{"type":"web_search"}]`)}}}, "they are chat_template_kwargs"},
		"another's answer":  {llm.Query{Request: llm.Request{Extra: map[string]json.RawMessage{"previous_response_id": json.RawMessage(`"x"`)}}}, "they are"},
		"a harmless field":  {llm.Query{Request: llm.Request{Extra: map[string]json.RawMessage{"top_k": json.RawMessage("5"), "options": json.RawMessage(`{"num_ctx":4096}`)}}}, ""},
	} {
		p, err := r.Plan(&c.q)
		said := ""
		if err != nil {
			said = agentkernel.AsError(err, "", "").Hint
		}
		if (err != nil) != (c.want != "") || !strings.Contains(said, c.want) {
			t.Errorf("%s: %v %q, want %q", name, err, said, c.want)
		}
		if err == nil && c.q.Model == "" && p.Alias() != "fast" {
			t.Errorf("%s: %s", name, p.Alias())
		}
	}
	for _, embeds := range []bool{false, true} { // to make vectors is no turn
		q := &llm.Query{Model: "local"}
		if embeds {
			q.Embed = &llm.EmbedRequest{Texts: []string{"x"}}
		}
		if p, err := r.Plan(q); err != nil || (p.Reserve()[agentkernel.AmountTurns] == 1) == embeds {
			t.Errorf("embeds %t: %v %v", embeds, p.Reserve(), err)
		}
	}
	empty, _ := set(t, nil)
	if _, err := empty.Plan(&llm.Query{}); agentkernel.CodeOf(err) != agentkernel.CodeUnavailable {
		t.Error(err)
	}
}

// TestSchemas: an answer that does not fit is an error of the model's, and is paid for.
func TestSchemas(t *testing.T) {
	schema := json.RawMessage(`{"type":"array","items":{"type":"integer"}}`)
	for said, want := range map[string]string{
		"[1, 2]":                  "[1,2]",
		"```json\n[1, 2]\n```":    "[1,2]",
		"[1, 2":                   "!is no JSON",
		`["a"]`:                   "!does not fit",
		"Here it is: [1]":         "!is no JSON",
		"[1] [2]":                 "!is no JSON",
		"[123456789012345678901]": "[123456789012345678901]",
		`{"answer": [3]}`:         "[3]",
		`{"answer": ["a"]}`:       "!does not fit",
	} {
		synctest.Test(t, func(t *testing.T) {
			r, fakes := set(t, map[string]func(int, *llm.Request) (*llm.Answer, error){"openai": func(int, *llm.Request) (*llm.Answer, error) { return text(said) }}, "fast openai:gpt-5-mini")
			q := ask("list them" + strings.Repeat(" ", 5000))
			q.Request.Schema = schema
			res, used, err := answered(t, r, q)
			if sent := string(fakes["openai"].asked[0].Schema); !strings.HasPrefix(sent, `{"type":"object","properties":{"answer":{"type":"array"`) {
				t.Errorf("the schema is %s: no provider takes an array", sent)
			}
			wrong, bad := strings.CutPrefix(want, "!")
			if bad && (agentkernel.CodeOf(err) != agentkernel.CodeTool || !strings.Contains(err.Error(), wrong)) || !bad && (err != nil || string(res.Data) != want) {
				t.Errorf("%q: %v, want %q", said, err, want)
			}
			if used["tokens"] != 3200 {
				t.Errorf("%q: used %v", said, used)
			}
		})
	}
}

// TestSchemasThatCostTooMuch: neither a schema nor an answer to it may keep the kernel busy, or end it.
func TestSchemasThatCostTooMuch(t *testing.T) {
	doubling := `{"$ref":"#/$defs/a0","$defs":{`
	for i := range 40 {
		doubling += fmt.Sprintf(`"a%d":{"allOf":[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%d"}]},`, i, i+1, i+1)
	}
	doubling += `"a40":{}}}`
	deep := strings.Repeat("[", 60) + strings.Repeat("]", 60)
	for _, c := range []struct {
		schema, said, want string
		at                 agentkernel.Code // "": the answer fits
	}{
		{`{"$ref":"#"}`, "1", "it leads to itself", agentkernel.CodeInvalid},
		{`{"anyOf":[{"type":"string"},{"not":{"$ref":"#"}}]}`, "1", "it leads to itself", agentkernel.CodeInvalid},
		{`{"items":{"$ref":"#/items"}}`, "[1]", "cannot be checked", agentkernel.CodeTool},
		{doubling, "1", "too many choices", agentkernel.CodeInvalid},
		{`{"anyOf":[{"items":{"$ref":"#"}},{"items":{"$ref":"#"}}]}`, deep, "cannot be checked", agentkernel.CodeTool},
		{`{"anyOf":[{"items":{"$ref":"#"}},{"items":{"$ref":"#"}}]}`, "[[[]], []]", "", ""},
		{`{"type":"object","required":["children"],"properties":{"children":{"type":"array","items":{"$ref":"#"}}}}`, `{"children":[{"children":[]}]}`, "", ""},
		{`{"type":"object","required":["children"],"properties":{"children":{"type":"array","items":{"$ref":"#"}}}}`, `{"children":[{"child":[]}]}`, "does not fit", agentkernel.CodeTool},
		{`{"description":"` + strings.Repeat("x", 200_000) + `"}`, "1", "bytes long", agentkernel.CodeInvalid},
		{`{"items":{"pattern":"` + strings.Repeat("(a{1000})", 300) + `"}}`, "[]", "regular expressions", agentkernel.CodeInvalid},
		{`{"enum":[1,` + strings.Repeat("2,", 1000) + `3]}`, "3", "", ""},
		{`{"items":{"dependentRequired":{"a":["a"` + strings.Repeat(`,"a"`, 5000) + `]}}}`, "[" + strings.Repeat(`{"a":1},`, 5000) + "{}]", "cannot be checked", agentkernel.CodeTool},
		{`{"type":7}`, "3", "no JSON Schema", agentkernel.CodeInvalid},
	} {
		synctest.Test(t, func(t *testing.T) {
			r, _ := set(t, map[string]func(int, *llm.Request) (*llm.Answer, error){"openai": func(int, *llm.Request) (*llm.Answer, error) { return text(c.said) }}, "fast openai:gpt-5-mini")
			q := ask("list them" + strings.Repeat(" ", 5000))
			q.Request.Schema = json.RawMessage(c.schema)
			_, err := r.Plan(q)
			if c.at != agentkernel.CodeInvalid {
				if err != nil {
					t.Fatal(err)
				}
				q.Request.Schema = json.RawMessage(c.schema)
				_, _, err = answered(t, r, q)
			}
			if (c.at == "") != (err == nil) || err != nil && (agentkernel.CodeOf(err) != c.at || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%.100s of %.100s: %v, want %s", c.said, c.schema, err, c.want)
			}
		})
	}
}

// TestAnswersThatTakeLongToCheck: what a check compares, writes into errors and tries with regular expressions counts as steps of it. An
// answer of this size that is honest is checked.
func TestAnswersThatTakeLongToCheck(t *testing.T) {
	list := func(n int, one func(i int) string) string {
		all := make([]string, n)
		for i := range all {
			all[i] = one(i)
		}
		return "[" + strings.Join(all, ",") + "]"
	}
	same := func(n int, one string) string { return list(n, func(int) string { return one }) }
	number := func(i int) string { return strconv.Itoa(i) }
	nested := func(n int, inside string) string {
		return strings.Repeat("[", n) + inside + strings.Repeat("]", n)
	}
	var split []string // in three texts, in all ways: the checker gives all of them one hash
	for i := range 60 {
		for j := i; j < 60; j++ {
			x := strings.Repeat("x", 60)
			split = append(split, fmt.Sprintf("[%q,%q,%q]", x[:i], x[i:j], x[j:]))
		}
	}
	for what, c := range map[string]struct{ schema, said string }{
		"errors of choices":     {`{"anyOf":` + same(300, `{"type":"string"}`) + `}`, same(1, `"`+strings.Repeat("x", 1<<20)+`"`)},
		"errors of one choice":  {`{"oneOf":` + same(300, `{"type":"string"}`) + `}`, same(1, `"`+strings.Repeat("x", 1<<20)+`"`)},
		"errors of conditions":  {`{"allOf":` + same(300, `{"if":{"type":"string"}}`) + `}`, same(1, `"`+strings.Repeat("x", 1<<20)+`"`)},
		"a regular expression":  {`{"items":{"pattern":"(.{500}){1}` + strings.Repeat("(.{1000})", 20) + `"}}`, same(1, `"`+strings.Repeat("x", 19_000)+`"`)},
		"names that match":      {`{"patternProperties":{"` + strings.Repeat("(.{1000})", 20) + `":{"type":"string"}}}`, `{"` + strings.Repeat("x", 19_000) + `":1}`},
		"equal to one of many":  {`{"items":{"enum":` + list(3, func(i int) string { return same(20_000, "0")[:40_000] + "," + number(i+1) + "]" }) + `}}`, same(50, same(20_001, "0"))},
		"equal to one":          {`{"items":{"const":` + same(60_000, "0") + `}}`, same(40, same(59_999, "0")[:119_998]+",0]")},
		"equal hashes":          {`{"uniqueItems":true}`, "[" + strings.Join(split, ",") + "]"},
		"errors of many levels": {`{"type":"array","items":{"$ref":"#"}}`, nested(5000, `"`+strings.Repeat("x", 100_000)+`"`)},
		"long names of levels":  {`{"type":"array","items":{"$ref":"#/$defs/` + strings.Repeat("x", 10_000) + `"},"$defs":{"` + strings.Repeat("x", 10_000) + `":{"items":{"$ref":"#"}}}}`, nested(400, `1`)},
		"members that count":    {`{"properties":{"a":{}},"allOf":` + strings.Repeat(`[{"allOf":`, 200) + "[{}]" + strings.Repeat("}]", 200) + `}`, "{" + strings.Trim(list(50_000, func(i int) string { return fmt.Sprintf(`"%d":0`, i) }), "[]") + "}"},
		"nested lists of items": {`{"uniqueItems":true,"items":{"$ref":"#"}}`, strings.Repeat("[0,", 4000) + same(2000, `"x"`) + strings.Repeat("]", 4000)},
		"many levels of schema": {strings.Repeat(`{"items":`, 5000) + "{}" + strings.Repeat("}", 5000), "1"},
	} {
		t.Run(what, func(t *testing.T) {
			if _, err := checked(t, c.schema, c.said); err == nil || !strings.Contains(err.Error(), "cannot be checked") && !strings.Contains(err.Error(), "levels") {
				t.Errorf("%.200v", err)
			}
		})
	}
	row := func(i int) string {
		return fmt.Sprintf(`{"id":%d,"day":"2026-01-%02d","kind":"b","note":%q,"tags":["a","b"],"of":{"is":"dog","barks":true}}`, i, i%28+1, strings.Repeat("y", 100))
	}
	rows := `{"type":"array","items":{"type":"object","required":["id","day","kind"],"additionalProperties":false,"properties":{"id":{"type":"integer","minimum":0},` +
		`"day":{"type":"string","pattern":"^\\d{4}-\\d{2}-\\d{2}$"},"kind":{"enum":["a","b","c"]},"note":{"type":"string","maxLength":200},` +
		`"tags":{"type":"array","items":{"type":"string"},"uniqueItems":true},` +
		`"of":{"anyOf":[{"type":"object","properties":{"is":{"const":"cat"},"purrs":{"type":"boolean"}},"required":["is","purrs"]},` +
		`{"type":"object","properties":{"is":{"const":"dog"},"barks":{"type":"boolean"}},"required":["is","barks"]}]}}}}`
	for what, c := range map[string]struct{ schema, said string }{
		"rows":         {rows, list(4000, row)},
		"one text":     {`{"anyOf":[{"type":"null"},{"type":"string","pattern":"^y+$"}]}`, `"` + strings.Repeat("y", 1<<20) + `"`},
		"unique texts": {`{"uniqueItems":true,"items":{"type":"string","minLength":1}}`, list(20_000, func(i int) string { return fmt.Sprintf(`"%d of them"`, i) })},
		"numbers":      {`{"uniqueItems":true,"items":{"type":"integer"}}`, list(50_000, number)},
		"a tree":       {`{"required":["of"],"properties":{"of":{"type":"array","items":{"$ref":"#"}}}}`, strings.Repeat(`{"of":[`, 200) + strings.Repeat(`]}`, 200)},
	} {
		t.Run(what, func(t *testing.T) {
			if data, err := checked(t, c.schema, c.said); err != nil || string(data) != c.said {
				t.Errorf("%.200v", err)
			}
		})
	}
}

// checked is what becomes of an answer that was asked for with a schema.
func checked(t *testing.T, schema, said string) (data json.RawMessage, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r, _ := set(t, map[string]func(int, *llm.Request) (*llm.Answer, error){"openai": func(int, *llm.Request) (*llm.Answer, error) { return text(said) }}, "fast openai:gpt-5-mini")
		q := ask("list them")
		q.Request.Schema = json.RawMessage(schema)
		if _, err = r.Plan(q); err != nil {
			return
		}
		q.Request.Schema = json.RawMessage(schema) // it was put into an object
		var res *llm.Result
		if res, _, err = answered(t, r, q); err == nil {
			data = res.Data
		}
	})
	return data, err
}

// TestWhatIsReserved: whatever a program has sent along counts.
func TestWhatIsReserved(t *testing.T) {
	r, _ := set(t, nil, "fast openai:gpt-5-mini")
	large := json.RawMessage(`{"x":"` + strings.Repeat("x", 100_000) + `"}`)
	for what, change := range map[string]func(q *llm.Query){
		"text":   func(q *llm.Query) { q.Request.Messages[0].Parts[0].Text = string(large) },
		"fields": func(q *llm.Query) { q.Request.Messages[0].Parts[0].Fields = &llm.Opaque{Dialect: "openai", Raw: large} },
		"result": func(q *llm.Query) { q.Request.Messages[0].Parts[0].Result = &llm.ToolResult{ID: string(large)} },
		"extra":  func(q *llm.Query) { q.Request.Extra = map[string]json.RawMessage{"text": large} },
		"stop":   func(q *llm.Query) { q.Request.Stop = []string{string(large)} },
	} {
		q := ask("x")
		change(q)
		p, err := r.Plan(q)
		if err != nil {
			t.Fatal(err)
		}
		if n := p.Reserve()[agentkernel.AmountTokens]; n < 100_000 {
			t.Errorf("%s: %d tokens are reserved for 100,000 bytes", what, n)
		}
	}
}

// TestALimit: a limit that was declared holds over all who ask, whoever is more urgent is next, and who is dropped holds nothing.
func TestALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, fakes := set(t, map[string]func(int, *llm.Request) (*llm.Answer, error){"openai": func(int, *llm.Request) (*llm.Answer, error) { return text("pong") }},
			"fast openai:gpt-5-mini concurrent=1")
		held, err := r.Plan(ask("first"))
		if err != nil || held.Wait(t.Context()) != nil {
			t.Fatal(err)
		}
		var order []string
		var waits []llm.Plan // in the order in which they came
		var mu sync.Mutex
		var done sync.WaitGroup
		for i, priority := range []int{10, 10, 1} {
			name := fmt.Sprint(i)
			done.Go(func() {
				q := ask(name)
				q.Priority, q.ID = priority, name
				p, err := r.Plan(q)
				if err == nil {
					waits = append(waits, p)
					err = p.Wait(t.Context())
				}
				if err == nil {
					mu.Lock()
					order = append(order, name)
					mu.Unlock()
					_, _, err = p.Ask(t.Context(), nil)
				}
				if err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		if why := waits[0].Waiting(); !strings.HasPrefix(why, "queued ") || !strings.Contains(why, "openai") || held.Waiting() != "" {
			t.Errorf("it waits because of %q, and who may ask because of %q", why, held.Waiting())
		}
		if len(fakes["openai"].asked) != 0 {
			t.Error("the limit was passed")
		}
		held.Drop()
		held.Drop()
		done.Wait()
		if !slices.Equal(order, []string{"2", "0", "1"}) {
			t.Error(order)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := held.Wait(ctx); err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	})
}

// TestAStream: until the first bit of an answer has come a failure is dealt with as one of any other query, and then never again.
func TestAStream(t *testing.T) {
	pong := map[string]func(int, *llm.Request) (*llm.Answer, error){"openai": func(int, *llm.Request) (*llm.Answer, error) { return text("pong") }}
	tellAll := func(tell func(llm.Delta) error, bits ...string) error {
		for _, bit := range bits {
			if err := tell(llm.Delta{Text: bit}); err != nil {
				return &llm.Error{Kind: llm.Canceled, Sent: true, Began: true, Err: err, Usage: &llm.Usage{Input: 10, Output: 1, Estimated: true}}
			}
		}
		return nil
	}
	unread := errors.New("unread")
	for _, c := range []struct {
		name   string
		bits   func(n int, tell func(llm.Delta) error) error
		refuse bool // what is told
		asked  int
		said   string
		tokens int64 // -1: nobody knows
		err    string
	}{
		{"well", func(_ int, tell func(llm.Delta) error) error { return tellAll(tell, "po", "ng") }, false, 1, "pong", 3200, ""},
		{"overloaded at first", func(n int, tell func(llm.Delta) error) error {
			if n == 1 {
				return &llm.Error{Kind: llm.Overloaded, Status: 503, Sent: true}
			}
			return tellAll(tell, "pong")
		}, false, 2, "pong", 3200, ""},
		{"broken", func(n int, tell func(llm.Delta) error) error {
			if n == 1 {
				return &llm.Error{Kind: llm.Server, Status: 500, Sent: true}
			}
			_ = tellAll(tell, "h\u00e9", "l")
			return &llm.Error{Kind: llm.Network, Sent: true, Began: true, Message: "cut", Usage: &llm.Usage{Input: 10, Output: 2, Estimated: true}}
		}, false, 2, "h\u00e9l", -1, "unavailable: the model fast: the stream broke after 3 characters: cut"},
		{"refused", func(_ int, tell func(llm.Delta) error) error { return tellAll(tell, "po", "ng") }, true, 1, "po", -1, "canceled: nobody waits for the model fast any more"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, fakes := set(t, pong, "fast openai:gpt-5-mini")
				fakes["openai"].bits = c.bits
				q := ask("x")
				q.Streams = true
				p, err := r.Plan(q)
				if err != nil {
					t.Fatal(err)
				}
				if err := p.Wait(t.Context()); err != nil {
					t.Fatal(err)
				}
				said, got := "", ""
				res, used, err := p.Ask(t.Context(), func(d llm.Delta) error {
					if said += d.Text; c.refuse {
						return unread
					}
					return nil
				})
				if err != nil {
					e := agentkernel.AsError(err, "", "")
					got = string(e.Code) + ": " + e.Message()
				} else if res.Text() != "pong" {
					t.Errorf("answered %q", res.Text())
				}
				if used == nil {
					used = agentkernel.Amounts{"tokens": -1}
				}
				if got != c.err || said != c.said || used["tokens"] != c.tokens || len(fakes["openai"].asked) != c.asked {
					t.Errorf("%q, said %q, used %v, asked %d times", got, said, used, len(fakes["openai"].asked))
				}
			})
		})
	}
}

// TestWanted: whoever holds a place learns that others wait for it, and for as long as they do.
func TestWanted(t *testing.T) {
	pong := map[string]func(int, *llm.Request) (*llm.Answer, error){"openai": func(int, *llm.Request) (*llm.Answer, error) { return text("pong") }}
	synctest.Test(t, func(t *testing.T) {
		r, fakes := set(t, pong, "fast openai:gpt-5-mini concurrent=1")
		fakes["openai"].bits = func(_ int, tell func(llm.Delta) error) error { return tell(llm.Delta{Text: "pong"}) }
		first, err := r.Plan(ask("x"))
		if err != nil || first.Wait(t.Context()) != nil {
			t.Fatal(err)
		}
		var wanted []bool
		look := func() { wanted = append(wanted, first.Wanted()) }
		look() // nothing is sent yet
		_, _, err = first.Ask(t.Context(), func(llm.Delta) error {
			look()
			for _, gone := range []bool{true, false} {
				second, err := r.Plan(ask("y"))
				if err != nil {
					return err
				}
				ctx, cancel := context.WithCancel(t.Context())
				go func() { _ = second.Wait(ctx) }()
				synctest.Wait()
				look()
				if gone {
					cancel()
					synctest.Wait()
					look()
				}
				defer cancel()
			}
			return nil
		})
		look()
		if want := []bool{false, false, true, false, true, false}; err != nil || !slices.Equal(wanted, want) {
			t.Errorf("%v, want %v: %v", wanted, want, err)
		}
	})
}

// TestShrink: a conversation that is too long is sent once more without its oldest turns, if the query wants it. What the system says stays,
// and no result loses its call.
func TestShrink(t *testing.T) {
	part := func(role llm.Role, text string) llm.Message {
		return llm.Message{Role: role, Parts: []llm.Part{{Text: text + strings.Repeat(".", 1000)}}}
	}
	call := llm.Message{Role: llm.Assistant, Parts: []llm.Part{{Call: &llm.ToolCall{ID: "1", Name: "f", Args: json.RawMessage(`{}`)}}}}
	result := llm.Message{Role: llm.ToolRole, Parts: []llm.Part{{Result: &llm.ToolResult{ID: "1", Parts: []llm.Part{{Text: strings.Repeat("r", 1000)}}}}}}
	long := []llm.Message{part(llm.System, "s"), part(llm.User, "a"), call, result, part(llm.Assistant, "b"), part(llm.User, "c"), part(llm.Assistant, "d"), part(llm.User, "e")}
	turn := []llm.Message{part(llm.System, "s"), part(llm.User, "a"), call, result}
	for name, c := range map[string]struct {
		says    []llm.Message
		shrink  bool
		refuses int
		model   string
		sent    string // the second time
		leftOut int
		err     string
	}{
		"asked for":         {long, true, 1, "", "se", 6, ""}, // half of it
		"not asked for":     {long, false, 9, "", "", 0, "(shrink=True)"},
		"length is known":   {long, true, 1, " context=20000", "scde", 4, ""},
		"refused again":     {long, true, 9, "", "se", 0, "6 messages were left out already"},
		"one turn alone":    {turn, true, 9, "", "", 0, "its last turn alone is as long"},
		"it was not needed": {long, true, 0, "", "", 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, fakes := set(t, map[string]func(int, *llm.Request) (*llm.Answer, error){"openai": func(n int, _ *llm.Request) (*llm.Answer, error) {
					if n <= c.refuses {
						return nil, &llm.Error{Kind: llm.TooLong, Status: 400, Sent: true}
					}
					return text("pong")
				}}, "fast openai:gpt-5-mini price=1/10"+c.model)
				q := ask("")
				q.Request.Messages, q.Request.MaxTokens, q.Shrink, q.Reuse = slices.Clone(c.says), 100, c.shrink, time.Hour
				res, _, err := answered(t, r, q)
				asked := fakes["openai"].asked
				sent := ""
				if len(asked) > 1 {
					for _, m := range asked[1].Messages {
						sent += m.Parts[0].Text[:1]
					}
				}
				if sent != c.sent || (err == nil) != (c.err == "") || err != nil && !strings.Contains(agentkernel.AsError(err, "", "").Hint, c.err) {
					t.Errorf("sent %q, want %q; %v %q", sent, c.sent, err, c.err)
				}
				if err == nil && res.LeftOut != c.leftOut {
					t.Errorf("%d messages were left out, want %d", res.LeftOut, c.leftOut)
				}
				if len(c.says) != len(long) || err != nil {
					return
				}
				again := ask("")
				again.Request.Messages, again.Request.MaxTokens, again.Reuse = slices.Clone(c.says), 100, time.Hour
				if res, _, err := answered(t, r, again); err != nil || res.Reused != (c.leftOut == 0) {
					t.Errorf("what was said to less was given to the whole question: %v", err)
				}
			})
		})
	}
}

// TestNotShrunk: what its server may have charged for, or the program has read the beginning of, is not sent again, however long it was.
func TestNotShrunk(t *testing.T) {
	for name, c := range map[string]struct {
		err    llm.Error
		capped bool
		asked  int
	}{
		"charged":                     {llm.Error{Kind: llm.TooLong, Sent: true, Usage: &llm.Usage{Input: 100, Output: 100}}, true, 1},
		"charged, and nothing bounds": {llm.Error{Kind: llm.TooLong, Sent: true, Usage: &llm.Usage{Input: 100, Output: 100}}, false, 2},
		"begun":                       {llm.Error{Kind: llm.TooLong, Sent: true, Began: true}, false, 1},
		"refused":                     {llm.Error{Kind: llm.TooLong, Sent: true, Status: 400}, true, 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			r, fakes := set(t, map[string]func(int, *llm.Request) (*llm.Answer, error){"openai": func(int, *llm.Request) (*llm.Answer, error) { return nil, &c.err }}, "fast openai:gpt-5-mini price=1/10")
			q := ask("one")
			q.Request.Messages = append(q.Request.Messages, llm.Message{Role: llm.Assistant, Parts: []llm.Part{{Text: strings.Repeat("x", 500)}}}, q.Request.Messages[0])
			q.Shrink, q.Capped, q.Bounded = true, c.capped, c.capped
			if _, _, err := answered(t, r, q); agentkernel.CodeOf(err) != agentkernel.CodeLimit || len(fakes["openai"].asked) != c.asked {
				t.Errorf("%s: asked %d times, want %d: %v", name, len(fakes["openai"].asked), c.asked, err)
			}
		})
	}
}

// TestImpossibleUsage: whatever a server says it has used, what is charged is a number above 0.
func TestImpossibleUsage(t *testing.T) {
	for _, u := range []llm.Usage{{Input: 1 << 62, Output: 1 << 62}, {Input: 1<<63 - 1, CacheRead: 1<<63 - 1, Output: 1<<63 - 1, Reasoning: 1<<63 - 1}, {Input: -5, Output: 1 << 62}} {
		synctest.Test(t, func(t *testing.T) {
			r, _ := set(t, map[string]func(int, *llm.Request) (*llm.Answer, error){"openai": func(int, *llm.Request) (*llm.Answer, error) {
				a, err := text("pong")
				a.Usage = u
				return a, err
			}}, "fast openai:gpt-5-mini price=1/10")
			p, err := r.Plan(ask("x"))
			if err != nil || p.Wait(t.Context()) != nil {
				t.Fatal(err)
			}
			_, used, err := p.Ask(t.Context(), nil)
			if err != nil || used[agentkernel.AmountTokens] < 1e12 || used[agentkernel.AmountUSD] <= 0 {
				t.Errorf("%+v: %v %v", u, used, err)
			}
			for name, n := range used {
				if n < 0 {
					t.Errorf("%+v: %d %s", u, n, name)
				}
			}
		})
	}
}
