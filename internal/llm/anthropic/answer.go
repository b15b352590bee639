package anthropic

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"

	"agentkernel/internal/llm"
	"agentkernel/internal/llm/encode"
	"agentkernel/internal/llm/transport"
)

// answer puts an answer together.
type answer struct {
	x      *transport.Exchange
	id     string
	model  string
	stop   string
	parts  []llm.Part
	blocks map[int]*block // that are being written, by index
	calls  int
	used   encode.Object // usage: what came later in place of what came before
	final  bool          // the usage is that of the end
}

// block is a block that is being written: what it began with, and what was added.
type block struct {
	raw    json.RawMessage // where it came in one piece
	kind   string
	fields encode.Object
	text   []byte // of a text
	input  []byte // of a call, as JSON
	call   int    // its number
}

// reply is an answer in one piece, or what a stream begins with.
type reply struct {
	Type    string            `json:"type"`
	ID      string            `json:"id"`
	Model   string            `json:"model"`
	Content []json.RawMessage `json:"content"`
	Stop    string            `json:"stop_reason"`
	Usage   json.RawMessage   `json:"usage"`
}

// event is an event of a stream.
type event struct {
	Type    string          `json:"type"`
	Index   int             `json:"index"`
	Message *reply          `json:"message"`
	Block   json.RawMessage `json:"content_block"`
	Delta   json.RawMessage `json:"delta"`
	Usage   json.RawMessage `json:"usage"`
}

func (a *answer) whole() (*llm.Answer, error) {
	body, err := a.x.All()
	if err != nil {
		return nil, err
	}
	var r reply
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, a.x.Fail(err, nil)
	}
	a.usage(r.Usage)
	a.final = true
	switch {
	case r.Type == "error":
		return nil, a.x.Refuse(fault(body), a.said())
	case r.Type != "message":
		return nil, a.x.Fail(transport.Malformed("the answer is no message"), a.said())
	}
	a.id, a.model, a.stop = r.ID, r.Model, r.Stop
	for _, raw := range r.Content {
		b, err := begin(raw)
		if err == nil {
			b.raw = raw
			err = a.add(b)
		}
		if err != nil {
			return nil, a.x.Fail(err, a.said())
		}
	}
	out := a.answer()
	if err := a.x.Tell(out); err != nil {
		return nil, a.x.Fail(err, a.said())
	}
	a.x.Done()
	return out, nil
}

func (a *answer) stream() (*llm.Answer, error) {
	for events := a.x.Stream(); ; {
		e, err := events.Next()
		if err != nil {
			return nil, a.x.Fail(err, a.said())
		}
		var ev event
		if err := json.Unmarshal(e.Data, &ev); err != nil {
			if e.Cut {
				err = io.ErrUnexpectedEOF
			}
			return nil, a.x.Fail(err, a.said())
		}
		switch ev.Type {
		case "error":
			return nil, a.x.Refuse(fault(e.Data), a.said())
		case "message_stop":
			if len(a.blocks) > 0 {
				return nil, a.x.Fail(transport.Malformed("the message has ended amid a block"), a.said())
			}
			out := a.answer()
			a.x.Done()
			return out, nil
		}
		if err := a.event(&ev); err != nil {
			return nil, a.x.Fail(err, a.said())
		}
	}
}

// event takes an event amid the stream. One that it does not know is not for it.
func (a *answer) event(ev *event) error {
	switch ev.Type {
	case "message_start":
		if ev.Message == nil {
			return transport.Malformed("the message begins with nothing")
		}
		a.id, a.model = ev.Message.ID, ev.Message.Model
		a.usage(ev.Message.Usage)
	case "content_block_start":
		b, err := begin(ev.Block)
		if err != nil {
			return err
		}
		a.blocks[ev.Index] = b
		return a.began(b)
	case "content_block_delta":
		b := a.blocks[ev.Index]
		if b == nil {
			return transport.Malformed("a bit came for no block")
		}
		return a.delta(b, ev.Delta)
	case "content_block_stop":
		b := a.blocks[ev.Index]
		if b == nil {
			return transport.Malformed("a block has ended that did not begin")
		}
		delete(a.blocks, ev.Index)
		return a.add(b)
	case "message_delta":
		var d struct {
			Stop string `json:"stop_reason"`
		}
		if err := json.Unmarshal(ev.Delta, &d); err != nil {
			return err
		}
		if d.Stop != "" {
			a.stop = d.Stop
		}
		a.usage(ev.Usage)
		a.final = len(ev.Usage) > 0 && ev.Usage[0] == '{'
	}
	return nil
}

