package providers_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"agentkernel/internal/llm"
	"agentkernel/internal/llm/llmtest"
	"agentkernel/internal/llm/providers"
)

// leaky is a key in which JSON may escape each character, one of them in a shorter way.
const leaky = "sk-attack/SECRET-0123456789"

// TestKeyThatIsRepeated: whatever a server makes of the key that it was sent, escapes it or cuts it over bits of a stream, no program is told it.
func TestKeyThatIsRepeated(t *testing.T) {
	short, long := strings.ReplaceAll(leaky, "/", `\/`), ""
	for _, c := range leaky {
		long += `\u00` + strings.ToUpper(hexOf(byte(c)))
	}
	speakers := map[string]llmtest.Speaker{
		"openai": llmtest.Chat{}, "openai-responses": llmtest.Responses{}, "anthropic": llmtest.Anthropic{}, "ollama": llmtest.Ollama{},
		"vllm": llmtest.Chat{}, "openrouter": llmtest.Chat{},
	}
	bits := func(parts ...string) []string { return parts }
	whole := bits("it is "+leaky+", s", "o")
	cut := bits("it is sk-att", "ack/SEC", "RET-0123456789, s", "o")
	for kind, speaker := range speakers {
		for name, text := range map[string][]string{"whole": whole, "cut": cut} {
			for form, spell := range map[string]string{"as it is": leaky, "short": short, "long": long} {
				reply := llmtest.Reply{Thinking: text, Text: text, Stop: llm.StopToolCalls, Usage: &llm.Usage{Input: 1, Output: 1},
					Calls: []llmtest.Call{{ID: leaky, Name: "f", Args: bits(`{"a": "`+leaky+`", "b": "sk`, `"}`)}}}
				for _, streams := range []bool{false, true} {
					t.Run(strings.Join([]string{kind, name, form, map[bool]string{true: "stream", false: "one piece"}[streams]}, "/"), func(t *testing.T) {
						keepsKey(t, kind, speaker, reply, spell, streams)
					})
				}
			}
		}
	}
}

func hexOf(c byte) string {
	const digits = "0123456789abcdef"
	return string([]byte{digits[c>>4], digits[c&0xf]})
}

func keepsKey(t *testing.T, kind string, speaker llmtest.Speaker, reply llmtest.Reply, spell string, streams bool) {
	body, contentType := string(speaker.Whole(reply)), "application/json"
	if streams {
		body, contentType = strings.Join(speaker.Stream(reply), ""), speaker.StreamType()
	}
	nested := strings.ReplaceAll(spell, `\`, `\\`) // in the arguments, which are JSON in JSON
	body = strings.ReplaceAll(body, `\"`+leaky+`\"`, `\"`+nested+`\"`)
	body = strings.ReplaceAll(body, leaky, spell)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		for _, h := range []string{"X-Request-Id", "Request-Id"} {
			w.Header().Set(h, "req-"+leaky)
		}
		_, _ = w.Write([]byte(body))
	}))
	defer server.Close()
	p, err := providers.New(kind, llm.Options{BaseURL: server.URL, Key: func(context.Context) (string, error) { return leaky, nil }})
	if err != nil {
		t.Fatal(err)
	}
	var heads, told, text, thought strings.Builder
	args := map[int]string{}
	w := llm.Watch{Head: func(h llm.Head) { heads.WriteString(h.RequestID) }}
	if streams {
		w.Delta = func(d llm.Delta) error {
			text.WriteString(d.Text)
			thought.WriteString(d.Reasoning)
			if d.Call != nil {
				told.WriteString(d.Call.ID + d.Call.Name)
				args[d.Call.Index] += d.Call.Args
			}
			return nil
		}
	}
	r := &llm.Request{Model: "m", MaxTokens: 10, Messages: []llm.Message{{Role: llm.User, Parts: []llm.Part{{Text: "hi"}}}}, Tools: []llm.Tool{{Name: "f", Schema: json.RawMessage(`{"type":"object"}`)}}}
	a, err := p.Complete(t.Context(), r, w)
	if err != nil {
		t.Fatalf("%v\n%s", err, body)
	}
	all, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range []string{string(all), decoded(t, a.Calls()[0].Args), heads.String(), told.String(), text.String(), thought.String(), args[0], decoded(t, json.RawMessage(args[0]))} {
		if strings.Contains(found, "SECRET") || strings.Contains(found, leaky[:9]) || strings.Contains(strings.ToLower(found), hexOf('R')+`\u00`) {
			t.Errorf("the key is in %s", found)
		}
	}
	if !strings.HasPrefix(a.Text(), "it is ***") || !strings.HasSuffix(a.Text(), "*, so") || streams && text.String() != a.Text() {
		t.Errorf("%q was told, and %q answered", text.String(), a.Text())
	}
	if streams && args[0] != string(a.Calls()[0].Args) && kind != "ollama" { // which writes its arguments anew
		t.Errorf("arguments %q were told, and %q answered", args[0], a.Calls()[0].Args)
	}
}

