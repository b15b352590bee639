package openai

import (
	"encoding/json"
	"io"
	"slices"
	"strings"

	"agentkernel/internal/llm"
	"agentkernel/internal/llm/encode"
	"agentkernel/internal/llm/transport"
)

// response is a response as it is at the end, or on the way.
type response struct {
	ID         string            `json:"id"`
	Model      string            `json:"model"`
	Status     string            `json:"status"`
	Output     []json.RawMessage `json:"output"`
	Usage      json.RawMessage   `json:"usage"`
	Error      json.RawMessage   `json:"error"`
	Incomplete struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
}

// item is a part of an output.
type item struct {
	Type    string `json:"type"`
	Content []struct {
		Type    string `json:"type"`
		Text    string `json:"text"`
		Refusal string `json:"refusal"`
	} `json:"content"`
	Phase     json.RawMessage `json:"phase"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Args      string          `json:"arguments"`
	Namespace json.RawMessage `json:"namespace"`
	Encrypted string          `json:"encrypted_content"`
}

// responsesEvent is an event of a stream.
type responsesEvent struct {
	Type     string          `json:"type"`
	Index    int             `json:"output_index"`
	Delta    json.RawMessage `json:"delta"`
	Item     json.RawMessage `json:"item"`
	Response *response       `json:"response"`
}

// responsesAnswer puts an answer of responses together.
type responsesAnswer struct {
	x        *transport.Exchange
	response response
	items    []json.RawMessage // that are done
	calls    map[int]int       // by the index of the output: the number of the call
	told     map[int]int       // by the index of the output: bytes of its text or arguments
	text     strings.Builder   // that was told
	usage    *llm.Usage
}

func (a *responsesAnswer) whole() (*llm.Answer, error) {
	if err := a.x.JSON(&a.response); err != nil {
		return nil, err
	}
	a.usage = usageOf(a.response.Usage)
	out, err := a.answer()
	if err != nil {
		return nil, err
	}
	if err := a.x.Tell(out); err != nil {
		return nil, a.x.Fail(err, a.usage)
	}
	a.x.Done()
	return out, nil
}

func (a *responsesAnswer) stream() (*llm.Answer, error) {
	for events := a.x.Stream(); ; {
		e, err := events.Next()
		if err != nil {
			return nil, a.x.Fail(err, a.usage)
		}
		var event responsesEvent
		if err := json.Unmarshal(e.Data, &event); err != nil {
			if e.Cut {
				err = io.ErrUnexpectedEOF
			}
			return nil, a.x.Fail(err, a.usage)
		}
		if event.Type == "" {
			event.Type = string(e.Type)
		}
		if event.Response != nil {
			if u := usageOf(event.Response.Usage); u != nil {
				a.usage = u
			}
			a.response = *event.Response
		}
		switch event.Type {
		case "error", "":
			// The type of the event is in the place of the error's.
			f := fault(e.Data)
			if f.Type == "error" {
				f.Type = ""
			}
			return nil, a.x.Refuse(f, a.usage)
		case "response.completed", "response.incomplete", "response.failed":
			out, err := a.answer()
			if err != nil {
				return nil, err
			}
			if out.Text() != a.text.String() {
				return nil, a.x.Fail(transport.Malformed("the answer is another one than the bits of it"), a.usage)
			}
			a.x.Done()
			return out, nil
		}
		if err := a.add(&event); err != nil {
			return nil, a.x.Fail(err, a.usage)
		}
	}
}

// add takes an event amid the stream.
func (a *responsesAnswer) add(event *responsesEvent) error {
	var d llm.Delta
	var text string
	switch event.Type {
	case "response.output_text.delta", "response.refusal.delta", "response.reasoning_summary_text.delta", "response.reasoning_text.delta",
		"response.function_call_arguments.delta":
		if err := json.Unmarshal(event.Delta, &text); err != nil {
			return err
		}
		switch event.Type {
		case "response.output_text.delta", "response.refusal.delta":
			d.Text = text
			a.text.WriteString(text)
		case "response.function_call_arguments.delta":
			n, ok := a.calls[event.Index]
			if !ok {
				return transport.Malformed("arguments came for no call")
			}
			d.Call = &llm.ToolCallDelta{Index: n, Args: text}
		default:
			d.Reasoning = text
			return a.x.Delta(d)
		}
		if text == "" {
			return nil
		}
		a.told[event.Index] += len(text)
		return a.x.Delta(d)
	case "response.output_item.added", "response.output_item.done":
		return a.item(event)
	}
	return nil
}

// item takes an item that begins or is done. Some servers write in one piece what should have come in bits: what is left of it
// is told at its end.
func (a *responsesAnswer) item(event *responsesEvent) error {
	var it item
	if err := json.Unmarshal(event.Item, &it); err != nil {
		return err
	}
	ended := event.Type == "response.output_item.done"
	if ended {
		a.items = append(a.items, slices.Clone(event.Item))
	}
	switch it.Type {
	case "function_call":
		n, known := a.calls[event.Index]
		d := &llm.ToolCallDelta{Index: n}
		if !known {
			d.Index = len(a.calls)
			a.calls[event.Index] = d.Index
			d.ID, d.Name = it.CallID, it.Name
		}
		if told := a.told[event.Index]; ended && told < len(it.Args) {
			d.Args = it.Args[told:]
		}
		if d.ID == "" && d.Name == "" && d.Args == "" {
			return nil
		}
		a.told[event.Index] += len(d.Args)
		return a.x.Delta(llm.Delta{Call: d})
	case "message":
		if !ended {
			return nil
		}
		text := ""
		for _, c := range it.Content {
			text += c.Text + c.Refusal
		}
		if told := a.told[event.Index]; told < len(text) {
			a.text.WriteString(text[told:])
			return a.x.Delta(llm.Delta{Text: text[told:]})
		}
	}
	return nil
}

// answer is the whole answer.
func (a *responsesAnswer) answer() (*llm.Answer, error) {
	switch a.response.Status {
	case "completed", "incomplete", "":
	default:
		if !said(a.response.Error) {
			return nil, a.x.Refuse(transport.Fault{Code: a.response.Status, Type: "server_error"}, a.usage)
		}
	}
	if said(a.response.Error) {
		return nil, a.x.Refuse(fault(a.response.Error), a.usage)
	}
	out := &llm.Answer{ID: a.response.ID, Model: a.response.Model, RequestID: a.x.RequestID(), Message: llm.Message{Role: llm.Assistant}, Stop: llm.StopEnd}
	items := a.response.Output
	if len(items) == 0 {
		items = a.items
	}
	for _, raw := range items {
		if err := addItem(out, raw); err != nil {
			return nil, a.x.Fail(err, a.usage)
		}
	}
	if a.response.Status == "incomplete" {
		out.Stop = llm.StopLength
		if a.response.Incomplete.Reason == "content_filter" {
			out.Stop = llm.StopRefusal
		}
	}
	if out.Usage = a.x.Guess(out); a.usage != nil {
		out.Usage = *a.usage
	}
	return out, nil
}

// addItem makes parts of an item.
func addItem(out *llm.Answer, raw json.RawMessage) error {
	var it item
	if err := json.Unmarshal(raw, &it); err != nil {
		return err
	}
	parts := &out.Message.Parts
	switch it.Type {
	case "message":
		for _, c := range it.Content {
			p := llm.Part{Text: c.Text + c.Refusal}
			if c.Refusal != "" {
				out.Stop = llm.StopRefusal
			}
			if p.Text == "" {
				continue
			}
			if said(it.Phase) {
				p.Fields = &llm.Opaque{Dialect: ResponsesName, Raw: encode.Object{{Name: "phase", Value: it.Phase}}.Bytes()}
			}
			*parts = append(*parts, p)
		}
	case "function_call":
		if it.Name == "" || it.CallID == "" {
			return transport.Malformed("a tool call has no name or no id")
		}
		p := llm.Part{Call: &llm.ToolCall{ID: it.CallID, Name: it.Name, Args: args(it.Args)}}
		if said(it.Namespace) {
			p.Fields = &llm.Opaque{Dialect: ResponsesName, Raw: encode.Object{{Name: "namespace", Value: it.Namespace}}.Bytes()}
		}
		*parts = append(*parts, p)
		if out.Stop == llm.StopEnd {
			out.Stop = llm.StopToolCalls
		}
	case "reasoning":
		// Without its content it is only a name for what the server has not stored.
		if it.Encrypted == "" && len(it.Content) == 0 {
			return nil
		}
		fallthrough
	default:
		*parts = append(*parts, llm.Part{Opaque: &llm.Opaque{Dialect: ResponsesName, Raw: slices.Clone(raw)}})
	}
	return nil
}
