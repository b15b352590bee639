package llm

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentkernel/internal/clip"
	"agentkernel/internal/journal"
	"agentkernel/internal/llm"
	"agentkernel/internal/quickjson"
	"agentkernel/internal/sys"
)

// askArgs are the arguments of llm.ask.
type askArgs struct {
	Prompt string            `json:"prompt"`
	System string            `json:"system"`
	Images []json.RawMessage `json:"images"`
	reuseArg
	commonArgs
}

// commonArgs are those that asking and completing share.
type commonArgs struct {
	Model       string          `json:"model"`
	Schema      json.RawMessage `json:"schema"`
	MaxTokens   *int64          `json:"max_tokens"`
	Temperature *float64        `json:"temperature"`
	Reasoning   string          `json:"reasoning"`
}

// completeArgs are the arguments of llm.complete.
type completeArgs struct {
	Messages   []message                  `json:"messages"`
	Tools      []tool                     `json:"tools"`
	ToolChoice string                     `json:"tool_choice"`
	Stop       []string                   `json:"stop"`
	TopP       *float64                   `json:"top_p"`
	Seed       *int64                     `json:"seed"`
	Cache      string                     `json:"cache"`
	Extra      map[string]json.RawMessage `json:"extra"`
	Shrink     bool                       `json:"shrink"`
	reuseArg
	commonArgs
}

// read reads arguments without messages.
func (a *completeArgs) read(c *sys.Call, rest json.RawMessage) error {
	if a.simple(rest) {
		return nil
	}
	*a = completeArgs{}
	return sys.Decode(&c.Op.Syscall, rest, a)
}

// simple reads arguments of which nearly all calls have no others, as sys.Decode does, in a tenth of its time. False: there are others, or there is
// something else that only that can tell.
func (a *completeArgs) simple(rest json.RawMessage) bool {
	return quickjson.Members(rest, func(name, value []byte) (ok bool) {
		switch string(name) {
		case "model":
			a.Model, _, ok = quickjson.Text(value)
		case "max_tokens":
			n, err := strconv.ParseInt(string(value), 10, 64)
			a.MaxTokens, ok = &n, err == nil && value[0] >= '1' && value[0] <= '9'
		}
		return ok
	})
}

// reuseArg is how old an answer may be that is given again, in seconds. A stream has none.
type reuseArg struct {
	Reuse *float64 `json:"reuse"`
}

// maxReuse is as good as for ever, in seconds: what is kept goes with the kernel.
const maxReuse = 1e9

// apply puts it into a query.
func (a *reuseArg) apply(c *sys.Call, q *llm.Query) error {
	if a.Reuse == nil {
		return nil
	}
	if *a.Reuse < 0 {
		return c.Invalid("reuse is %g; it is a number of seconds, 0 or above", *a.Reuse)
	}
	q.Reuse = time.Duration(min(*a.Reuse, maxReuse) * float64(time.Second))
	return nil
}

// streamArgs are the arguments of llm.stream.
type streamArgs struct {
	Messages json.RawMessage `json:"messages"` // or one text of the user
	completeArgs
}

// tool is a tool as programs write it.
type tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"`
}

// message is a message as programs write it.
type message struct {
	Role       llm.Role        `json:"role"`
	Content    json.RawMessage `json:"content"` // a text, or parts
	ToolCalls  []call          `json:"tool_calls"`
	ToolCallID string          `json:"tool_call_id"`
	Failed     bool            `json:"failed"` // of role tool
}

// call is a tool call as programs write it.
type call struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	Fields    *fields         `json:"fields"`
}

// part is a part of a message as programs write it.
type part struct {
	Type    string          `json:"type"` // text, image or opaque
	Text    string          `json:"text"`
	Data    json.RawMessage `json:"data"` // of an image: bytes
	URL     string          `json:"url"`
	Dialect string          `json:"dialect"`
	Raw     string          `json:"raw"`
	Fields  *fields         `json:"fields"`
}

