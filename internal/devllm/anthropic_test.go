package devllm

import (
	"strings"
	"testing"
	"time"
)

func claudeOf(text string, more ...any) map[string]any {
	m := chatOf("claude-dev", text, "max_tokens", 1000)
	for i := 0; i < len(more); i += 2 {
		m[more[i].(string)] = more[i+1]
	}
	return m
}

func TestMessagesWhole(t *testing.T) {
	r := newRig(t, "anthropic", nil)
	g := r.post("/v1/messages", claudeOf("Hello there", "max_tokens", 500), "x-api-key", "key-1")
	v := g.json(t)
	if g.status != 200 || dig(v, "type") != "message" || dig(v, "stop_reason") != "end_turn" || dig(v, "content", 0, "type") != "text" || dig(v, "usage", "output_tokens") != 32.0 {
		t.Errorf("%d %s", g.status, g.body)
	}
	for name, want := range map[string]string{"requests-limit": "50", "requests-remaining": "49", "input-tokens-limit": "30000", "input-tokens-remaining": "30000",
		"output-tokens-limit": "8000", "output-tokens-remaining": "8000", "tokens-limit": "38000", "output-tokens-reset": "2026-12-01T10:00:01Z"} {
		if got := g.header.Get("anthropic-ratelimit-" + name); got != want {
			t.Errorf("%s: %q, not %q", name, got, want)
		}
	}
	if g.header.Get("request-id") == "" {
		t.Error("no request-id")
	}
	if e := r.logged(1)[0]; e.Charged.Output != 32 || float64(e.Charged.Input) != dig(v, "usage", "input_tokens") {
		t.Errorf("what was taken in advance does not come back: %+v", e)
	}
}

func TestMessagesStream(t *testing.T) {
	r := newRig(t, "anthropic", func(o *Options) { o.Script = script(t, threeCalls); o.Reasoning = 8 })
	thinking := map[string]any{"type": "enabled", "budget_tokens": 1024}
	names := func(list []event) string {
		var out []string
		for _, e := range list {
			if len(out) == 0 || out[len(out)-1] != e.name {
				out = append(out, e.name)
			}
		}
		return strings.Join(out, " ")
	}
	list := events(r.post("/v1/messages", claudeOf("Hello", "stream", true, "thinking", thinking)).body)
	if got := names(list); got != "message_start content_block_start ping content_block_delta content_block_stop content_block_start content_block_delta content_block_stop message_delta message_stop" {
		t.Errorf("%s", got)
	}
	for _, e := range list {
		if e.json(t)["type"] != e.name {
			t.Errorf("%+v", e)
		}
	}
	if got := dig(list[len(list)-2].json(t), "usage", "output_tokens"); got != 40.0 {
		t.Errorf("%v tokens in the end", got)
	}
	args, calls := map[float64]string{}, map[float64]any{}
	for _, e := range events(r.post("/v1/messages", claudeOf("three", "stream", true)).body) {
		v := e.json(t)
		switch {
		case dig(v, "content_block", "type") == "tool_use":
			calls[v["index"].(float64)] = dig(v, "content_block", "name")
		case dig(v, "delta", "type") == "input_json_delta":
			args[v["index"].(float64)] += dig(v, "delta", "partial_json").(string)
		case e.name == "message_delta" && dig(v, "delta", "stop_reason") != "tool_use":
			t.Errorf("%v", v)
		}
	}
	if len(calls) != 3 || args[1] != `{"city":"Berlin","days":1}` || args[2] != `{"city":"Paris"}` || calls[3] != "clock" {
		t.Errorf("%v %v", calls, args)
	}
}

// Reasoning comes back as it was, or the request is refused.
func TestThinkingIsSealed(t *testing.T) {
	r := newRig(t, "anthropic", func(o *Options) { o.Reasoning = 8 })
	v := r.post("/v1/messages", claudeOf("Hello", "thinking", map[string]any{"type": "adaptive"})).json(t)
	block := dig(v, "content", 0).(map[string]any)
	if block["type"] != "thinking" || dig(v, "usage", "output_tokens_details", "thinking_tokens") != 8.0 {
		t.Fatalf("%v", v)
	}
	again := func() got {
		return r.post("/v1/messages", claudeOf("x", "messages", []any{map[string]any{"role": "user", "content": "Hello"},
			map[string]any{"role": "assistant", "content": []any{block, dig(v, "content", 1)}}, map[string]any{"role": "user", "content": "more"}}))
	}
	if g := again(); g.status != 200 {
		t.Errorf("%d %s", g.status, g.body)
	}
	block["thinking"] = block["thinking"].(string) + " "
	if g := again(); g.status != 400 || !strings.Contains(g.body, "Invalid `signature`") {
		t.Errorf("%d %s", g.status, g.body)
	}
}

