package ollama

import (
	"encoding/json"
	"errors"
	"slices"

	"agentkernel/internal/llm"
	"agentkernel/internal/llm/encode"
	"agentkernel/internal/llm/transport"
)

// encodeRequest writes the body of a request. The messages come last: all that is before them is the same for each turn.
func encodeRequest(r *llm.Request, stream bool) ([][]byte, error) {
	b := transport.NewBody(r).Open('{').Key("model").String(r.Model).Key("stream").Bool(stream)
	// Whoever has too long a prompt is to hear it: neither is the front of it dropped, nor that of the answer. Older servers do
	// not know the fields.
	b.Key("truncate").Bool(false).Key("shift").Bool(false)
	switch r.ToolChoice {
	case "", "auto", "none":
	default:
		b.Fail(&llm.Error{Kind: llm.Unsupported, Message: "ollama makes no model call a tool"})
	}
	if len(r.Tools) > 0 && r.ToolChoice != "none" {
		b.Key("tools").Open('[')
		for _, t := range r.Tools {
			b.Open('{').Key("type").String("function").Key("function").Open('{').Key("name").String(t.Name)
			if t.Description != "" {
				b.Key("description").String(t.Description)
			}
			b.Key("parameters").Raw(t.Schema).Close('}').Close('}')
		}
		b.Close(']')
	}
	if len(r.Schema) > 0 {
		b.Key("format").Raw(r.Schema)
	}
	switch r.Reasoning {
	case "":
	case "none":
		b.Key("think").Bool(false)
	default:
		b.Key("think").String(r.Reasoning)
	}
	options(b, r)
	extra := r.Extra
	if extra["options"] != nil {
		extra = make(map[string]json.RawMessage, len(r.Extra))
		for name, value := range r.Extra {
			if name != "options" {
				extra[name] = value
			}
		}
	}
	b.Extra(extra, "messages").Key("messages").Open('[')
	names := map[string]string{} // of tools, by the call's id
	for i := range r.Messages {
		message(b, &r.Messages[i], names)
	}
	return done(b.Close(']').Close('}'))
}

// done is the body, or the error that makes it none. Nothing was sent.
func done(b *encode.Body) ([][]byte, error) {
	body, err := b.Pieces()
	var already *llm.Error
	switch {
	case err == nil:
		return body, nil
	case errors.As(err, &already):
		return nil, already
	}
	return nil, &llm.Error{Kind: llm.Invalid, Message: err.Error()}
}

// options writes the settings of the request, and those of its own that Extra has.
func options(b *encode.Body, r *llm.Request) {
	own := encode.NewBody(0).Open('{')
	if r.MaxTokens != 0 {
		own.Key("num_predict").Int(r.MaxTokens)
	}
	own.FloatIf("temperature", r.Temperature).FloatIf("top_p", r.TopP)
	if r.Seed != nil {
		own.Key("seed").Int(*r.Seed)
	}
	if len(r.Stop) > 0 {
		own.Key("stop").Strings(r.Stop)
	}
	if raw := r.Extra["options"]; raw != nil {
		var more map[string]json.RawMessage
		if json.Unmarshal(raw, &more) != nil {
			b.Fail(errors.New("options is not an object"))
		}
		own.Extra(more)
	}
	raw, err := own.Close('}').Bytes()
	if err != nil {
		b.Fail(err)
		return
	}
	if string(raw) != "{}" {
		b.Key("options").Raw(raw)
	}
}

// message writes a message. The results of tools are messages of their own, and have the names of the tools, which only the
// calls before them say.
func message(b *encode.Body, m *llm.Message, names map[string]string) {
	for _, p := range m.Parts {
		if p.Call != nil {
			names[p.Call.ID] = p.Call.Name
		}
		if p.Result == nil {
			continue
		}
		b.Open('{').Key("role").String("tool")
		contents(b, p.Result.Parts)
		if name := names[p.Result.ID]; name != "" {
			b.Key("tool_name").String(name)
		}
		b.Key("tool_call_id").String(p.Result.ID).Close('}')
	}
	said := slices.DeleteFunc(slices.Clone(m.Parts), func(p llm.Part) bool { return p.Result != nil })
	switch m.Role {
	case llm.ToolRole:
		if len(said) > 0 {
			b.Fail(&llm.Error{Kind: llm.Invalid, Message: "a message of tools has something else than results"})
		}
		return
	case llm.System, llm.User, llm.Assistant:
	default:
		b.Fail(&llm.Error{Kind: llm.Invalid, Message: "a message has no role"})
	}
	if len(said) == 0 && len(m.Parts) > 0 {
		return
	}
	b.Open('{').Key("role").String(string(m.Role))
	contents(b, said)
	calls := 0
	for _, p := range said {
		if p.Opaque != nil && p.Opaque.Dialect == Name {
			b.Fields(p.Opaque.Raw)
		}
		if p.Call == nil {
			continue
		}
		if calls++; calls == 1 {
			b.Key("tool_calls").Open('[')
		}
		call(b, p.Call)
	}
	if calls > 0 {
		b.Close(']')
	}
	b.Close('}')
}

func call(b *encode.Body, c *llm.ToolCall) {
	b.Open('{').Key("id").String(c.ID).Key("function").Open('{').Key("name").String(c.Name).Key("arguments")
	switch {
	case len(c.Args) == 0:
		b.Open('{').Close('}')
	case c.Args[0] == '{':
		b.Raw(c.Args)
	default: // what the model wrote is no object, and the server takes nothing else
		b.Open('{').Key("raw").Raw(c.Args).Close('}')
	}
	b.Close('}').Close('}')
}

// contents writes the text and the pictures of parts.
func contents(b *encode.Body, parts []llm.Part) {
	const few = 4 // are on the stack
	texts := make([]encode.Text, 0, few)
	images := 0
	for _, p := range parts {
		if p.Text != "" {
			texts = append(texts, encode.Text{Plain: p.Text, Escaped: p.Escaped})
		}
		if p.Image != nil {
			images++
		}
	}
	b.Key("content").Texts(texts...)
	if images == 0 {
		return
	}
	b.Key("images").Open('[')
	for _, p := range parts {
		if p.Image == nil {
			continue
		}
		if len(p.Image.Data) == 0 {
			b.Fail(&llm.Error{Kind: llm.Unsupported, Message: "ollama loads no images: send their bytes"})
		}
		b.Data("", p.Image.Data)
	}
	b.Close(']')
}
