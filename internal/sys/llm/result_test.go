package llm

import (
	"encoding/json"
	"testing"

	"agentkernel"
	"agentkernel/internal/journal"
	"agentkernel/internal/llm"
)

// TestCompletionIsCanonical: an answer is written as the journal has it.
func TestCompletionIsCanonical(t *testing.T) {
	cost := agentkernel.NanoUSD(1_500_000)
	fields := &llm.Opaque{Dialect: "d\"", Raw: json.RawMessage(`{"phase": "<x>"}`)}
	for name, parts := range map[string][]llm.Part{
		"nothing": nil,
		"text":    {{Text: "a <b> \u2028 \x00\xff\n"}, {Text: "\"c\""}},
		"calls": {{Text: "so"}, {Call: &llm.ToolCall{ID: "1", Name: "f", Args: json.RawMessage(`{"b": 1.50, "a": {"$x": 1e999}}`)}},
			{Call: &llm.ToolCall{ID: "2", Name: "g", Args: json.RawMessage(`"no \/ object"`)}, Fields: fields}},
		"parts": {{Opaque: fields}, {Text: "x", Fields: fields}, {Image: &llm.Image{URL: "https://x/<y>"}}, {Image: &llm.Image{Data: []byte{1, 2, 255}}},
			{Call: &llm.ToolCall{ID: "1", Name: "f", Args: json.RawMessage(`{}`)}}, {Text: "y"}},
		"last is a call": {{Opaque: fields}, {Call: &llm.ToolCall{ID: "1", Name: "f", Args: json.RawMessage(`[]`)}}},
	} {
		a := &llm.Result{Cost: &cost, LeftOut: 3, Reused: true, Data: json.RawMessage(`{"z": 1, "a": [1.0]}`),
			Answer: &llm.Answer{Model: "m", Stop: llm.StopEnd, Message: llm.Message{Role: llm.Assistant, Parts: parts}, Usage: llm.Usage{Input: 1, Estimated: true}}}
		for range 2 {
			got, err := completion(a)
			if err != nil {
				t.Fatal(err)
			}
			if want, err := journal.Canonical(got); err != nil || string(got) != string(want) {
				t.Errorf("%s: %s, want %s (%v)", name, got, want, err)
			}
			a.Cost, a.LeftOut, a.Reused, a.Data = nil, 0, false, nil
		}
	}
}
