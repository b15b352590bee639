package devllm

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// messagesDialect is Anthropic's messages.
type messagesDialect struct{ counts bool }

func (messagesDialect) name() string        { return "messages" }
func (messagesDialect) mediaType() string   { return "text/event-stream" }
func (messagesDialect) frame(s step) []byte { return sse(s) }
func (messagesDialect) failBody(f *failure, id string) any {
	return f.anthropicBody(id)
}

func (messagesDialect) midError(f *failure) step {
	return step{name: "error", data: map[string]any{"type": "error", "error": map[string]any{"type": f.anthropicKind(), "message": f.message}}}
}

func pingStep() step { return step{name: "ping", data: map[string]any{"type": "ping"}} }

type messagesBody struct {
	Model        string             `json:"model"`
	MaxTokens    *int64             `json:"max_tokens"`
	Messages     []anthropicMessage `json:"messages"`
	System       json.RawMessage    `json:"system"`
	Stream       bool               `json:"stream"`
	Tools        []anthropicTool    `json:"tools"`
	CacheControl *cacheControl      `json:"cache_control"`
	ToolChoice   struct {
		Type                   string `json:"type"`
		Name                   string `json:"name"`
		DisableParallelToolUse bool   `json:"disable_parallel_tool_use"`
	} `json:"tool_choice"`
	OutputConfig struct {
		Format *struct {
			Type   string          `json:"type"`
			Schema json.RawMessage `json:"schema"`
		} `json:"format"`
	} `json:"output_config"`
	Thinking struct {
		Type         string `json:"type"`
		BudgetTokens int64  `json:"budget_tokens"`
	} `json:"thinking"`
}

type cacheControl struct {
	Type string `json:"type"`
	TTL  string `json:"ttl"`
}

// life is how long the cache keeps what stands before a breakpoint.
func (c *cacheControl) life() time.Duration {
	switch {
	case c == nil:
		return 0
	case c.TTL == "1h":
		return time.Hour
	}
	return 5 * time.Minute
}

type anthropicTool struct {
	Name         string          `json:"name"`
	Description  string          `json:"description"`
	InputSchema  json.RawMessage `json:"input_schema"`
	CacheControl *cacheControl   `json:"cache_control"`
}

type anthropicMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

type anthropicBlock struct {
	Type         string          `json:"type"`
	Text         string          `json:"text"`
	ID           string          `json:"id"`
	Name         string          `json:"name"`
	Input        json.RawMessage `json:"input"`
	ToolUseID    string          `json:"tool_use_id"`
	Content      json.RawMessage `json:"content"`
	Thinking     string          `json:"thinking"`
	Signature    string          `json:"signature"`
	Source       json.RawMessage `json:"source"`
	CacheControl *cacheControl   `json:"cache_control"`
}

// blocksOf are the blocks of a content, which may be a text.
func blocksOf(content json.RawMessage) ([]anthropicBlock, *failure) {
	var text string
	if len(content) == 0 {
		return nil, nil
	}
	if json.Unmarshal(content, &text) == nil {
		return []anthropicBlock{{Type: "text", Text: text}}, nil
	}
	var list []anthropicBlock
	if err := json.Unmarshal(content, &list); err != nil {
		return nil, badRequest("content: Input should be a valid string or a list of blocks")
	}
	return list, nil
}

func (d messagesDialect) read(_ *http.Request, body []byte) (*request, *failure) {
	var b messagesBody
	if err := json.Unmarshal(body, &b); err != nil {
		return nil, badRequest("The request body is not valid JSON: %v", err)
	}
	switch {
	case b.Model == "":
		return nil, badRequest("model: Field required")
	case len(b.Messages) == 0:
		return nil, badRequest("messages: at least one message is required")
	case b.MaxTokens == nil && !d.counts:
		return nil, badRequest("max_tokens: Field required")
	case b.MaxTokens != nil && *b.MaxTokens < 1:
		return nil, badRequest("max_tokens: Input should be greater than or equal to 1")
	}
	out := &request{model: b.Model, stream: b.Stream, oneCall: b.ToolChoice.DisableParallelToolUse, thinking: b.Thinking.Type == "enabled" || b.Thinking.Type == "adaptive"}
	if b.MaxTokens != nil && !d.counts {
		out.maxOutput = *b.MaxTokens
	}
	switch b.ToolChoice.Type {
	case "any":
		out.choice = "required"
	case "tool":
		out.choice = b.ToolChoice.Name
	}
	if f := b.OutputConfig.Format; f != nil {
		if f.Type != "json_schema" || len(f.Schema) == 0 {
			return nil, badRequest("output_config.format: a json_schema with a schema is expected")
		}
		out.schema = f.Schema
	}
	for _, t := range b.Tools {
		if t.Name == "" {
			return nil, badRequest("tools: Field required: name")
		}
		out.tools = append(out.tools, tool{t.Name, t.InputSchema})
		out.blocks = append(out.blocks, block{text: t.Name + "\n" + t.Description + "\n" + string(t.InputSchema), keep: t.CacheControl.life()})
	}
	system, f := blocksOf(b.System)
	if f != nil {
		return nil, f
	}
	for _, s := range system {
		out.system = strings.TrimPrefix(out.system+"\n"+s.Text, "\n")
		out.blocks = append(out.blocks, block{text: s.Text, keep: s.CacheControl.life()})
	}
	for i, m := range b.Messages {
		if f := m.read(out, i); f != nil {
			return nil, f
		}
	}
	if n := len(out.blocks); b.CacheControl != nil && n > 0 && out.blocks[n-1].keep == 0 {
		out.blocks[n-1].keep = b.CacheControl.life()
	}
	return out, out.checkBreakpoints()
}

