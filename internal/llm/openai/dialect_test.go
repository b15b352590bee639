package openai_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"agentkernel/internal/llm"
	"agentkernel/internal/llm/llmtest"
	"agentkernel/internal/llm/openai"
)

const stream = "text/event-stream"

// complete sends a request to a server that answers with body, in bits if kind is a stream.
func complete(t *testing.T, c *llmtest.Canned, p llm.Provider, r *llm.Request) (*llm.Answer, *llm.Error) {
	t.Helper()
	w := llm.Watch{}
	if c.Kind == stream {
		n := 0
		w = llmtest.Deltas(&n)
	}
	a, err := p.Complete(t.Context(), r, w)
	var e *llm.Error
	if err != nil && !errors.As(err, &e) {
		t.Fatalf("%T", err)
	}
	return a, e
}

func chat(t *testing.T, c *llmtest.Canned, f openai.Flavour) llm.Provider {
	t.Helper()
	p, err := openai.New(llm.Options{BaseURL: c.Start(t) + "/v1", Deployment: "d"}, f)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func responses(t *testing.T, c *llmtest.Canned) llm.Provider {
	t.Helper()
	p, err := openai.NewResponses(llm.Options{BaseURL: c.Start(t) + "/v1"})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const whole = `{"id":"x","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`

// TestBodies: what each flavour is sent, to the byte.
func TestBodies(t *testing.T) {
	half := 0.5
	r := llmtest.User("hi")
	r.Temperature, r.TopP, r.Reasoning, r.Priority = &half, &half, "low", -3
	r.Schema = json.RawMessage(`{"type":"array"}`)
	const before, format, after = `{"model":"model-1",`, `"temperature":0.5,"top_p":0.5,"response_format":{"type":"json_schema","json_schema":{"name":"answer","schema":{"type":"array"},"strict":false}},`,
		`"messages":[{"role":"user","content":"hi"}]}`
	for f, want := range map[openai.Flavour]string{
		openai.OpenAI:     before + `"max_tokens":4000,` + format + `"reasoning_effort":"low",` + after,
		openai.VLLM:       before + `"max_tokens":4000,` + format + `"reasoning_effort":"low","priority":-3,` + after,
		openai.OpenRouter: before + `"max_tokens":4000,` + format + `"reasoning":{"effort":"low"},"usage":{"include":true},` + after,
		openai.Azure:      `{"model":"d","max_completion_tokens":4000,` + format + `"reasoning_effort":"low",` + after,
	} {
		c := &llmtest.Canned{Body: whole}
		if _, e := complete(t, c, chat(t, c, f), r); e != nil || c.GotBody != want {
			t.Errorf("%s: %v\n%s\n%s", f, e, c.GotBody, want)
		}
	}
	c := &llmtest.Canned{Body: `{"id":"x","model":"m","status":"completed","output":[]}`}
	want := `{"model":"model-1","text":{"format":{"type":"json_schema","name":"answer","schema":{"type":"array"},"strict":false}},"reasoning":{"effort":"low"},` +
		`"max_output_tokens":4000,"temperature":0.5,"top_p":0.5,"include":["reasoning.encrypted_content"],"store":false,"input":[{"role":"user","content":"hi"}]}`
	if _, e := complete(t, c, responses(t, c), r); e != nil || c.GotBody != want {
		t.Errorf("%v\n%s\n%s", e, c.GotBody, want)
	}
}

// TestStrict: a schema that the server can hold the model to is marked, and no other.
func TestStrict(t *testing.T) {
	for schema, want := range map[string]bool{
		`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}`:                                                                       true,
		`{"type":"object","properties":{},"additionalProperties":false}`:                                                                                                             true,
		`{"type":"object","properties":{"a":{"type":"array","items":{"type":"object","properties":{},"additionalProperties":false}}},"required":["a"],"additionalProperties":false}`: true,
		`{"type":"object","properties":{"a":{"$ref":"#/$defs/x"}},"required":["a"],"additionalProperties":false,"$defs":{"x":{"type":"object"}}}`:                                    false,
		`{"type":"object","properties":{"a":{"type":"array","items":{"type":"object"}}},"required":["a"],"additionalProperties":false}`:                                              false,
		`{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}`:                                                                                        false,
		`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`:                                                                                                    false,
		`{"type":"object","properties":{"a":{"anyOf":[{"type":"object"}]}},"required":["a"],"additionalProperties":false}`:                                                           false,
		`{"type":"object","properties":{"a":{"oneOf":[]}},"required":["a"],"additionalProperties":false}`:                                                                            false,
		`{"type":"array"}`: false, `true`: false,
	} {
		c := &llmtest.Canned{Body: whole}
		r := llmtest.User("hi")
		r.Schema = json.RawMessage(schema)
		if _, e := complete(t, c, chat(t, c, openai.OpenAI), r); e != nil || strings.Contains(c.GotBody, `"strict":true`) != want {
			t.Errorf("%s: %v, %s", schema, e, c.GotBody)
		}
	}
}

// TestCallsGoByTheirID: servers give calls that are made at once the same index, or none, or no id.
func TestCallsGoByTheirID(t *testing.T) {
	chunk := func(calls string) string {
		return `{"id":"x","model":"m","choices":[{"index":0,"delta":{"tool_calls":[` + calls + `]}}]}`
	}
	const end = `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":5}}`
	const want = `[{"id":"a","name":"f","args":{"n":1}},{"id":"b","name":"g","args":{"n":2}}]`
	for name, data := range map[string][]string{
		"the same index": {
			chunk(`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"n\":1}"}}`), chunk(`{"index":0,"id":"b","function":{"name":"g","arguments":"{\"n\":"}}`),
			chunk(`{"index":0,"function":{"arguments":"2}"}}`),
		},
		"no index": {chunk(`{"id":"a","function":{"name":"f","arguments":"{\"n\":1}"}},{"id":"b","function":{"name":"g","arguments":"{\"n\":2}"}}`)},
		"the id again": {
			chunk(`{"index":0,"id":"a","function":{"name":"f","arguments":""}},{"index":1,"id":"b","function":{"name":"g","arguments":""}}`),
			chunk(`{"index":1,"id":"b","function":{"name":"g","arguments":"{\"n\":2}"}}`), chunk(`{"index":0,"id":"a","function":{"arguments":"{\"n\":1}"}}`),
		},
		"mixed": {
			chunk(`{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}`), chunk(`{"index":1,"id":"b","function":{"name":"g","arguments":"{\"n\""}}`),
			chunk(`{"index":0,"function":{"arguments":"\"n\":1}"}}`), chunk(`{"index":1,"function":{"arguments":":2}"}}`),
		},
	} {
		c := &llmtest.Canned{Kind: stream, Body: llmtest.Events(append(data, end, "[DONE]")...)}
		a, e := complete(t, c, chat(t, c, openai.OpenAI), llmtest.User("hi"))
		if e != nil {
			t.Errorf("%s: %v", name, e)
			continue
		}
		if got, _ := json.Marshal(a.Calls()); string(got) != want || a.Stop != llm.StopToolCalls {
			t.Errorf("%s: %s, %s", name, got, a.Stop)
		}
	}
	c := &llmtest.Canned{Kind: stream, Body: llmtest.Events(chunk(`{"function":{"name":"f","arguments":"{}"}},{"function":{"name":"g","arguments":"{}"}}`), end, "[DONE]")}
	a, e := complete(t, c, chat(t, c, openai.OpenAI), llmtest.User("hi"))
	if e != nil || len(a.Calls()) != 2 || a.Calls()[0].ID == a.Calls()[1].ID || a.Calls()[0].ID == "" {
		t.Errorf("neither index nor id: %+v, %v", a, e)
	}
}

// TestTooManyCalls: what no model says is no answer, and takes no time.
func TestTooManyCalls(t *testing.T) {
	var calls []string
	for i := range 50_000 {
		calls = append(calls, fmt.Sprintf(`{"index":%d,"id":"c%d","function":{"name":"f","arguments":"{}"}}`, i, i))
	}
	c := &llmtest.Canned{Kind: stream, Body: llmtest.Events(`{"id":"x","model":"m","choices":[{"index":0,"delta":{"tool_calls":[`+strings.Join(calls, ",")+`]}}]}`, "[DONE]")}
	if _, e := complete(t, c, chat(t, c, openai.OpenAI), llmtest.User("hi")); e == nil || e.Kind != llm.Malformed || !strings.Contains(e.Message, "more than 1000 calls") {
		t.Errorf("%v", e)
	}
}

// TestFieldsComeBack: what a server says of a call or a text besides goes back with it, to the same dialect only.
func TestFieldsComeBack(t *testing.T) {
	const signature = `"extra_content":{"google":{"thought_signature":"AbC\/=="}}`
	c := &llmtest.Canned{Kind: stream, Body: llmtest.Events(
		`{"id":"x","model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"},`+signature+`}]}}]}`,
		`{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`, "[DONE]")}
	p := chat(t, c, openai.OpenAI)
	r := llmtest.User("hi")
	a, e := complete(t, c, p, r)
	if e != nil {
		t.Fatal(e)
	}
	r.Messages = append(r.Messages, a.Message)
	if _, e := complete(t, c, p, r); e != nil || !strings.Contains(c.GotBody, `{"id":"a","type":"function","function":{"name":"f","arguments":"{}"},`+signature+`}`) {
		t.Errorf("%v: %s", e, c.GotBody)
	}
	const phase = `{"type":"message","id":"msg","role":"assistant","status":"completed","phase":"commentary","content":[{"type":"output_text","text":"I look."}]}`
	const call = `{"type":"function_call","id":"fc","call_id":"a","name":"f","namespace":"crm","arguments":"{}"}`
	c = &llmtest.Canned{Body: `{"id":"x","model":"m","status":"completed","output":[` + phase + `,` + call + `]}`}
	again := r
	r = llmtest.User("hi")
	p = responses(t, c)
	if a, e = complete(t, c, p, r); e != nil {
		t.Fatal(e)
	}
	r.Messages = append(r.Messages, a.Message)
	const want = `{"role":"assistant","content":"I look.","phase":"commentary"},{"type":"function_call","call_id":"a","name":"f","arguments":"{}","namespace":"crm"}`
	if _, e := complete(t, c, p, r); e != nil || !strings.Contains(c.GotBody, want) {
		t.Errorf("%v: %s", e, c.GotBody)
	}
	if _, e := complete(t, c, p, again); e != nil || strings.Contains(c.GotBody, "google") {
		t.Errorf("the fields of another dialect: %v, %s", e, c.GotBody)
	}
}

// TestReasoningDetails: the bits of OpenRouter's blocks of reasoning are put together, and go back.
func TestReasoningDetails(t *testing.T) {
	bit := func(detail string) string {
		return `{"id":"x","model":"m","choices":[{"index":0,"delta":{"reasoning_details":[` + detail + `]}}]}`
	}
	c := &llmtest.Canned{Kind: stream, Body: llmtest.Events(
		bit(`{"type":"reasoning.text","text":"one \ud83d","index":0,"signature":null}`), bit(`{"type":"reasoning.text","text":"\ude00","index":0}`),
		bit(`{"type":"reasoning.text","index":0,"signature":"S\/"}`), bit(`{"type":"reasoning.encrypted","data":"D","index":1}`),
		`{"choices":[{"index":0,"delta":{"content":"ok"},"finish_reason":"stop"}]}`, "[DONE]")}
	p := chat(t, c, openai.OpenRouter)
	r := llmtest.User("hi")
	a, e := complete(t, c, p, r)
	if e != nil {
		t.Fatal(e)
	}
	r.Messages = append(r.Messages, a.Message)
	const want = `{"role":"assistant","reasoning_details":[{"type":"reasoning.text","text":"one \ud83d\ude00","index":0,"signature":"S\/"},{"type":"reasoning.encrypted","data":"D","index":1}],"content":"ok"}`
	if _, e := complete(t, c, p, r); e != nil || !strings.Contains(c.GotBody, want) {
		t.Errorf("%v: %s", e, c.GotBody)
	}
}

// TestUsageOfOthers: what other servers call the classes.
func TestUsageOfOthers(t *testing.T) {
	for raw, want := range map[string]llm.Usage{
		`{"prompt_tokens":100,"completion_tokens":10,"total_tokens":160,"completion_tokens_details":{"reasoning_tokens":50}}`: {Input: 100, Output: 10, Reasoning: 50},
		`{"prompt_tokens":100,"completion_tokens":60,"total_tokens":160,"completion_tokens_details":{"reasoning_tokens":50}}`: {Input: 100, Output: 10, Reasoning: 50},
		`{"prompt_tokens":100,"completion_tokens":10,"prompt_cache_hit_tokens":64,"prompt_cache_miss_tokens":36}`:             {Input: 36, CacheRead: 64, Output: 10},
		`{"prompt_tokens":100,"completion_tokens":10,"prompt_tokens_details":null,"completion_tokens_details":null}`:          {Input: 100, Output: 10},
		`{"prompt_tokens":100,"completion_tokens":10,"prompt_tokens_details":{"cached_tokens":500}}`:                          {CacheRead: 100, Output: 10},
		`{"prompt_tokens":100,"completion_tokens":10,"input_tokens":100,"output_tokens":10}`:                                  {Input: 100, Output: 10},
	} {
		c := &llmtest.Canned{Body: strings.Replace(whole, `{"prompt_tokens":1,"completion_tokens":1}`, raw, 1)}
		a, e := complete(t, c, chat(t, c, openai.OpenAI), llmtest.User("hi"))
		if e != nil {
			t.Fatal(e)
		}
		if string(a.Usage.Raw) != raw {
			t.Errorf("%s became %s", raw, a.Usage.Raw)
		}
		a.Usage.Raw = nil
		if got, _ := json.Marshal(a.Usage); string(got) != string(must(json.Marshal(want))) {
			t.Errorf("%s: %s", raw, got)
		}
	}
}

func must(raw []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return raw
}

func TestRefusals(t *testing.T) {
	for name, c := range map[string]*llmtest.Canned{
		"chat":      {Body: `{"id":"x","model":"m","choices":[{"index":0,"message":{"content":null,"refusal":"I will not."},"finish_reason":"stop"}]}`},
		"in bits":   {Kind: stream, Body: llmtest.Events(`{"choices":[{"index":0,"delta":{"refusal":"I will"}}]}`, `{"choices":[{"index":0,"delta":{"refusal":" not."},"finish_reason":"stop"}]}`, "[DONE]")},
		"responses": {Body: `{"id":"x","status":"completed","output":[{"type":"message","content":[{"type":"refusal","refusal":"I will not."}]}]}`},
	} {
		p := chat(t, c, openai.OpenAI)
		if name == "responses" {
			p = responses(t, c)
		}
		if a, e := complete(t, c, p, llmtest.User("hi")); e != nil || a.Stop != llm.StopRefusal || a.Text() != "I will not." {
			t.Errorf("%s: %+v, %v", name, a, e)
		}
	}
}

// TestFailuresInAnAnswer: servers that have begun say of a failure in the body, whatever the status.
func TestFailuresInAnAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		canned    *llmtest.Canned
		responses bool
		kind      llm.Kind
		code      string
	}{
		"OpenRouter":     {&llmtest.Canned{Body: `{"error":{"code":429,"message":"slow"}}`}, false, llm.RateLimited, ""},
		"in bits":        {&llmtest.Canned{Kind: stream, Body: llmtest.Events(`{"id":"x","choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}],"error":{"code":502,"message":"down"}}`)}, false, llm.Server, ""},
		"vLLM":           {&llmtest.Canned{Kind: stream, Body: llmtest.Events(`{"object":"error","message":"This model's maximum context length is 10","type":"BadRequestError","code":400}`)}, false, llm.TooLong, "BadRequestError"},
		"by its event":   {&llmtest.Canned{Kind: stream, Body: "event: error\ndata: {\"message\":\"no\",\"code\":\"server_error\"}\n\n"}, false, llm.Server, "server_error"},
		"a failed one":   {&llmtest.Canned{Body: `{"id":"x","status":"failed","error":{"code":"rate_limit_exceeded","message":"m"},"output":[]}`}, true, llm.RateLimited, "rate_limit_exceeded"},
		"failed in bits": {&llmtest.Canned{Kind: stream, Body: llmtest.Events(`{"type":"response.failed","response":{"id":"x","status":"failed","error":{"code":"server_error","message":"m"},"output":[]}}`)}, true, llm.Server, "server_error"},
		"invalid prompt": {&llmtest.Canned{Body: `{"id":"x","status":"failed","error":{"code":"invalid_prompt","message":"m"},"output":[]}`}, true, llm.Filtered, "invalid_prompt"},
		"canceled there": {&llmtest.Canned{Body: `{"id":"x","status":"cancelled","error":null,"output":[]}`}, true, llm.Server, "cancelled"},
	} {
		p := chat(t, c.canned, openai.OpenAI)
		if c.responses {
			p = responses(t, c.canned)
		}
		if _, e := complete(t, c.canned, p, llmtest.User("hi")); e == nil || e.Kind != c.kind || e.Code != c.code || !e.Sent {
			t.Errorf("%s: %+v", name, e)
		}
	}
	c := &llmtest.Canned{Status: http.StatusPaymentRequired, Header: http.Header{"Retry-After": {"5"}}, Body: `{"error":{"code":402,"message":"in flight budget"}}`}
	if _, e := complete(t, c, chat(t, c, openai.OpenRouter), llmtest.User("hi")); e == nil || e.Kind != llm.RateLimited || e.RetryAfter != 5*time.Second {
		t.Errorf("a budget that is under way: %+v", e)
	}
}

