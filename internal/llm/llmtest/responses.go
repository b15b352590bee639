package llmtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"agentkernel/internal/llm"
)

// Responses speaks responses.
type Responses struct{ chat Chat }

func (Responses) usage(u llm.Usage) m {
	return m{
		"input_tokens": u.Inputs(), "output_tokens": u.Outputs(), "total_tokens": u.Inputs() + u.Outputs(),
		"input_tokens_details":  m{"cached_tokens": u.CacheRead, "cache_write_tokens": u.CacheWrite + u.CacheWrite1h},
		"output_tokens_details": m{"reasoning_tokens": u.Reasoning},
	}
}

func (s Responses) response(r Reply, items []json.RawMessage) m {
	response := m{"id": replyID, "object": "response", "model": replyModel, "status": "completed", "output": items, "error": nil, "incomplete_details": nil}
	if items == nil {
		response["output"] = []m{}
	}
	switch r.Stop {
	case llm.StopLength:
		response["status"], response["incomplete_details"] = "incomplete", m{"reason": "max_output_tokens"}
	case llm.StopRefusal:
		response["status"], response["incomplete_details"] = "incomplete", m{"reason": "content_filter"}
	}
	if r.Usage != nil {
		response["usage"] = s.usage(*r.Usage)
	}
	return response
}

func (s Responses) items(r Reply) (items []json.RawMessage) {
	if r.Opaque {
		block, _ := s.Opaque()
		items = append(items, block)
	}
	if r.Text != nil {
		items = append(items, json.RawMessage(object(m{
			"id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
			"content": []m{{"type": "output_text", "text": strings.Join(r.Text, ""), "annotations": []m{}}},
		})))
	}
	for _, call := range r.Calls {
		items = append(items, json.RawMessage(object(m{
			"id": "fc_" + call.ID, "type": "function_call", "status": "completed", "call_id": call.ID, "name": call.Name, "arguments": strings.Join(call.Args, ""),
		})))
	}
	return items
}

// Whole is a reply in one piece.
func (s Responses) Whole(r Reply) []byte { return []byte(object(s.response(r, s.items(r)))) }

// Stream is a reply in bits.
func (s Responses) Stream(r Reply) (events []string) {
	add := func(kind string, v m) {
		v["type"], v["sequence_number"] = kind, len(events)
		events = append(events, "event: "+kind+"\ndata: "+object(v)+"\n\n")
	}
	begun := s.response(Reply{}, nil)
	begun["status"] = "in_progress"
	add("response.created", m{"response": begun})
	add("response.in_progress", m{"response": begun})
	at := 0
	items := s.items(r)
	if r.Opaque {
		add("response.output_item.added", m{"output_index": at, "item": m{"type": "reasoning", "id": "rs_1", "summary": []m{}}})
		for _, bit := range r.Thinking {
			add("response.reasoning_summary_text.delta", m{"output_index": at, "summary_index": 0, "delta": bit})
		}
		add("response.output_item.done", m{"output_index": at, "item": items[at]})
		at++
	} else {
		for _, bit := range r.Thinking {
			add("response.reasoning_summary_text.delta", m{"output_index": 9, "summary_index": 0, "delta": bit})
		}
	}
	if r.Text != nil {
		add("response.output_item.added", m{"output_index": at, "item": m{"type": "message", "id": "msg_1", "content": []m{}}})
		add("response.content_part.added", m{"output_index": at, "content_index": 0, "part": m{"type": "output_text", "text": ""}})
		for _, bit := range r.Text {
			add("response.output_text.delta", m{"output_index": at, "content_index": 0, "delta": bit, "obfuscation": "xyz"})
		}
		add("response.output_text.done", m{"output_index": at, "text": strings.Join(r.Text, "")})
		add("response.output_item.done", m{"output_index": at, "item": items[at]})
		at++
	}
	for i, call := range r.Calls {
		add("response.output_item.added", m{"output_index": at + i, "item": m{"type": "function_call", "call_id": call.ID, "name": call.Name, "arguments": ""}})
	}
	for k := 0; ; k++ {
		more := false
		for i, call := range r.Calls {
			if k < len(call.Args) {
				more = true
				add("response.function_call_arguments.delta", m{"output_index": at + i, "delta": call.Args[k]})
			}
		}
		if !more {
			break
		}
	}
	for i := range r.Calls {
		add("response.output_item.done", m{"output_index": at + i, "item": items[at+i]})
	}
	end := "response.completed"
	if r.Stop == llm.StopLength || r.Stop == llm.StopRefusal {
		end = "response.incomplete"
	}
	add(end, m{"response": s.response(r, items)})
	return events
}

