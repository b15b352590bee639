package anthropic_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"agentkernel/internal/llm"
	"agentkernel/internal/llm/anthropic"
	"agentkernel/internal/llm/llmtest"
)

const reply = `{"id":"x","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"ok"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`

func provider(t *testing.T, c *llmtest.Canned) llm.Provider {
	t.Helper()
	p, err := anthropic.New(llm.Options{BaseURL: c.Start(t)})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func body(t *testing.T, r *llm.Request) string {
	t.Helper()
	c := &llmtest.Canned{Body: reply}
	if _, err := provider(t, c).Complete(t.Context(), r, llm.Watch{}); err != nil {
		t.Fatal(err)
	}
	if c.GotPath != "/v1/messages" || c.Got.Get("Anthropic-Version") == "" {
		t.Errorf("%s, %v", c.GotPath, c.Got)
	}
	return c.GotBody
}

// TestCacheMarks: what is the same for each turn has a mark of its own, which stays where it is; the server puts the other one
// behind the last message.
func TestCacheMarks(t *testing.T) {
	r := llmtest.User("hi")
	r.Cache = "1h"
	r.Tools = []llm.Tool{{Name: "f", Schema: json.RawMessage(`{}`)}, {Name: "g", Schema: json.RawMessage(`{}`)}}
	const mark = `"cache_control":{"type":"ephemeral","ttl":"1h"}`
	want := `{"model":"model-1","max_tokens":4000,"tools":[{"name":"f","input_schema":{}},{"name":"g","input_schema":{},` + mark + `}],` + mark +
		`,"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}`
	if got := body(t, r); got != want {
		t.Errorf("%s\n%s", got, want)
	}
	r.Messages = append([]llm.Message{{Role: llm.System, Parts: []llm.Part{{Text: "a"}, {Text: "b"}}}}, r.Messages...)
	r.Cache = "5m"
	const short = `"cache_control":{"type":"ephemeral"}`
	want = `{"model":"model-1","max_tokens":4000,"tools":[{"name":"f","input_schema":{}},{"name":"g","input_schema":{}}],"system":[{"type":"text","text":"a"},{"type":"text","text":"b",` +
		short + `}],` + short + `,"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}`
	if got := body(t, r); got != want {
		t.Errorf("%s\n%s", got, want)
	}
	r.Cache = "1d"
	if _, err := provider(t, &llmtest.Canned{Body: reply}).Complete(t.Context(), r, llm.Watch{}); kind(err) != llm.Invalid {
		t.Errorf("a day: %v", err)
	}
}

func kind(err error) llm.Kind {
	var e *llm.Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return ""
}

// TestThinking: newer models decide themselves how much they think, older ones get a budget.
func TestThinking(t *testing.T) {
	const byItself = `"thinking":{"type":"adaptive"},"output_config":{"effort":"medium"}`
	const budget = `"thinking":{"type":"enabled","budget_tokens":2000}`
	for model, want := range map[string]string{
		"claude-opus-4-8": byItself, "claude-sonnet-4-6": byItself, "claude-sonnet-5": byItself, "claude-mythos-preview": byItself, "claude-opus-10-1": byItself,
		"some-alias-3": byItself, "claude-haiku-4-5-20251001": budget, "claude-sonnet-4-20250514": budget, "claude-3-7-sonnet-20250219": budget, "claude-opus-4-1": budget,
	} {
		r := llmtest.User("hi")
		r.Model, r.Reasoning = model, "medium"
		if got := body(t, r); !strings.Contains(got, want) {
			t.Errorf("%s: %s", model, got)
		}
	}
	r := llmtest.User("hi")
	r.Reasoning = "none"
	if got := body(t, r); strings.Contains(got, "thinking") || strings.Contains(got, "effort") {
		t.Errorf("none: %s", got)
	}
	r.Reasoning, r.Schema = "low", json.RawMessage(`{"type":"object"}`)
	if got := body(t, r); !strings.Contains(got, `"output_config":{"effort":"low","format":{"type":"json_schema","schema":{"type":"object"}}}`) {
		t.Errorf("with a schema: %s", got)
	}
	r.Model, r.MaxTokens = "claude-haiku-4-5", 1000
	if _, err := provider(t, &llmtest.Canned{Body: reply}).Complete(t.Context(), r, llm.Watch{}); kind(err) != llm.Invalid {
		t.Errorf("no room to think: %v", err)
	}
}

func TestMaxTokensAreNeeded(t *testing.T) {
	r := llmtest.User("hi")
	r.MaxTokens = 0
	_, err := provider(t, &llmtest.Canned{Body: reply}).Complete(t.Context(), r, llm.Watch{})
	var e *llm.Error
	if !errors.As(err, &e) || e.Kind != llm.Invalid || e.Sent || !strings.Contains(e.Message, "max_tokens") {
		t.Errorf("%v", err)
	}
}

// TestMessages: what the server refuses is not sent: empty texts, results that are apart from one another or behind a text, a
// message of nothing. The system speaks where it does.
func TestMessages(t *testing.T) {
	result := func(id string) llm.Part {
		return llm.Part{Result: &llm.ToolResult{ID: id, Parts: []llm.Part{{Text: "of " + id}}}}
	}
	r := llmtest.User("hi")
	r.Messages = append(r.Messages,
		llm.Message{Role: llm.Assistant, Parts: []llm.Part{{}, {Call: &llm.ToolCall{ID: "a", Name: "f"}}, {Call: &llm.ToolCall{ID: "b", Name: "f", Args: json.RawMessage(`"{\"x"`)}}}},
		llm.Message{Role: llm.ToolRole, Parts: []llm.Part{result("a")}}, llm.Message{Role: llm.ToolRole, Parts: []llm.Part{result("b")}},
		llm.Message{Role: llm.Assistant}, llm.Message{Role: llm.System, Parts: []llm.Part{{Text: "From now on be brief."}}},
		llm.Message{Role: llm.User, Parts: []llm.Part{{Text: "and"}, result("c")}})
	got := body(t, r)
	_, got, _ = strings.Cut(got, `"messages":`)
	want := `[{"role":"user","content":[{"type":"text","text":"hi"}]},` +
		`{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}},{"type":"tool_use","id":"b","name":"f","input":{"raw":"{\"x"}}]},` +
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"of a"}]},{"type":"tool_result","tool_use_id":"b","content":[{"type":"text","text":"of b"}]}]},` +
		`{"role":"system","content":[{"type":"text","text":"From now on be brief."}]},` +
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":[{"type":"text","text":"of c"}]},{"type":"text","text":"and"}]}]}`
	if got != want {
		t.Errorf("%s\n%s", got, want)
	}
}

