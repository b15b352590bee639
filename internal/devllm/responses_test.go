package devllm

import (
	"strings"
	"testing"
)

func TestResponsesStream(t *testing.T) {
	r := newRig(t, "openai", func(o *Options) { o.Script = script(t, threeCalls); o.Reasoning = 5 })
	g := r.post("/v1/responses", map[string]any{"model": "gpt-dev", "input": "Hello", "stream": true})
	list := events(g.body)
	var kinds []string
	for i, e := range list {
		v := e.json(t)
		if v["type"] != e.name || v["sequence_number"] != float64(i) {
			t.Errorf("event %d: %+v", i, e)
		}
		if len(kinds) == 0 || kinds[len(kinds)-1] != e.name {
			kinds = append(kinds, e.name)
		}
	}
	want := "created in_progress output_item.added reasoning_summary_part.added reasoning_summary_text.delta reasoning_summary_text.done reasoning_summary_part.done output_item.done " +
		"output_item.added content_part.added output_text.delta output_text.done content_part.done output_item.done completed"
	if got := strings.ReplaceAll(strings.Join(kinds, " "), "response.", ""); got != want {
		t.Errorf("%s", got)
	}
	end := dig(list[len(list)-1].json(t), "response")
	if dig(end, "status") != "completed" || dig(end, "usage", "output_tokens_details", "reasoning_tokens") != 5.0 || dig(end, "output", 1, "content", 0, "type") != "output_text" {
		t.Errorf("%v", end)
	}
	// It is resumed behind an event, and read as a whole.
	id := dig(end, "id").(string)
	rest := events(r.do("GET", "/v1/responses/"+id+"?stream=true&starting_after=3", "").body)
	if len(rest) != len(list)-4 || rest[0] != list[4] {
		t.Errorf("%d events behind the fourth of %d", len(rest), len(list))
	}
	if v := r.do("GET", "/v1/responses/"+id, "").json(t); v["id"] != id || v["status"] != "completed" {
		t.Errorf("%v", v)
	}
	if g := r.do("GET", "/v1/responses/"+id, "", "Authorization", "Bearer key-2"); g.status != 404 {
		t.Errorf("another key reads it: %d", g.status)
	}
}

func TestResponsesCallsAndWhatFollows(t *testing.T) {
	r := newRig(t, "openai", func(o *Options) { o.Script = script(t, threeCalls) })
	v := r.post("/v1/responses", map[string]any{"model": "gpt-dev", "input": "three"}).json(t)
	var outputs []any
	for i := 1; i <= 3; i++ {
		it := dig(v, "output", i)
		if dig(it, "type") != "function_call" {
			t.Fatalf("%v", v)
		}
		outputs = append(outputs, map[string]any{"type": "function_call_output", "call_id": dig(it, "call_id"), "output": "7"})
	}
	id := v["id"]
	next := r.post("/v1/responses", map[string]any{"model": "gpt-dev", "previous_response_id": id, "input": outputs})
	if next.status != 200 || !strings.Contains(next.body, "7 7 7") {
		t.Errorf("%d %s", next.status, next.body)
	}
	for name, body := range map[string]map[string]any{
		"one result is missing": {"model": "gpt-dev", "previous_response_id": id, "input": outputs[:2]},
		"there is none such":    {"model": "gpt-dev", "previous_response_id": "resp_none", "input": "x"},
		"an item":               {"model": "gpt-dev", "input": []any{map[string]any{"type": "picture"}}},
		"no input":              {"model": "gpt-dev"},
		"reasoning that is not ours": {"model": "gpt-dev", "input": []any{map[string]any{"type": "reasoning", "id": "rs_1", "encrypted_content": "x", "summary": []any{}},
			map[string]any{"role": "user", "content": "x"}}},
	} {
		if g := r.post("/v1/responses", body); g.status != 400 {
			t.Errorf("%s: %d %s", name, g.status, g.body)
		}
	}
	short := r.post("/v1/responses", map[string]any{"model": "gpt-dev", "input": "Hello", "max_output_tokens": 5}).json(t)
	if short["status"] != "incomplete" || dig(short, "incomplete_details", "reason") != "max_output_tokens" {
		t.Errorf("%v", short)
	}
}
