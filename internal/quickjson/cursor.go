package quickjson

import (
	"encoding/binary"
	"math/bits"
)

// Cursor goes through a value, and looks for the ends of values alone: whoever reads them finds out what is wrong with them. It is at the end
// when something is wrong.
type Cursor struct {
	Raw []byte
	At  int
	Bad bool
}

func (c *Cursor) fail() {
	c.Bad, c.At = true, len(c.Raw)
}

// Space passes space.
func (c *Cursor) Space() {
	for c.At < len(c.Raw) && (c.Raw[c.At] == ' ' || c.Raw[c.At] == '\t' || c.Raw[c.At] == '\n' || c.Raw[c.At] == '\r') {
		c.At++
	}
}

// Token passes a byte that must come next, and what is around it.
func (c *Cursor) Token(b byte) {
	if c.Space(); c.At >= len(c.Raw) || c.Raw[c.At] != b {
		c.fail()
		return
	}
	c.At++
	c.Space()
}

// Open begins a list or an object, and says whether there is something in it.
func (c *Cursor) Open(begin, end byte) (more bool) {
	if c.Token(begin); c.Bad {
		return false
	}
	if c.At < len(c.Raw) && c.Raw[c.At] == end {
		c.At++
		return false
	}
	return true
}

// Next says whether something follows in a list or an object.
func (c *Cursor) Next(end byte) (more bool) {
	if c.Space(); c.At < len(c.Raw) && c.Raw[c.At] == end {
		c.At++
		return false
	}
	c.Token(',')
	return !c.Bad
}

// Value passes a value.
func (c *Cursor) Value() []byte {
	start, depth := c.At, 0
	for c.At < len(c.Raw) {
		switch c.Raw[c.At] {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth < 0 {
				return c.Raw[start:c.At]
			}
			if depth == 0 {
				c.At++
				return c.Raw[start:c.At]
			}
		case '"':
			c.str()
			if depth == 0 {
				return c.Raw[start:c.At]
			}
			continue
		case ',', ':', ' ', '\t', '\n', '\r':
			if depth == 0 {
				return c.Raw[start:c.At]
			}
		}
		c.At++
	}
	c.fail()
	return nil
}

// str passes a string.
func (c *Cursor) str() {
	for c.At = Ordinary(c.Raw, c.At+1); c.At < len(c.Raw); c.At = Ordinary(c.Raw, c.At) {
		switch c.Raw[c.At] {
		case '"':
			c.At++
			return
		case '\\':
			c.At++
		}
		c.At++
	}
	c.fail()
}

// Ordinary is where the next byte from i on is that a string cannot have as it is, or the end. It looks at eight bytes at once: of
// a conversation of half a megabyte, most is text.
func Ordinary(s []byte, i int) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	for ; len(s)-i >= 8; i += 8 {
		w := binary.LittleEndian.Uint64(s[i:])
		quote, back := w^'"'*ones, w^'\\'*ones
		// A byte has its top bit set where it is below ' ', or one of the two. Above the first such byte it may be set by mistake.
		if found := ((w-' '*ones)&^w | (quote-ones)&^quote | (back-ones)&^back) & tops; found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for i < len(s) && s[i] >= ' ' && s[i] != '"' && s[i] != '\\' {
		i++
	}
	return i
}
