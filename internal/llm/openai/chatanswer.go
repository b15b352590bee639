package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"

	"agentkernel/internal/llm"
	"agentkernel/internal/llm/encode"
	"agentkernel/internal/llm/transport"
)

// chatAnswer puts an answer of chat completions together.
type chatAnswer struct {
	x       *transport.Exchange
	stops   bool // the request has words to stop at
	id      string
	model   string
	text    strings.Builder
	refused bool
	calls   []*openCall
	details []encode.Object // of reasoning
	finish  string
	stopped bool // at a word of the request
	usage   *llm.Usage
}

// openCall is a call that is being written.
type openCall struct {
	index *int
	id    string
	name  string
	args  strings.Builder
	extra json.RawMessage
}

// whole reads an answer in one piece.
func (a *chatAnswer) whole() (*llm.Answer, error) {
	var c chunk
	body, err := a.x.All()
	if err != nil {
		return nil, err
	}
	if err := c.read(body); err != nil {
		return nil, a.x.Fail(err, nil)
	}
	if err := a.add(body, &c); err != nil {
		return nil, err
	}
	if a.finish == "" && len(c.Choices) == 0 {
		return nil, a.x.Fail(transport.Malformed("the answer has no choice"), a.usage)
	}
	out, err := a.answer()
	if err != nil {
		return nil, err
	}
	a.x.Done()
	return out, nil
}

// stream reads an answer in bits, and tells them.
func (a *chatAnswer) stream() (*llm.Answer, error) {
	for events := a.x.Stream(); ; {
		e, err := events.Next()
		if err != nil {
			if errors.Is(err, io.EOF) && a.finish != "" && a.usage != nil { // some servers leave out the mark of the end
				break
			}
			return nil, a.x.Fail(err, a.usage)
		}
		if bytes.HasPrefix(e.Data, []byte("[DONE]")) {
			break
		}
		var c chunk
		if err := c.read(e.Data); err != nil {
			if e.Cut {
				err = io.ErrUnexpectedEOF
			}
			return nil, a.x.Fail(err, a.usage)
		}
		if string(e.Type) == "error" {
			c.Object = "error"
		}
		if err := a.add(e.Data, &c); err != nil {
			return nil, err
		}
	}
	if a.finish == "" {
		return nil, a.x.Fail(transport.Malformed("the stream has ended without the reason why the model stopped"), a.usage)
	}
	out, err := a.answer()
	if err != nil {
		return nil, err
	}
	a.x.Done()
	return out, nil
}

// add takes a bit of the answer.
func (a *chatAnswer) add(raw []byte, c *chunk) error {
	if u := usageOf(c.Usage); u != nil {
		a.usage = u
	}
	if said(c.Error) || c.Object == "error" {
		return a.x.Refuse(fault(raw), a.usage)
	}
	if a.id == "" {
		a.id = c.ID
	}
	if a.model == "" {
		a.model = c.Model
	}
	for i := range c.Choices {
		choice := &c.Choices[i]
		if choice.Index != 0 {
			continue
		}
		for at := range choice.Message.Calls { // each is whole, whatever id it has
			choice.Message.Calls[at].Index = &at
		}
		for _, m := range []*message{&choice.Message, &choice.Delta} {
			if err := a.message(m); err != nil {
				return a.x.Fail(err, a.usage)
			}
		}
		if choice.Finish != "" {
			a.finish = choice.Finish
		}
		a.stopped = a.stopped || a.stops && len(choice.Stopped) > 0 && choice.Stopped[0] == '"'
	}
	return nil
}

func (a *chatAnswer) message(m *message) error {
	thought := m.ReasoningContent
	if thought == "" {
		thought = string(m.Reasoning)
	}
	if thought != "" {
		if err := a.x.Delta(llm.Delta{Reasoning: thought}); err != nil {
			return err
		}
	}
	if err := a.reasoned(m.Details); err != nil {
		return err
	}
	for _, text := range []string{string(m.Content), m.Refusal} {
		if text == "" {
			continue
		}
		a.text.WriteString(text)
		if err := a.x.Delta(llm.Delta{Text: text}); err != nil {
			return err
		}
	}
	a.refused = a.refused || m.Refusal != ""
	for i := range m.Calls {
		if err := a.call(&m.Calls[i]); err != nil {
			return err
		}
	}
	return nil
}

// reasoningDetails is the member of a message with what only its provider understands.
const reasoningDetails = "reasoning_details"

// maxCalls is how many calls an answer may have: each bit of one is compared with all.
const maxCalls = 1000

