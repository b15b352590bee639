package devllm

import (
	"encoding/json"
	"strings"
	"testing"
)

const threeCalls = `
rules:
  - when: {user: three, turn: 1}
    answer:
      text: I ask.
      calls:
        - {name: weather, arguments: {city: Berlin, days: 1}}
        - {name: weather, arguments: {city: Paris}}
        - {name: clock, raw: '{"zone":"UTC"}'}
`

func TestChatWhole(t *testing.T) {
	r := newRig(t, "openai", nil)
	g := r.post("/v1/chat/completions", chatOf("gpt-dev", "Hello there", "max_tokens", 100))
	v := g.json(t)
	text, _ := dig(v, "choices", 0, "message", "content").(string)
	if g.status != 200 || r.tokens.count(text) != 32 || !strings.HasPrefix(text, "Hello there Hello") || dig(v, "choices", 0, "finish_reason") != "stop" || dig(v, "object") != "chat.completion" {
		t.Errorf("%d %s", g.status, g.body)
	}
	if dig(v, "usage", "prompt_tokens") != 5.0 || dig(v, "usage", "completion_tokens") != 32.0 || dig(v, "usage", "total_tokens") != 37.0 {
		t.Errorf("%v", dig(v, "usage"))
	}
	for name, want := range map[string]string{"x-ratelimit-limit-requests": "500", "x-ratelimit-remaining-requests": "499", "x-ratelimit-reset-requests": "120ms",
		"x-ratelimit-limit-tokens": "200000", "x-ratelimit-remaining-tokens": "199895", "x-ratelimit-reset-tokens": "32ms"} {
		if got := g.header.Get(name); got != want {
			t.Errorf("%s: %q, not %q", name, got, want)
		}
	}
	e := r.logged(1)[0]
	if e.Status != 200 || e.Tokens != (Tokens{Uncached: 5, Output: 32}) || e.Charged != (Charged{1, 5, 100, 105}) || e.Nanos != 5*2500+32*10_000 || e.Key != Fingerprint("key-1") || strings.Contains(e.Key, "key-1") {
		t.Errorf("%+v", e)
	}
}

// A stream has the role, the text, the end, and the usage in a chunk without choices, if it was asked for.
func TestChatStream(t *testing.T) {
	r := newRig(t, "openai", nil)
	for _, usage := range []bool{true, false} {
		g := r.post("/v1/chat/completions", chatOf("gpt-dev", "Hello", "stream", true, "stream_options", map[string]any{"include_usage": usage}))
		if !strings.HasPrefix(g.header.Get("Content-Type"), "text/event-stream") {
			t.Errorf("%v", g.header)
		}
		list := events(g.body)
		if list[len(list)-1].data != "[DONE]" {
			t.Fatalf("%s", g.body)
		}
		list = list[:len(list)-1]
		text, finish, usages := "", any(nil), 0
		for i, e := range list {
			v := e.json(t)
			if e.name != "" || dig(v, "object") != "chat.completion.chunk" {
				t.Errorf("%+v", e)
			}
			if i == 0 && dig(v, "choices", 0, "delta", "role") != "assistant" {
				t.Errorf("%+v", e)
			}
			if piece, ok := dig(v, "choices", 0, "delta", "content").(string); ok {
				text += piece
			}
			if f := dig(v, "choices", 0, "finish_reason"); f != nil {
				finish = f
			}
			if u := dig(v, "usage"); u != nil {
				usages++
				if i != len(list)-1 || len(dig(v, "choices").([]any)) != 0 || dig(u, "completion_tokens") != 32.0 {
					t.Errorf("%+v", e)
				}
			}
		}
		if r.tokens.count(text) != 32 || finish != "stop" || usages != map[bool]int{true: 1}[usage] {
			t.Errorf("%q, %v, %d usages", text, finish, usages)
		}
	}
}

