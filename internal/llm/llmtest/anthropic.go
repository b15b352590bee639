package llmtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"agentkernel/internal/llm"
)

// Anthropic speaks messages.
type Anthropic struct{}

func (Anthropic) inputs(u llm.Usage) m {
	return m{
		"input_tokens": u.Input, "cache_read_input_tokens": u.CacheRead, "cache_creation_input_tokens": u.CacheWrite + u.CacheWrite1h,
		"cache_creation": m{"ephemeral_5m_input_tokens": u.CacheWrite, "ephemeral_1h_input_tokens": u.CacheWrite1h}, "service_tier": "standard",
	}
}

func (Anthropic) outputs(u llm.Usage, to m) m {
	to["output_tokens"], to["output_tokens_details"] = u.Outputs(), m{"thinking_tokens": u.Reasoning}
	return to
}

func (Anthropic) stop(s llm.Stop) string {
	return map[llm.Stop]string{
		llm.StopEnd: "end_turn", llm.StopLength: "max_tokens", llm.StopToolCalls: "tool_use", llm.StopSequence: "stop_sequence",
		llm.StopRefusal: "refusal", llm.StopPause: "pause_turn",
	}[s]
}

// Whole is a reply in one piece.
func (s Anthropic) Whole(r Reply) []byte {
	content := []json.RawMessage{}
	if r.Opaque {
		block, _ := s.Opaque()
		content = append(content, block)
	}
	if r.Text != nil {
		content = append(content, json.RawMessage(object(m{"type": "text", "text": strings.Join(r.Text, "")})))
	}
	for _, call := range r.Calls {
		content = append(content, json.RawMessage(`{"type":"tool_use","id":`+text(call.ID)+`,"name":`+text(call.Name)+`,"input":`+strings.Join(call.Args, "")+`}`))
	}
	// By hand: the encoder would change the bytes of blocks.
	list := make([]string, len(content))
	for i, c := range content {
		list[i] = string(c)
	}
	usage := ""
	if r.Usage != nil {
		usage = `,"usage":` + object(s.outputs(*r.Usage, s.inputs(*r.Usage)))
	}
	return []byte(`{"id":"` + replyID + `","type":"message","role":"assistant","model":"` + replyModel + `","content":[` + strings.Join(list, ",") +
		`],"stop_reason":"` + s.stop(r.Stop) + `","stop_sequence":null` + usage + `}`)
}