// fields are what a dialect says of a part besides; raw is JSON, as a text.
type fields struct {
	Dialect string `json:"dialect"`
	Raw     string `json:"raw"`
}

// read makes fields of what a program hands back.
func (f *fields) read() (*llm.Opaque, error) {
	if f == nil {
		return nil, nil
	}
	if f.Dialect == "" || !only(f.Raw, "caller", "extra_content", "namespace", "phase") {
		return nil, fmt.Errorf("its fields are not those of an answer")
	}
	return &llm.Opaque{Dialect: f.Dialect, Raw: json.RawMessage(f.Raw)}, nil
}

// mostTokens bounds what a program may want of an answer: no model answers so much. What is reserved for an answer counts against the
// limits of a key, for all who share it, and is added to other numbers.
const mostTokens = 10_000_000

// apply puts the common arguments into a request.
func (a *commonArgs) apply(c *sys.Call, r *llm.Request) (err error) {
	r.Temperature, r.Reasoning = a.Temperature, a.Reasoning
	if a.MaxTokens != nil {
		if r.MaxTokens = *a.MaxTokens; r.MaxTokens < 1 {
			return c.Invalid("max_tokens is %d; it must be above 0", r.MaxTokens)
		}
		if r.MaxTokens > mostTokens {
			return c.Invalid("max_tokens is %d; it must not be above %d", r.MaxTokens, mostTokens)
		}
	}
	switch a.Reasoning {
	case "", "none", "low", "medium", "high":
	default:
		return c.Invalid("reasoning is %q, and not none, low, medium or high", clip.Short(a.Reasoning))
	}
	if len(a.Schema) > 0 && string(a.Schema) != "null" {
		if r.Schema, err = journal.PlainExact(a.Schema); err != nil {
			return c.Invalid("schema: %v", err)
		}
	}
	return nil
}

func (f family) admitAsk(c *sys.Call) (a sys.Admission, err error) {
	var args askArgs
	if err := c.Decode(&args); err != nil {
		return a, err
	}
	if strings.TrimSpace(args.Prompt) == "" {
		return a, c.Invalid("the prompt is empty")
	}
	q := &llm.Query{Model: args.Model}
	if args.System != "" {
		q.Request.Messages = append(q.Request.Messages, llm.Message{Role: llm.System, Parts: []llm.Part{{Text: args.System}}})
	}
	asks := llm.Message{Role: llm.User}
	for i, raw := range args.Images {
		image, err := imageOf(raw)
		if err != nil {
			return a, c.Invalid("images[%d]: %v", i, err)
		}
		asks.Parts = append(asks.Parts, llm.Part{Image: image})
	}
	asks.Parts = append(asks.Parts, llm.Part{Text: args.Prompt})
	q.Request.Messages = append(q.Request.Messages, asks)
	if err := cmp.Or(args.commonArgs.apply(c, &q.Request), args.reuseArg.apply(c, q)); err != nil {
		return a, err
	}
	return f.admit(c, q)
}

func (f family) admitComplete(c *sys.Call) (a sys.Admission, err error) {
	t, rest := f.talks.cut(c)
	var args completeArgs
	if err := args.read(c, rest); err != nil {
		return a, err
	}
	q := &llm.Query{Model: args.Model}
	if err := args.reuseArg.apply(c, q); err != nil {
		return a, err
	}
	return f.converse(c, &args, t, q)
}

// admitStream is admitComplete for an answer that is told bit by bit, of a conversation that may be one text.
func (f family) admitStream(c *sys.Call) (a sys.Admission, err error) {
	t, rest := f.talks.cut(c)
	var args streamArgs
	if err := sys.Decode(&c.Op.Syscall, rest, &args); err != nil {
		return a, err
	}
	if said := args.Messages; len(said) > 0 && said[0] == '"' {
		t = talk{raw: []json.RawMessage{slices.Concat([]byte(`{"role":"user","content":`), said, []byte("}"))}}
	} else if err := sys.DecodePart(c.Op.Name, "messages", said, &args.completeArgs.Messages); err != nil {
		return a, err
	}
	return f.converse(c, &args.completeArgs, t, &llm.Query{Model: args.Model, Streams: true})
}

