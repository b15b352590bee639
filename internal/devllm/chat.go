package devllm

import (
	"encoding/json"
	"net/http"
	"strings"
)

// chatDialect is OpenAI's chat completions, and those of all who speak them. Its name is the profile's.
type chatDialect struct{ profile string }

func (chatDialect) name() string        { return "chat" }
func (chatDialect) mediaType() string   { return "text/event-stream" }
func (chatDialect) frame(s step) []byte { return sse(s) }
func (chatDialect) failBody(f *failure, _ string) any {
	return f.openaiBody()
}
func (chatDialect) midError(f *failure) step { return step{data: f.openaiBody()} }

type chatBody struct {
	Model         string        `json:"model"`
	Messages      []chatMessage `json:"messages"`
	Stream        bool          `json:"stream"`
	StreamOptions *struct {
		IncludeUsage       bool  `json:"include_usage"`
		IncludeObfuscation *bool `json:"include_obfuscation"`
	} `json:"stream_options"`
	MaxTokens           int64           `json:"max_tokens"`
	MaxCompletionTokens int64           `json:"max_completion_tokens"`
	N                   int             `json:"n"`
	Tools               []chatTool      `json:"tools"`
	ToolChoice          json.RawMessage `json:"tool_choice"`
	ParallelToolCalls   *bool           `json:"parallel_tool_calls"`
	ResponseFormat      *struct {
		Type       string `json:"type"`
		JSONSchema struct {
			Name   string          `json:"name"`
			Schema json.RawMessage `json:"schema"`
			Strict bool            `json:"strict"`
		} `json:"json_schema"`
	} `json:"response_format"`
	Priority int `json:"priority"`
}