func TestMessagesRefuseWhatAnthropicRefuses(t *testing.T) {
	r := newRig(t, "anthropic", func(o *Options) { o.Profile.Limits = Limits{} })
	user := func(content any) any { return map[string]any{"role": "user", "content": content} }
	use := map[string]any{"role": "assistant", "content": []any{map[string]any{"type": "tool_use", "id": "toolu_1", "name": "f", "input": map[string]any{}}}}
	result := func(id string) any {
		return user([]any{map[string]any{"type": "tool_result", "tool_use_id": id, "content": "42"}})
	}
	marked := map[string]any{"type": "text", "text": "x", "cache_control": map[string]any{"type": "ephemeral"}}
	long := map[string]any{"type": "text", "text": "x", "cache_control": map[string]any{"type": "ephemeral", "ttl": "1h"}}
	for _, c := range []struct {
		name   string
		body   map[string]any
		status int
		says   string
	}{
		{"no max_tokens", chatOf("claude-dev", "x"), 400, "max_tokens: Field required"},
		{"max_tokens 0", claudeOf("x", "max_tokens", 0), 400, "greater than or equal to 1"},
		{"max_tokens too large", claudeOf("x", "max_tokens", 64_001), 400, "max_tokens: 64001 > 64000"},
		{"an unknown model", claudeOf("x", "model", "claude-none"), 404, "not_found_error"},
		{"too long", claudeOf(words(200_001)), 400, "prompt is too long: 200004 tokens > 200000 maximum"},
		{"a role", claudeOf("x", "messages", []any{map[string]any{"role": "system", "content": "x"}}), 400, "invalid_request_error"},
		{"no result", claudeOf("x", "messages", []any{user("x"), use, user("y")}), 400, "without `tool_result` blocks"},
		{"another's result", claudeOf("x", "messages", []any{user("x"), use, result("toolu_2")}), 400, "unexpected `tool_use_id`"},
		{"five breakpoints", claudeOf("x", "system", []any{marked, marked, marked, marked, marked}), 400, "maximum of 4"},
		{"an hour behind five minutes", claudeOf("x", "system", []any{marked, long}), 400, "ttl='1h'"},
		{"all is well", claudeOf("x", "messages", []any{user("x"), use, result("toolu_1")}, "system", []any{long, marked}), 200, "42"},
	} {
		if g := r.post("/v1/messages", c.body); g.status != c.status || !strings.Contains(g.body, c.says) || c.status != 200 && dig(g.json(t), "type") != "error" {
			t.Errorf("%s: %d %.300s", c.name, g.status, g.body)
		}
	}
	if g := r.post("/v1/messages", claudeOf("x"), "Authorization", ""); g.status != 401 || dig(g.json(t), "error", "type") != "authentication_error" {
		t.Errorf("%d %s", g.status, g.body)
	}
}

// Where the window ends before max_tokens, the answer does.
func TestTheWindowIsFull(t *testing.T) {
	r := newRig(t, "anthropic", func(o *Options) { o.Profile.Limits = Limits{}; o.EchoTokens = 100 })
	v := r.post("/v1/messages", claudeOf(words(199_950))).json(t)
	if dig(v, "stop_reason") != "model_context_window_exceeded" || dig(v, "usage", "output_tokens") != 47.0 {
		t.Errorf("%v %v", dig(v, "stop_reason"), dig(v, "usage"))
	}
}

func TestCountingIsWhatIsBilled(t *testing.T) {
	r := newRig(t, "anthropic", func(o *Options) { o.Profile.Limits = Limits{Requests: 1} })
	body := claudeOf("Count these words.", "system", "Be brief.")
	billed := dig(r.post("/v1/messages", body).json(t), "usage", "input_tokens")
	delete(body, "max_tokens")
	if g := r.post("/v1/messages/count_tokens", body); g.status != 200 || dig(g.json(t), "input_tokens") != billed {
		t.Errorf("%s, and %v are billed", g.body, billed)
	}
	o := newRig(t, "openai", nil)
	ask := map[string]any{"model": "gpt-dev", "instructions": "Be brief.", "input": "Count these words."}
	counted := o.post("/v1/responses/input_tokens", ask).json(t)
	if got := dig(o.post("/v1/responses", ask).json(t), "usage", "input_tokens"); got != counted["input_tokens"] || counted["object"] != "response.input_tokens" {
		t.Errorf("%v, and %v are billed", counted, got)
	}
}