// call takes a bit of a call. An id tells calls apart; only what has none goes by the index, because some servers give all
// calls the same one, or none.
func (a *chatAnswer) call(c *chatCall) error {
	at := -1
	for i := len(a.calls) - 1; i >= 0 && at < 0; i-- {
		have := a.calls[i]
		sameIndex := have.index == nil || c.Index == nil || *have.index == *c.Index
		another := c.Index == nil && c.ID == "" && c.Function.Name != "" && have.name != ""
		if sameIndex && !another && (c.ID == "" || have.id == "" || have.id == c.ID) {
			at = i
		}
	}
	if at < 0 {
		if at = len(a.calls); at == maxCalls {
			return transport.Malformed("the answer has more than %d calls", maxCalls)
		}
		a.calls = append(a.calls, &openCall{index: c.Index})
	}
	have := a.calls[at]
	d := llm.ToolCallDelta{Index: at, Args: c.Function.Args}
	if have.id == "" && c.ID != "" {
		have.id, d.ID = c.ID, c.ID
	}
	if have.name == "" && c.Function.Name != "" {
		have.name, d.Name = c.Function.Name, c.Function.Name
	}
	have.args.WriteString(c.Function.Args)
	if said(c.Extra) {
		have.extra = bytes.Clone(c.Extra)
	}
	if d.ID == "" && d.Name == "" && d.Args == "" {
		return nil
	}
	return a.x.Delta(llm.Delta{Call: &d})
}

// reasoned takes blocks of reasoning. Bits of one have the same type and index, and their texts are put together as they are.
func (a *chatAnswer) reasoned(details []json.RawMessage) error {
	for _, raw := range details {
		o, err := encode.Parse(raw)
		if err != nil {
			return transport.Malformed("a block of reasoning is not an object")
		}
		n := len(a.details)
		if n == 0 || o.Get("index") == nil || string(a.details[n-1].Get("index")) != string(o.Get("index")) || string(a.details[n-1].Get("type")) != string(o.Get("type")) {
			a.details = append(a.details, o)
			continue
		}
		last := &a.details[n-1]
		for _, f := range o {
			switch f.Name {
			case "text", "summary", "data":
				joined, err := encode.Append(last.Get(f.Name), f.Value)
				if err != nil {
					continue
				}
				last.Set(f.Name, joined)
			default:
				if said(f.Value) {
					last.Set(f.Name, f.Value)
				}
			}
		}
	}
	return nil
}

// answer is the whole answer.
func (a *chatAnswer) answer() (*llm.Answer, error) {
	out := &llm.Answer{ID: a.id, Model: a.model, RequestID: a.x.RequestID(), Message: llm.Message{Role: llm.Assistant}}
	if len(a.details) > 0 {
		b := encode.NewBody(0).Open('{').Key(reasoningDetails).Open('[')
		for _, o := range a.details {
			b.Raw(o.Bytes())
		}
		raw, err := b.Close(']').Close('}').Bytes()
		if err != nil {
			return nil, a.x.Fail(transport.Malformed("a block of reasoning is not JSON"), a.usage)
		}
		out.Message.Parts = append(out.Message.Parts, llm.Part{Opaque: &llm.Opaque{Dialect: ChatName, Raw: raw}})
	}
	if a.text.Len() > 0 {
		out.Message.Parts = append(out.Message.Parts, llm.Part{Text: a.text.String()})
	}
	ids := map[string]bool{}
	for i, c := range a.calls {
		if c.name == "" {
			return nil, a.x.Fail(transport.Malformed("a tool call has no name"), a.usage)
		}
		if c.id == "" || ids[c.id] { // results have to say whose they are
			c.id = "call_" + strconv.Itoa(i)
		}
		ids[c.id] = true
		p := llm.Part{Call: &llm.ToolCall{ID: c.id, Name: c.name, Args: args(c.args.String())}}
		if c.extra != nil {
			p.Fields = &llm.Opaque{Dialect: ChatName, Raw: encode.Object{{Name: "extra_content", Value: c.extra}}.Bytes()}
		}
		out.Message.Parts = append(out.Message.Parts, p)
	}
	switch a.finish {
	case "length":
		out.Stop = llm.StopLength
	case "content_filter":
		out.Stop = llm.StopRefusal
	case "error": // OpenRouter's
		return nil, a.x.Refuse(transport.Fault{Code: "error", Message: "the model's server failed amid its answer"}, a.usage)
	default:
		switch {
		case a.refused:
			out.Stop = llm.StopRefusal
		case len(a.calls) > 0: // whatever it is called: there are results to wait for
			out.Stop = llm.StopToolCalls
		case a.stopped:
			out.Stop = llm.StopSequence
		default:
			out.Stop = llm.StopEnd
		}
	}
	if out.Usage = a.x.Guess(out); a.usage != nil {
		out.Usage = *a.usage
	}
	return out, nil
}
