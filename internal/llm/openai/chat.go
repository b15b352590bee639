package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"agentkernel/internal/llm"
	"agentkernel/internal/llm/encode"
	"agentkernel/internal/llm/transport"
)

// ChatName is the dialect of chat completions.
const ChatName = "openai"

// Chat speaks chat completions.
type Chat struct{ *server }

// New makes a provider that speaks chat completions. The error says which of the options is wrong.
func New(opts llm.Options, f Flavour) (*Chat, error) {
	s, err := newServer(opts, f)
	if err != nil {
		return nil, err
	}
	return &Chat{s}, nil
}

// Traits are what is true of the server as a whole.
func (c *Chat) Traits() llm.Traits {
	return llm.Traits{
		Name: ChatName, CancelFree: c.flavour == VLLM, Priority: c.flavour == VLLM,
		OutputPrecharged: c.official, // both count max_tokens against the limit of tokens when a request begins
	}
}

// Complete sends one request.
func (c *Chat) Complete(ctx context.Context, r *llm.Request, w llm.Watch) (*llm.Answer, error) {
	stream := w.Delta != nil
	body, err := c.encode(r, stream)
	if err != nil {
		return nil, err
	}
	x, err := c.Send(ctx, transport.Call{
		Path: c.call("/chat/completions"), Body: body, Stream: stream, Asked: transport.Asked(r), Input: transport.InputTokens(r), Watch: w,
	})
	if err != nil {
		return nil, err
	}
	defer x.Close()
	a := chatAnswer{x: x, stops: len(r.Stop) > 0}
	if x.Events() {
		return a.stream()
	}
	return a.whole()
}