// converse plans to go on with a conversation.
func (f family) converse(c *sys.Call, args *completeArgs, t talk, q *llm.Query) (a sys.Admission, err error) {
	if len(t.read)+len(t.raw) == 0 {
		return a, c.Invalid("there are no messages")
	}
	r := &q.Request
	q.Shrink = args.Shrink
	r.Messages = append(make([]llm.Message, 0, len(t.read)+len(t.raw)), t.read...)
	for i, raw := range t.raw {
		m, err := f.memo.read(c.Spec.Namespace, raw)
		if err != nil {
			if err := c.Decode(&completeArgs{}); err != nil { // it says what is wrong with the arguments as a whole
				return a, err
			}
			return a, c.Invalid("messages[%d]: %v", len(t.read)+i, err)
		}
		r.Messages = append(r.Messages, m)
	}
	f.talks.remember(c, t, r.Messages)
	for i, t := range args.Tools {
		schema, err := journal.PlainExact(t.Schema)
		if len(t.Schema) == 0 {
			schema, err = json.RawMessage(`{"type":"object"}`), nil
		}
		if t.Name == "" || err != nil {
			return a, c.Invalid("tools[%d] has no name, or no schema that is JSON", i)
		}
		r.Tools = append(r.Tools, llm.Tool{Name: t.Name, Description: t.Description, Schema: schema})
	}
	r.ToolChoice, r.Stop, r.TopP, r.Seed, r.Cache = args.ToolChoice, args.Stop, args.TopP, args.Seed, args.Cache
	if r.Cache != "" && r.Cache != "5m" && r.Cache != "1h" {
		return a, c.Invalid("cache is %q, and not 5m or 1h", clip.Short(r.Cache))
	}
	for name, value := range args.Extra {
		plain, err := journal.PlainExact(value)
		if err != nil {
			return a, c.Invalid("extra: %s: %v", clip.Short(name), err)
		}
		if r.Extra == nil {
			r.Extra = map[string]json.RawMessage{}
		}
		r.Extra[name] = plain
	}
	if err := args.commonArgs.apply(c, r); err != nil {
		return a, err
	}
	return f.admit(c, q)
}

func (f family) admitEmbed(c *sys.Call) (a sys.Admission, err error) {
	var args struct {
		Texts      json.RawMessage `json:"texts"`
		Model      string          `json:"model"`
		Dimensions *int            `json:"dimensions"`
		reuseArg
	}
	if err := c.Decode(&args); err != nil {
		return a, err
	}
	e := &llm.EmbedRequest{}
	var one string
	if json.Unmarshal(args.Texts, &one) == nil {
		e.Texts = []string{one}
	} else if err := json.Unmarshal(args.Texts, &e.Texts); err != nil {
		return a, c.Invalid("texts must be a list of str")
	}
	if len(e.Texts) == 0 {
		return a, c.Invalid("there are no texts")
	}
	if args.Dimensions != nil {
		if e.Dimensions = *args.Dimensions; e.Dimensions < 1 {
			return a, c.Invalid("dimensions is %d; it must be above 0", e.Dimensions)
		}
	}
	q := &llm.Query{Model: args.Model, Embed: e}
	if err := args.apply(c, q); err != nil {
		return a, err
	}
	return f.admit(c, q)
}

// readMessage reads a message as a program wrote it.
func readMessage(raw json.RawMessage) (llm.Message, error) {
	if out, ok := simple(raw); ok {
		return out, nil
	}
	return decodeMessage(raw)
}

