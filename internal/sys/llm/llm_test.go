package llm_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/internal/llm"
	sysllm "agentkernel/internal/sys/llm"
	"agentkernel/internal/sys/systest"
)

// hosts lets programs reach the host x alone.
type hosts struct{}

func (hosts) Admit(r agentkernel.FetchRequest) error {
	if !strings.HasPrefix(r.URL, "https://x/") {
		return agentkernel.Errorf(agentkernel.CodeDenied, "http.fetch", "the host is not allowed").WithHint("--allow-host")
	}
	return nil
}

// engine answers as a test says, and keeps what it was asked.
type engine struct {
	asked  *llm.Query
	answer llm.Result
	err    error
	waited error
	finds  bool                                                        // an answer that is given again, while it waits
	held   bool                                                        // it has found that
	wanted bool                                                        // others wait for its place
	bits   func(ctx context.Context, tell func(llm.Delta) error) error // before the answer; its error is that of the query
}

func (e *engine) Check([]string) error { return nil }

func (e *engine) Plan(q *llm.Query) (llm.Plan, error) {
	e.asked = q
	if q.Model == "none" {
		return nil, agentkernel.Errorf(agentkernel.CodeNotFound, "llm", "there is no such model")
	}
	return e, nil
}

func (e *engine) Alias() string   { return "fast" }
func (e *engine) Drop()           {}
func (e *engine) Waiting() string { return "" }
func (e *engine) Wanted() bool    { return e.wanted }

func (e *engine) Leave() agentkernel.Amounts { return nil }
func (e *engine) Ready() bool                { return false }
func (e *engine) Wait(context.Context) error {
	e.held = e.finds
	return e.waited
}
func (e *engine) Reserve() agentkernel.Amounts {
	if e.held {
		return nil
	}
	return agentkernel.Amounts{"usd": 7}
}
func (e *engine) Ask(ctx context.Context, tell func(llm.Delta) error) (*llm.Result, agentkernel.Amounts, error) {
	if tell != nil {
		if err := e.bits(ctx, tell); err != nil {
			return nil, agentkernel.Amounts{"usd": 2}, err
		}
	}
	if e.err != nil {
		return nil, agentkernel.Amounts{"usd": 1}, e.err
	}
	return &e.answer, agentkernel.Amounts{"usd": 3}, nil
}

func says(parts ...llm.Part) llm.Result {
	cost := agentkernel.NanoUSD(1_500_000)
	return llm.Result{Cost: &cost, Answer: &llm.Answer{Model: "served", Stop: llm.StopEnd, Message: llm.Message{Role: llm.Assistant, Parts: parts},
		Usage: llm.Usage{Input: 1, CacheRead: 2, CacheWrite: 3, CacheWrite1h: 4, Output: 5, Reasoning: 6}}}
}

