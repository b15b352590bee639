package llm

import (
	"encoding/json"
	"testing"

	"agentkernel"
	"agentkernel/internal/journal"
	"agentkernel/internal/llm"
)

// TestArgumentsThatAreNoJSONOfJournals: an answer that was paid for is handed over, with the text of such arguments.
func TestArgumentsThatAreNoJSONOfJournals(t *testing.T) {
	raw := `{"city": "a", "city": "b"}`
	got, err := completion(&llm.Result{Answer: &llm.Answer{Message: llm.Message{Parts: []llm.Part{{Call: &llm.ToolCall{ID: "1", Name: "f", Args: json.RawMessage(raw)}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	var c struct {
		Calls []struct{ Arguments any } `json:"tool_calls"`
	}
	if err := json.Unmarshal(got, &c); err != nil || len(c.Calls) != 1 || c.Calls[0].Arguments != raw {
		t.Errorf("%s %v", got, err)
	}
}

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