// simple reads a message as nearly all are, a role and a text, as decodeMessage does, in a tenth of its time. False: it is another.
func simple(raw json.RawMessage) (out llm.Message, ok bool) {
	var role, text string
	var inner []byte
	ok = quickjson.Members(raw, func(name, value []byte) (ok bool) {
		switch string(name) {
		case "role":
			role, _, ok = quickjson.Text(value)
		case "content":
			text, inner, ok = quickjson.Text(value)
		}
		return ok
	})
	switch llm.Role(role) {
	case llm.System, llm.User, llm.Assistant:
		return llm.Message{Role: llm.Role(role), Parts: []llm.Part{{Text: text, Escaped: bytes.Clone(inner)}}}, ok && text != ""
	}
	return out, false
}

// decodeMessage is readMessage for any message.
func decodeMessage(raw json.RawMessage) (llm.Message, error) {
	var m message
	if err := sys.DecodePart("llm.complete", "it", raw, &m); err != nil {
		return llm.Message{}, err
	}
	return m.read()
}

// read makes a message of what a program wrote.
func (m *message) read() (out llm.Message, err error) {
	out.Role = m.Role
	switch {
	case m.Role != llm.System && m.Role != llm.User && m.Role != llm.Assistant && m.Role != llm.ToolRole:
		return out, fmt.Errorf("the role is %q, and not system, user, assistant or tool", clip.Short(string(m.Role)))
	case len(m.ToolCalls) > 0 && m.Role != llm.Assistant:
		return out, fmt.Errorf("tool_calls are the assistant's")
	case (m.ToolCallID != "") != (m.Role == llm.ToolRole):
		return out, fmt.Errorf("tool_call_id belongs to the role tool, and is there always")
	}
	parts, err := readParts(m.Content)
	if err != nil {
		return out, err
	}
	if m.Role == llm.ToolRole {
		out.Parts = []llm.Part{{Result: &llm.ToolResult{ID: m.ToolCallID, Parts: parts, Failed: m.Failed}}}
		return out, nil
	}
	out.Parts = parts
	for i, c := range m.ToolCalls {
		args, err := journal.PlainExact(c.Arguments)
		if c.ID == "" || c.Name == "" || err != nil {
			return out, fmt.Errorf("tool_calls[%d] needs id, name and arguments", i)
		}
		fields, err := c.Fields.read()
		if err != nil {
			return out, fmt.Errorf("tool_calls[%d]: %w", i, err)
		}
		out.Parts = append(out.Parts, llm.Part{Call: &llm.ToolCall{ID: c.ID, Name: c.Name, Args: args}, Fields: fields})
	}
	if len(out.Parts) == 0 {
		return out, fmt.Errorf("it is empty")
	}
	return out, nil
}

// readParts reads content: a text, or a list of parts.
func readParts(raw json.RawMessage) (parts []llm.Part, err error) {
	var text string
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return nil, nil
	case json.Unmarshal(raw, &text) == nil:
		if text == "" {
			return nil, nil
		}
		return []llm.Part{{Text: text, Escaped: escaped(text)}}, nil
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		return nil, fmt.Errorf("content is neither a text nor a list of parts")
	}
	for i, raw := range list {
		var p part
		if json.Unmarshal(raw, &p) != nil {
			return nil, fmt.Errorf("content[%d] is no part", i)
		}
		fields, err := p.Fields.read()
		if err != nil {
			return nil, fmt.Errorf("content[%d]: %w", i, err)
		}
		switch p.Type {
		case "text":
			parts = append(parts, llm.Part{Text: p.Text, Escaped: escaped(p.Text), Fields: fields})
		case "image":
			source := p.Data
			if p.URL != "" {
				source = journal.String(p.URL)
			}
			image, err := imageOf(source)
			if err != nil {
				return nil, fmt.Errorf("content[%d]: %w", i, err)
			}
			parts = append(parts, llm.Part{Image: image, Fields: fields})
		case "opaque":
			if p.Dialect == "" || !thought(p.Raw) {
				return nil, fmt.Errorf("content[%d] is no opaque part of an answer", i)
			}
			parts = append(parts, llm.Part{Opaque: &llm.Opaque{Dialect: p.Dialect, Raw: json.RawMessage(p.Raw)}})
		default:
			return nil, fmt.Errorf("content[%d] has the type %q, and not text, image or opaque", i, clip.Short(p.Type))
		}
	}
	return parts, nil
}