func TestChatParallelCalls(t *testing.T) {
	r := newRig(t, "openai", func(o *Options) { o.Script = script(t, threeCalls); o.Chunk = 1 })
	tools := []any{map[string]any{"type": "function", "function": map[string]any{"name": "weather"}}}
	whole := r.post("/v1/chat/completions", chatOf("gpt-dev", "three", "tools", tools)).json(t)
	if dig(whole, "choices", 0, "finish_reason") != "tool_calls" || dig(whole, "choices", 0, "message", "tool_calls", 2, "function", "arguments") != `{"zone":"UTC"}` {
		t.Errorf("%v", whole)
	}
	type made struct{ id, name, args string }
	calls := map[float64]*made{}
	order := []float64{}
	list := events(r.post("/v1/chat/completions", chatOf("gpt-dev", "three", "stream", true)).body)
	for _, e := range list[:len(list)-1] {
		c := dig(e.json(t), "choices", 0, "delta", "tool_calls", 0)
		if c == nil {
			continue
		}
		i := dig(c, "index").(float64)
		if calls[i] == nil {
			calls[i] = &made{dig(c, "id").(string), dig(c, "function", "name").(string), ""}
			order = append(order, i)
		} else if dig(c, "id") != nil {
			t.Errorf("the id is told twice: %v", c)
		}
		calls[i].args += dig(c, "function", "arguments").(string)
	}
	if len(order) != 3 || calls[0].args != `{"city":"Berlin","days":1}` || calls[1].args != `{"city":"Paris"}` || calls[2].name != "clock" || calls[0].id == calls[1].id {
		t.Errorf("%v %v", order, calls)
	}
	one := r.post("/v1/chat/completions", chatOf("gpt-dev", "three", "parallel_tool_calls", false)).json(t)
	if n := len(dig(one, "choices", 0, "message", "tool_calls").([]any)); n != 1 {
		t.Errorf("%d calls where one is allowed", n)
	}
}

// Without a script an answer fits the schema that is asked for, and a demanded call its tool's.
func TestChatFitsASchema(t *testing.T) {
	r := newRig(t, "openai", nil)
	schema := `{"type":"object","additionalProperties":false,"required":["name","tags","n"],"properties":{"name":{"type":"string"},"tags":{"type":"array","items":{"enum":["a","b"]},"minItems":2},"n":{"type":"integer","minimum":7}}}`
	format := map[string]any{"type": "json_schema", "json_schema": map[string]any{"name": "x", "strict": true, "schema": json.RawMessage(schema)}}
	v := r.post("/v1/chat/completions", chatOf("gpt-dev", "go", "response_format", format)).json(t)
	if got := dig(v, "choices", 0, "message", "content"); got != `{"n":7,"name":"text","tags":["a","a"]}` {
		t.Errorf("%v", got)
	}
	format["json_schema"].(map[string]any)["schema"] = json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"}}}`)
	if g := r.post("/v1/chat/completions", chatOf("gpt-dev", "go", "response_format", format)); g.status != 400 || !strings.Contains(g.body, "additionalProperties") {
		t.Errorf("an open schema is strict: %d %s", g.status, g.body)
	}
	tools := []any{map[string]any{"type": "function", "function": map[string]any{"name": "f", "parameters": json.RawMessage(schema)}}}
	v = r.post("/v1/chat/completions", chatOf("gpt-dev", "go", "tools", tools, "tool_choice", "required")).json(t)
	if got := dig(v, "choices", 0, "message", "tool_calls", 0, "function", "arguments"); got != `{"n":7,"name":"text","tags":["a","a"]}` {
		t.Errorf("%v", got)
	}
}

