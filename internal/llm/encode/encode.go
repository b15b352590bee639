// Package encode writes the bodies of requests. Fields come in the order in which they are written, and strings always in
// the same spelling: the caches of providers go by the bytes of what a request begins with. It must never change a value that
// it is given as JSON.
package encode

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Body is a body in the making. The zero value is an empty one.
type Body struct {
	before [][]byte // the pieces before buf
	size   int      // of these
	buf    []byte
	err    error
	depth  int
	top    []string // the fields of the outermost object
}

// LongText is the length in bytes from which a text that was escaped before is a piece of its own: it is sent from where it is, and not copied.
const LongText = 512

// NewBody makes a body with room for so many bytes.
func NewBody(size int) *Body { return &Body{buf: make([]byte, 0, size)} }

// Expect makes room for so many long texts that were escaped before.
func (b *Body) Expect(long int) *Body {
	b.before = slices.Grow(b.before, 2*long+1)
	return b
}

// Pieces is the body in pieces, or what was wrong with a value that was given as JSON. They must not be changed.
func (b *Body) Pieces() ([][]byte, error) { return append(b.before, b.buf), b.err }

// Bytes is the body in one piece.
func (b *Body) Bytes() ([]byte, error) {
	if len(b.before) == 0 {
		return b.buf, b.err
	}
	return bytes.Join(append(b.before, b.buf), nil), b.err
}

// Len is how many bytes there are.
func (b *Body) Len() int { return b.size + len(b.buf) }

// piece puts what was written before behind the body as it is. Something must follow.
func (b *Body) piece(text []byte) {
	n := len(b.buf)
	b.before = append(b.before, b.buf[:n:n], text)
	b.size += n + len(text)
	if b.buf = b.buf[n:]; cap(b.buf) < least {
		b.buf = make([]byte, 0, chunk)
	}
}

// What is written between long texts is short, and goes on in a chunk of its own where there is less than this room for it, in bytes.
const least, chunk = 256, 4 << 10

// Open begins an object ('{') or an array ('[').
func (b *Body) Open(kind byte) *Body {
	b.comma()
	b.buf = append(b.buf, kind)
	b.depth++
	return b
}

// Close ends an object ('}') or an array (']').
func (b *Body) Close(kind byte) *Body {
	b.buf = append(b.buf, kind)
	b.depth--
	return b
}

// Key begins a field of an object, whose name has nothing that is to be escaped. Its value must follow.
func (b *Body) Key(name string) *Body {
	if b.depth == 1 {
		b.top = append(b.top, name)
	}
	b.comma()
	b.buf = append(append(append(b.buf, '"'), name...), '"', ':')
	return b
}

// foreign begins a field whose name is somebody else's.
func (b *Body) foreign(name string) *Body {
	escaped := appendEscaped(nil, name)
	return b.Key(string(escaped))
}

// comma separates a value from the one before it: only behind what opens or names it there is none.
func (b *Body) comma() {
	if len(b.buf) == 0 {
		return
	}
	switch b.buf[len(b.buf)-1] {
	case '{', '[', ':':
	default:
		b.buf = append(b.buf, ',')
	}
}

// String writes strings as one value: the texts one after the other.
func (b *Body) String(texts ...string) *Body {
	b.comma()
	b.buf = append(b.buf, '"')
	for _, s := range texts {
		b.buf = appendEscaped(b.buf, s)
	}
	b.buf = append(b.buf, '"')
	return b
}

// Text is a text, and what stands for it between the quotes of a JSON string; nil: that is not known.
type Text struct {
	Plain   string
	Escaped []byte // not to be changed
}

// Texts writes texts as one value, one after the other.
func (b *Body) Texts(texts ...Text) *Body {
	b.comma()
	b.buf = append(b.buf, '"')
	for _, t := range texts {
		switch {
		case len(t.Escaped) >= LongText:
			b.piece(t.Escaped)
		case len(t.Escaped) > 0:
			b.buf = append(b.buf, t.Escaped...)
		default:
			b.buf = appendEscaped(b.buf, t.Plain)
		}
	}
	b.buf = append(b.buf, '"')
	return b
}

// Strings writes an array of strings.
func (b *Body) Strings(list []string) *Body {
	b.Open('[')
	for _, s := range list {
		b.String(s)
	}
	return b.Close(']')
}

// Data writes a string of a prefix and bytes in base64.
func (b *Body) Data(prefix string, data []byte) *Body {
	b.String(prefix)
	b.buf = base64.StdEncoding.AppendEncode(b.buf[:len(b.buf)-1], data)
	b.buf = append(b.buf, '"')
	return b
}

// Int writes a number.
func (b *Body) Int(n int64) *Body {
	b.comma()
	b.buf = strconv.AppendInt(b.buf, n, 10)
	return b
}

// Float writes a number.
func (b *Body) Float(f float64) *Body {
	raw, err := json.Marshal(f) // it refuses what JSON has no number for
	b.fail(err)
	b.comma()
	b.buf = append(b.buf, raw...)
	return b
}

// FloatIf writes a member of an object that is a number, if there is one.
func (b *Body) FloatIf(name string, f *float64) *Body {
	if f != nil {
		b.Key(name).Float(*f)
	}
	return b
}

// Bool writes true or false.
func (b *Body) Bool(v bool) *Body {
	b.comma()
	b.buf = strconv.AppendBool(b.buf, v)
	return b
}

// Null writes null.
func (b *Body) Null() *Body {
	b.comma()
	b.buf = append(b.buf, "null"...)
	return b
}