// begin reads a block, whole or as it begins.
func begin(raw json.RawMessage) (*block, error) {
	fields, err := encode.Parse(raw)
	if err != nil {
		return nil, transport.Malformed("a block is not an object")
	}
	b := &block{fields: fields, kind: str(fields.Get("type"))}
	if b.kind == "text" {
		b.text = []byte(str(fields.Get("text")))
	}
	return b, nil
}

func str(raw json.RawMessage) (s string) {
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// began tells what a block begins with.
func (a *answer) began(b *block) error {
	switch b.kind {
	case "text":
		if len(b.text) > 0 {
			return a.x.Delta(llm.Delta{Text: string(b.text)})
		}
	case "tool_use":
		b.call = a.calls
		a.calls++
		return a.x.Delta(llm.Delta{Call: &llm.ToolCallDelta{Index: b.call, ID: str(b.fields.Get("id")), Name: str(b.fields.Get("name"))}})
	case "thinking":
		if text := str(b.fields.Get("thinking")); text != "" {
			return a.x.Delta(llm.Delta{Reasoning: text})
		}
	}
	return nil
}

// delta adds a bit to a block, and tells it.
func (a *answer) delta(b *block, raw json.RawMessage) error {
	var d struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		Partial  string `json:"partial_json"`
		Thinking string `json:"thinking"`
	}
	if err := json.Unmarshal(raw, &d); err != nil {
		return err
	}
	switch {
	case d.Type == "text_delta" && b.kind == "text":
		b.text = append(b.text, d.Text...)
		if d.Text == "" {
			return nil
		}
		return a.x.Delta(llm.Delta{Text: d.Text})
	case d.Type == "input_json_delta":
		b.input = append(b.input, d.Partial...)
		if b.kind != "tool_use" || d.Partial == "" {
			return nil
		}
		return a.x.Delta(llm.Delta{Call: &llm.ToolCallDelta{Index: b.call, Args: d.Partial}})
	case d.Type == "citations_delta":
		return nil // a text goes without them
	}
	// What is added to thinking, to its signature, and to blocks that are not known goes behind what the field has, as the bytes
	// that came.
	fields, err := encode.Parse(raw)
	if err != nil {
		return err
	}
	for _, f := range fields {
		if f.Name == "type" {
			continue
		}
		value := f.Value
		if joined, err := encode.Append(b.fields.Get(f.Name), f.Value); err == nil {
			value = joined
		}
		b.fields.Set(f.Name, value)
	}
	if d.Type == "thinking_delta" && d.Thinking != "" {
		return a.x.Delta(llm.Delta{Reasoning: d.Thinking})
	}
	return nil
}

// add makes a part of a block that is whole.
func (a *answer) add(b *block) error {
	switch b.kind {
	case "text":
		if len(b.text) > 0 {
			a.parts = append(a.parts, llm.Part{Text: string(b.text)})
		}
	case "tool_use":
		call := &llm.ToolCall{ID: str(b.fields.Get("id")), Name: str(b.fields.Get("name")), Args: b.fields.Get("input")}
		if call.ID == "" || call.Name == "" {
			return transport.Malformed("a tool call has no name or no id")
		}
		switch {
		case json.Valid(b.input):
			call.Args = b.input
		case len(b.input) > 0:
			call.Args, _ = encode.NewBody(len(b.input) + 2).String(string(b.input)).Bytes()
		case len(call.Args) == 0:
			call.Args = json.RawMessage("{}")
		}
		p := llm.Part{Call: call}
		b.fields.Remove("type", "id", "name", "input")
		if len(b.fields) > 0 { // who called, for one
			p.Fields = &llm.Opaque{Dialect: Name, Raw: b.fields.Bytes()}
		}
		a.parts = append(a.parts, p)
	default:
		if json.Valid(b.input) { // of a tool that the server runs
			b.fields.Set("input", b.input)
		}
		raw := b.raw
		if raw == nil {
			raw = b.fields.Bytes()
		}
		a.parts = append(a.parts, llm.Part{Opaque: &llm.Opaque{Dialect: Name, Raw: raw}})
	}
	return nil
}

