package devllm

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestOllama(t *testing.T) {
	r := newRig(t, "ollama", func(o *Options) { o.Script = script(t, threeCalls) })
	g := r.post("/api/chat", chatOf("llama-dev:3b", "Hello"))
	if g.header.Get("Content-Type") != "application/x-ndjson" || g.header.Get("x-ratelimit-limit-requests") != "" {
		t.Errorf("%v", g.header)
	}
	text, lines := "", strings.Split(strings.TrimSpace(g.body), "\n")
	for i, line := range lines {
		var v map[string]any
		if err := json.Unmarshal([]byte(line), &v); err != nil || v["done"] != (i == len(lines)-1) {
			t.Errorf("%v: %s", err, line)
		}
		text += dig(v, "message", "content").(string)
		if v["done"] == true && (v["eval_count"] != 32.0 || v["prompt_eval_count"] != 4.0 || v["done_reason"] != "stop") {
			t.Errorf("%v", v)
		}
	}
	if r.tokens.count(text) != 32 {
		t.Errorf("%q", text)
	}
	v := r.post("/api/chat", chatOf("llama-dev:3b", "three", "stream", false)).json(t)
	if v["done"] != true || dig(v, "message", "tool_calls", 0, "function", "arguments", "city") != "Berlin" {
		t.Errorf("%v", v)
	}
	schema := map[string]any{"type": "object", "properties": map[string]any{"ok": map[string]any{"type": "boolean"}}}
	if v := r.post("/api/chat", chatOf("llama-dev:3b", "x", "stream", false, "format", schema)).json(t); dig(v, "message", "content") != `{"ok":true}` {
		t.Errorf("%v", v)
	}
	if g := r.post("/api/chat", chatOf("none", "x")); g.status != 404 || g.json(t)["error"] == nil {
		t.Errorf("%d %s", g.status, g.body)
	}
	if v := r.post("/api/embed", map[string]any{"model": "nomic-embed-dev", "input": []any{"a", "b"}}).json(t); len(dig(v, "embeddings", 1).([]any)) != 768 {
		t.Errorf("%v", v)
	}
	if v := r.do("GET", "/api/tags", "").json(t); dig(v, "models", 0, "name") != "llama-dev:3b" {
		t.Errorf("%v", v)
	}
}

// A prompt that is too long loses its oldest messages, and the answer knows nothing of them; the status is 200.
func TestOllamaCutsInSilence(t *testing.T) {
	r := newRig(t, "ollama", func(o *Options) {
		o.Script = script(t, "rules:\n  - {when: {anywhere: secret}, answer: {text: I saw it.}}\n  - {when: {system: brief}, answer: {text: \"What secret?\"}}\n")
	})
	msgs := []any{map[string]any{"role": "system", "content": "Be brief."}, map[string]any{"role": "user", "content": "The secret is 42."}}
	for range 3 {
		msgs = append(msgs, map[string]any{"role": "assistant", "content": words(500)}, map[string]any{"role": "user", "content": words(500)})
	}
	ask := func(window int) map[string]any {
		return r.post("/api/chat", map[string]any{"model": "llama-dev:3b", "messages": msgs, "stream": false, "options": map[string]any{"num_ctx": window}}).json(t)
	}
	if v := ask(8192); dig(v, "message", "content") != "I saw it." || v["prompt_eval_count"] != 3033.0 {
		t.Errorf("%v", v)
	}
	if v := ask(2100); dig(v, "message", "content") != "What secret?" || v["prompt_eval_count"].(float64) > 2100 {
		t.Errorf("%v", v)
	}
	if v := ask(100); v["prompt_eval_count"] != 100.0 {
		t.Errorf("%v", v)
	}
	list := r.logged(3)
	if list[0].Cut != 0 || list[1].Cut == 0 || list[2].Cut+list[2].Tokens.Input() != 3033 {
		t.Errorf("%+v", list)
	}
}