// requested is what the engine was asked, as JSON.
func requested(t *testing.T, e *engine) string {
	t.Helper()
	text, err := json.Marshal(e.asked.Request)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestAsk(t *testing.T) {
	e := &engine{answer: says(llm.Part{Text: "Hello"})}
	p := systest.New(t, sysllm.Family(e, hosts{}))
	p.Spec.Priority, p.BoundsUSD, p.Budgeted = 5, true, true // by a budget, or an allowance
	p.Spec.Ancestors = []agentkernel.PID{42, 43}
	out, err := p.Outside(t.Context(), t, "llm.ask", `{"prompt":"Say hello","system":"Be short","images":[{"$bytes":"iVBORw0KGgo="},"https://x/y.png"],"max_tokens":50,"temperature":0.5,"model":"fast","schema":null}`)
	if err != nil || string(out.Result) != `"Hello"` || out.Settle["usd"] != 3 {
		t.Errorf("%+v %v", out, err)
	}
	want := `{"model":"","messages":[{"role":"system","parts":[{"text":"Be short"}]},{"role":"user","parts":[{"image":{"type":"image/png","data":"iVBORw0KGgo="}},{"image":{"url":"https://x/y.png"}},{"text":"Say hello"}]}],"max_tokens":50,"temperature":0.5}`
	if got := requested(t, e); got != want {
		t.Errorf("%s, want\n%s", got, want)
	}
	if q := e.asked; q.Model != "fast" || q.Tree != 42 || q.PID != 1 || q.Priority != 5 || !q.Bounded || !q.Capped {
		t.Errorf("%+v", q)
	}
	e.answer.Data = json.RawMessage(`{"a":[1,2.5]}`)
	if out, err := p.Outside(t.Context(), t, "llm.ask", `{"prompt":"List","schema":{"type":"object"}}`); err != nil || string(out.Result) != `{"a":[1,2.5]}` || string(e.asked.Request.Schema) != `{"type":"object"}` {
		t.Errorf("%s %v %s", out.Result, err, e.asked.Request.Schema)
	}
}

// TestAConversation: what llm.complete answers can be handed back as it is, and means the same.
func TestAConversation(t *testing.T) {
	opaque := &llm.Opaque{Dialect: "anthropic", Raw: json.RawMessage(`{"type":"thinking","signature":"s"}`)}
	parts := []llm.Part{{Opaque: opaque}, {Text: "Let me look."}, {Call: &llm.ToolCall{ID: "c1", Name: "look", Args: json.RawMessage(`{"at":[1,2.0]}`)}, Fields: &llm.Opaque{Dialect: "openai", Raw: json.RawMessage(`{"phase":1}`)}}}
	e := &engine{answer: says(parts...)}
	e.answer.Stop = llm.StopToolCalls
	p := systest.New(t, sysllm.Family(e, hosts{}))
	out, err := p.Outside(t.Context(), t, "llm.complete", `{"messages":[{"role":"user","content":"Go"}],"tools":[{"name":"look","description":"Looks","schema":{"type":"object"}},{"name":"bare"}],"tool_choice":"auto","stop":["x"],"seed":7,"cache":"5m","extra":{"k":1.5}}`)
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Text, Stop, Model string
		CostUSD           float64         `json:"cost_usd"`
		Message           json.RawMessage `json:"message"`
		ToolCalls         json.RawMessage `json:"tool_calls"`
		Usage             map[string]any  `json:"usage"`
	}
	if err := json.Unmarshal(out.Result, &answer); err != nil {
		t.Fatal(err)
	}
	if answer.Text != "Let me look." || answer.Stop != "tool_calls" || answer.CostUSD != 0.0015 || answer.Usage["cache_write"] != 7.0 || answer.Usage["reasoning"] != 6.0 ||
		string(answer.ToolCalls) != `[{"arguments":{"at":[1,2.0]},"fields":{"dialect":"openai","raw":"{\"phase\":1}"},"id":"c1","name":"look"}]` {
		t.Errorf("%s", out.Result)
	}
	want := `{"model":"","messages":[{"role":"user","parts":[{"text":"Go"}]}],"tools":[{"name":"look","description":"Looks","schema":{"type":"object"}},{"name":"bare","schema":{"type":"object"}}],"tool_choice":"auto","stop":["x"],"seed":7,"cache":"5m","extra":{"k":1.5}}`
	if got := requested(t, e); got != want {
		t.Errorf("%s, want\n%s", got, want)
	}
	again := `{"messages":[{"role":"user","content":"Go"},` + string(answer.Message) + `,{"role":"tool","tool_call_id":"c1","content":"seen","failed":true}]}`
	if _, err := p.Outside(t.Context(), t, "llm.complete", again); err != nil {
		t.Fatal(err)
	}
	handed, err := json.Marshal(e.asked.Request.Messages[1].Parts)
	if err != nil {
		t.Fatal(err)
	}
	sent, err := json.Marshal(parts)
	if err != nil || string(handed) != string(sent) {
		t.Errorf("%s, want\n%s", handed, sent)
	}
	if r := e.asked.Request.Messages[2].Parts[0].Result; r == nil || r.ID != "c1" || !r.Failed || r.Parts[0].Text != "seen" {
		t.Errorf("%+v", r)
	}
}

func TestEmbed(t *testing.T) {
	e := &engine{answer: llm.Result{Embeddings: &llm.Embeddings{Vectors: [][]float32{{1, -0.5}, {}}}}}
	p := systest.New(t, sysllm.Family(e, hosts{}))
	if out, err := p.Outside(t.Context(), t, "llm.embed", `{"texts":["a","b"],"dimensions":2}`); err != nil || string(out.Result) != `[[1.0,-0.5],[]]` || e.asked.Embed.Dimensions != 2 {
		t.Errorf("%s %v", out.Result, err)
	}
	if _, err := p.Outside(t.Context(), t, "llm.embed", `{"texts":"one"}`); err != nil || len(e.asked.Embed.Texts) != 1 {
		t.Errorf("%v %+v", err, e.asked)
	}
}