// decoded is the arguments of a call as a program has them.
func decoded(t *testing.T, raw json.RawMessage) string {
	t.Helper()
	if len(raw) == 0 {
		return ""
	}
	var args struct{ A, B string }
	if err := json.Unmarshal(raw, &args); err != nil {
		t.Errorf("%v: %s", err, raw)
	}
	if args.B != "sk" {
		t.Errorf("%s has lost what only begins as the key", raw)
	}
	return args.A
}

// TestKeyCutOverParts: an answer has texts in several places, which programs get as one, and words of which only the first bit is read.
func TestKeyCutOverParts(t *testing.T) {
	half := len(leaky) / 2
	first, second := leaky[:half], leaky[half:]
	events := func(list ...string) string {
		var b strings.Builder
		for _, e := range list {
			var head struct{ Type string }
			if json.Unmarshal([]byte(e), &head) == nil && head.Type != "" {
				b.WriteString("event: " + head.Type + "\n")
			}
			b.WriteString("data: " + e + "\n\n")
		}
		return b.String()
	}
	message := func(id, text string) string {
		return `{"type":"message","id":"` + id + `","role":"assistant","content":[{"type":"output_text","text":"` + text + `"}]}`
	}
	block := func(index, kind, field, text, delta string) string {
		return events(`{"type":"content_block_start","index":`+index+`,"content_block":{"type":"`+kind+`","`+field+`":""}}`,
			`{"type":"content_block_delta","index":`+index+`,"delta":{"type":"`+delta+`","`+field+`":"`+text+`"}}`,
			`{"type":"content_block_stop","index":`+index+`}`)
	}
	const used = `"usage":{"input_tokens":1,"output_tokens":1}`
	chat := func(choice string) string {
		return `{"id":"c","model":"m","choices":[{"index":0,` + choice + `}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`
	}
	for name, c := range map[string]struct {
		kind, body string
		streams    bool
	}{
		"two blocks of text": {"anthropic", `{"type":"message","id":"m","model":"m","stop_reason":"end_turn",` + used + `,"content":[{"type":"text","text":"K=` + first +
			`"},{"type":"text","text":"` + second + `"}]}`, false},
		"two blocks of text, streamed": {"anthropic", events(`{"type":"message_start","message":{"type":"message","id":"m","model":"m",`+used+`}}`) +
			block("0", "text", "text", "K="+first, "text_delta") + block("1", "text", "text", second, "text_delta") +
			events(`{"type":"message_delta","delta":{"stop_reason":"end_turn"},`+used+`}`, `{"type":"message_stop"}`), true},
		"two blocks of text around another": {"anthropic", `{"type":"message","id":"m","model":"m","stop_reason":"end_turn",` + used + `,"content":[{"type":"text","text":"K=` + first +
			`"},{"type":"thinking","thinking":"so"},{"type":"text","text":"` + second + `"}]}`, false},
		"two blocks of thinking": {"anthropic", `{"type":"message","id":"m","model":"m","stop_reason":"end_turn",` + used + `,"content":[{"type":"thinking","thinking":"K=` + first +
			`","signature":"x"},{"type":"thinking","thinking":"` + second + `","signature":"y"}]}`, false},
		"two messages": {"openai-responses", `{"id":"r","model":"m","status":"completed",` + used + `,"output":[` + message("a", "K="+first) + `,` + message("b", second) + `]}`, false},
		"two messages, streamed": {"openai-responses", events(`{"type":"response.output_item.done","output_index":0,"item":`+message("a", "K="+first)+`}`,
			`{"type":"response.output_item.done","output_index":1,"item":`+message("b", second)+`}`,
			`{"type":"response.completed","response":{"id":"r","model":"m","status":"completed",`+used+`,"output":[`+message("a", "K="+first)+`,`+message("b", second)+`]}}`), true},
		"two summaries": {"openai-responses", `{"id":"r","model":"m","status":"completed",` + used + `,"output":[{"type":"reasoning","id":"x","encrypted_content":"e","summary":[` +
			`{"type":"summary_text","text":"K=` + first + `"},{"type":"summary_text","text":"` + second + `"}]}]}`, false},
		"a name": {"openai", events(chat(`"delta":{"tool_calls":[{"index":0,"id":"i","function":{"name":"`+first+`","arguments":""}}]}`),
			chat(`"delta":{"tool_calls":[{"index":0,"function":{"name":"`+second+`","arguments":"{}"}}]}`), chat(`"delta":{},"finish_reason":"tool_calls"`)), true},
		"an id": {"openai", events(chat(`"delta":{"tool_calls":[{"index":0,"id":"`+first+`","function":{"name":"f","arguments":""}}]}`),
			chat(`"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}`), chat(`"delta":{},"finish_reason":"tool_calls"`)), true},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", map[bool]string{true: "text/event-stream", false: "application/json"}[c.streams])
				_, _ = w.Write([]byte(c.body))
			}))
			defer server.Close()
			p, err := providers.New(c.kind, llm.Options{BaseURL: server.URL, Key: func(context.Context) (string, error) { return leaky, nil }})
			if err != nil {
				t.Fatal(err)
			}
			for _, watched := range []bool{c.streams, true} {
				var told strings.Builder
				w := llm.Watch{}
				if watched {
					w.Delta = func(d llm.Delta) error {
						told.WriteString(d.Text + d.Reasoning)
						if d.Call != nil {
							told.WriteString(d.Call.ID + d.Call.Name)
						}
						return nil
					}
				}
				r := &llm.Request{Model: "m", MaxTokens: 10, Messages: []llm.Message{{Role: llm.User, Parts: []llm.Part{{Text: "hi"}}}}, Tools: []llm.Tool{{Name: "f", Schema: json.RawMessage(`{"type":"object"}`)}}}
				a, err := p.Complete(t.Context(), r, w)
				if err != nil {
					t.Fatal(err)
				}
				all, err := json.Marshal(a)
				if err != nil {
					t.Fatal(err)
				}
				for _, found := range []string{a.Text(), string(all), told.String()} {
					if strings.Contains(found, first) || strings.Contains(found, second) {
						t.Errorf("a part of the key is in %s", found)
					}
				}
				if text := a.Text(); text != "" && text != "K="+strings.Repeat("*", len(leaky)) {
					t.Errorf("the text is %q", text)
				}
			}
		})
	}
}

// TestNameThatTheKeyBeginsWith: a name that the program gave its tool stays what it is.
func TestNameThatTheKeyBeginsWith(t *testing.T) {
	tool := leaky[:9]
	reply := llmtest.Reply{Stop: llm.StopToolCalls, Usage: &llm.Usage{Input: 1, Output: 1}, Calls: []llmtest.Call{{ID: "i", Name: tool, Args: []string{"{}"}}}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(llmtest.Chat{}.Whole(reply))
	}))
	defer server.Close()
	p, err := providers.New("openai", llm.Options{BaseURL: server.URL, Key: func(context.Context) (string, error) { return leaky, nil }})
	if err != nil {
		t.Fatal(err)
	}
	r := &llm.Request{Model: "m", MaxTokens: 10, Messages: []llm.Message{{Role: llm.User, Parts: []llm.Part{{Text: "hi"}}}}, Tools: []llm.Tool{{Name: tool, Schema: json.RawMessage(`{"type":"object"}`)}}}
	a, err := p.Complete(t.Context(), r, llm.Watch{})
	if err != nil {
		t.Fatal(err)
	}
	if got := a.Calls()[0].Name; got != tool {
		t.Errorf("the tool is called %q", got)
	}
}