// usage takes what the server says of usage. It says it at the beginning and once more, in sum, at the end, and not all of it
// each time.
func (a *answer) usage(raw json.RawMessage) {
	fields, err := encode.Parse(raw)
	if err != nil {
		return
	}
	for _, f := range fields {
		if !bytes.Equal(f.Value, []byte("null")) {
			a.used.Set(f.Name, slices.Clone(f.Value))
		}
	}
}

// said is the usage in disjoint classes; nil: the server has said nothing, or nothing that can be.
func (a *answer) said() *llm.Usage {
	if len(a.used) == 0 {
		return nil
	}
	raw := a.used.Bytes()
	var u struct {
		Input      int64 `json:"input_tokens"`
		CacheRead  int64 `json:"cache_read_input_tokens"`
		CacheWrite int64 `json:"cache_creation_input_tokens"`
		Creation   struct {
			Minutes int64 `json:"ephemeral_5m_input_tokens"`
			Hour    int64 `json:"ephemeral_1h_input_tokens"`
		} `json:"cache_creation"`
		Output  int64 `json:"output_tokens"`
		Details struct {
			Thinking int64 `json:"thinking_tokens"`
		} `json:"output_tokens_details"`
	}
	if json.Unmarshal(raw, &u) != nil || min(u.Input, u.CacheRead, u.CacheWrite, u.Output) < 0 {
		return nil
	}
	for _, n := range []*int64{&u.Input, &u.CacheRead, &u.CacheWrite, &u.Creation.Minutes, &u.Creation.Hour, &u.Output, &u.Details.Thinking} {
		*n = llm.Tokens(*n)
	}
	write, out := max(u.CacheWrite, u.Creation.Minutes+u.Creation.Hour), u.Output
	hour, thought := min(u.Creation.Hour, write), min(u.Details.Thinking, out)
	if u.Input+u.CacheRead+write+out == 0 { // a server that counts nothing would answer for nothing, however much it charges
		return nil
	}
	return &llm.Usage{
		Input: u.Input, CacheRead: u.CacheRead, CacheWrite: write - hour, CacheWrite1h: hour, Output: out - thought, Reasoning: thought, Raw: raw,
	}
}

// answer is the whole answer.
func (a *answer) answer() *llm.Answer {
	out := &llm.Answer{ID: a.id, Model: a.model, RequestID: a.x.RequestID(), Message: llm.Message{Role: llm.Assistant, Parts: a.parts}}
	switch a.stop {
	case "max_tokens", "model_context_window_exceeded":
		out.Stop = llm.StopLength
	case "tool_use":
		out.Stop = llm.StopToolCalls
	case "stop_sequence":
		out.Stop = llm.StopSequence
	case "refusal":
		out.Stop = llm.StopRefusal
	case "pause_turn":
		out.Stop = llm.StopPause
	default:
		out.Stop = llm.StopEnd
	}
	used := a.said()
	switch {
	case used == nil:
		out.Usage = a.x.Guess(out)
	case a.final:
		out.Usage = *used
		if guess := a.x.Guess(out); used.Output+used.Reasoning == 0 && guess.Output > 0 {
			out.Usage.Output, out.Usage.Estimated = guess.Output, true
		}
	default: // the output of the beginning is not that of the end
		out.Usage = a.x.Partial(used)
	}
	return out
}
