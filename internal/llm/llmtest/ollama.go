package llmtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"agentkernel/internal/llm"
)

// Ollama speaks Ollama's own protocol.
type Ollama struct{}

func (Ollama) end(r Reply) m {
	end := m{"model": replyModel, "message": m{"role": "assistant", "content": ""}, "done": true, "done_reason": "stop"}
	if r.Stop == llm.StopLength {
		end["done_reason"] = "length"
	}
	if r.Usage != nil {
		end["prompt_eval_count"], end["eval_count"] = r.Usage.Inputs(), r.Usage.Outputs()
	}
	return end
}

func (Ollama) call(c Call) m {
	return m{"id": c.ID, "function": m{"name": c.Name, "arguments": json.RawMessage(strings.Join(c.Args, ""))}}
}

// Whole is a reply in one piece.
func (s Ollama) Whole(r Reply) []byte {
	end := s.end(r)
	message := m{"role": "assistant", "content": strings.Join(r.Text, "")}
	if r.Thinking != nil {
		message["thinking"] = strings.Join(r.Thinking, "")
	}
	if r.Opaque {
		message["thinking"] = "a+b"
	}
	var calls []m
	for _, c := range r.Calls {
		calls = append(calls, s.call(c))
	}
	if calls != nil {
		message["tool_calls"] = calls
	}
	end["message"] = message
	return []byte(object(end))
}

// Stream is a reply in bits.
func (s Ollama) Stream(r Reply) (lines []string) {
	add := func(message m) {
		message["role"] = "assistant"
		lines = append(lines, object(m{"model": replyModel, "created_at": "2026-01-01T00:00:00Z", "message": message, "done": false})+"\n")
	}
	thinking := r.Thinking
	if r.Opaque {
		thinking = []string{"a", "+b"}
	}
	for _, bit := range thinking {
		add(m{"content": "", "thinking": bit})
	}
	for _, bit := range r.Text {
		add(m{"content": bit})
	}
	for _, c := range r.Calls {
		add(m{"content": "", "tool_calls": []m{s.call(c)}})
	}
	return append(lines, object(s.end(r))+"\n")
}

// StreamType is the content type of a stream.
func (Ollama) StreamType() string { return "application/x-ndjson" }

// Seen is usage without what the dialect has no class for.
func (Ollama) Seen(u llm.Usage) llm.Usage {
	return llm.Usage{Input: u.Inputs(), Output: u.Outputs()}
}

// Stops are the reasons that the dialect has.
func (Ollama) Stops() map[llm.Stop]bool {
	return map[llm.Stop]bool{llm.StopEnd: true, llm.StopLength: true, llm.StopToolCalls: true}
}

// Fault is an error amid a stream.
func (Ollama) Fault() string { return "{\"error\":\"the model runner has stopped\"}\n" }

// Faults are ways to fail.
func (Ollama) Faults() []Fault {
	body := func(message string) string { return object(m{"error": message}) }
	return []Fault{
		{404, nil, body(`model "nonesuch" not found, try pulling it first`), llm.NoModel, "", 0},
		{404, nil, "404 page not found", llm.Invalid, "", 0},
		{400, nil, body("the input length exceeds the context length"), llm.TooLong, "", 0},
		{400, nil, body("the prompt is longer than the context length currently available to the model"), llm.TooLong, "", 0},
		{400, nil, body("registry.ollama.ai/library/x does not support tools"), llm.Invalid, "", 0},
		{400, nil, body("invalid: '" + Content + "'"), llm.Invalid, "", 0},
		{401, nil, body("unauthorized: " + Key), llm.Auth, "", 0},
		{429, http.Header{"Retry-After": {"3"}}, body("too many requests"), llm.RateLimited, "", 3000},
		{500, nil, body("model runner has unexpectedly stopped"), llm.Server, "", 0},
		{503, nil, body("server busy, please try again. maximum pending requests exceeded"), llm.Overloaded, "", 0},
	}
}

// Limits are none.
func (Ollama) Limits() (http.Header, []llm.Limit) { return nil, nil }

// Opaque is what the model thought.
func (Ollama) Opaque() (json.RawMessage, string) {
	return json.RawMessage(`{"thinking":"a+b"}`), `"thinking":"a+b"`
}

// Embeddings is a reply with vectors.
func (Ollama) Embeddings(vectors [][]float32, tokens int64) []byte {
	return []byte(object(m{"model": replyModel, "embeddings": vectors, "prompt_eval_count": tokens}))
}

// Can says what the dialect has a word for.
func (Ollama) Can(what Ability) bool {
	switch what {
	case Stopping, ToolImages, Seeds:
		return true
	}
	return false
}

// Asked reads a request.
func (Ollama) Asked(r *http.Request, body []byte) (*Asked, error) {
	var in struct {
		Model           string
		Stream          *bool
		Truncate, Shift *bool
		Messages        []struct {
			Role, Content string
			Images        []string
			ToolCalls     []struct {
				ID       string
				Function struct {
					Name      string
					Arguments json.RawMessage
				}
			} `json:"tool_calls"`
			ToolName   string `json:"tool_name"`
			ToolCallID string `json:"tool_call_id"`
		}
		Tools []struct {
			Function struct {
				Name, Description string
				Parameters        json.RawMessage
			}
		}
		Format  json.RawMessage
		Think   any
		Options struct {
			NumPredict  int64 `json:"num_predict"`
			Temperature float64
			Seed        int64
			Stop        []string
		}
		Input []string
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, err
	}
	a := &Asked{
		Path: r.URL.Path, Key: strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), Model: in.Model, Stream: in.Stream != nil && *in.Stream, Choice: "auto",
		MaxTokens: in.Options.NumPredict, Temperature: in.Options.Temperature, Seed: in.Options.Seed, Stop: in.Options.Stop, Schema: string(in.Format), Texts: in.Input,
	}
	if in.Truncate == nil || *in.Truncate {
		return nil, fmt.Errorf("the server may cut it")
	}
	if in.Input != nil {
		return a, nil
	}
	if r.URL.Path != "/api/chat" || in.Stream == nil {
		return nil, fmt.Errorf("the address is %s, and stream %v", r.URL.Path, in.Stream)
	}
	a.Reasoning, _ = in.Think.(string)
	for _, t := range in.Tools {
		a.Tools = append(a.Tools, llm.Tool{Name: t.Function.Name, Description: t.Function.Description, Schema: t.Function.Parameters})
	}
	names := map[string]string{}
	for _, msg := range in.Messages {
		turn := Turn{Role: msg.Role, Text: msg.Content, Result: msg.ToolCallID}
		for _, image := range msg.Images {
			turn.Images = append(turn.Images, "image/png:"+image)
		}
		for _, call := range msg.ToolCalls {
			names[call.ID] = call.Function.Name
			turn.Calls = append(turn.Calls, llm.ToolCall{ID: call.ID, Name: call.Function.Name, Args: call.Function.Arguments})
		}
		if msg.Role == "tool" && msg.ToolName != names[msg.ToolCallID] {
			return nil, fmt.Errorf("a result of the tool %q", msg.ToolName)
		}
		a.Turns = append(a.Turns, turn)
	}
	return a, nil
}
