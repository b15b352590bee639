package llmtest

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strings"

	"agentkernel/internal/llm"
)

// Chat speaks chat completions.
type Chat struct {
	Path     string // of a request; "": /v1/chat/completions
	APIKey   bool   // the key is in api-key, as Azure has it
	OldCap   bool   // the cap of the answer is max_tokens
	Priority bool   // the server orders what it has queued
}

func (c Chat) usage(u llm.Usage) m {
	return m{
		"prompt_tokens": u.Inputs(), "completion_tokens": u.Outputs(), "total_tokens": u.Inputs() + u.Outputs(),
		"prompt_tokens_details":     m{"cached_tokens": u.CacheRead, "cache_write_tokens": u.CacheWrite + u.CacheWrite1h, "audio_tokens": 0},
		"completion_tokens_details": m{"reasoning_tokens": u.Reasoning},
	}
}

func (c Chat) finish(s llm.Stop) string {
	return map[llm.Stop]string{
		llm.StopEnd: "stop", llm.StopLength: "length", llm.StopToolCalls: "tool_calls", llm.StopRefusal: "content_filter", llm.StopSequence: "stop",
	}[s]
}

// Whole is a reply in one piece.
func (c Chat) Whole(r Reply) []byte {
	message := m{"role": "assistant", "content": strings.Join(r.Text, "")}
	if r.Thinking != nil {
		message["reasoning_content"] = strings.Join(r.Thinking, "")
	}
	var calls []m
	for _, call := range r.Calls {
		calls = append(calls, m{"id": call.ID, "type": "function", "function": m{"name": call.Name, "arguments": strings.Join(call.Args, "")}})
	}
	if calls != nil {
		message["tool_calls"] = calls
	}
	if r.Opaque {
		block, _ := c.Opaque()
		message["reasoning_details"] = []json.RawMessage{block}
	}
	choice := m{"index": 0, "message": message, "finish_reason": c.finish(r.Stop)}
	if r.Stop == llm.StopSequence {
		choice["stop_reason"] = "END"
	}
	reply := m{"id": replyID, "model": replyModel, "object": "chat.completion", "choices": []m{choice}}
	if r.Usage != nil {
		reply["usage"] = c.usage(*r.Usage)
	}
	return []byte(object(reply))
}

// Stream is a reply in bits.
func (c Chat) Stream(r Reply) (events []string) {
	add := func(v m) {
		v["id"], v["model"], v["object"] = replyID, replyModel, "chat.completion.chunk"
		events = append(events, "data: "+object(v)+"\n\n")
	}
	delta := func(d m) { add(m{"choices": []m{{"index": 0, "delta": d, "finish_reason": nil}}}) }
	add(m{"choices": []m{}}) // Azure's first, with what its filter says
	delta(m{"role": "assistant", "content": ""})
	if r.Opaque {
		block, _ := c.Opaque()
		delta(m{"reasoning_details": []json.RawMessage{block}})
	}
	for _, s := range r.Thinking {
		delta(m{"reasoning_content": s})
	}
	for _, s := range r.Text {
		delta(m{"content": s})
	}
	for i, call := range r.Calls {
		delta(m{"tool_calls": []m{{"index": i, "id": call.ID, "type": "function", "function": m{"name": call.Name, "arguments": ""}}}})
	}
	// The bits of calls that are made at once come mixed.
	for k := 0; ; k++ {
		more := false
		for i, call := range r.Calls {
			if k < len(call.Args) {
				more = true
				delta(m{"tool_calls": []m{{"index": i, "function": m{"arguments": call.Args[k]}}}})
			}
		}
		if !more {
			break
		}
	}
	last := m{"index": 0, "delta": m{}, "finish_reason": c.finish(r.Stop)}
	if r.Stop == llm.StopSequence {
		last["stop_reason"] = "END"
	}
	add(m{"choices": []m{last}})
	if r.Usage != nil {
		add(m{"choices": []m{}, "usage": c.usage(*r.Usage)})
	}
	return append(events, "data: [DONE]\n\n")
}

// StreamType is the content type of a stream.
func (Chat) StreamType() string { return "text/event-stream; charset=utf-8" }

// Seen is usage without what the dialect has no class for.
func (Chat) Seen(u llm.Usage) llm.Usage {
	u.CacheWrite, u.CacheWrite1h = u.CacheWrite+u.CacheWrite1h, 0
	return u
}

// Stops are the reasons that the dialect has.
func (Chat) Stops() map[llm.Stop]bool {
	return map[llm.Stop]bool{llm.StopEnd: true, llm.StopLength: true, llm.StopToolCalls: true, llm.StopRefusal: true, llm.StopSequence: true}
}

// Fault is an error amid a stream.
func (Chat) Fault() string {
	return "data: {\"error\":{\"message\":\"too busy\",\"type\":\"overloaded_error\",\"code\":\"server_is_overloaded\"}}\n\n"
}