// encode writes the body of a request. The messages come last: all that is before them is the same for each turn.
func (c *Chat) encode(r *llm.Request, stream bool) ([][]byte, error) {
	b := transport.NewBody(r).Open('{').Key("model").String(c.modelOf(r.Model))
	if len(r.Tools) > 0 {
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
	switch r.ToolChoice {
	case "", "auto":
	case "none", "required":
		b.Key("tool_choice").String(r.ToolChoice)
	default:
		b.Key("tool_choice").Open('{').Key("type").String("function").Key("function").Open('{').Key("name").String(r.ToolChoice).Close('}').Close('}')
	}
	if r.MaxTokens != 0 {
		// OpenAI's newer models refuse max_tokens; many other servers know nothing else.
		name := "max_tokens"
		if c.official {
			name = "max_completion_tokens"
		}
		b.Key(name).Int(r.MaxTokens)
	}
	b.FloatIf("temperature", r.Temperature).FloatIf("top_p", r.TopP)
	if len(r.Stop) > 0 {
		b.Key("stop").Strings(r.Stop)
	}
	if r.Seed != nil {
		b.Key("seed").Int(*r.Seed)
	}
	if len(r.Schema) > 0 {
		b.Key("response_format").Open('{').Key("type").String("json_schema").Key("json_schema").Open('{')
		b.Key("name").String("answer").Key("schema").Raw(r.Schema).Key("strict").Bool(strict(r.Schema)).Close('}').Close('}')
	}
	if r.Reasoning != "" {
		if c.flavour == OpenRouter {
			b.Key("reasoning").Open('{').Key("effort").String(r.Reasoning).Close('}')
		} else {
			b.Key("reasoning_effort").String(r.Reasoning)
		}
	}
	switch {
	case c.flavour == VLLM && r.Priority != 0:
		b.Key("priority").Int(int64(r.Priority))
	case c.flavour == OpenRouter:
		b.Key("usage").Open('{').Key("include").Bool(true).Close('}')
	}
	if stream {
		b.Key("stream").Bool(true)
		if r.Extra["stream_options"] == nil {
			b.Key("stream_options").Open('{').Key("include_usage").Bool(true).Close('}')
		}
	}
	b.Extra(r.Extra, "messages", "stream").Key("messages").Open('[')
	for i := range r.Messages {
		chatMessage(b, &r.Messages[i])
	}
	return done(b.Close(']').Close('}'))
}

// chatMessage writes a message, which depends on no other. The results of tools are messages of their own.
func chatMessage(b *encode.Body, m *llm.Message) {
	form{assistant: chatAssistant, content: chatContent, result: func(b *encode.Body, r *llm.ToolResult) {
		b.Open('{').Key("role").String("tool").Key("tool_call_id").String(r.ID).Key("content").Texts(texts(b, r.Parts)...).Close('}')
	}}.message(b, m)
}

// chatContent writes texts and pictures: a string, where there is one text.
func chatContent(b *encode.Body, said []llm.Part) {
	if len(said) == 0 || len(said) == 1 && said[0].Image == nil {
		b.Texts(texts(b, said)...)
		return
	}
	b.Open('[')
	for _, p := range said {
		if p.Image != nil {
			b.Open('{').Key("type").String("image_url").Key("image_url").Open('{').Key("url")
			imageURL(b, p.Image)
			b.Close('}').Close('}')
			continue
		}
		b.Open('{').Key("type").String("text").Key("text").Texts(encode.Text{Plain: p.Text, Escaped: p.Escaped}).Close('}')
	}
	b.Close(']')
}

func chatAssistant(b *encode.Body, m *llm.Message) {
	b.Open('{').Key("role").String(string(llm.Assistant))
	said := only(m.Parts, func(p *llm.Part) bool { return p.Text != "" || p.Image != nil })
	calls := 0
	for i := range m.Parts {
		switch p := &m.Parts[i]; {
		case p.Text != "" || p.Image != nil:
		case p.Call != nil:
			calls++
		case p.Opaque != nil && p.Opaque.Dialect == ChatName:
			if o, err := encode.Parse(p.Opaque.Raw); err == nil && o.Get(reasoningDetails) != nil { // a program has handed it back: no other member is of an answer
				b.Key(reasoningDetails).Raw(o.Get(reasoningDetails))
			}
		}
	}
	b.Key("content")
	if len(said) == 0 && calls > 0 {
		b.Null()
	} else {
		b.Texts(texts(b, said)...)
	}
	if calls > 0 {
		b.Key("tool_calls").Open('[')
		for _, p := range m.Parts {
			if p.Call == nil {
				continue
			}
			b.Open('{').Key("id").String(p.Call.ID).Key("type").String("function")
			b.Key("function").Open('{').Key("name").String(p.Call.Name).Key("arguments").String(argsText(p.Call.Args)).Close('}')
			if p.Fields != nil && p.Fields.Dialect == ChatName {
				b.Fields(p.Fields.Raw)
			}
			b.Close('}')
		}
		b.Close(']')
	}
	b.Close('}')
}

// texts are those of parts that may have nothing else.
func texts(b *encode.Body, parts []llm.Part) []encode.Text {
	const few = 4 // are on the stack
	list := make([]encode.Text, 0, few)
	for _, p := range parts {
		if p.Image != nil {
			b.Fail(unsupported("chat completions take images from users only: send it in a message of the user"))
		}
		list = append(list, encode.Text{Plain: p.Text, Escaped: p.Escaped})
	}
	return list
}

// text is a string, null, or a list of parts of which some have one.
type text string

func (t *text) UnmarshalJSON(raw []byte) error {
	if len(raw) > 1 && raw[0] == '"' && bytes.IndexByte(raw, '\\') < 0 && utf8.Valid(raw) { // as bits of an answer are mostly
		*t = text(raw[1 : len(raw)-1])
		return nil
	}
	var s *string
	if err := json.Unmarshal(raw, &s); err == nil {
		if s != nil {
			*t = text(*s)
		}
		return nil
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return err
	}
	var b strings.Builder
	for _, p := range parts {
		if p.Type == "text" {
			b.WriteString(p.Text)
		}
	}
	*t = text(b.String())
	return nil
}

// chunk is a bit of an answer, or all of it.
type chunk struct {
	ID      string          `json:"id"`
	Model   string          `json:"model"`
	Choices []choice        `json:"choices"`
	Usage   json.RawMessage `json:"usage"`
	Error   json.RawMessage `json:"error"`
	// Object is "error" where vLLM has no "error" around one.
	Object string `json:"object"`
}

type choice struct {
	Index   int     `json:"index"`
	Delta   message `json:"delta"`
	Message message `json:"message"`
	Finish  string  `json:"finish_reason"`
	// Stopped is what vLLM says of a stop: the text of Request.Stop, or the number of a token.
	Stopped json.RawMessage `json:"stop_reason"`
}

type message struct {
	Content text   `json:"content"`
	Refusal string `json:"refusal"`
	// Servers differ in what they call what a model thinks; some write it twice.
	ReasoningContent string            `json:"reasoning_content"`
	Reasoning        text              `json:"reasoning"`
	Details          []json.RawMessage `json:"reasoning_details"` // OpenRouter's, to be sent back
	Calls            []chatCall        `json:"tool_calls"`
}

type chatCall struct {
	Index    *int   `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name string `json:"name"`
		Args string `json:"arguments"`
	} `json:"function"`
	Extra json.RawMessage `json:"extra_content"` // Gemini's, to be sent back
}
