package devllm

import (
	"errors"
	"strings"
	"testing"
)

// A loop of an agent: search, read what was found, answer; each step only on what the step before has shown.
const researcher = `
models:
  - {name: tiny, window: 1000, price: {input: 1.5, output: 3}}
rules:
  - name: search
    when: {system: researcher, user: '/about (?P<topic>\w+)/', tools: [search], turn: 1}
    answer:
      reasoning: I should search.
      calls: [{name: search, arguments: {query: "{{topic}}", limit: 3, deep: {of: ["{{ topic }}"]}}}]
  - name: report
    when: {turn: 2}
    expect: {tool_result: '/(\d+) rows/', user: about}
    answer: {json: {rows: "{{1}}", text: "{{1}} rows for {{user}}"}}
    wrong: {text: I found nothing.}
  - name: once
    times: 1
    when: {user: once}
    answer: {error: {status: 429, message: not yet, retry_after: 2s}}
  - when: {user: forbidden}
    answer: {refusal: I cannot help with that.}
  - when: {schema: true}
    answer: {json: [1, 2]}
  - when: {user: long}
    answer: {tokens: 200}
  - when: {user: strict}
    expect: {system: never}
    answer: {text: yes}
default: {text: I have no rule for this.}
`

func TestScriptMatchesOnWhatItIsShown(t *testing.T) {
	r := newRig(t, "openai", func(o *Options) { o.Script = script(t, researcher) })
	tools := []any{map[string]any{"type": "function", "function": map[string]any{"name": "search"}}}
	msgs := []any{map[string]any{"role": "system", "content": "You are a researcher."}, map[string]any{"role": "user", "content": "Tell me about otters"}}
	ask := func(msgs []any, more ...any) map[string]any {
		return r.post("/v1/chat/completions", chatOf("tiny", "", append([]any{"messages", msgs, "tools", tools}, more...)...)).json(t)
	}
	first := ask(msgs)
	if got := dig(first, "choices", 0, "message", "tool_calls", 0, "function", "arguments"); got != `{"deep":{"of":["otters"]},"limit":3,"query":"otters"}` {
		t.Fatalf("%v", first)
	}
	id := dig(first, "choices", 0, "message", "tool_calls", 0, "id")
	for result, want := range map[string]string{"17 rows": `{"rows":17,"text":"17 rows for Tell me about otters"}`, "none": "I found nothing."} {
		next := append(append([]any{}, msgs...), dig(first, "choices", 0, "message"), map[string]any{"role": "tool", "tool_call_id": id, "content": result})
		if got := dig(ask(next), "choices", 0, "message", "content"); got != want {
			t.Errorf("shown %q it says %v", result, got)
		}
	}
	user := func(text string, more ...any) got {
		return r.post("/v1/chat/completions", chatOf("tiny", text, more...))
	}
	if g := user("once"); g.status != 429 || g.header.Get("retry-after") != "2" || !strings.Contains(g.body, "not yet") {
		t.Errorf("%d %v %s", g.status, g.header, g.body)
	}
	if g := user("once"); dig(g.json(t), "choices", 0, "message", "content") != "I have no rule for this." {
		t.Errorf("%s", g.body)
	}
	if g := user("forbidden"); dig(g.json(t), "choices", 0, "message", "refusal") != "I cannot help with that." {
		t.Errorf("%s", g.body)
	}
	if g := user("x", "response_format", map[string]any{"type": "json_object"}); dig(g.json(t), "choices", 0, "message", "content") != "[1,2]" {
		t.Errorf("%s", g.body)
	}
	if g := user("long"); dig(g.json(t), "usage", "completion_tokens") != 200.0 {
		t.Errorf("%s", g.body)
	}
	if g := user("strict"); !strings.Contains(g.body, "I was not shown what I expected") {
		t.Errorf("%s", g.body)
	}
	list := r.logged(9)
	var names []string
	for _, e := range list {
		names = append(names, e.Rule)
	}
	if got := strings.Join(names, ", "); !strings.HasPrefix(got, "search, report") || !strings.Contains(got, "report (wrong)") || !strings.HasSuffix(got, "once, default, line 19, line 21, line 23, line 25 (wrong)") {
		t.Errorf("%s", got)
	}
	if e := list[0]; e.Nanos != e.Tokens.Input()*1500+e.Tokens.Answer()*3000 {
		t.Errorf("%+v", e)
	}
}