// Stream is a reply in bits.
func (s Anthropic) Stream(r Reply) (events []string) {
	raw := func(kind, data string) { events = append(events, "event: "+kind+"\ndata: "+data+"\n\n") }
	add := func(kind string, v m) {
		v["type"] = kind
		raw(kind, object(v))
	}
	message := m{"id": replyID, "type": "message", "role": "assistant", "model": replyModel, "content": []m{}, "stop_reason": nil}
	if r.Usage != nil {
		usage := s.inputs(*r.Usage)
		usage["output_tokens"] = 1
		message["usage"] = usage
	}
	add("message_start", m{"message": message})
	add("ping", m{})
	at := 0
	if r.Opaque {
		raw("content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`)
		// What a server writes as two escapes may come in two bits.
		raw("content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"a\u002bb \ud83d"}}`)
		raw("content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"\ude00<"}}`)
		raw("content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"AbC\/"}}`)
		raw("content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"+=="}}`)
		add("content_block_stop", m{"index": at})
		at++
	}
	if r.Thinking != nil {
		add("content_block_start", m{"index": at, "content_block": m{"type": "thinking", "thinking": "", "signature": ""}})
		for _, bit := range r.Thinking {
			add("content_block_delta", m{"index": at, "delta": m{"type": "thinking_delta", "thinking": bit}})
		}
		add("content_block_stop", m{"index": at})
		at++
	}
	if r.Text != nil {
		add("content_block_start", m{"index": at, "content_block": m{"type": "text", "text": ""}})
		for _, bit := range r.Text {
			add("content_block_delta", m{"index": at, "delta": m{"type": "text_delta", "text": bit}})
		}
		add("content_block_stop", m{"index": at})
		at++
	}
	for _, call := range r.Calls {
		add("content_block_start", m{"index": at, "content_block": m{"type": "tool_use", "id": call.ID, "name": call.Name, "input": m{}}})
		add("content_block_delta", m{"index": at, "delta": m{"type": "input_json_delta", "partial_json": ""}})
		for _, bit := range call.Args {
			add("content_block_delta", m{"index": at, "delta": m{"type": "input_json_delta", "partial_json": bit}})
		}
		add("content_block_stop", m{"index": at})
		at++
	}
	end := m{"delta": m{"stop_reason": s.stop(r.Stop), "stop_sequence": nil}}
	if r.Usage != nil {
		end["usage"] = s.outputs(*r.Usage, m{"input_tokens": nil})
	}
	add("message_delta", end)
	add("message_stop", m{})
	return events
}

// StreamType is the content type of a stream.
func (Anthropic) StreamType() string { return "text/event-stream; charset=utf-8" }

// Seen is usage: the dialect has all classes.
func (Anthropic) Seen(u llm.Usage) llm.Usage { return u }

// Stops are the reasons that the dialect has.
func (Anthropic) Stops() map[llm.Stop]bool {
	return map[llm.Stop]bool{
		llm.StopEnd: true, llm.StopLength: true, llm.StopToolCalls: true, llm.StopRefusal: true, llm.StopSequence: true, llm.StopPause: true,
	}
}

// Fault is an error amid a stream.
func (Anthropic) Fault() string {
	return "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n"
}

// Faults are ways to fail.
func (Anthropic) Faults() []Fault {
	body := func(kind, message, code string) string {
		e := m{"type": kind, "message": message}
		if code != "" {
			e["details"] = m{"error_code": code}
		}
		return object(m{"type": "error", "error": e, "request_id": "req_body"})
	}
	return []Fault{
		{429, http.Header{"Retry-After": {"7"}}, body("rate_limit_error", "This request would exceed your rate limit", ""), llm.RateLimited, "rate_limit_error", 7000},
		{429, nil, body("rate_limit_error", "spend limit", "enforced_spend_limit_reached"), llm.Quota, "enforced_spend_limit_reached", 0},
		{400, nil, body("invalid_request_error", "You have reached your specified API usage limits. You will regain access on 2026-12-01", ""), llm.Quota, "invalid_request_error", 0},
		{400, nil, body("invalid_request_error", "Your credit balance is too low to access the API", ""), llm.Quota, "invalid_request_error", 0},
		{402, nil, body("billing_error", "billing", ""), llm.Quota, "billing_error", 0},
		{401, nil, body("authentication_error", "invalid x-api-key: "+Key, ""), llm.Auth, "authentication_error", 0},
		{403, nil, body("permission_error", "no permission", ""), llm.Auth, "permission_error", 0},
		{404, nil, body("not_found_error", "model: claude-nonesuch", ""), llm.NoModel, "not_found_error", 0},
		{404, nil, "", llm.Invalid, "", 0},
		{400, nil, body("invalid_request_error", "prompt is too long: 208310 tokens > 200000 maximum", ""), llm.TooLong, "invalid_request_error", 0},
		{413, nil, body("request_too_large", "Request exceeds the maximum size", ""), llm.TooLong, "request_too_large", 0},
		{400, nil, body("invalid_request_error", "Output blocked by content filtering policy", ""), llm.Filtered, "invalid_request_error", 0},
		{400, nil, body("invalid_request_error", "messages.0: '"+Content+"' is wrong", ""), llm.Invalid, "invalid_request_error", 0},
		{500, nil, body("api_error", "Internal server error", ""), llm.Server, "api_error", 0},
		{529, nil, body("overloaded_error", "Overloaded", ""), llm.Overloaded, "overloaded_error", 0},
		{503, nil, "<html>", llm.Overloaded, "", 0},
		{504, nil, body("timeout_error", "timed out", ""), llm.Timeout, "timeout_error", 0},
	}
}

// Limits are headers and what they mean.
func (Anthropic) Limits() (http.Header, []llm.Limit) {
	h := http.Header{}
	for name, value := range map[string]string{
		"requests-limit": "50", "requests-remaining": "49", "requests-reset": "2026-01-01T00:01:00Z",
		"tokens-limit": "48000", "tokens-remaining": "47000", "tokens-reset": "2026-01-01T00:00:45Z",
		"input-tokens-limit": "40000", "input-tokens-remaining": "39000", "input-tokens-reset": "2026-01-01T00:00:30Z",
		"output-tokens-limit": "8000", "output-tokens-remaining": "8000",
	} {
		h.Set("Anthropic-Ratelimit-"+name, value)
	}
	return h, []llm.Limit{
		{What: llm.LimitRequests, Limit: 50, Remaining: 49, Reset: 30e9}, {What: llm.LimitTokens, Limit: 48000, Remaining: 47000, Reset: 15e9},
		{What: llm.LimitInput, Limit: 40000, Remaining: 39000, Reset: 0}, {What: llm.LimitOutput, Limit: 8000, Remaining: 8000, Reset: -1},
	}
}

// Opaque is a block of thinking.
func (Anthropic) Opaque() (json.RawMessage, string) {
	block := `{"type":"thinking","thinking":"a\u002bb \ud83d\ude00<","signature":"AbC\/+=="}`
	return json.RawMessage(block), block
}

// Embeddings is nil: there are none.
func (Anthropic) Embeddings([][]float32, int64) []byte { return nil }

// Can says what the dialect has a word for.
func (Anthropic) Can(what Ability) bool { return what != Seeds }

// Asked reads a request.
func (Anthropic) Asked(r *http.Request, body []byte) (*Asked, error) {
	type block struct {
		Type, Text, ID, Name string
		Input                json.RawMessage
		ToolUseID            string `json:"tool_use_id"`
		IsError              bool   `json:"is_error"`
		Content              json.RawMessage
		Source               struct {
			Type, Data, URL string
			MediaType       string `json:"media_type"`
		}
	}
	var in struct {
		Model    string
		Stream   bool
		System   []block
		Messages []struct {
			Role    string
			Content []block
		}
		Tools []struct {
			Name, Description string
			Schema            json.RawMessage `json:"input_schema"`
		}
		ToolChoice  struct{ Type, Name string } `json:"tool_choice"`
		MaxTokens   int64                       `json:"max_tokens"`
		Temperature float64
		Stop        []string `json:"stop_sequences"`
		Config      struct {
			Effort string
			Format struct{ Schema json.RawMessage }
		} `json:"output_config"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, err
	}
	if r.Header.Get("Anthropic-Version") != "2023-06-01" {
		return nil, fmt.Errorf("the version is %q", r.Header.Get("Anthropic-Version"))
	}
	if r.URL.Path != "/v1/messages" && r.URL.Path != "/v1/messages/count_tokens" {
		return nil, fmt.Errorf("the address is %s", r.URL.Path)
	}
	a := &Asked{
		Path: r.URL.Path, Key: r.Header.Get("X-Api-Key"), Model: in.Model, Stream: in.Stream, MaxTokens: in.MaxTokens, Temperature: in.Temperature, Stop: in.Stop,
		Schema: string(in.Config.Format.Schema), Reasoning: in.Config.Effort, Choice: in.ToolChoice.Type,
	}
	switch in.ToolChoice.Type {
	case "":
		a.Choice = "auto"
	case "any":
		a.Choice = "required"
	case "tool":
		a.Choice = in.ToolChoice.Name
	}
	for _, t := range in.Tools {
		a.Tools = append(a.Tools, llm.Tool{Name: t.Name, Description: t.Description, Schema: t.Schema})
	}
	for _, b := range in.System {
		a.Turns = append(a.Turns, Turn{Role: "system", Text: b.Text})
	}
	picture := func(b block) string {
		if b.Source.Type == "url" {
			return b.Source.URL
		}
		return b.Source.MediaType + ":" + b.Source.Data
	}
	for _, msg := range in.Messages {
		if len(msg.Content) == 0 {
			return nil, fmt.Errorf("a message of nothing")
		}
		turn := Turn{Role: msg.Role}
		for _, b := range msg.Content {
			switch b.Type {
			case "text":
				if b.Text == "" {
					return nil, fmt.Errorf("an empty text")
				}
				turn.Text += b.Text
			case "image":
				turn.Images = append(turn.Images, picture(b))
			case "tool_use":
				turn.Calls = append(turn.Calls, llm.ToolCall{ID: b.ID, Name: b.Name, Args: b.Input})
			case "tool_result":
				result := Turn{Role: "tool", Result: b.ToolUseID, Failed: b.IsError}
				var inner []block
				if err := json.Unmarshal(b.Content, &inner); err != nil {
					return nil, err
				}
				for _, p := range inner {
					result.Text += p.Text
					if p.Type == "image" {
						result.Images = append(result.Images, picture(p))
					}
				}
				a.Turns = append(a.Turns, result)
			case "thinking":
			default:
				return nil, fmt.Errorf("a block of the type %q", b.Type)
			}
		}
		if turn.Text != "" || turn.Images != nil || turn.Calls != nil {
			a.Turns = append(a.Turns, turn)
		}
	}
	return a, nil
}