// TestReuse: how old an answer may be goes to the engine; one that is given again says so, and what it reserves is what is known when
// its turn has come.
func TestReuse(t *testing.T) {
	e := &engine{answer: says(llm.Part{Text: "Hello"})}
	e.answer.Embeddings = &llm.Embeddings{Vectors: [][]float32{{1}}}
	p := systest.New(t, sysllm.Family(e, hosts{}))
	for call, want := range map[[2]string]time.Duration{
		{"llm.ask", `{"prompt":"x"}`}:                                                    0,
		{"llm.ask", `{"prompt":"x","reuse":null}`}:                                       0,
		{"llm.ask", `{"prompt":"x","reuse":0}`}:                                          0,
		{"llm.ask", `{"prompt":"x","reuse":1.5}`}:                                        1500 * time.Millisecond,
		{"llm.complete", `{"messages":[{"role":"user","content":"x"}],"reuse":60}`}:      time.Minute,
		{"llm.complete", `{"messages":[{"role":"user","content":"x"}],"reuse":1.0e300}`}: 1e9 * time.Second,
		{"llm.embed", `{"texts":["x"],"reuse":3600}`}:                                    time.Hour,
	} {
		out, err := p.Outside(t.Context(), t, call[0], call[1])
		if err != nil || e.asked.Reuse != want || strings.Contains(string(out.Result), "reused") {
			t.Errorf("%s: %v, %s, %v", call, e.asked.Reuse, out.Result, err)
		}
	}
	e.answer.Reused, e.answer.Cost, e.answer.Usage = true, new(agentkernel.NanoUSD), llm.Usage{}
	out, err := p.Outside(t.Context(), t, "llm.complete", `{"messages":[{"role":"user","content":"x"}],"reuse":60}`)
	if err != nil || !strings.Contains(string(out.Result), `"reused":true`) || !strings.Contains(string(out.Result), `"cost_usd":0.0,`) || !strings.Contains(string(out.Result), `"input":0,`) {
		t.Errorf("%s %v", out.Result, err)
	}
	adm, err := p.Admit(t, "llm.ask", `{"prompt":"x","reuse":60}`)
	if err != nil || adm.Wants()["usd"] != 7 {
		t.Errorf("%+v %v", adm, err)
	}
	e.finds = true
	if adm, err = p.Admit(t, "llm.ask", `{"prompt":"x","reuse":60}`); err != nil || len(adm.Wants()) != 0 {
		t.Errorf("%+v %v", adm, err)
	}
}

// TestBadCalls: each is refused before anything is asked, and says where it is wrong.
func TestBadCalls(t *testing.T) {
	e := &engine{}
	p := systest.New(t, sysllm.Family(e, hosts{}))
	for call, want := range map[[2]string]string{
		{"llm.ask", `{"prompt":" "}`}:                                                                                        "the prompt is empty",
		{"llm.ask", `{"prompt":"x","max_tokens":0}`}:                                                                         "max_tokens is 0",
		{"llm.ask", `{"prompt":"x","max_tokens":10000001}`}:                                                                  "must not be above 10000000",
		{"llm.ask", `{"prompt":"x","reasoning":"much"}`}:                                                                     "reasoning is",
		{"llm.ask", `{"prompt":"x","images":["file.png"]}`}:                                                                  "images[0]: a picture is bytes",
		{"llm.ask", `{"prompt":"x","images":[{"$bytes":"AAAA"}]}`}:                                                           "no PNG",
		{"llm.ask", `{"prompt":"x","model":"none"}`}:                                                                         "no such model",
		{"llm.ask", `{"promt":"x"}`}:                                                                                         "wrong arguments",
		{"llm.complete", `{"messages":[]}`}:                                                                                  "there are no messages",
		{"llm.complete", `{"messages":[{"role":"boss","content":"x"}]}`}:                                                     `the role is "boss"`,
		{"llm.complete", `{"messages":[{"role":"user","content":""}]}`}:                                                      "messages[0]: it is empty",
		{"llm.complete", `{"messages":[{"role":"user","content":5}]}`}:                                                       "neither a text nor a list",
		{"llm.complete", `{"messages":[{"role":"user","content":[{"type":"video"}]}]}`}:                                      `content[0] has the type "video"`,
		{"llm.complete", `{"messages":[{"role":"tool","content":"x"}]}`}:                                                     "tool_call_id",
		{"llm.complete", `{"messages":[{"role":"user","content":"x","tool_calls":[{"id":"1","name":"n","arguments":{}}]}]}`}: "the assistant's",
		{"llm.complete", `{"messages":[{"role":"assistant","content":"x","tool_calls":[{"name":"n","arguments":{}}]}]}`}:     "tool_calls[0] needs id",
		{"llm.complete", `{"messages":[{"role":"assistant","content":[{"type":"opaque","dialect":"d","raw":"{"}]}]}`}:        "no opaque part",
		{"llm.complete", `{"messages":[{"role":"user","content":"x"}],"tools":[{"description":"d"}]}`}:                       "tools[0] has no name",
		{"llm.complete", `{"messages":[{"role":"user","content":"x"}],"cache":"1d"}`}:                                        "cache is",
		{"llm.complete", `{"messages":[{"role":"user","content":"x"}],"temperature":{"$float":"nan"}}`}:                      "wrong arguments",
		{"llm.ask", `{"prompt":"x","reuse":-1}`}:                                                                             "reuse is -1",
		{"llm.ask", `{"prompt":"x","reuse":"an hour"}`}:                                                                      "wrong arguments",
		{"llm.embed", `{"texts":["x"],"reuse":-0.5}`}:                                                                        "reuse is -0.5",
		{"llm.embed", `{"texts":[]}`}:                                                                                        "there are no texts",
		{"llm.embed", `{"texts":[1]}`}:                                                                                       "a list of str",
		{"llm.embed", `{"texts":["x"],"dimensions":0}`}:                                                                      "dimensions is 0",
	} {
		_, err := p.Outside(t.Context(), t, call[0], call[1])
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), call[0]) {
			t.Errorf("%s: %v, want %q", call, err, want)
		}
	}
	if e.asked != nil && e.asked.Model != "none" {
		t.Errorf("%+v was asked", e.asked)
	}
}