// escaped is what stands for a text between the quotes of a JSON string: it is written once, and sent with each turn.
func escaped(text string) []byte {
	quoted := journal.String(text)
	return bytes.Clone(quoted[1 : len(quoted)-1])
}

// thought says whether an opaque part is what a model thought. Any other block could be of a program's own making: a picture at an
// address that the provider fetches, an answer that it has stored for somebody else.
func thought(raw string) bool {
	members, ok := membersOf(raw)
	if !ok {
		return false
	}
	var kind string
	if json.Unmarshal(members["type"], &kind) != nil {
		return only(raw, "reasoning_details", "thinking")
	}
	switch kind {
	case "thinking":
		return only(raw, "type", "thinking", "signature")
	case "redacted_thinking":
		return only(raw, "type", "data")
	case "reasoning":
		return only(raw, "type", "id", "summary", "content", "encrypted_content", "status")
	}
	return false
}

// only says whether a text is an object with no other members than these.
func only(raw string, names ...string) bool {
	members, ok := membersOf(raw)
	for name := range members {
		ok = ok && slices.Contains(names, name)
	}
	return ok
}

// membersOf reads an object, none of whose members is there twice: readers differ in which they take.
func membersOf(raw string) (map[string]json.RawMessage, bool) {
	dec := json.NewDecoder(strings.NewReader(raw))
	if start, err := dec.Token(); err != nil || start != json.Delim('{') {
		return nil, false
	}
	members := map[string]json.RawMessage{}
	for dec.More() {
		name, err := dec.Token()
		var value json.RawMessage
		if err != nil || dec.Decode(&value) != nil {
			return nil, false
		}
		if key, _ := name.(string); members[key] == nil {
			members[key] = value
			continue
		}
		return nil, false
	}
	if _, err := dec.Token(); err != nil {
		return nil, false
	}
	return members, json.Valid([]byte(raw))
}

// imageOf reads a picture: bytes, or an address.
func imageOf(raw json.RawMessage) (*llm.Image, error) {
	var tagged struct {
		Bytes *string `json:"$bytes"`
	}
	var address string
	switch {
	case json.Unmarshal(raw, &address) == nil:
		if !strings.HasPrefix(address, "https://") && !strings.HasPrefix(address, "http://") {
			return nil, fmt.Errorf("a picture is bytes, or an address that begins with https://")
		}
		return &llm.Image{URL: address}, nil
	case json.Unmarshal(raw, &tagged) == nil && tagged.Bytes != nil:
		data, err := base64.StdEncoding.DecodeString(*tagged.Bytes)
		if err != nil {
			return nil, fmt.Errorf("the bytes of the picture cannot be read")
		}
		kind := imageType(data)
		if kind == "" {
			return nil, fmt.Errorf("the bytes are no PNG, JPEG, GIF or WebP")
		}
		return &llm.Image{Type: kind, Data: data}, nil
	}
	return nil, fmt.Errorf("a picture is bytes, or an address that begins with https://")
}

// imageType is the type of a picture by its first bytes; "": it is none that models take.
func imageType(data []byte) string {
	text := string(data[:min(len(data), 16)])
	switch {
	case strings.HasPrefix(text, "\x89PNG\r\n\x1a\n"):
		return "image/png"
	case strings.HasPrefix(text, "\xff\xd8\xff"):
		return "image/jpeg"
	case strings.HasPrefix(text, "GIF8"):
		return "image/gif"
	case strings.HasPrefix(text, "RIFF") && strings.HasPrefix(text[min(len(text), 8):], "WEBP"):
		return "image/webp"
	}
	return ""
}
