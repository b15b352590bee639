package devllm

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// responsesDialect is OpenAI's responses.
type responsesDialect struct{ s *Server }

func (responsesDialect) name() string                      { return "responses" }
func (responsesDialect) mediaType() string                 { return "text/event-stream" }
func (responsesDialect) frame(s step) []byte               { return sse(s) }
func (responsesDialect) failBody(f *failure, _ string) any { return f.openaiBody() }

func (responsesDialect) midError(f *failure) step {
	_, code := f.openaiKind()
	return step{name: "error", data: map[string]any{"type": "error", "code": code, "message": f.message, "param": nil, "sequence_number": 1_000_000}}
}

// kept is a response that is remembered: what led to it, and how it was sent.
type kept struct {
	owner  string
	msgs   []message
	blocks []block
	whole  json.RawMessage
	events []step
}

type responsesBody struct {
	Model              string          `json:"model"`
	Input              json.RawMessage `json:"input"`
	Instructions       string          `json:"instructions"`
	Stream             bool            `json:"stream"`
	MaxOutputTokens    int64           `json:"max_output_tokens"`
	Tools              []responsesTool `json:"tools"`
	ToolChoice         json.RawMessage `json:"tool_choice"`
	ParallelToolCalls  *bool           `json:"parallel_tool_calls"`
	PreviousResponseID string          `json:"previous_response_id"`
	Store              *bool           `json:"store"`
	StreamOptions      struct {
		IncludeObfuscation *bool `json:"include_obfuscation"`
	} `json:"stream_options"`
	Text struct {
		Format struct {
			Type   string          `json:"type"`
			Name   string          `json:"name"`
			Schema json.RawMessage `json:"schema"`
			Strict bool            `json:"strict"`
		} `json:"format"`
	} `json:"text"`
	Reasoning *struct {
		Summary string `json:"summary"`
	} `json:"reasoning"`
}

type responsesTool struct {
	Type       string          `json:"type"`
	Name       string          `json:"name"`
	Parameters json.RawMessage `json:"parameters"`
}

type responsesItem struct {
	Type      string          `json:"type"`
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments string          `json:"arguments"`
	Output    json.RawMessage `json:"output"`
	Encrypted string          `json:"encrypted_content"`
	ID        string          `json:"id"`
}

func (d responsesDialect) read(r *http.Request, body []byte) (*request, *failure) {
	var b responsesBody
	if err := json.Unmarshal(body, &b); err != nil {
		return nil, notJSON(err)
	}
	out := &request{model: b.Model, stream: b.Stream, maxOutput: b.MaxOutputTokens, system: b.Instructions, choice: chosenTool(b.ToolChoice),
		oneCall: b.ParallelToolCalls != nil && !*b.ParallelToolCalls, keep: b.Store == nil || *b.Store, thinking: b.Reasoning != nil}
	out.padded = b.StreamOptions.IncludeObfuscation == nil || *b.StreamOptions.IncludeObfuscation
	if b.Model == "" {
		return nil, badRequest("Missing required parameter: 'model'.").at("model")
	}
	if f := out.setFormat(b.Text.Format.Type, b.Text.Format.Name, b.Text.Format.Schema, b.Text.Format.Strict, "text.format"); f != nil {
		return nil, f
	}
	for _, t := range b.Tools {
		if t.Type != "function" || t.Name == "" {
			return nil, badRequest("devllm knows tools of type 'function' with a name, not '%s'", t.Type).at("tools")
		}
		out.tools = append(out.tools, tool{t.Name, t.Parameters})
		out.blocks = append(out.blocks, block{text: compact(t)})
	}
	if b.Instructions != "" {
		out.blocks = append(out.blocks, block{text: b.Instructions})
	}
	out.fixed = len(out.blocks)
	if b.PreviousResponseID != "" {
		k := d.s.response(b.PreviousResponseID, fingerprint(keyOf(r)))
		if k == nil {
			return nil, &failure{cause: badInput, param: "previous_response_id", message: fmt.Sprintf("Previous response with id '%s' not found.", b.PreviousResponseID)}
		}
		out.msgs, out.blocks = append(out.msgs, k.msgs...), append(out.blocks, k.blocks...)
	}
	if f := out.readInput(b.Input); f != nil {
		return nil, f
	}
	return out, out.checkCalls()
}