type chatMessage struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	ToolCallID string          `json:"tool_call_id"`
	ToolCalls  []struct {
		ID       string `json:"id"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

type chatTool struct {
	Type     string `json:"type"`
	Function struct {
		Name       string          `json:"name"`
		Parameters json.RawMessage `json:"parameters"`
	} `json:"function"`
}

func (d chatDialect) read(r *http.Request, body []byte) (*request, *failure) {
	var b chatBody
	if err := json.Unmarshal(body, &b); err != nil {
		return nil, notJSON(err)
	}
	if f := azurePath(r, &b.Model); f != nil {
		return nil, f
	}
	out := &request{model: b.Model, stream: b.Stream, maxOutput: max(b.MaxTokens, b.MaxCompletionTokens), priority: b.Priority,
		oneCall: b.ParallelToolCalls != nil && !*b.ParallelToolCalls}
	switch {
	case b.Model == "":
		return nil, badRequest("you must provide a model parameter").at("model")
	case len(b.Messages) == 0:
		return nil, badRequest("[] is too short - 'messages'").at("messages")
	case b.N > 1:
		return nil, badRequest("n above 1 is not there in devllm").at("n")
	case b.MaxTokens < 0 || b.MaxCompletionTokens < 0:
		return nil, badRequest("max_tokens is too small").at("max_tokens")
	case b.StreamOptions != nil && !b.Stream:
		return nil, badRequest("The 'stream_options' parameter is only allowed when 'stream' is enabled.").at("stream_options")
	}
	out.padded = b.StreamOptions == nil || b.StreamOptions.IncludeObfuscation == nil || *b.StreamOptions.IncludeObfuscation
	out.wantUsage = b.StreamOptions != nil && b.StreamOptions.IncludeUsage
	for _, t := range b.Tools {
		if t.Function.Name == "" {
			return nil, badRequest("a tool has no function with a name").at("tools")
		}
		out.tools = append(out.tools, tool{t.Function.Name, t.Function.Parameters})
		out.blocks = append(out.blocks, block{text: compact(t.Function)})
	}
	out.choice = chosenTool(b.ToolChoice)
	if f := b.format(out); f != nil {
		return nil, f
	}
	for _, m := range b.Messages {
		if f := m.read(out); f != nil {
			return nil, f
		}
	}
	return out, out.checkCalls()
}

// format reads which form the answer is to have.
func (b *chatBody) format(out *request) *failure {
	if b.ResponseFormat == nil {
		return nil
	}
	js := b.ResponseFormat.JSONSchema
	return out.setFormat(b.ResponseFormat.Type, js.Name, js.Schema, js.Strict, "response_format")
}

// setFormat notes the form of the answer, in OpenAI's dialects.
func (r *request) setFormat(kind, name string, schema json.RawMessage, strict bool, param string) *failure {
	switch kind {
	case "text", "":
	case "json_object":
		r.jsonMode = true
	case "json_schema":
		var parsed map[string]any
		if name == "" || json.Unmarshal(schema, &parsed) != nil {
			return badRequest("Missing required parameter: '%s.json_schema' needs a name and a schema", param).at(param)
		}
		if p := strictProblem(parsed, "()"); strict && p != "" {
			return badRequest("Invalid schema for response_format '%s': %s", name, p).at(param)
		}
		r.schema = schema
	default:
		return badRequest("Invalid value: '%s'. Supported values are: 'json_object', 'json_schema', and 'text'.", kind).at(param + ".type")
	}
	return nil
}

// read adds a message to the request.
func (m *chatMessage) read(out *request) *failure {
	text, images, f := contentOf(m.Content)
	if f != nil {
		return f
	}
	b := block{text: text, images: int64(len(images)), pictures: strings.Join(images, " ")}
	switch m.Role {
	case "system", "developer":
		out.system = strings.TrimPrefix(out.system+"\n"+text, "\n")
		out.blocks = append(out.blocks, b)
		return nil
	case "user", "assistant", "tool":
	default:
		return badRequest("Invalid value: '%s'. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and 'developer'.", m.Role).at("messages")
	}
	msg := message{role: m.Role, text: text, of: m.ToolCallID}
	for _, c := range m.ToolCalls {
		msg.calls = append(msg.calls, call{c.ID, c.Function.Name, c.Function.Arguments})
		b.text += "\n" + c.Function.Name + c.Function.Arguments
	}
	out.msgs = append(out.msgs, msg)
	out.blocks = append(out.blocks, b)
	return nil
}

// contentOf is the text of a content of OpenAI's dialects, and what tells its pictures apart.
func contentOf(content json.RawMessage) (text string, images []string, f *failure) {
	if len(content) == 0 || string(content) == "null" {
		return "", nil, nil
	}
	if json.Unmarshal(content, &text) == nil {
		return text, nil, nil
	}
	var parts []struct {
		Type     string          `json:"type"`
		Text     string          `json:"text"`
		Refusal  string          `json:"refusal"`
		ImageURL json.RawMessage `json:"image_url"`
		FileID   string          `json:"file_id"`
	}
	if json.Unmarshal(content, &parts) != nil {
		return "", nil, badRequest("Invalid type for 'content': expected a string or a list of parts").at("messages")
	}
	var texts []string
	for _, p := range parts {
		switch p.Type {
		case "text", "input_text", "output_text":
			texts = append(texts, p.Text)
		case "refusal":
			texts = append(texts, p.Refusal)
		case "image_url", "input_image":
			images = append(images, bodyHash(append(p.ImageURL, p.FileID...)))
		default:
			return "", nil, badRequest("Invalid value: '%s' is no part that devllm knows", p.Type).at("messages")
		}
	}
	return strings.Join(texts, "\n"), images, nil
}

// chosenTool reads tool_choice in OpenAI's dialects.
func chosenTool(choice json.RawMessage) string {
	var word string
	if json.Unmarshal(choice, &word) == nil {
		return strings.TrimPrefix(word, "auto")
	}
	var one struct {
		Name     string `json:"name"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	_ = json.Unmarshal(choice, &one) // anything else is no choice
	return one.Function.Name + one.Name
}

// azurePath takes the model from Azure's path, which names a deployment.
func azurePath(r *http.Request, model *string) *failure {
	deployment := r.PathValue("deployment")
	if deployment == "" {
		return nil
	}
	*model = deployment
	if r.URL.Query().Get("api-version") == "" {
		return &failure{cause: noPath, message: "Resource not found: the query has no api-version"}
	}
	return nil
}

func notJSON(err error) *failure {
	return badRequest("We could not parse the JSON body of your request: %v", err)
}