// TestItemsWithoutBits: a server that writes items in one piece has told all of them in the end.
func TestItemsWithoutBits(t *testing.T) {
	const text, call = `{"type":"message","content":[{"type":"output_text","text":"héllo"}]}`, `{"type":"function_call","call_id":"a","name":"f","arguments":"{\"n\":1}"}`
	c := &llmtest.Canned{Kind: stream, Body: llmtest.Events(
		`{"type":"response.output_item.done","output_index":0,"item":`+text+`}`, `{"type":"response.output_item.done","output_index":1,"item":`+call+`}`,
		`{"type":"response.unheard_of","x":1}`, `{"type":"response.completed","response":{"id":"x","model":"m","status":"completed","output":[]}}`)}
	var told, args string
	a, err := responses(t, c).Complete(t.Context(), llmtest.User("hi"), llm.Watch{Delta: func(d llm.Delta) error {
		told += d.Text
		if d.Call != nil {
			args += d.Call.Args
		}
		return nil
	}})
	if err != nil || a.Text() != "héllo" || told != "héllo" || args != `{"n":1}` || len(a.Calls()) != 1 || a.Stop != llm.StopToolCalls {
		t.Errorf("%+v, %v, %q, %q", a, err, told, args)
	}
}

// TestOneLimit: OpenRouter has one limit, and says its end in milliseconds since 1970.
func TestOneLimit(t *testing.T) {
	c := &llmtest.Canned{Body: whole, Header: http.Header{
		"X-Ratelimit-Limit": {"20"}, "X-Ratelimit-Remaining": {"3"}, "X-Ratelimit-Reset": {"1767225660000"}, "Date": {"Thu, 01 Jan 2026 00:00:30 GMT"},
	}}
	var limits []llm.Limit
	if _, err := chat(t, c, openai.OpenRouter).Complete(t.Context(), llmtest.User("hi"), llm.Watch{Head: func(h llm.Head) { limits = h.Limits }}); err != nil {
		t.Fatal(err)
	}
	if want := (llm.Limit{What: llm.LimitRequests, Limit: 20, Remaining: 3, Reset: 30 * time.Second}); len(limits) != 1 || limits[0] != want {
		t.Errorf("%+v", limits)
	}
}