// readInput adds the input: a text, or items.
func (r *request) readInput(input json.RawMessage) *failure {
	var text string
	if json.Unmarshal(input, &text) == nil {
		r.add(message{role: "user", text: text}, block{text: text})
		return nil
	}
	var items []responsesItem
	if err := json.Unmarshal(input, &items); err != nil || len(items) == 0 {
		return badRequest("Missing required parameter: 'input'.").at("input")
	}
	for _, it := range items {
		if f := r.readItem(it); f != nil {
			return f
		}
	}
	return nil
}

func (r *request) add(m message, b block) {
	r.msgs, r.blocks = append(r.msgs, m), append(r.blocks, b)
}

func (r *request) readItem(it responsesItem) *failure {
	switch it.Type {
	case "function_call":
		r.add(message{role: "assistant", calls: []call{{it.CallID, it.Name, it.Arguments}}}, block{text: it.Name + it.Arguments})
	case "function_call_output":
		text, _, f := contentOf(it.Output)
		if f != nil {
			return f
		}
		r.add(message{role: "tool", text: text, of: it.CallID}, block{text: text})
	case "reasoning":
		if it.Encrypted != "" && it.Encrypted != seal(it.ID) {
			return badRequest("The encrypted content of item %s could not be verified.", it.ID).at("input")
		}
		r.blocks = append(r.blocks, block{text: it.Encrypted})
	case "message", "":
		text, images, f := contentOf(it.Content)
		if f != nil {
			return f
		}
		b := block{text: text, images: int64(len(images)), pictures: strings.Join(images, " ")}
		if it.Role == "system" || it.Role == "developer" {
			r.system = strings.TrimPrefix(r.system+"\n"+text, "\n")
			r.blocks = append(r.blocks, b)
			return nil
		}
		if it.Role != "user" && it.Role != "assistant" {
			return badRequest("Invalid value: '%s' is no role of a message", it.Role).at("input")
		}
		r.add(message{role: it.Role, text: text}, b)
	default:
		return badRequest("Invalid value: '%s' is no item that devllm knows", it.Type).at("input")
	}
	return nil
}

// seal is what stands for something that the client must hand back as it was.
func seal(of string) string { return "sealed-" + bodyHash([]byte("devllm seal "+of)) }

func (d responsesDialect) usage(x *exchange) map[string]any {
	t := x.tokens
	details := map[string]any{"cached_tokens": t.CacheRead}
	if x.model.CacheWrites {
		details["cache_write_tokens"] = t.CacheWrite
	}
	return map[string]any{"input_tokens": t.Input(), "input_tokens_details": details, "output_tokens": t.Answer(),
		"output_tokens_details": map[string]any{"reasoning_tokens": t.Reasoning}, "total_tokens": t.Input() + t.Answer()}
}

func (d responsesDialect) id(x *exchange) string { return fmt.Sprintf("resp_dev%08d", x.id) }

// envelope is the response without what it says.
func (d responsesDialect) envelope(x *exchange, status string, output []any) map[string]any {
	m := map[string]any{"id": d.id(x), "object": "response", "created_at": x.start.Unix(), "status": status, "model": x.model.Name, "output": output,
		"error": nil, "incomplete_details": nil, "instructions": nil, "metadata": map[string]any{}, "parallel_tool_calls": !x.req.oneCall,
		"temperature": 1, "top_p": 1, "tool_choice": "auto", "tools": []any{}, "usage": nil, "store": x.req.keep,
		"reasoning": map[string]any{"effort": nil, "summary": nil}, "text": map[string]any{"format": map[string]any{"type": "text"}}, "truncation": "disabled"}
	if x.req.system != "" {
		m["instructions"] = x.req.system
	}
	if status == "incomplete" {
		m["incomplete_details"] = map[string]any{"reason": "max_output_tokens"}
	}
	if status != "in_progress" && !x.req.noUsage {
		m["usage"] = d.usage(x)
	}
	return m
}