func TestBadScripts(t *testing.T) {
	for text, want := range map[string][2]string{
		"rules:\n  - wen: {user: x}\n    answer: {text: y}":      {"s.yaml:2: there is no field wen", "did you mean when?"},
		"rules:\n  - when: {user: x}\n    answer:\n      txt: y": {"s.yaml:4: there is no field txt", "did you mean text"},
		"rule: []":                    {"s.yaml:1: there is no field rule", "did you mean rules"},
		"rules:\n  - when: {user: x}": {"s.yaml:2: the rule has no answer", "docs/devllm.md"},
		"rules:\n  - when: {user: '/(/'}\n    answer: {text: y}":            {"s.yaml:2: the expression /(/ cannot be used", "docs/devllm.md"},
		"rules:\n  - when: {user: '/(a)/'}\n    answer: {text: 'is {{b}}'}": {"s.yaml:2: {{b}} is no group", "docs/devllm.md"},
		"rules:\n  - answer: {text: x, json: 1}":                            {"s.yaml:2: an answer has text and calls, or one of", "docs/devllm.md"},
		"rules:\n  - answer: {error: {status: 200}}":                        {"s.yaml:2: the status of an error is 200", "docs/devllm.md"},
		"rules:\n  - answer: {error: {status: 429, retry_after: soon}}":     {"s.yaml:2: retry_after is \"soon\"", "docs/devllm.md"},
		"rules:\n  - when: {turn: first}\n    answer: {text: x}":            {"s.yaml:2: ", "docs/devllm.md"},
		"rules:\n  - when: {user: [a]}\n    answer: {text: x}":              {"s.yaml:2: a pattern is a text", "docs/devllm.md"},
		"rules: [":              {"s.yaml:1: ", "docs/devllm.md"},
		"models: [{window: 5}]": {"s.yaml: a model has a name", "docs/devllm.md"},
		"default: {text: x, calls: [{arguments: {}}]}": {"s.yaml:1: a call has no name", "docs/devllm.md"},
	} {
		_, err := ParseScript("s.yaml", []byte(text))
		b, ok := errors.AsType[*BadOption](err)
		if !ok || !strings.HasPrefix(b.Message, want[0]) || !strings.Contains(b.Hint, want[1]) || strings.Contains(b.Message, "devllm.") || strings.Contains(b.Message, "!!") {
			t.Errorf("%q:\n%v (%+v)", text, err, b)
		}
	}
	if _, err := LoadScript("none.yaml"); err == nil {
		t.Error("a script that is not there")
	}
	if s := script(t, ""); s.fallback != nil || len(s.rules) > 0 {
		t.Errorf("%+v", s)
	}
}

// A rule can ask how many pictures the conversation has, in each dialect.
func TestScriptCountsImages(t *testing.T) {
	const counts = `
rules:
  - {when: {images: 0}, answer: {text: none}}
  - {when: {images: 2}, answer: {text: two}}
default: {text: others}
`
	const pixel = "iVBORw0KGgo="
	text := map[string]any{"type": "text", "text": "look"}
	url := map[string]any{"type": "image_url", "image_url": map[string]any{"url": "data:image/png;base64," + pixel}}
	source := map[string]any{"type": "image", "source": map[string]any{"type": "base64", "media_type": "image/png", "data": pixel}}
	user := func(content any, more ...any) []any {
		m := map[string]any{"role": "user", "content": content}
		for i := 0; i < len(more); i += 2 {
			m[more[i].(string)] = more[i+1]
		}
		return []any{m}
	}
	for _, c := range []struct {
		profile, path string
		body          func(msgs []any) any
		of            func(n int) []any
	}{
		{"openai", "/v1/chat/completions", func(msgs []any) any { return chatOf("gpt-dev", "", "messages", msgs) }, func(n int) []any {
			return user(append([]any{text}, []any{url, url, url}[:n]...))
		}},
		{"anthropic", "/v1/messages", func(msgs []any) any { return claudeOf("", "messages", msgs) }, func(n int) []any {
			return user(append([]any{text}, []any{source, source, source}[:n]...))
		}},
		{"ollama", "/api/chat", func(msgs []any) any { return chatOf("llama-dev:3b", "", "messages", msgs, "stream", false) }, func(n int) []any {
			return user("look", "images", []any{pixel, pixel, pixel}[:n])
		}},
	} {
		r := newRig(t, c.profile, func(o *Options) { o.Script = script(t, counts) })
		for n, want := range []string{"none", "others", "two", "others"} {
			if g := r.post(c.path, c.body(c.of(n))); g.status != 200 || !strings.Contains(g.body, `"`+want+`"`) {
				t.Errorf("%s, %d pictures: %d %s", c.profile, n, g.status, g.body)
			}
		}
	}
}
