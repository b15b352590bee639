package tool

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"agentkernel"
	"agentkernel/internal/journal"
	"agentkernel/internal/strictjson"
)

// wireResult is a tools/call result as it came.
type wireResult struct {
	Content    contents        `json:"content"`
	Structured json.RawMessage `json:"structuredContent"`
	IsError    bool            `json:"isError"`
	ResultType string          `json:"resultType"`
}

// maxContent is how many pieces of content a result may have.
const maxContent = 100_000

// contents are the pieces of a result, which are objects; nil: the result has no such member. A null is an empty list, as Go writes one. What is none is not read: a list of numbers would take twelve times its length.
type contents []json.RawMessage

func (c *contents) UnmarshalJSON(raw []byte) error {
	*c = contents{}
	if string(raw) == "null" {
		return nil
	}
	if !strictjson.AreObjects(raw, maxContent) {
		return fmt.Errorf("the content is no list of at most %d objects", maxContent)
	}
	return json.Unmarshal(raw, (*[]json.RawMessage)(c))
}

// part is one piece of content.
type part struct {
	Type string  `json:"type"`
	Text *string `json:"text"`
}

// result makes the value that the program gets: structured content if there is any, else the text, else
// the list of parts; written as docs/values.md says, secrets included (see Hub.redact). CodeTool with the server's
// words, without secrets, if the tool failed; CodeAnswerLost if its answer cannot be read.
func (b *boundTool) result(raw json.RawMessage, secrets *redactor) (json.RawMessage, error) {
	var w wireResult
	if err := json.Unmarshal(raw, &w); err != nil {
		return nil, b.lost("the answer is no tool result")
	}
	text, quoted, allText := joinText(w.Content)
	switch {
	case w.IsError:
		return nil, agentkernel.Errorf(agentkernel.CodeTool, opCall, "%s",
			failureText(orText(errorText(w.Content), b.String()+" failed and says no more"), maxToolError, secrets))
	case w.ResultType == "input_required":
		return nil, agentkernel.Errorf(agentkernel.CodeTool, opCall, "%s asks for input that nobody here can give", b)
	}
	structured := len(w.Structured) > 0 && string(w.Structured) != "null"
	if w.Content == nil && !structured {
		return nil, b.lost("the answer is no tool result: it has neither content nor structuredContent")
	}
	var out json.RawMessage
	var err error
	switch {
	case structured:
		out, err = values(b.member(w.Structured))
	case allText && quoted != nil && b.schema:
		return nil, b.lost("the answer holds half of a surrogate pair, which is no text")
	case allText && quoted != nil:
		out = quoted
	case allText && b.schema && json.Valid([]byte(text)):
		out, err = values(b.member(json.RawMessage(text)))
	case allText:
		out = appendJSONString(nil, text)
	default:
		out, err = partValues(w.Content)
	}
	if err != nil {
		return nil, b.lost("the answer cannot be read: %v", err)
	}
	return out, nil
}

// lost says that the tool ran, and that nobody will know what it answered: a write must not be made again for that.
func (b *boundTool) lost(format string, args ...any) error {
	return agentkernel.Errorf(agentkernel.CodeAnswerLost, opCall, "%s: %s; the tool ran, its answer is lost", b, fmt.Sprintf(format, args...))
}

// member takes the wrapper off that the output schema declares.
func (b *boundTool) member(raw json.RawMessage) json.RawMessage {
	if b.unwrap == "" {
		return raw
	}
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil || len(m) != 1 || m[b.unwrap] == nil {
		return raw
	}
	return m[b.unwrap]
}

// joinText joins the texts with newlines; false if there is anything but text. quoted is the same as JSON where a text holds half of a
// surrogate pair: a server that cuts its text in the middle of a character sends it, JSON and Python can hold it, and a Go string cannot.
func joinText(content []json.RawMessage) (text string, quoted json.RawMessage, allText bool) {
	var texts, inner []string
	halves := false
	for _, c := range content {
		var p part
		if json.Unmarshal(c, &p) != nil || p.Type != "text" || p.Text == nil {
			return "", nil, false
		}
		texts = append(texts, *p.Text)
		halves = halves || strictjson.LoneSurrogate(c) >= 0
	}
	if halves {
		for _, c := range content {
			var p struct {
				Text json.RawMessage `json:"text"`
			}
			if json.Unmarshal(c, &p) != nil || len(p.Text) < 2 {
				return "", nil, false
			}
			inner = append(inner, string(p.Text[1:len(p.Text)-1]))
		}
		quoted = json.RawMessage(`"` + strings.Join(inner, `\n`) + `"`)
	}
	return strings.Join(texts, "\n"), quoted, true
}