// StreamType is the content type of a stream.
func (s Responses) StreamType() string { return s.chat.StreamType() }

// Seen is usage without what the dialect has no class for.
func (s Responses) Seen(u llm.Usage) llm.Usage { return s.chat.Seen(u) }

// Stops are the reasons that the dialect has.
func (Responses) Stops() map[llm.Stop]bool {
	return map[llm.Stop]bool{llm.StopEnd: true, llm.StopLength: true, llm.StopToolCalls: true, llm.StopRefusal: true}
}

// Fault is an error amid a stream.
func (Responses) Fault() string {
	return "event: error\ndata: {\"type\":\"error\",\"code\":\"server_is_overloaded\",\"message\":\"too busy\",\"param\":null,\"sequence_number\":3}\n\n"
}

// Faults are ways to fail.
func (Responses) Faults() []Fault { return openAIFaults() }

// Limits are headers and what they mean.
func (Responses) Limits() (http.Header, []llm.Limit) { return openAILimits() }

// Opaque is a block of reasoning.
func (Responses) Opaque() (json.RawMessage, string) {
	block := `{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"a\u002bb"}],"encrypted_content":"AbC\/=="}`
	return json.RawMessage(block), block
}

// Embeddings is a reply with vectors.
func (s Responses) Embeddings(vectors [][]float32, tokens int64) []byte {
	return s.chat.Embeddings(vectors, tokens)
}

// Can says what the dialect has a word for.
func (Responses) Can(what Ability) bool {
	return what != Stopping && what != Seeds && what != FailedResults
}

// Asked reads a request.
func (s Responses) Asked(r *http.Request, body []byte) (*Asked, error) {
	var in struct {
		Model  string
		Stream bool
		Store  *bool
		Input  json.RawMessage
		Tools  []struct {
			Type, Name, Description string
			Parameters              json.RawMessage
			Strict                  *bool
		}
		ToolChoice  json.RawMessage `json:"tool_choice"`
		MaxTokens   int64           `json:"max_output_tokens"`
		Temperature float64
		Reasoning   struct{ Effort string }
		Text        struct {
			Format struct {
				Type, Name string
				Schema     json.RawMessage
			}
		}
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, err
	}
	a := &Asked{
		Path: r.URL.Path, Key: strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), Model: in.Model, Stream: in.Stream, MaxTokens: in.MaxTokens,
		Temperature: in.Temperature, Schema: string(in.Text.Format.Schema), Reasoning: in.Reasoning.Effort, Choice: openAIChoice(in.ToolChoice),
	}
	if json.Unmarshal(in.Input, &a.Texts) == nil && len(a.Texts) > 0 {
		return a, nil
	}
	a.Texts = nil
	switch r.URL.Path {
	case "/v1/responses":
		if in.Store == nil || *in.Store {
			return nil, fmt.Errorf("the server is to store it")
		}
	case "/v1/responses/input_tokens":
	default:
		return nil, fmt.Errorf("the address is %s", r.URL.Path)
	}
	for _, t := range in.Tools {
		if t.Type != "function" || t.Strict == nil {
			return nil, fmt.Errorf("the tool %+v", t)
		}
		a.Tools = append(a.Tools, llm.Tool{Name: t.Name, Description: t.Description, Schema: t.Parameters})
	}
	var items []struct {
		Type, Role, Name, Arguments string
		CallID                      string `json:"call_id"`
		Content, Output             json.RawMessage
	}
	if err := json.Unmarshal(in.Input, &items); err != nil {
		return nil, err
	}
	for _, item := range items {
		turn := Turn{Role: item.Role}
		switch item.Type {
		case "", "message":
			if err := openAIContent(item.Content, &turn); err != nil {
				return nil, err
			}
		case "function_call":
			call := llm.ToolCall{ID: item.CallID, Name: item.Name, Args: json.RawMessage(item.Arguments)}
			if n := len(a.Turns); n > 0 && a.Turns[n-1].Role == "assistant" {
				a.Turns[n-1].Calls = append(a.Turns[n-1].Calls, call)
				continue
			}
			turn.Role, turn.Calls = "assistant", []llm.ToolCall{call}
		case "function_call_output":
			turn.Role, turn.Result = "tool", item.CallID
			if err := openAIContent(item.Output, &turn); err != nil {
				return nil, err
			}
		case "reasoning":
			continue
		default:
			return nil, fmt.Errorf("an item of the type %q", item.Type)
		}
		a.Turns = append(a.Turns, turn)
	}
	return a, nil
}