func TestChatRefusesWhatProvidersRefuse(t *testing.T) {
	r := newRig(t, "openai", func(o *Options) { o.Keys = []string{"key-1"} })
	user := map[string]any{"role": "user", "content": "x"}
	asked := map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{map[string]any{"id": "c1", "type": "function", "function": map[string]any{"name": "f", "arguments": "{}"}}}}
	result := map[string]any{"role": "tool", "tool_call_id": "c1", "content": "1"}
	for _, c := range []struct {
		name   string
		body   any
		status int
		code   any
	}{
		{"an unknown model", chatOf("gpt-none", "x"), 404, "model_not_found"},
		{"a model of vectors", chatOf("text-embedding-dev", "x"), 404, "model_not_found"},
		{"no messages", map[string]any{"model": "gpt-dev"}, 400, nil},
		{"too long", chatOf("gpt-dev", words(128_001)), 400, "context_length_exceeded"},
		{"too much asked for", chatOf("gpt-dev", "x", "max_tokens", 20_000), 400, nil},
		{"a role", map[string]any{"model": "gpt-dev", "messages": []any{map[string]any{"role": "robot", "content": "x"}}}, 400, nil},
		{"a call without result", map[string]any{"model": "gpt-dev", "messages": []any{user, asked, user}}, 400, nil},
		{"a result without call", map[string]any{"model": "gpt-dev", "messages": []any{user, result}}, 400, nil},
		{"a result twice", map[string]any{"model": "gpt-dev", "messages": []any{user, asked, result, result}}, 400, nil},
		{"all is well", map[string]any{"model": "gpt-dev", "messages": []any{user, asked, result}}, 200, nil},
	} {
		g := r.post("/v1/chat/completions", c.body)
		if g.status != c.status || dig(g.json(t), "error", "code") != c.code {
			t.Errorf("%s: %d %.300s", c.name, g.status, g.body)
		}
	}
	if g := r.post("/v1/chat/completions", chatOf("gpt-dev", "x"), "Authorization", "Bearer key-2"); g.status != 401 || dig(g.json(t), "error", "code") != "invalid_api_key" || strings.Contains(g.body, "key-2") {
		t.Errorf("a wrong key: %d %s", g.status, g.body)
	}
	if g := r.do("POST", "/v1/chat/completions", "{"); g.status != 400 {
		t.Errorf("half of a body: %d %s", g.status, g.body)
	}
	if g := r.post("/v1/messages", chatOf("gpt-dev", "x")); g.status != 404 || !strings.Contains(g.body, "the profile openai does not have it") {
		t.Errorf("another provider's path: %d %s", g.status, g.body)
	}
}

func TestAnswersAreCut(t *testing.T) {
	r := newRig(t, "openai", func(o *Options) { o.Reasoning = 4 })
	v := r.post("/v1/chat/completions", chatOf("gpt-dev", "Hello", "max_completion_tokens", 10)).json(t)
	if dig(v, "choices", 0, "finish_reason") != "length" || dig(v, "usage", "completion_tokens") != 10.0 || dig(v, "usage", "completion_tokens_details", "reasoning_tokens") != 4.0 {
		t.Errorf("%v", v)
	}
	if got := r.tokens.count(dig(v, "choices", 0, "message", "content").(string)); got != 6 {
		t.Errorf("%d tokens of text", got)
	}
}

func TestAzure(t *testing.T) {
	r := newRig(t, "azure", nil)
	path := "/openai/deployments/gpt-dev/chat/completions"
	if g := r.post(path, chatOf("", "x"), "api-key", "key-1"); g.status != 404 {
		t.Errorf("no api-version: %d %s", g.status, g.body)
	}
	body := chatOf("", "0123456789", "stream", true, "max_tokens", 10)
	delete(body, "model")
	g := r.post(path+"?api-version=2026-01-01", body, "api-key", "key-9", "Authorization", "")
	first := events(g.body)[0].json(t)
	if g.status != 200 || len(dig(first, "choices").([]any)) != 0 || dig(first, "prompt_filter_results") == nil {
		t.Errorf("%d %s", g.status, g.body)
	}
	if g.header.Get("x-ratelimit-limit-tokens") != "" || g.header.Get("x-ratelimit-remaining-tokens") == "" {
		t.Errorf("%v", g.header)
	}
	e := r.logged(2)[1]
	if e.Key != Fingerprint("key-9") || e.Charged != (Charged{1, 3, 10, 13}) || e.Tokens.Input() != 7 {
		t.Errorf("ten characters are three tokens to its limits, and more to its bills: %+v", e)
	}
}