// TestAddresses: a provider fetches no picture for a program that it could not fetch itself.
func TestAddresses(t *testing.T) {
	picture := `{"type":"image","url":"https://elsewhere/?secret"}`
	for _, call := range [][2]string{
		{"llm.ask", `{"prompt":"x","images":["https://elsewhere/?secret"]}`},
		{"llm.complete", `{"messages":[{"role":"user","content":[` + picture + `]}]}`},
		{"llm.complete", `{"messages":[{"role":"tool","tool_call_id":"1","content":[` + picture + `]}]}`},
	} {
		e := &engine{}
		for _, f := range []sysllm.Hosts{hosts{}, nil} {
			p := systest.New(t, sysllm.Family(e, f))
			_, err := p.Outside(t.Context(), t, call[0], call[1])
			if got := agentkernel.AsError(err, "", ""); got.Code != agentkernel.CodeDenied || got.Op != call[0] || e.asked != nil {
				t.Errorf("%s: %v, and %+v was asked", call, err, e.asked)
			}
		}
	}
}

// TestForgedParts: what a program hands back as a part of an answer can be nothing but thoughts.
func TestForgedParts(t *testing.T) {
	e := &engine{}
	p := systest.New(t, sysllm.Family(e, hosts{}))
	for _, raw := range []string{
		`{"type":"image","source":{"type":"url","url":"https://elsewhere/?secret"}}`, `{"type":"thinking","type":"image"}`, `{"type":"item_reference","id":"x"}`,
		`{"thinking":"x","images":["x"]}`, `{"type":5}`, `["x"]`, `{"type":"thinking","audio":{"id":"x"}}`, `{"type":"thinking","content":[{"type":"image_url","image_url":{"url":"http://x"}}]}`,
		`{"type":"reasoning","role":"system"}`, `{"type":"thinking"} {}`, `{"type":null,"x":1}`,
	} {
		text, err := json.Marshal(raw)
		if err != nil {
			t.Fatal(err)
		}
		for _, message := range []string{
			`{"role":"assistant","content":[{"type":"opaque","dialect":"d","raw":` + string(text) + `}]}`,
			`{"role":"assistant","content":[{"type":"text","text":"x","fields":{"dialect":"d","raw":` + string(text) + `}}]}`,
			`{"role":"assistant","tool_calls":[{"id":"1","name":"n","arguments":{},"fields":{"dialect":"d","raw":` + string(text) + `}}]}`,
		} {
			if _, err := p.Outside(t.Context(), t, "llm.complete", `{"messages":[`+message+`]}`); agentkernel.CodeOf(err) != agentkernel.CodeInvalid || e.asked != nil {
				t.Errorf("%s: %v", message, err)
			}
		}
	}
}

// TestNoModels: a kernel without models says how to declare one.
func TestNoModels(t *testing.T) {
	p := systest.New(t, sysllm.Family(nil, nil))
	_, err := p.Outside(t.Context(), t, "llm.ask", `{"prompt":"x"}`)
	if e := agentkernel.AsError(err, "", ""); e.Code != agentkernel.CodeUnavailable || !strings.Contains(e.Hint, "setting models") {
		t.Errorf("%v %q", err, e.Hint)
	}
}

// TestAFailure says what was used up, in the name of its call.
func TestAFailure(t *testing.T) {
	e := &engine{err: agentkernel.Errorf(agentkernel.CodeDenied, "llm", "filtered")}
	p := systest.New(t, sysllm.Family(e, hosts{}))
	out, err := p.Outside(t.Context(), t, "llm.ask", `{"prompt":"x"}`)
	if got := agentkernel.AsError(err, "", ""); got.Op != "llm.ask" || got.Code != agentkernel.CodeDenied || out.Settle["usd"] != 1 {
		t.Errorf("%+v %v", out, err)
	}
}