// status is how the response ends.
func (d responsesDialect) status(x *exchange) string {
	if x.ans.finish == cutShort || x.ans.finish == windowFull {
		return "incomplete"
	}
	return "completed"
}

// item is one of the output, whole.
type responseItem struct {
	id   string
	kind string // reasoning, message, function_call
	text string
	call call
	no   bool // a refusal
}

func (d responsesDialect) items(x *exchange) (items []responseItem) {
	if x.ans.reasoning != "" {
		items = append(items, responseItem{id: fmt.Sprintf("rs_dev%08d", x.id), kind: "reasoning", text: x.ans.reasoning})
	}
	if t := x.ans.text + x.ans.refusal; t != "" || len(x.ans.calls) == 0 {
		items = append(items, responseItem{id: fmt.Sprintf("msg_dev%08d", x.id), kind: "message", text: t, no: x.ans.refusal != ""})
	}
	for i, c := range x.ans.calls {
		items = append(items, responseItem{id: fmt.Sprintf("fc_dev%08d_%d", x.id, i+1), kind: "function_call", call: c})
	}
	return items
}

// json is the item; one that is begun has nothing in it yet.
func (it responseItem) json(begun bool) map[string]any {
	m := map[string]any{"id": it.id, "type": it.kind, "status": "completed"}
	if begun {
		m["status"] = "in_progress"
	}
	switch it.kind {
	case "reasoning":
		m["summary"], m["encrypted_content"] = []any{}, nil
		if !begun {
			m["summary"], m["encrypted_content"] = []any{map[string]any{"type": "summary_text", "text": it.text}}, seal(it.id)
		}
	case "message":
		m["role"], m["content"] = "assistant", []any{}
		if !begun {
			m["content"] = []any{it.part(it.text)}
		}
	case "function_call":
		m["call_id"], m["name"], m["arguments"] = it.call.id, it.call.name, ""
		if !begun {
			m["arguments"] = it.call.args
		}
	}
	return m
}

func (it responseItem) part(text string) map[string]any {
	if it.no {
		return map[string]any{"type": "refusal", "refusal": text}
	}
	return map[string]any{"type": "output_text", "text": text, "annotations": []any{}, "logprobs": []any{}}
}

func (d responsesDialect) whole(x *exchange) any {
	output := []any{}
	for _, it := range d.items(x) {
		output = append(output, it.json(false))
	}
	m := d.envelope(x, d.status(x), output)
	d.s.remember(x, d.id(x), raw(m), nil)
	return m
}

func (d responsesDialect) steps(x *exchange, yield func(step) bool) {
	n := 0
	var events []step
	emit := func(name string, tokens int64, data map[string]any) bool {
		data["type"], data["sequence_number"] = name, n
		if n++; x.req.padded && data["delta"] != nil {
			data["obfuscation"] = padding(n)
		}
		st := step{name: name, data: data, tokens: tokens}
		events = append(events, st)
		return yield(st)
	}
	begun := d.envelope(x, "in_progress", []any{})
	if !emit("response.created", 0, map[string]any{"response": begun}) || !emit("response.in_progress", 0, map[string]any{"response": begun}) {
		return
	}
	output := []any{}
	for i, it := range d.items(x) {
		if !d.itemSteps(x, it, i, emit) {
			return
		}
		output = append(output, it.json(false))
	}
	status := d.status(x)
	end := d.envelope(x, status, output)
	last := map[string]any{"type": "response." + status, "sequence_number": n, "response": end}
	d.s.remember(x, d.id(x), raw(end), append(events, step{name: "response." + status, data: last}))
	emit("response."+status, 0, map[string]any{"response": end})
}