// errorText is the text of an error result, whatever else is in it.
func errorText(content []json.RawMessage) string {
	var texts []string
	for _, c := range content {
		var p part
		if json.Unmarshal(strictjson.ShowSurrogates(c), &p) == nil && p.Type == "text" && p.Text != nil {
			texts = append(texts, *p.Text)
		}
	}
	return strings.TrimSpace(strings.Join(texts, "\n"))
}

// partValues is the list of parts, with binary data as bytes.
func partValues(content []json.RawMessage) (json.RawMessage, error) {
	out := []byte{'['}
	for i, c := range content {
		if i > 0 {
			out = append(out, ',')
		}
		var kind part
		if err := json.Unmarshal(c, &kind); err != nil {
			return nil, fmt.Errorf("a part of the content is no object")
		}
		v, err := values(c)
		if err != nil {
			return nil, err
		}
		switch kind.Type {
		case "image", "audio":
			v, err = mapMember(v, "data", bytesValue)
		case "resource":
			v, err = mapMember(v, "resource", func(r json.RawMessage) (json.RawMessage, error) {
				return mapMember(r, "blob", bytesValue)
			})
		}
		if err != nil {
			return nil, err
		}
		out = append(out, v...)
	}
	return append(out, ']'), nil
}

// bytesValue turns a base64 text into bytes.
func bytesValue(raw json.RawMessage) (json.RawMessage, error) {
	var text string
	if isText := json.Unmarshal(raw, &text) == nil; !isText {
		return raw, nil
	}
	data, err := decodeBase64(text)
	if err != nil {
		return nil, errors.New("its data is not base64")
	}
	return fmt.Appendf(nil, `{"$bytes":"%s"}`, base64.StdEncoding.EncodeToString(data)), nil
}

func decodeBase64(s string) ([]byte, error) {
	s = strings.Map(func(r rune) rune {
		if r == '\n' || r == '\r' || r == ' ' || r == '=' {
			return -1
		}
		return r
	}, s)
	if strings.ContainsAny(s, "-_") {
		return base64.RawURLEncoding.DecodeString(s)
	}
	return base64.RawStdEncoding.DecodeString(s)
}

// values writes plain JSON as docs/values.md does; bytes that are no UTF-8 are replaced. Nothing is copied
// that needs no change.
func values(raw json.RawMessage) (json.RawMessage, error) {
	if !utf8.Valid(raw) {
		raw = bytes.ToValidUTF8(raw, []byte("\ufffd"))
	}
	return journal.FromPlain(raw)
}

// objectMember is one member of an object whose order is kept.
type objectMember struct {
	key   string
	value json.RawMessage
}

func readObject(raw json.RawMessage) ([]objectMember, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	var members []objectMember
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return nil, err
		}
		m := objectMember{key: tok.(string)}
		if err := dec.Decode(&m.value); err != nil {
			return nil, err
		}
		members = append(members, m)
	}
	return members, nil
}

func appendObject(out []byte, members []objectMember) []byte {
	out = append(out, '{')
	for i, m := range members {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(appendJSONString(out, m.key), ':')
		out = append(out, m.value...)
	}
	return append(out, '}')
}

// mapMember replaces one member of an object, if it has it.
func mapMember(raw json.RawMessage, name string, f func(json.RawMessage) (json.RawMessage, error)) (json.RawMessage, error) {
	if len(raw) == 0 || raw[0] != '{' {
		return raw, nil
	}
	members, err := readObject(raw)
	if err != nil {
		return nil, err
	}
	for i := range members {
		if members[i].key == name {
			if members[i].value, err = f(members[i].value); err != nil {
				return nil, err
			}
		}
	}
	return appendObject(nil, members), nil
}