func TestEmbeddings(t *testing.T) {
	r := newRig(t, "openai", nil)
	v := r.post("/v1/embeddings", map[string]any{"model": "text-embedding-dev", "input": []any{"a red fox", "a red fox", "entirely other words"}, "dimensions": 64}).json(t)
	vector := func(i int) (out []float64) {
		for _, x := range dig(v, "data", i, "embedding").([]any) {
			out = append(out, x.(float64))
		}
		return out
	}
	dot := func(a, b []float64) (sum float64) {
		for i := range a {
			sum += a[i] * b[i]
		}
		return sum
	}
	if len(vector(0)) != 64 || dot(vector(0), vector(1)) < 0.999 || dot(vector(0), vector(2)) > 0.5 || dig(v, "usage", "prompt_tokens") == 0.0 {
		t.Errorf("%v", v)
	}
	if g := r.post("/v1/embeddings", map[string]any{"model": "text-embedding-dev", "input": ""}); g.status != 200 {
		t.Errorf("%d %s", g.status, g.body)
	}
	if g := r.post("/v1/embeddings", map[string]any{"model": "text-embedding-dev", "input": []any{}}); g.status != 400 {
		t.Errorf("%d %s", g.status, g.body)
	}
	if g := r.post("/v1/embeddings", map[string]any{"model": "text-embedding-dev", "input": words(9000)}); g.status != 400 || dig(g.json(t), "error", "code") != "context_length_exceeded" {
		t.Errorf("%d %s", g.status, g.body)
	}
}

func TestModels(t *testing.T) {
	r := newRig(t, "openai", nil)
	if v := r.do("GET", "/v1/models", "").json(t); dig(v, "object") != "list" || dig(v, "data", 0, "id") != "gpt-dev" {
		t.Errorf("%v", v)
	}
	if g := r.do("GET", "/v1/models/none", ""); g.status != 404 {
		t.Errorf("%d %s", g.status, g.body)
	}
	r = newRig(t, "anthropic", nil)
	if v := r.do("GET", "/v1/models", "").json(t); dig(v, "has_more") != false || dig(v, "data", 0, "type") != "model" {
		t.Errorf("%v", v)
	}
}

// Events hide how long their texts are, unless a client asks for less.
func TestPadding(t *testing.T) {
	r := newRig(t, "openai", nil)
	for path, body := range map[string]map[string]any{"/v1/chat/completions": chatOf("gpt-dev", "x"), "/v1/responses": {"model": "gpt-dev", "input": "x"}} {
		body["stream"] = true
		if g := r.post(path, body); !strings.Contains(g.body, `"obfuscation":"`) {
			t.Errorf("%s: %s", path, g.body)
		}
		body["stream_options"] = map[string]any{"include_obfuscation": false}
		if g := r.post(path, body); g.status != 200 || strings.Contains(g.body, "obfuscation") {
			t.Errorf("%s: %d %s", path, g.status, g.body)
		}
	}
}

// In pieces or not, a stream has the same bytes.
func TestFragments(t *testing.T) {
	var texts []string
	for _, seed := range []uint64{0, 1, 2} {
		r := newRig(t, "openai", func(o *Options) { o.Fragment = seed })
		texts = append(texts, r.post("/v1/chat/completions", chatOf("gpt-dev", "Grüße 日本", "stream", true)).body)
	}
	if texts[0] == "" || texts[0] != texts[1] || texts[0] != texts[2] {
		t.Errorf("%q", texts)
	}
}

func TestErrorsInEachProvidersForm(t *testing.T) {
	for _, c := range []struct {
		profile, path, model string
		code                 any
	}{
		{"openai", "/v1/chat/completions", "none", "model_not_found"},
		{"azure", "/openai/deployments/none/chat/completions?api-version=1", "none", "DeploymentNotFound"},
		{"vllm", "/v1/chat/completions", "none", 404.0},
		{"openrouter", "/api/v1/chat/completions", "none", 404.0},
	} {
		r := newRig(t, c.profile, nil)
		if g := r.post(c.path, chatOf(c.model, "x")); g.status != 404 || dig(g.json(t), "error", "code") != c.code {
			t.Errorf("%s: %d %s", c.profile, g.status, g.body)
		}
	}
	r := newRig(t, "azure", func(o *Options) { o.Faults = []Fault{{Kind: "429", RetryAfter: Span(1500 * 1e6)}} })
	g := r.post("/openai/v1/chat/completions", chatOf("gpt-dev", "x"))
	if dig(g.json(t), "error", "code") != "429" || !strings.Contains(g.body, "Please retry after 2 seconds.") || g.header.Get("retry-after-ms") != "1500" {
		t.Errorf("%d %v %s", g.status, g.header, g.body)
	}
}