// TestBlocksOfTheServer: what the server did itself, who made a call, and blocks that nobody knows yet come back with their bytes.
func TestBlocksOfTheServer(t *testing.T) {
	const search = `{"type":"server_tool_use","id":"s","name":"web_search","input":{"query":"a\u002bb",  "n":1.50}}`
	const found = `{"type":"web_search_tool_result","tool_use_id":"s","content":[{"type":"web_search_result","encrypted_content":"E\/="}]}`
	const call = `{"type":"tool_use","id":"a","name":"f","input":{"x":1},"caller":{"type":"code_execution_20260120","tool_id":"s"}}`
	const unknown = `{"type":"compaction","content":"one two"}`
	const redacted = `{"type":"redacted_thinking","data":"D\/="}`
	pieces := llmtest.Events(
		`{"type":"message_start","message":{"id":"x","type":"message","model":"m","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"server_tool_use","id":"s","name":"web_search","input":{}}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"query\":\"a\\u002bb\","}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"  \"n\":1.50}"}}`,
		`{"type":"content_block_stop","index":0}`,
		`{"type":"content_block_start","index":1,"content_block":`+found+`}`, `{"type":"content_block_stop","index":1}`,
		`{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"a","name":"f","input":{},"caller":{"type":"code_execution_20260120","tool_id":"s"}}}`,
		`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"x\":1}"}}`, `{"type":"content_block_stop","index":2}`,
		`{"type":"content_block_start","index":3,"content_block":{"type":"compaction","content":null}}`,
		`{"type":"content_block_delta","index":3,"delta":{"type":"compaction_delta","content":"one "}}`,
		`{"type":"content_block_delta","index":3,"delta":{"type":"compaction_delta","content":"two"}}`, `{"type":"content_block_stop","index":3}`,
		`{"type":"content_block_start","index":4,"content_block":`+redacted+`}`, `{"type":"content_block_stop","index":4}`,
		`{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":9}}`, `{"type":"message_stop"}`)
	blocks := strings.Join([]string{search, found, call, unknown, redacted}, ",")
	for name, c := range map[string]*llmtest.Canned{
		"in bits":      {Kind: "text/event-stream", Body: pieces},
		"in one piece": {Body: `{"id":"x","type":"message","model":"m","content":[` + blocks + `],"stop_reason":"tool_use","usage":{"input_tokens":1,"output_tokens":9}}`},
	} {
		p, n := provider(t, c), 0
		w := llm.Watch{}
		if name == "in bits" {
			w = llmtest.Deltas(&n)
		}
		r := llmtest.User("hi")
		a, err := p.Complete(t.Context(), r, w)
		if err != nil {
			t.Fatal(name, err)
		}
		if len(a.Calls()) != 1 || a.Usage.Estimated || a.Usage.Input != 1 || a.Usage.Output != 9 {
			t.Errorf("%s: %+v", name, a)
		}
		r.Messages = append(r.Messages, a.Message)
		if _, err := p.Complete(t.Context(), r, w); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(c.GotBody, blocks) {
			t.Errorf("%s: %s\n%s", name, c.GotBody, blocks)
		}
	}
}

