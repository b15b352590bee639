package openai

import (
	"context"

	"agentkernel/internal/llm"
	"agentkernel/internal/llm/encode"
	"agentkernel/internal/llm/transport"
)

// ResponsesName is the dialect of responses.
const ResponsesName = "openai-responses"

// Responses speaks responses. The server stores nothing: each request has the whole conversation.
type Responses struct{ *server }

// NewResponses makes a provider that speaks responses. The error says which of the options is wrong.
func NewResponses(opts llm.Options) (*Responses, error) {
	s, err := newServer(opts, OpenAI)
	if err != nil {
		return nil, err
	}
	return &Responses{s}, nil
}

// Traits are what is true of the server as a whole.
func (p *Responses) Traits() llm.Traits {
	return llm.Traits{Name: ResponsesName, OutputPrecharged: p.official}
}

// Complete sends one request.
func (p *Responses) Complete(ctx context.Context, r *llm.Request, w llm.Watch) (*llm.Answer, error) {
	stream := w.Delta != nil
	if len(r.Stop) > 0 {
		return nil, unsupported("responses know no words to stop at")
	}
	body, err := p.encode(r, stream)
	if err != nil {
		return nil, err
	}
	x, err := p.Send(ctx, transport.Call{
		Path: p.call("/responses"), Body: body, Stream: stream, Asked: transport.Asked(r), Input: transport.InputTokens(r), Watch: w,
	})
	if err != nil {
		return nil, err
	}
	defer x.Close()
	a := responsesAnswer{x: x, calls: map[int]int{}, told: map[int]int{}}
	if x.Events() {
		return a.stream()
	}
	return a.whole()
}

// encode writes the body of a request.
func (p *Responses) encode(r *llm.Request, stream bool) ([][]byte, error) {
	b := transport.NewBody(r).Open('{').Key("model").String(p.modelOf(r.Model))
	if len(r.Tools) > 0 {
		b.Key("tools").Open('[')
		for _, t := range r.Tools {
			b.Open('{').Key("type").String("function").Key("name").String(t.Name)
			if t.Description != "" {
				b.Key("description").String(t.Description)
			}
			// Without a word on it the server takes it for strict, and refuses most schemas.
			b.Key("parameters").Raw(t.Schema).Key("strict").Bool(false).Close('}')
		}
		b.Close(']')
	}
	switch r.ToolChoice {
	case "", "auto":
	case "none", "required":
		b.Key("tool_choice").String(r.ToolChoice)
	default:
		b.Key("tool_choice").Open('{').Key("type").String("function").Key("name").String(r.ToolChoice).Close('}')
	}
	if len(r.Schema) > 0 {
		b.Key("text").Open('{').Key("format").Open('{').Key("type").String("json_schema").Key("name").String("answer")
		b.Key("schema").Raw(r.Schema).Key("strict").Bool(strict(r.Schema)).Close('}').Close('}')
	}
	if r.Reasoning != "" {
		b.Key("reasoning").Open('{').Key("effort").String(r.Reasoning).Close('}')
	}
	if r.MaxTokens != 0 {
		b.Key("max_output_tokens").Int(r.MaxTokens)
	}
	b.FloatIf("temperature", r.Temperature).FloatIf("top_p", r.TopP)
	// Nothing is stored, so reasoning has to come along to be sent back.
	if r.Reasoning != "" && r.Reasoning != "none" && r.Extra["include"] == nil {
		b.Key("include").Open('[').String("reasoning.encrypted_content").Close(']')
	}
	if r.Extra["store"] == nil {
		b.Key("store").Bool(false)
	}
	if stream {
		b.Key("stream").Bool(true)
	}
	b.Extra(r.Extra, "input", "stream")
	b.Key("input").Open('[')
	for i := range r.Messages {
		inputItems(b, &r.Messages[i])
	}
	return done(b.Close(']').Close('}'))
}

// inputItems writes a message, which depends on no other.
func inputItems(b *encode.Body, m *llm.Message) {
	form{assistant: outputItems, content: content, result: func(b *encode.Body, r *llm.ToolResult) {
		b.Open('{').Key("type").String("function_call_output").Key("call_id").String(r.ID).Key("output")
		content(b, r.Parts)
		b.Close('}')
	}}.message(b, m)
}

// outputItems writes what the model said before, in its order.
func outputItems(b *encode.Body, m *llm.Message) {
	for _, p := range m.Parts {
		switch {
		case p.Opaque != nil && p.Opaque.Dialect == ResponsesName:
			b.Raw(p.Opaque.Raw)
			continue
		case p.Image != nil:
			b.Fail(unsupported("responses take images from users and tools only"))
			continue
		case p.Call != nil:
			b.Open('{').Key("type").String("function_call").Key("call_id").String(p.Call.ID).Key("name").String(p.Call.Name)
			b.Key("arguments").String(argsText(p.Call.Args))
		case p.Text != "":
			b.Open('{').Key("role").String(string(llm.Assistant)).Key("content").Texts(encode.Text{Plain: p.Text, Escaped: p.Escaped})
		default:
			continue
		}
		if p.Fields != nil && p.Fields.Dialect == ResponsesName {
			b.Fields(p.Fields.Raw)
		}
		b.Close('}')
	}
}

// content writes texts and pictures: a string, where there is one text.
func content(b *encode.Body, parts []llm.Part) {
	if len(parts) == 0 || len(parts) == 1 && parts[0].Image == nil {
		text := encode.Text{}
		if len(parts) > 0 {
			text = encode.Text{Plain: parts[0].Text, Escaped: parts[0].Escaped}
		}
		b.Texts(text)
		return
	}
	b.Open('[')
	for _, p := range parts {
		if p.Image != nil {
			b.Open('{').Key("type").String("input_image").Key("detail").String("auto").Key("image_url")
			imageURL(b, p.Image)
			b.Close('}')
			continue
		}
		b.Open('{').Key("type").String("input_text").Key("text").Texts(encode.Text{Plain: p.Text, Escaped: p.Escaped}).Close('}')
	}
	b.Close(']')
}