// itemSteps are the events of one item.
func (d responsesDialect) itemSteps(x *exchange, it responseItem, i int, emit func(string, int64, map[string]any) bool) bool {
	with := func(more map[string]any) map[string]any {
		more["item_id"], more["output_index"] = it.id, i
		return more
	}
	if !emit("response.output_item.added", 0, map[string]any{"output_index": i, "item": it.json(true)}) {
		return false
	}
	ok := true
	switch it.kind {
	case "reasoning":
		part := func(text string) map[string]any { return map[string]any{"type": "summary_text", "text": text} }
		ok = emit("response.reasoning_summary_part.added", 0, with(map[string]any{"summary_index": 0, "part": part("")})) &&
			x.pieces(it.text, func(p string, n int64) bool {
				return emit("response.reasoning_summary_text.delta", n, with(map[string]any{"summary_index": 0, "delta": p}))
			}) &&
			emit("response.reasoning_summary_text.done", 0, with(map[string]any{"summary_index": 0, "text": it.text})) &&
			emit("response.reasoning_summary_part.done", 0, with(map[string]any{"summary_index": 0, "part": part(it.text)}))
	case "message":
		name, whole := "response.output_text", "text"
		if it.no {
			name, whole = "response.refusal", "refusal"
		}
		extra := func(m map[string]any) map[string]any {
			m["content_index"] = 0
			if !it.no {
				m["logprobs"] = []any{}
			}
			return with(m)
		}
		ok = emit("response.content_part.added", 0, with(map[string]any{"content_index": 0, "part": it.part("")})) &&
			x.pieces(it.text, func(p string, n int64) bool { return emit(name+".delta", n, extra(map[string]any{"delta": p})) }) &&
			emit(name+".done", 0, extra(map[string]any{whole: it.text})) &&
			emit("response.content_part.done", 0, with(map[string]any{"content_index": 0, "part": it.part(it.text)}))
	case "function_call":
		first := x.s.tokens.count(it.call.name)
		ok = x.pieces(it.call.args, func(p string, n int64) bool {
			n, first = n+first, 0
			return emit("response.function_call_arguments.delta", n, with(map[string]any{"delta": p}))
		}) && emit("response.function_call_arguments.done", 0, with(map[string]any{"name": it.call.name, "arguments": it.call.args}))
	}
	return ok && emit("response.output_item.done", 0, map[string]any{"output_index": i, "item": it.json(false)})
}

// remember keeps a response for those who come back to it.
func (s *Server) remember(x *exchange, id string, whole json.RawMessage, events []step) {
	if !x.req.keep {
		return
	}
	msg := message{role: "assistant", text: x.ans.text, calls: x.ans.calls}
	text := x.ans.text
	for _, c := range x.ans.calls {
		text += "\n" + c.name + c.args
	}
	k := &kept{owner: x.key, whole: whole, events: events, msgs: append(append([]message{}, x.req.msgs...), msg), blocks: append(append([]block{}, x.req.blocks[x.req.fixed:]...), block{text: text})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.responses[id] = k
}

// response is one that was kept for the key; nil: there is none.
func (s *Server) response(id, owner string) *kept {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.responses[id]; k != nil && k.owner == owner {
		return k
	}
	return nil
}

// getResponse answers GET /v1/responses/{id}, and resumes a stream behind starting_after.
func (s *Server) getResponse(w http.ResponseWriter, r *http.Request) {
	if s.tape != nil {
		s.tape.serve(w, r)
		return
	}
	k := s.response(r.PathValue("id"), fingerprint(keyOf(r)))
	if k == nil {
		s.fail(w, &exchange{d: responsesDialect{s}, id: s.number.Add(1)}, &failure{cause: notKept, message: fmt.Sprintf("Response with id '%s' not found.", r.PathValue("id"))})
		return
	}
	if r.URL.Query().Get("stream") != "true" {
		writeJSON(w, http.StatusOK, k.whole)
		return
	}
	after, err := strconv.Atoi(r.URL.Query().Get("starting_after"))
	if err != nil {
		after = -1
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for i, st := range k.events {
		if i > after {
			_, _ = w.Write(sse(st))
		}
	}
}