// Faults are ways to fail.
func (Chat) Faults() []Fault { return openAIFaults() }

func openAIFaults() []Fault {
	body := func(kind, code, message string) string {
		return object(m{"error": m{"message": message, "type": kind, "code": code, "param": nil}})
	}
	return []Fault{
		{429, http.Header{"Retry-After": {"20"}}, body("requests", "rate_limit_exceeded", "Rate limit reached"), llm.RateLimited, "rate_limit_exceeded", 20000},
		{429, http.Header{"Retry-After-Ms": {"1500"}, "Retry-After": {"2"}}, body("rate_limit_error", "slow_down", "slow down"), llm.RateLimited, "slow_down", 1500},
		{429, nil, body("insufficient_quota", "insufficient_quota", "You exceeded your current quota"), llm.Quota, "insufficient_quota", 0},
		{429, nil, body("insufficient_quota", "credit_balance_exhausted", "no credits"), llm.Quota, "credit_balance_exhausted", 0},
		{429, nil, body("insufficient_quota", "organization_spend_limit_exceeded", "limit"), llm.Quota, "organization_spend_limit_exceeded", 0},
		{402, nil, `{"error":{"code":402,"message":"Insufficient credits"}}`, llm.Quota, "", 0},
		{401, nil, body("invalid_request_error", "invalid_api_key", "Incorrect API key provided: "+Key), llm.Auth, "invalid_api_key", 0},
		{401, nil, `{"statusCode":401,"message":"Unauthorized"}`, llm.Auth, "", 0},
		{403, nil, body("invalid_request_error", "unsupported_country_region_territory", "no"), llm.Auth, "unsupported_country_region_territory", 0},
		{403, nil, `{"error":{"code":403,"message":"flagged","metadata":{"reasons":["violence"],"flagged_input":"` + Content + `"}}}`, llm.Filtered, "moderation", 0},
		{404, nil, body("invalid_request_error", "model_not_found", "The model does not exist"), llm.NoModel, "model_not_found", 0},
		{404, nil, `{"error":{"code":"DeploymentNotFound","message":"The API deployment does not exist"}}`, llm.NoModel, "DeploymentNotFound", 0},
		{404, nil, `{"object":"error","message":"The model x does not exist.","type":"NotFoundError","param":null,"code":404}`, llm.NoModel, "NotFoundError", 0},
		{404, nil, "<html>nothing here</html>", llm.Invalid, "", 0},
		{400, nil, body("invalid_request_error", "context_length_exceeded", "maximum context length is 8192 tokens"), llm.TooLong, "context_length_exceeded", 0},
		{400, nil, `{"object":"error","message":"This model's maximum context length is 4096 tokens.","type":"BadRequestError","code":400}`, llm.TooLong, "BadRequestError", 0},
		{413, nil, "", llm.TooLong, "", 0},
		{400, nil, `{"error":{"code":"content_filter","message":"The response was filtered","innererror":{"code":"ResponsibleAIPolicyViolation"}}}`, llm.Filtered, "content_filter", 0},
		{400, nil, body("invalid_request_error", "invalid_value", "Invalid value: '"+Content+"'"), llm.Invalid, "invalid_value", 0},
		{422, nil, `{"detail":[{"loc":["body"],"msg":"no"}]}`, llm.Invalid, "", 0},
		{500, nil, body("server_error", "", "The server had an error"), llm.Server, "server_error", 0},
		{502, nil, "<html>bad gateway</html>", llm.Server, "", 0},
		{503, http.Header{"Retry-After": {"1"}}, body("service_unavailable_error", "server_is_overloaded", "overloaded"), llm.Overloaded, "server_is_overloaded", 1000},
		{503, http.Header{"Retry-After": {"7"}}, body("server_error", "", "The server is currently overloaded"), llm.Overloaded, "server_error", 7000},
		{503, nil, "", llm.Overloaded, "", 0},
		{504, nil, "", llm.Timeout, "", 0},
	}
}

// Limits are headers and what they mean.
func (Chat) Limits() (http.Header, []llm.Limit) { return openAILimits() }

func openAILimits() (http.Header, []llm.Limit) {
	h := http.Header{}
	for name, value := range map[string]string{
		"limit-requests": "60", "remaining-requests": "59", "reset-requests": "1s",
		"limit-tokens": "150000", "remaining-tokens": "149984", "reset-tokens": "6m0s",
	} {
		h.Set("X-Ratelimit-"+name, value)
	}
	return h, []llm.Limit{
		{What: llm.LimitRequests, Limit: 60, Remaining: 59, Reset: 1e9}, {What: llm.LimitTokens, Limit: 150000, Remaining: 149984, Reset: 360e9},
	}
}

// Opaque is a block of reasoning.
func (Chat) Opaque() (json.RawMessage, string) {
	block := `{"type":"reasoning.encrypted","data":"AbC\u002b\/==","id":"r-1","index":0}`
	return json.RawMessage(block), `"reasoning_details":[` + block + `]`
}