func (d chatDialect) usage(x *exchange) map[string]any {
	t := x.tokens
	u := map[string]any{"prompt_tokens": t.Input(), "completion_tokens": t.Answer(), "total_tokens": t.Input() + t.Answer(),
		"prompt_tokens_details":     map[string]any{"cached_tokens": t.CacheRead, "audio_tokens": 0},
		"completion_tokens_details": map[string]any{"reasoning_tokens": t.Reasoning, "audio_tokens": 0, "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0}}
	if x.model.CacheWrites {
		u["prompt_tokens_details"].(map[string]any)["cache_write_tokens"] = t.CacheWrite
	}
	if d.profile == "openrouter" {
		u["cost"] = float64(x.model.Price.nanos(t)) / 1e9
	}
	return u
}

// reasoningField is where this provider shows reasoning; "": it does not.
func (d chatDialect) reasoningField() string {
	return map[string]string{"vllm": "reasoning_content", "openrouter": "reasoning", "ollama": "reasoning"}[d.profile]
}

func (d chatDialect) finish(a *answer) string {
	return [...]string{stopped: "stop", cutShort: "length", wantsTools: "tool_calls", refused: "stop", windowFull: "length"}[a.finish]
}

func (d chatDialect) base(x *exchange, object string) map[string]any {
	m := map[string]any{"id": chatID(x), "object": object, "created": x.start.Unix(), "model": x.model.Name, "system_fingerprint": "fp_devllm"}
	if d.profile == "openai" {
		m["service_tier"] = "default"
	}
	return m
}

func (d chatDialect) whole(x *exchange) any {
	a := x.ans
	msg := map[string]any{"role": "assistant", "content": a.text, "refusal": nil, "annotations": []any{}}
	if a.text == "" {
		msg["content"] = nil
	}
	if a.refusal != "" {
		msg["refusal"] = a.refusal
	}
	if f := d.reasoningField(); f != "" && a.reasoning != "" {
		msg[f] = a.reasoning
	}
	var calls []any
	for _, c := range a.calls {
		calls = append(calls, map[string]any{"id": c.id, "type": "function", "function": map[string]any{"name": c.name, "arguments": c.args}})
	}
	if calls != nil {
		msg["tool_calls"] = calls
	}
	m := d.base(x, "chat.completion")
	m["choices"] = []any{map[string]any{"index": 0, "message": msg, "logprobs": nil, "finish_reason": d.finish(a)}}
	if !x.req.noUsage {
		m["usage"] = d.usage(x)
	}
	return m
}

func (d chatDialect) steps(x *exchange, yield func(step) bool) {
	a, chunks := x.ans, 0
	chunk := func(delta map[string]any, finish any, n int64) bool {
		m := d.base(x, "chat.completion.chunk")
		m["choices"] = []any{map[string]any{"index": 0, "delta": delta, "logprobs": nil, "finish_reason": finish}}
		if x.req.wantUsage {
			m["usage"] = nil
		}
		if chunks++; d.profile == "openai" && x.req.padded {
			m["obfuscation"] = padding(chunks)
		}
		return yield(step{data: m, tokens: n})
	}
	if d.profile == "azure" { // what its filters say of the prompt comes first, without choices
		m := d.base(x, "chat.completion.chunk")
		m["choices"], m["prompt_filter_results"] = []any{}, []any{map[string]any{"prompt_index": 0, "content_filter_results": map[string]any{}}}
		if !yield(step{data: m}) {
			return
		}
	}
	first := map[string]any{"role": "assistant", "content": "", "refusal": nil}
	if len(a.calls) > 0 && a.text == "" {
		first["content"] = nil
	}
	if !chunk(first, nil, 0) {
		return
	}
	shown := d.reasoningField()
	ok := x.pieces(a.reasoning, func(p string, n int64) bool {
		if shown == "" {
			return yield(step{silent: true, tokens: n})
		}
		return chunk(map[string]any{shown: p}, nil, n)
	}) && x.pieces(a.text, func(p string, n int64) bool {
		return chunk(map[string]any{"content": p}, nil, n)
	}) && x.pieces(a.refusal, func(p string, n int64) bool {
		return chunk(map[string]any{"refusal": p}, nil, n)
	})
	for i := 0; ok && i < len(a.calls); i++ {
		c := a.calls[i]
		ok = chunk(map[string]any{"tool_calls": []any{map[string]any{"index": i, "id": c.id, "type": "function",
			"function": map[string]any{"name": c.name, "arguments": ""}}}}, nil, x.s.tokens.count(c.name)) &&
			x.pieces(c.args, func(p string, n int64) bool {
				return chunk(map[string]any{"tool_calls": []any{map[string]any{"index": i, "function": map[string]any{"arguments": p}}}}, nil, n)
			})
	}
	if !ok || !chunk(map[string]any{}, d.finish(a), 0) {
		return
	}
	if x.req.wantUsage && !x.req.noUsage {
		m := d.base(x, "chat.completion.chunk")
		m["choices"], m["usage"] = []any{}, d.usage(x)
		if !yield(step{data: m}) {
			return
		}
	}
	yield(step{raw: "[DONE]"})
}
