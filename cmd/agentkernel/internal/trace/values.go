package trace

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/console"
)

// CallText writes a call as a program would: filesystem.read_text_file(path="/a.csv", head=3). With limit
// above zero long arguments and the whole are cut.
func CallText(op string, args json.RawMessage, limit int) string {
	name, pairs := parts(op, args)
	return Call(name, pairs, limit)
}

// Arguments are those of a call as a program gives them: of a tool.call those of the tool.
func Arguments(op string, args json.RawMessage) []Pair {
	_, pairs := parts(op, args)
	return pairs
}

func parts(op string, args json.RawMessage) (name string, pairs []Pair) {
	if op == "tool.call" {
		if target, inner, ok := toolCall(args); ok {
			return target, members(inner)
		}
	}
	return op, members(args)
}

// Pair is a named argument.
type Pair struct {
	Name  string
	Value json.RawMessage
}

// Call writes name(a=1, b="x").
func Call(name string, args []Pair, limit int) string {
	each := 0
	if limit > 0 && len(args) > 0 {
		each = max(limit/len(args)-10, 16)
	}
	var b strings.Builder
	b.WriteString(console.Line(name) + "(")
	before := utf8.RuneCountInString(name) + 1
	for i, p := range args {
		if i > 0 {
			b.WriteString(", ")
		}
		text := console.Line(p.Name) + "=" + Value(p.Value, each)
		if limit > 0 && i > 0 && utf8.RuneCountInString(b.String()+text)-before > limit {
			b.WriteString("…")
			break
		}
		b.WriteString(text)
	}
	return b.String() + ")"
}

// Value writes a JSON value the way Python does; limit above zero cuts it to about as many characters.
func Value(raw json.RawMessage, limit int) string {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return "None"
	}
	switch raw[0] {
	case '"':
		var s string
		if json.Unmarshal(raw, &s) == nil {
			return quote(s, limit)
		}
	case '[':
		var items []json.RawMessage
		if json.Unmarshal(raw, &items) == nil {
			return sequence("[", "]", items, limit)
		}
	case '{':
		return object(raw, limit)
	}
	switch s := string(raw); s {
	case "null":
		return "None"
	case "true":
		return "True"
	case "false":
		return "False"
	default:
		return cut(s, limit)
	}
}

func object(raw json.RawMessage, limit int) string {
	pairs := members(raw)
	if len(pairs) == 1 && strings.HasPrefix(pairs[0].Name, "$") {
		return tagged(pairs[0].Name, pairs[0].Value, limit)
	}
	return dict(len(pairs), limit, func(i int) (string, json.RawMessage) {
		return quote(pairs[i].Name, limit), pairs[i].Value
	})
}

func dict(n, limit int, item func(int) (key string, value json.RawMessage)) string {
	var b strings.Builder
	b.WriteByte('{')
	for i := range n {
		if i > 0 {
			b.WriteString(", ")
		}
		if limit > 0 && b.Len() > limit {
			b.WriteString("… " + itoa(n) + " keys")
			break
		}
		k, v := item(i)
		b.WriteString(k + ": " + Value(v, limit))
	}
	return b.String() + "}"
}

// tagged writes the $-objects of docs/values.md.
func tagged(tag string, v json.RawMessage, limit int) string {
	var items []json.RawMessage
	var text string
	switch tag {
	case "$tuple":
		if json.Unmarshal(v, &items) == nil {
			if len(items) == 1 {
				return "(" + Value(items[0], limit) + ",)"
			}
			return sequence("(", ")", items, limit)
		}
	case "$set", "$frozenset":
		if json.Unmarshal(v, &items) == nil {
			return sequence("{", "}", items, limit)
		}
	case "$dict":
		var pairs [][2]json.RawMessage
		if json.Unmarshal(v, &pairs) == nil {
			return dict(len(pairs), limit, func(i int) (string, json.RawMessage) {
				return Value(pairs[i][0], limit), pairs[i][1]
			})
		}
	case "$bytes":
		if json.Unmarshal(v, &text) == nil {
			padding := strings.Count(text, "=")
			return "<bytes, " + console.Bytes(int64(len(text)/4*3-padding)) + ">"
		}
	case "$repr", "$float", "$date", "$time", "$datetime", "$path":
		if json.Unmarshal(v, &text) == nil {
			return console.Line(cut(text, limit))
		}
	}
	return console.Line(strings.TrimPrefix(cut(tag, 40), "$")) + "(" + Value(v, limit) + ")"
}