// Anthropic's cache: written at a breakpoint, read by whoever has the same prefix, for five minutes or an hour from its
// last use, and free of the input limit.
func TestAnthropicCache(t *testing.T) {
	r := newRig(t, "anthropic", nil)
	ask := func(ttl, system, user string) map[string]any {
		t.Helper()
		g := r.post("/v1/messages", claudeOf(user, "system", []any{map[string]any{"type": "text", "text": system, "cache_control": map[string]any{"type": "ephemeral", "ttl": ttl}}}))
		if g.status != 200 {
			t.Fatalf("%d %s", g.status, g.body)
		}
		return dig(g.json(t), "usage").(map[string]any)
	}
	want := func(u map[string]any, uncached, write5, write1, read float64) {
		t.Helper()
		if u["input_tokens"] != uncached || dig(u, "cache_creation", "ephemeral_5m_input_tokens") != write5 || dig(u, "cache_creation", "ephemeral_1h_input_tokens") != write1 ||
			u["cache_read_input_tokens"] != read || u["cache_creation_input_tokens"] != write5+write1 {
			t.Errorf("%v, not %v %v %v %v", u, uncached, write5, write1, read)
		}
	}
	long := words(2000)
	want(ask("5m", words(100), "hi"), 107, 0, 0, 0) // below the minimum
	want(ask("5m", long, "hi"), 4, 2003, 0, 0)
	want(ask("5m", long, "other"), 5, 0, 0, 2003)
	before := r.Totals(Filter{}).Charged.Input
	r.clock.Advance(4 * time.Minute)
	want(ask("5m", long, "hi"), 4, 0, 0, 2003)
	if got := r.Totals(Filter{}).Charged.Input - before; got > 10 {
		t.Errorf("%d tokens were charged for a prompt that was cached", got)
	}
	r.clock.Advance(4 * time.Minute) // from its last use
	want(ask("5m", long, "hi"), 4, 0, 0, 2003)
	r.clock.Advance(5 * time.Minute)
	want(ask("1h", long, "hi"), 4, 0, 2003, 0)
	r.clock.Advance(59 * time.Minute)
	want(ask("1h", long, "hi"), 4, 0, 0, 2003)
	want(ask("1h", "else"+long[4:], "hi"), 4, 0, 2003, 0)
}

// A conversation that grows reads what it wrote, and writes what is new.
func TestAnthropicCacheOfAConversation(t *testing.T) {
	r := newRig(t, "anthropic", nil)
	var msgs []any
	read, written := 0.0, 0.0
	for i := range 4 {
		msgs = append(msgs, map[string]any{"role": "user", "content": words(1200 + i)})
		u := dig(r.post("/v1/messages", claudeOf("", "messages", msgs, "cache_control", map[string]any{"type": "ephemeral"})).json(t), "usage").(map[string]any)
		if u["cache_read_input_tokens"] != written || u["input_tokens"] != 0.0 {
			t.Errorf("turn %d: %v, and %v was written", i, u, written)
		}
		written += u["cache_creation_input_tokens"].(float64)
		read += u["cache_read_input_tokens"].(float64)
		msgs = append(msgs, map[string]any{"role": "assistant", "content": "ok"})
	}
	if read == 0 {
		t.Error("nothing was read")
	}
}

func TestOpenAICache(t *testing.T) {
	r := newRig(t, "openai", nil)
	cached := func(model, text string) [2]any {
		u := dig(r.post("/v1/chat/completions", chatOf(model, text)).json(t), "usage", "prompt_tokens_details")
		return [2]any{dig(u, "cached_tokens"), dig(u, "cache_write_tokens")}
	}
	for i, c := range []struct {
		model string
		text  string
		want  [2]any
		wait  time.Duration
	}{
		{"gpt-dev", words(1000), [2]any{0.0, nil}, 0},
		{"gpt-dev", words(1000), [2]any{0.0, nil}, 0}, // too short
		{"gpt-dev", words(1500), [2]any{0.0, nil}, 0},
		{"gpt-dev", words(1500), [2]any{1408.0, nil}, 0},
		{"gpt-dev", words(1200) + " other " + words(300), [2]any{1152.0, nil}, 0},
		{"gpt-dev-mini", words(1500), [2]any{0.0, nil}, 0},
		{"gpt-dev", words(1500), [2]any{0.0, nil}, 10 * time.Minute},
		{"gpt-dev-next", words(1500), [2]any{0.0, 1408.0}, 0},
		{"gpt-dev-next", words(1600), [2]any{1408.0, 128.0}, 0},
	} {
		r.clock.Advance(c.wait)
		if got := cached(c.model, c.text); got != c.want {
			t.Errorf("%d: %v, not %v", i, got, c.want)
		}
	}
	if g := r.post("/v1/chat/completions", chatOf("gpt-dev", words(1500)), "Authorization", "Bearer key-2"); dig(g.json(t), "usage", "prompt_tokens_details", "cached_tokens") != 0.0 {
		t.Error("another key reads this one's cache")
	}
}