// Embeddings is a reply with vectors, the last first: an order that only the index knows.
func (c Chat) Embeddings(vectors [][]float32, tokens int64) []byte {
	var data []m
	for i := len(vectors) - 1; i >= 0; i-- {
		d := m{"index": i, "object": "embedding", "embedding": vectors[i]}
		if i%2 == 0 { // in base64, which any server may write
			var b []byte
			for _, f := range vectors[i] {
				b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
			}
			d["embedding"] = base64.StdEncoding.EncodeToString(b)
		}
		data = append(data, d)
	}
	return []byte(object(m{"model": replyModel, "object": "list", "data": data, "usage": m{"prompt_tokens": tokens, "total_tokens": tokens}}))
}

// Can says what the dialect has a word for.
func (Chat) Can(what Ability) bool {
	return what != ToolImages && what != FailedResults
}

// Asked reads a request.
func (c Chat) Asked(r *http.Request, body []byte) (*Asked, error) {
	var in struct {
		Model    string
		Stream   bool
		Messages []struct {
			Role       string
			Content    json.RawMessage
			ToolCallID string `json:"tool_call_id"`
			ToolCalls  []struct {
				ID, Type string
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		}
		Tools []struct {
			Type     string
			Function struct {
				Name, Description string
				Parameters        json.RawMessage
			}
		}
		ToolChoice     json.RawMessage `json:"tool_choice"`
		MaxTokens      int64           `json:"max_tokens"`
		MaxCompletion  int64           `json:"max_completion_tokens"`
		Temperature    float64
		Seed           int64
		Stop           []string
		Reasoning      string `json:"reasoning_effort"`
		ResponseFormat struct {
			JSONSchema struct {
				Name   string
				Schema json.RawMessage
			} `json:"json_schema"`
		} `json:"response_format"`
		Input         []string
		StreamOptions struct {
			Usage bool `json:"include_usage"`
		} `json:"stream_options"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, err
	}
	path := c.Path
	if path == "" {
		path = "/v1/chat/completions"
	}
	if in.Input == nil && r.URL.RequestURI() != path {
		return nil, fmt.Errorf("the address is %s", r.URL.RequestURI())
	}
	if in.Stream && !in.StreamOptions.Usage {
		return nil, fmt.Errorf("a stream without usage")
	}
	a := &Asked{
		Path: r.URL.Path, Key: strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), Model: in.Model, Stream: in.Stream, MaxTokens: in.MaxTokens,
		Temperature: in.Temperature, Seed: in.Seed, Stop: in.Stop, Schema: string(in.ResponseFormat.JSONSchema.Schema), Reasoning: in.Reasoning, Texts: in.Input,
	}
	if c.APIKey {
		a.Key = r.Header.Get("Api-Key")
	}
	if !c.OldCap {
		a.MaxTokens = in.MaxCompletion
	}
	a.Choice = openAIChoice(in.ToolChoice)
	for _, t := range in.Tools {
		a.Tools = append(a.Tools, llm.Tool{Name: t.Function.Name, Description: t.Function.Description, Schema: t.Function.Parameters})
	}
	for _, msg := range in.Messages {
		turn := Turn{Role: msg.Role, Result: msg.ToolCallID}
		if err := openAIContent(msg.Content, &turn); err != nil {
			return nil, err
		}
		for _, call := range msg.ToolCalls {
			turn.Calls = append(turn.Calls, llm.ToolCall{ID: call.ID, Name: call.Function.Name, Args: json.RawMessage(call.Function.Arguments)})
		}
		a.Turns = append(a.Turns, turn)
	}
	return a, nil
}

func openAIChoice(raw json.RawMessage) string {
	var named struct {
		Name     string
		Function struct{ Name string }
	}
	choice := "auto"
	if json.Unmarshal(raw, &choice) != nil && json.Unmarshal(raw, &named) == nil {
		choice = named.Name + named.Function.Name
	}
	return choice
}

// openAIContent reads what a message says, of either dialect.
func openAIContent(raw json.RawMessage, turn *Turn) error {
	if len(raw) == 0 || string(raw) == "null" || json.Unmarshal(raw, &turn.Text) == nil {
		return nil
	}
	var parts []struct {
		Type, Text string
		ImageURL   json.RawMessage `json:"image_url"`
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return err
	}
	for _, p := range parts {
		switch p.Type {
		case "text", "input_text":
			turn.Text += p.Text
		case "image_url", "input_image":
			var at struct{ URL string }
			if json.Unmarshal(p.ImageURL, &at.URL) != nil {
				if err := json.Unmarshal(p.ImageURL, &at); err != nil {
					return err
				}
			}
			address := strings.Replace(strings.TrimPrefix(at.URL, "data:"), ";base64,", ":", 1)
			turn.Images = append(turn.Images, address)
		default:
			return fmt.Errorf("a part of the type %q", p.Type)
		}
	}
	return nil
}