func sequence(open, end string, items []json.RawMessage, limit int) string {
	var b strings.Builder
	b.WriteString(open)
	for i, it := range items {
		if i > 0 {
			b.WriteString(", ")
		}
		if limit > 0 && b.Len() > limit {
			b.WriteString("… " + itoa(len(items)) + " items")
			break
		}
		b.WriteString(Value(it, limit))
	}
	return b.String() + end
}

// members lists an object's members in their order.
func members(raw json.RawMessage) []Pair {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	var out []Pair
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return out
		}
		var v json.RawMessage
		if dec.Decode(&v) != nil {
			return out
		}
		out = append(out, Pair{name.(string), v})
	}
	return out
}

func toolCall(args json.RawMessage) (name string, inner json.RawMessage, ok bool) {
	var c struct {
		Server, Tool string
		Arguments    json.RawMessage
	}
	if json.Unmarshal(args, &c) != nil || c.Tool == "" {
		return "", nil, false
	}
	return c.Server + "." + c.Tool, c.Arguments, true
}

func quote(s string, limit int) string { return strconv.Quote(cut(s, limit)) }

// cut shortens text to limit runes, 0 meaning not at all.
func cut(s string, limit int) string {
	if limit <= 0 || len(s) <= limit || utf8.RuneCountInString(s) <= limit {
		return s
	}
	return string([]rune(s)[:limit-1]) + "…"
}

func join(parts ...string) string {
	kept := parts[:0:0]
	for _, p := range parts {
		if p != "" {
			kept = append(kept, p)
		}
	}
	return strings.Join(kept, " · ")
}

func since(word string, from, to time.Time) string {
	if from.IsZero() {
		return ""
	}
	return word + " " + span(from, to)
}

// span is how long it is between two times of a journal. The clock may have been set back between them: then they do not say.
func span(from, to time.Time) string {
	if to.Before(from) {
		return "an unknown time (the clock was set back)"
	}
	return console.Span(to.Sub(from))
}

func noteOf(e agentkernel.Entry) string {
	if n := textField(e.Data, "note"); n != "" {
		return n
	}
	return e.Note
}

// decided says what a human found out about a write whose outcome was unknown.
func decided(e agentkernel.Entry) string {
	return join("somebody decided about call "+strconv.FormatInt(e.Call, 10), e.Note)
}

// recoverDetail says how much of the process was repeated to bring it back.
func recoverDetail(e agentkernel.Entry) string {
	var d struct {
		FromImage *bool `json:"from_image"`
	}
	switch {
	case json.Unmarshal(e.Data, &d) != nil || d.FromImage == nil:
		return ""
	case *d.FromImage:
		return "continued from its image"
	}
	return "replayed from the journal"
}

// movedMark says between which backends a process has moved, and why.
func movedMark(e agentkernel.Entry) string {
	mark := "moved from " + textField(e.Data, "from") + " to " + textField(e.Data, "to")
	if e.Err == nil {
		return mark
	}
	return mark + ": " + firstLine(e.Err.Message())
}

// allowedMark says what a human has allowed from then on.
func allowedMark(e agentkernel.Entry) string { return "allowed from now on: " + oneLine(e.Note) }

func textField(data json.RawMessage, name string) string {
	var m map[string]any
	if json.Unmarshal(data, &m) != nil {
		return ""
	}
	s, _ := m[name].(string)
	return s
}

func itoa(n int) string { return strconv.Itoa(n) }
