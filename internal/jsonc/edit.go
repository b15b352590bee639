package jsonc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"agentkernel/internal/strictjson"
)

// Doc is a text whose top is an object. The edits change its bytes in place and leave all others as they are.
type Doc struct {
	src   []byte
	bare  []byte // src with its comments blanked
	clean []byte // and with its trailing commas blanked: JSON
}

// SyntaxError says what is wrong with a text, and where.
type SyntaxError struct {
	Offset int // of the byte that is wrong
	Where  string
	Reason string
}

func (e *SyntaxError) Error() string { return e.Where + ": " + e.Reason }

var byteOrderMark = []byte("\xef\xbb\xbf")

// Parse reads a text. Errors are a *SyntaxError.
func Parse(src []byte) (*Doc, error) {
	d := &Doc{src: bytes.Clone(src)}
	return d, d.scan()
}

// scan reads the text anew, after an edit too: what follows works on offsets of this very text.
func (d *Doc) scan() error {
	d.bare = bytes.Clone(d.src)
	if bytes.HasPrefix(d.bare, byteOrderMark) {
		copy(d.bare, "   ")
	}
	blankComments(d.bare)
	d.clean = bytes.Clone(d.bare)
	blankTrailingCommas(d.clean)
	var probe json.RawMessage
	if err := json.Unmarshal(d.clean, &probe); err != nil {
		offset, syntax := strictjson.Offset(err)
		if !syntax {
			offset = int64(len(d.src))
		}
		return d.wrong(int(offset), "%s", strictjson.Reason(err, d.clean))
	}
	if start := d.next(0); d.clean[start] != '{' {
		return d.wrong(start, "the top must be an object, {...}")
	}
	return nil
}

func (d *Doc) wrong(offset int, format string, args ...any) *SyntaxError {
	return &SyntaxError{Offset: offset, Where: Position(d.src, int64(offset)), Reason: fmt.Sprintf(format, args...)}
}

// Bytes is the text as it is now.
func (d *Doc) Bytes() []byte { return bytes.Clone(d.src) }

// Member is one member of an object.
type Member struct {
	Key   string
	Value []byte // as it stands in the text, comments included

	start, value, end int // offsets: of the key's quote, of the value, behind the value
}

// object is where one stands: from its brace to behind the other.
type object struct {
	start, end int
	members    []Member
}

// Members are those of the object at a path of keys, in their order; ok is false if there is no such object. Errors are a
// *SyntaxError: something on the path is no object, or has a key twice.
func (d *Doc) Members(path ...string) (members []Member, ok bool, err error) {
	o, ok, err := d.object(path)
	return o.members, ok, err
}

// Plain is the value without comments and trailing commas.
func (m Member) Plain() json.RawMessage { return Plain(m.Value) }

func (d *Doc) object(path []string) (object, bool, error) {
	o, err := d.objectAt(d.next(0))
	for _, key := range path {
		if err != nil {
			return object{}, false, err
		}
		i := slices.IndexFunc(o.members, func(m Member) bool { return m.Key == key })
		if i < 0 {
			return object{}, false, nil
		}
		at := o.members[i].value
		if d.clean[at] != '{' {
			return object{}, false, d.wrong(at, "%q must be an object, {...}", key)
		}
		o, err = d.objectAt(at)
	}
	return o, err == nil, err
}

// objectAt reads the object that begins at an offset. The text is known to be JSON.
func (d *Doc) objectAt(start int) (object, error) {
	o := object{start: start}
	seen := map[string]bool{}
	for i := d.next(start + 1); d.clean[i] != '}'; {
		m := Member{start: i}
		keyEnd := StringEnd(d.clean, i) + 1
		if err := json.Unmarshal(d.clean[i:keyEnd], &m.Key); err != nil {
			return o, d.wrong(i, "%v", err)
		}
		if seen[m.Key] {
			return o, d.wrong(i, "the key %q stands there twice", m.Key)
		}
		seen[m.Key] = true
		m.value = d.next(d.next(keyEnd) + 1) // behind the colon
		m.end = d.skip(m.value)
		m.Value = bytes.Clone(d.src[m.value:m.end])
		o.members = append(o.members, m)
		if i = d.next(m.end); d.clean[i] == ',' {
			i = d.next(i + 1)
		}
		o.end = i
	}
	o.end = d.next(max(o.end, start+1)) + 1
	return o, nil
}