// TestUsageOfAStream: what the end says counts, what only the beginning says stays, and without an end it is estimated.
func TestUsageOfAStream(t *testing.T) {
	begin := `{"type":"message_start","message":{"id":"x","type":"message","model":"m","content":[],"usage":{"input_tokens":10,"cache_read_input_tokens":5,` +
		`"cache_creation_input_tokens":30,"cache_creation":{"ephemeral_5m_input_tokens":10,"ephemeral_1h_input_tokens":20},"output_tokens":1}}}`
	text := []string{
		`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"` + strings.Repeat("word ", 100) + `"}}`, `{"type":"content_block_stop","index":0}`,
	}
	for end, want := range map[string]llm.Usage{
		`"usage":{"output_tokens":77,"output_tokens_details":{"thinking_tokens":7}}`:    {Input: 10, CacheRead: 5, CacheWrite: 10, CacheWrite1h: 20, Output: 70, Reasoning: 7},
		`"usage":{"input_tokens":40,"cache_read_input_tokens":null,"output_tokens":77}`: {Input: 40, CacheRead: 5, CacheWrite: 10, CacheWrite1h: 20, Output: 77},
		`"usage":null`: {Input: 10, CacheRead: 5, CacheWrite: 10, CacheWrite1h: 20, Output: 125, Estimated: true},
		`"usage":{"input_tokens":0,"cache_read_input_tokens":0,"cache_creation_input_tokens":0,"cache_creation":null,"output_tokens":0}`: {CacheWrite: 10, CacheWrite1h: 20, Output: 125, Estimated: true},
		`"usage":{"input_tokens":-1000000,"output_tokens":77}`:                                                                           {Input: 5, Output: 125, Estimated: true},
		`"x":1`: {Input: 10, CacheRead: 5, CacheWrite: 10, CacheWrite1h: 20, Output: 125, Estimated: true},
	} {
		data := append(append([]string{begin}, text...), `{"type":"message_delta","delta":{"stop_reason":"end_turn"},`+end+`}`, `{"type":"message_stop"}`)
		c, n := &llmtest.Canned{Kind: "text/event-stream", Body: llmtest.Events(data...)}, 0
		a, err := provider(t, c).Complete(t.Context(), llmtest.User("hi"), llmtest.Deltas(&n))
		if err != nil {
			t.Fatal(err)
		}
		a.Usage.Raw = nil
		got, _ := json.Marshal(a.Usage)
		if w, _ := json.Marshal(want); string(got) != string(w) {
			t.Errorf("%s: %s, want %s", end, got, w)
		}
	}
}

// TestAnAnswerWhoseServerCountsNothing: its tokens are estimated, or no cap would bind.
func TestAnAnswerWhoseServerCountsNothing(t *testing.T) {
	for _, usage := range []string{`{"input_tokens":0,"output_tokens":0}`, `{"input_tokens":-1000000,"output_tokens":-1000000}`, `{}`, `null`} {
		c := &llmtest.Canned{Kind: "application/json", Body: `{"id":"x","type":"message","role":"assistant","model":"m","stop_reason":"end_turn",` +
			`"content":[{"type":"text","text":"` + strings.Repeat("word ", 100) + `"}],"usage":` + usage + `}`}
		a, err := provider(t, c).Complete(t.Context(), llmtest.User("hi"), llm.Watch{})
		if err != nil || !a.Usage.Estimated || a.Usage.Output != 125 || a.Usage.Input == 0 {
			t.Errorf("%s: %+v %v", usage, a, err)
		}
	}
}