func (m *anthropicMessage) read(out *request, i int) *failure {
	if m.Role != "user" && m.Role != "assistant" {
		return badRequest("messages.%d.role: Input should be 'user' or 'assistant'", i)
	}
	blocks, f := blocksOf(m.Content)
	if f != nil {
		return f
	}
	msg := message{role: m.Role}
	var results []message
	for _, b := range blocks {
		add := block{keep: b.CacheControl.life()}
		switch b.Type {
		case "text":
			msg.text = strings.TrimPrefix(msg.text+"\n"+b.Text, "\n")
			add.text = b.Text
		case "image", "document":
			add.images, add.pictures = 1, bodyHash(b.Source)
		case "tool_use":
			msg.calls = append(msg.calls, call{b.ID, b.Name, string(b.Input)})
			add.text = b.Name + string(b.Input)
		case "tool_result":
			inner, f := blocksOf(b.Content)
			if f != nil {
				return f
			}
			var texts []string
			for _, p := range inner {
				texts = append(texts, p.Text)
			}
			add.text = strings.Join(texts, "\n")
			results = append(results, message{role: "tool", text: add.text, of: b.ToolUseID})
		case "thinking":
			if b.Signature != seal(b.Thinking) {
				return badRequest("messages.%d.content: Invalid `signature` in `thinking` block", i)
			}
			add.text = b.Thinking
		case "redacted_thinking":
		default:
			return badRequest("messages.%d.content: '%s' is no block that devllm knows", i, b.Type)
		}
		out.blocks = append(out.blocks, add)
	}
	if f := checkResults(out, results, i); f != nil {
		return f
	}
	out.msgs = append(out.msgs, results...)
	if msg.text != "" || len(msg.calls) > 0 || len(results) == 0 {
		out.msgs = append(out.msgs, msg)
	}
	return nil
}

// checkResults wants the results of all calls of the message before, and of no others.
func checkResults(out *request, results []message, i int) *failure {
	open := map[string]bool{}
	if n := len(out.msgs); n > 0 {
		for _, c := range out.msgs[n-1].calls {
			open[c.id] = true
		}
	}
	for _, r := range results {
		if !open[r.of] {
			return badRequest("messages.%d.content: unexpected `tool_use_id` found in `tool_result` blocks: %s. Each `tool_result` block must have a corresponding `tool_use` block in the previous message.", i, r.of)
		}
		delete(open, r.of)
	}
	for id := range open {
		return badRequest("messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after: %s.", i, id)
	}
	return nil
}

// maxBreakpoints is how many Anthropic's cache takes.
const maxBreakpoints = 4

func (r *request) checkBreakpoints() *failure {
	n, short := 0, false
	for _, b := range r.blocks {
		if b.keep == 0 {
			continue
		}
		if n++; n > maxBreakpoints {
			return badRequest("A maximum of %d blocks with cache_control may be provided.", maxBreakpoints)
		}
		if b.keep == time.Hour && short {
			return badRequest("a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block.")
		}
		short = short || b.keep < time.Hour
	}
	return nil
}

// usage is what is billed, as far as so many tokens were made.
func (d messagesDialect) usage(x *exchange, output int64) map[string]any {
	t := x.tokens
	return map[string]any{"input_tokens": t.Uncached, "cache_creation_input_tokens": t.CacheWrite + t.CacheWrite1h, "cache_read_input_tokens": t.CacheRead,
		"cache_creation": map[string]any{"ephemeral_5m_input_tokens": t.CacheWrite, "ephemeral_1h_input_tokens": t.CacheWrite1h},
		"output_tokens":  output, "output_tokens_details": map[string]any{"thinking_tokens": max(min(t.Reasoning, output-t.Output), 0)}, "service_tier": "standard", "server_tool_use": nil}
}