// next is the offset of the first byte from i on that is no space.
func (d *Doc) next(i int) int {
	for i < len(d.clean) && isSpace(d.clean[i]) {
		i++
	}
	return i
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// skip is the offset behind the value that begins at i.
func (d *Doc) skip(i int) int {
	depth := 0
	for ; i < len(d.clean); i++ {
		switch c := d.clean[i]; {
		case c == '"':
			i = StringEnd(d.clean, i)
		case c == '{' || c == '[':
			depth++
		case (c == '}' || c == ']') && depth > 0:
			depth--
		case isSpace(c) || c == ',' || c == ':':
			continue
		default:
			for i+1 < len(d.clean) && !isSpace(d.clean[i+1]) && !bytes.ContainsRune([]byte(",]}"), rune(d.clean[i+1])) {
				i++
			}
		}
		if depth == 0 {
			return i + 1
		}
	}
	return i
}

// Remove takes a member out of the object at a path, with its comma. Comments stay where they are. A member that is not
// there is no error.
func (d *Doc) Remove(path []string, key string) error {
	o, ok, err := d.object(path)
	if err != nil || !ok {
		return err
	}
	i := slices.IndexFunc(o.members, func(m Member) bool { return m.Key == key })
	if i < 0 {
		return nil
	}
	m := o.members[i]
	switch comma := d.comma(m.end, o.end); {
	case comma >= 0: // from the back to the front, so that offsets stay true
		d.cut(comma, comma+1)
		d.cutMember(m)
	case i > 0:
		d.cutMember(m)
		comma = d.comma(o.members[i-1].end, m.start)
		d.cut(comma, comma+1)
	default:
		d.cutMember(m)
	}
	return d.scan()
}

// comma is the offset of the comma between a value's end and what comes next, or -1.
func (d *Doc) comma(from, to int) int {
	for i := from; i < to; i++ {
		if d.bare[i] == ',' {
			return i
		}
		if !isSpace(d.bare[i]) {
			break
		}
	}
	return -1
}

func (d *Doc) cut(from, to int) { d.src = slices.Delete(d.src, from, to) }

// cutMember takes a member out, and the line that is blank then.
func (d *Doc) cutMember(m Member) {
	d.cut(m.start, m.end)
	from, to := m.start, m.start
	for from > 0 && (d.src[from-1] == ' ' || d.src[from-1] == '\t') {
		from--
	}
	for to < len(d.src) && (d.src[to] == ' ' || d.src[to] == '\t' || d.src[to] == '\r') {
		to++
	}
	atLineStart := from == 0 || d.src[from-1] == '\n'
	switch {
	case atLineStart && to < len(d.src) && d.src[to] == '\n':
		d.cut(from, to+1)
	case to > m.start: // others stand on the line: the space before it is enough
		d.cut(m.start, to)
	}
}

// Set gives a member of the object at a path a value, which is JSON: in the place of the old value, or as the last
// member. Objects of the path that are not there are made.
func (d *Doc) Set(path []string, key string, value json.RawMessage) error {
	o, ok, err := d.object(path)
	if err != nil {
		return err
	}
	if !ok {
		last := len(path) - 1
		if err := d.Set(path[:last], path[last], json.RawMessage("{}")); err != nil {
			return err
		}
		return d.Set(path, key, value)
	}
	for _, m := range o.members {
		if m.Key == key {
			d.src = slices.Replace(d.src, m.value, m.end, value...)
			return d.scan()
		}
	}
	d.add(o, key, value)
	return d.scan()
}

func (d *Doc) add(o object, key string, value json.RawMessage) {
	quoted, _ := json.Marshal(key) // a string always marshals
	text := string(quoted) + ": " + string(value)
	closing := o.end - 1
	if len(o.members) == 0 {
		at := d.behind(o.start+1, closing)
		base := d.indentAt(o.start)
		text = d.newline() + base + d.unit() + text + d.newline() + base
		d.src = slices.Replace(d.src, at, closing, []byte(text)...)
		return
	}
	last := o.members[len(o.members)-1]
	at := d.behind(last.end, closing)
	if oneLine := !bytes.ContainsRune(d.src[o.start:closing], '\n'); oneLine {
		text = " " + text
	} else {
		text = d.newline() + d.indentAt(last.start) + text
	}
	d.src = slices.Insert(d.src, at, []byte(text)...)
	if d.comma(last.end, closing) < 0 {
		d.src = slices.Insert(d.src, last.end, ',')
	}
}

// behind is the offset behind the last byte of a stretch that is no space: behind its comments.
func (d *Doc) behind(from, to int) int {
	for to > from && isSpace(d.src[to-1]) {
		to--
	}
	return to
}

// indentAt is the white space at the beginning of the line of an offset.
func (d *Doc) indentAt(offset int) string {
	start := bytes.LastIndexByte(d.src[:offset], '\n') + 1
	end := start
	for end < len(d.src) && (d.src[end] == ' ' || d.src[end] == '\t') {
		end++
	}
	return string(d.src[start:end])
}

// unit is how the text indents: as its first member does, else two spaces.
func (d *Doc) unit() string {
	o, err := d.objectAt(d.next(0))
	if err == nil && len(o.members) > 0 {
		if indent := d.indentAt(o.members[0].start); indent != "" {
			return indent
		}
	}
	return "  "
}

func (d *Doc) newline() string {
	if bytes.Contains(d.src, []byte("\r\n")) {
		return "\r\n"
	}
	return "\n"
}

// Format is the JSON of a value as it looks as a member of an object at a depth (1: of the top) of this text.
func (d *Doc) Format(value any, depth int) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent(strings.Repeat(d.unit(), depth), d.unit())
	if err := enc.Encode(value); err != nil {
		return nil, err
	}
	text := bytes.TrimRight(b.Bytes(), "\n")
	return bytes.ReplaceAll(text, []byte("\n"), []byte(d.newline())), nil
}
