package ollama_test

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"

	"agentkernel/internal/llm"
	"agentkernel/internal/llm/llmtest"
	"agentkernel/internal/llm/ollama"
)

func provider(t *testing.T, c *llmtest.Canned) llm.Provider {
	t.Helper()
	p, err := ollama.New(llm.Options{BaseURL: c.Start(t)})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func saw(prompt string) string {
	return `{"model":"m","message":{"role":"assistant","content":"ok"},"done":true,"done_reason":"stop",` + prompt + `"eval_count":1}`
}

// TestPromptThatWasCut: a prompt of which the server saw too little is an error, and so is one that fills the context.
func TestPromptThatWasCut(t *testing.T) {
	words := strings.Repeat("the report says that ", 1000) // 4,000 words
	for name, c := range map[string]struct {
		text    string
		options string
		seen    int64
		cut     bool
	}{
		"all of it":                     {words, "", 4100, false},
		"half of it":                    {words, "", 2048, true},
		"all but a few":                 {words, "", 3990, true},
		"it does not say":               {words, "", 0, false},
		"a context that is full":        {words, `{"num_ctx":4200}`, 4200, true},
		"a context that is almost full": {words, `{"num_ctx":4200}`, 4199, true},
		"room in the context":           {words, `{"num_ctx":8192}`, 4100, false},
		"one character":                 {strings.Repeat("=", 40000) + strings.Repeat(" ", 40000), "", 700, false},
		"no spaces":                     {strings.Repeat("漢字仮名交文", 3000), "", 1000, true},
		"no spaces, all of it":          {strings.Repeat("漢字仮名交文", 3000), "", 12000, false},
		"code":                          {strings.Repeat("\tif err != nil {\n\t\treturn err\n\t}\n", 500), "", 6500, false},
	} {
		for _, stream := range []bool{false, true} {
			canned := &llmtest.Canned{Body: saw(`"prompt_eval_count":` + strconv.FormatInt(c.seen, 10) + `,`)}
			if c.seen == 0 {
				canned.Body = saw("")
			}
			w, n := llm.Watch{}, 0
			if stream {
				canned.Kind, w = "application/x-ndjson", llmtest.Deltas(&n)
			}
			r := llmtest.User(c.text)
			if c.options != "" {
				r.Extra = map[string]json.RawMessage{"options": json.RawMessage(c.options)}
			}
			a, err := provider(t, canned).Complete(t.Context(), r, w)
			if !c.cut {
				if err != nil || a.Text() != "ok" || a.Usage.Input != c.seen && c.seen > 0 || a.Usage.Estimated != (c.seen == 0) {
					t.Errorf("%s: %+v, %v", name, a, err)
				}
				continue
			}
			var e *llm.Error
			if !errors.As(err, &e) || e.Kind != llm.TooLong || !e.Sent || e.Began != stream || e.Usage == nil || e.Usage.Input != c.seen || e.Retry() {
				t.Errorf("%s: %+v", name, err)
			}
		}
	}
}

// TestPromptThatCannotFit: what has more words than the context has tokens is not sent at all.
func TestPromptThatCannotFit(t *testing.T) {
	c := &llmtest.Canned{Body: saw("")}
	r := llmtest.User(strings.Repeat("word ", 5000))
	r.Extra = map[string]json.RawMessage{"options": json.RawMessage(`{"num_ctx":4096}`)}
	_, err := provider(t, c).Complete(t.Context(), r, llm.Watch{})
	var e *llm.Error
	if !errors.As(err, &e) || e.Kind != llm.TooLong || e.Sent || c.GotBody != "" || !strings.Contains(e.Message, "num_ctx") {
		t.Errorf("%+v", err)
	}
}

// TestBody: what the server is sent, to the byte.
func TestBody(t *testing.T) {
	c := &llmtest.Canned{Body: saw(`"prompt_eval_count":5,`)}
	p := provider(t, c)
	half, seed := 0.5, int64(7)
	r := llmtest.User("hi")
	r.Temperature, r.TopP, r.Seed, r.Reasoning, r.Schema = &half, &half, &seed, "none", json.RawMessage(`{"type":"object"}`)
	r.Stop = []string{"END"}
	r.Extra = map[string]json.RawMessage{"options": json.RawMessage(`{"top_k":3,"num_ctx":8192}`), "keep_alive": json.RawMessage(`"10m"`)}
	r.Messages = append(r.Messages,
		llm.Message{Role: llm.Assistant, Parts: []llm.Part{
			{Opaque: &llm.Opaque{Dialect: "ollama", Raw: json.RawMessage(`{"thinking":"hm"}`)}}, {Call: &llm.ToolCall{ID: "a", Name: "f", Args: json.RawMessage(`"no object"`)}},
		}},
		llm.Message{Role: llm.ToolRole, Parts: []llm.Part{{Result: &llm.ToolResult{ID: "a", Parts: []llm.Part{{Text: "x"}}}}}})
	if _, err := p.Complete(t.Context(), r, llm.Watch{}); err != nil {
		t.Fatal(err)
	}
	want := `{"model":"model-1","stream":false,"truncate":false,"shift":false,"format":{"type":"object"},"think":false,` +
		`"options":{"num_predict":4000,"temperature":0.5,"top_p":0.5,"seed":7,"stop":["END"],"num_ctx":8192,"top_k":3},"keep_alive":"10m",` +
		`"messages":[{"role":"user","content":"hi"},` +
		`{"role":"assistant","content":"","thinking":"hm","tool_calls":[{"id":"a","function":{"name":"f","arguments":{"raw":"no object"}}}]},` +
		`{"role":"tool","content":"x","tool_name":"f","tool_call_id":"a"}]}`
	if c.GotBody != want {
		t.Errorf("%s\n%s", c.GotBody, want)
	}
	for name, options := range map[string]string{"said twice": `{"num_predict":5}`, "no object": `[1]`, "no JSON": `{`} {
		r := llmtest.User("hi")
		r.Extra = map[string]json.RawMessage{"options": json.RawMessage(options)}
		_, err := p.Complete(t.Context(), r, llm.Watch{})
		var e *llm.Error
		if !errors.As(err, &e) || e.Kind != llm.Invalid || e.Sent {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOlderServers: some give calls no id, and results have to say whose they are.
func TestOlderServers(t *testing.T) {
	c := &llmtest.Canned{Body: `{"model":"m","message":{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f","arguments":{"b":1,"a":2}}},{"function":{"name":"f"}}]},"done":true}`}
	a, err := provider(t, c).Complete(t.Context(), llmtest.User("hi"), llm.Watch{})
	if err != nil {
		t.Fatal(err)
	}
	calls := a.Calls()
	if len(calls) != 2 || calls[0].ID == "" || calls[0].ID == calls[1].ID || string(calls[0].Args) != `{"b":1,"a":2}` || string(calls[1].Args) != "{}" || a.Stop != llm.StopToolCalls {
		t.Errorf("%+v", a)
	}
}