func (d messagesDialect) stop(a *answer) string {
	return [...]string{stopped: "end_turn", cutShort: "max_tokens", wantsTools: "tool_use", refused: "refusal", windowFull: "model_context_window_exceeded"}[a.finish]
}

// toolID is what Anthropic calls a call.
func toolID(c call) string { return "toolu_" + strings.TrimPrefix(c.id, "call_") }

// input are the arguments of a call as an object. An answer that was cut may have half of one.
func input(c call) any {
	var v map[string]any
	if json.Unmarshal([]byte(c.args), &v) != nil {
		return map[string]any{}
	}
	return json.RawMessage(c.args)
}

func (d messagesDialect) envelope(x *exchange) map[string]any {
	return map[string]any{"id": fmt.Sprintf("msg_dev%08d", x.id), "type": "message", "role": "assistant", "model": x.model.Name, "content": []any{},
		"stop_reason": nil, "stop_sequence": nil, "stop_details": nil, "container": nil}
}

func (d messagesDialect) whole(x *exchange) any {
	a := x.ans
	content := []any{}
	if a.reasoning != "" && x.req.thinking {
		content = append(content, map[string]any{"type": "thinking", "thinking": a.reasoning, "signature": seal(a.reasoning)})
	}
	if t := a.text + a.refusal; t != "" {
		content = append(content, map[string]any{"type": "text", "text": t, "citations": nil})
	}
	for _, c := range a.calls {
		content = append(content, map[string]any{"type": "tool_use", "id": toolID(c), "name": c.name, "input": input(c)})
	}
	m := d.envelope(x)
	m["content"], m["stop_reason"] = content, d.stop(a)
	if !x.req.noUsage {
		m["usage"] = d.usage(x, x.tokens.Answer())
	}
	return m
}

func (d messagesDialect) steps(x *exchange, yield func(step) bool) {
	emit := func(name string, n int64, data map[string]any) bool {
		data["type"] = name
		return yield(step{name: name, data: data, tokens: n})
	}
	start := d.envelope(x)
	if !x.req.noUsage {
		start["usage"] = d.usage(x, 1)
	}
	if !emit("message_start", 0, map[string]any{"message": start}) {
		return
	}
	index, a := 0, x.ans
	// content is one block: what it begins with, its text in deltas of a kind, and a last delta.
	content := func(block map[string]any, text, kind, field string, first int64, last map[string]any) bool {
		if !emit("content_block_start", first, map[string]any{"index": index, "content_block": block}) || index == 0 && !yield(pingStep()) {
			return false
		}
		delta := func(d map[string]any, n int64) bool {
			return emit("content_block_delta", n, map[string]any{"index": index, "delta": d})
		}
		if !x.pieces(text, func(p string, n int64) bool { return delta(map[string]any{"type": kind, field: p}, n) }) || last != nil && !delta(last, 0) {
			return false
		}
		ok := emit("content_block_stop", 0, map[string]any{"index": index})
		index++
		return ok
	}
	ok := true
	if a.reasoning != "" && x.req.thinking {
		ok = content(map[string]any{"type": "thinking", "thinking": "", "signature": ""}, a.reasoning, "thinking_delta", "thinking", 0,
			map[string]any{"type": "signature_delta", "signature": seal(a.reasoning)})
	} else if a.reasoning != "" {
		ok = x.pieces(a.reasoning, func(_ string, n int64) bool { return yield(step{silent: true, tokens: n}) })
	}
	if t := a.text + a.refusal; ok && t != "" {
		ok = content(map[string]any{"type": "text", "text": ""}, t, "text_delta", "text", 0, nil)
	}
	for _, c := range a.calls {
		ok = ok && content(map[string]any{"type": "tool_use", "id": toolID(c), "name": c.name, "input": map[string]any{}}, c.args, "input_json_delta", "partial_json", x.s.tokens.count(c.name), nil)
	}
	if !ok {
		return
	}
	end := map[string]any{"delta": map[string]any{"stop_reason": d.stop(a), "stop_sequence": nil, "container": nil}}
	if !x.req.noUsage {
		end["usage"] = d.usage(x, x.tokens.Answer())
	}
	if emit("message_delta", 0, end) {
		emit("message_stop", 0, map[string]any{})
	}
}