// Raw writes a value that is JSON already, byte for byte.
func (b *Body) Raw(raw json.RawMessage) *Body {
	if !json.Valid(raw) {
		b.fail(errors.New("a value of the request is not JSON"))
	}
	b.comma()
	b.buf = append(b.buf, raw...)
	return b
}

// Fields writes the fields of an object that is JSON already into the one that is open, byte for byte.
func (b *Body) Fields(raw json.RawMessage) *Body {
	text := strings.TrimSpace(string(raw))
	if !json.Valid(raw) || text[0] != '{' {
		b.fail(errors.New("a value of the request is not a JSON object"))
		return b
	}
	if inner := strings.TrimSpace(text[1 : len(text)-1]); inner != "" {
		b.comma()
		b.buf = append(b.buf, inner...)
	}
	return b
}

// Extra writes fields into the outermost object, in the order of their names. It is an error if one was written already, or is
// to come: servers differ in which of two they take.
func (b *Body) Extra(extra map[string]json.RawMessage, toCome ...string) *Body {
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		if slices.Contains(toCome, name) || slices.Contains(b.top, name) {
			b.fail(errors.New("extra has the field " + strconv.Quote(name) + ", which the request says itself"))
		}
		b.foreign(name).Raw(extra[name])
	}
	return b
}

func (b *Body) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

// Fail makes the body one that cannot be sent.
func (b *Body) Fail(err error) *Body {
	b.fail(err)
	return b
}

// appendEscaped appends what stands between the quotes of a JSON string. What is not UTF-8 becomes U+FFFD.
func appendEscaped(to []byte, s string) []byte {
	start := len(to)
	to, ascii := appendASCII(to, s)
	if !ascii && !utf8.ValidString(s) {
		to, _ = appendASCII(to[:start], strings.ToValidUTF8(s, "\ufffd"))
	}
	return to
}

// appendASCII escapes what of a text has to be, and says whether all of it is ASCII. It looks at eight bytes at once: a
// conversation is half a megabyte of which little has to be escaped, and it is written anew for each turn.
func appendASCII(to []byte, s string) (_ []byte, ascii bool) {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	from, i, seen := 0, 0, uint64(0)
	for len(s)-i >= 8 {
		w := uint64(s[i]) | uint64(s[i+1])<<8 | uint64(s[i+2])<<16 | uint64(s[i+3])<<24 |
			uint64(s[i+4])<<32 | uint64(s[i+5])<<40 | uint64(s[i+6])<<48 | uint64(s[i+7])<<56
		quote, back := w^'"'*ones, w^'\\'*ones
		// A byte has its top bit set where it is below ' ', or one of the two. Above the first such byte it may be set by mistake.
		found := ((w-' '*ones)&^w | (quote-ones)&^quote | (back-ones)&^back) & tops
		if found == 0 {
			seen |= w
			i += 8
			continue
		}
		first := bits.TrailingZeros64(found) / 8
		seen |= w & (1<<(8*first) - 1)
		i += first
		to = appendEscape(append(to, s[from:i]...), s[i])
		i++
		from = i
	}
	for ; i < len(s); i++ {
		c := s[i]
		seen |= uint64(c)
		if c < ' ' || c == '"' || c == '\\' {
			to = appendEscape(append(to, s[from:i]...), c)
			from = i + 1
		}
	}
	return append(to, s[from:]...), seen&tops == 0
}

func appendEscape(to []byte, c byte) []byte {
	const digits = "0123456789abcdef"
	switch c {
	case '"', '\\':
		return append(to, '\\', c)
	case '\n':
		return append(to, '\\', 'n')
	case '\r':
		return append(to, '\\', 'r')
	case '\t':
		return append(to, '\\', 't')
	}
	return append(to, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
}

// Field is a field of an object.
type Field struct {
	Name  string
	Value json.RawMessage
}

// Object is an object whose fields have an order.
type Object []Field

// Parse reads an object. The values are copies of what stands there.
func Parse(raw []byte) (Object, error) {
	dec := json.NewDecoder(strings.NewReader(string(raw)))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return nil, errors.New("it is not an object")
	}
	var o Object
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, err
		}
		o = append(o, Field{name.(string), value}) //nolint:errcheck // the decoder refuses any other name
	}
	_, err := dec.Token()
	return o, err
}

// Get is the value of a field; nil: there is none.
func (o Object) Get(name string) json.RawMessage {
	for _, f := range o {
		if f.Name == name {
			return f.Value
		}
	}
	return nil
}

// Set puts a value in place of the one that a field has, or behind all others.
func (o *Object) Set(name string, value json.RawMessage) {
	for i := range *o {
		if (*o)[i].Name == name {
			(*o)[i].Value = value
			return
		}
	}
	*o = append(*o, Field{name, value})
}

// Remove takes fields out.
func (o *Object) Remove(names ...string) {
	*o = slices.DeleteFunc(*o, func(f Field) bool { return slices.Contains(names, f.Name) })
}

// Bytes is the object as JSON, its values byte for byte.
func (o Object) Bytes() json.RawMessage {
	var b Body
	b.Open('{')
	for _, f := range o {
		b.foreign(f.Name)
		b.buf = append(b.buf, f.Value...)
	}
	return b.Close('}').buf
}

// Append puts the text of a JSON string behind that of another, without looking into either: half of a letter in two escapes
// is whole again.
func Append(to, more json.RawMessage) (json.RawMessage, error) {
	if !isString(more) {
		return nil, errors.New("it is not a string")
	}
	if len(to) == 0 || !isString(to) {
		return slices.Clone(more), nil
	}
	return append(to[:len(to)-1], more[1:]...), nil
}

func isString(raw json.RawMessage) bool { return len(raw) >= 2 && raw[0] == '"' }