// TestOfficial: OpenAI's own host gets the newest name of the cap, another the one that all know.
func TestOfficial(t *testing.T) {
	for base, want := range map[string]bool{"": true, "https://eu.api.openai.com/v1": true, "https://notopenai.com/v1": false, "http://localhost:8000/v1": false} {
		p, err := openai.New(llm.Options{BaseURL: base}, openai.OpenAI)
		if err != nil || p.Traits().OutputPrecharged != want {
			t.Errorf("%q: %+v, %v", base, p.Traits(), err)
		}
	}
}

// TestCallsOfAWholeAnswer: two calls that have one id are two.
func TestCallsOfAWholeAnswer(t *testing.T) {
	c := &llmtest.Canned{Kind: "application/json", Body: `{"id":"x","model":"m","choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant","tool_calls":[` +
		`{"id":"same","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},{"id":"same","type":"function","function":{"name":"g","arguments":"{\"b\":2}"}}]}}]}`}
	a, err := chat(t, c, openai.OpenAI).Complete(t.Context(), llmtest.User("hi"), llm.Watch{})
	if err != nil {
		t.Fatal(err)
	}
	calls := a.Calls()
	if len(calls) != 2 || calls[0].ID != "same" || calls[0].Name != "f" || string(calls[0].Args) != `{"a":1}` || calls[1].ID != "call_1" || calls[1].Name != "g" || string(calls[1].Args) != `{"b":2}` {
		t.Errorf("%+v", calls)
	}
}
