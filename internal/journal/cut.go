package journal

import (
	"bytes"
	"encoding/json"
)

// Cut takes a member that is a list out of an object, and gives its items and the object without it. False: raw is no object, has no such
// member, or several, or it is no list. It looks for the ends of values alone: whoever reads them finds out what is wrong with them.
// What is no JSON may be cut into parts of which some are none.
func Cut(raw json.RawMessage, member string) (items []json.RawMessage, rest json.RawMessage, ok bool) {
	c := cutter{raw: raw}
	rest = []byte{'{'}
	for more := c.open('{', '}'); more; more = c.next('}') {
		start := c.at
		name := c.value()
		c.token(':')
		if len(name) < 2 || name[0] != '"' || string(name[1:len(name)-1]) != member && !bytes.Contains(name, []byte(`\`)) {
			c.value()
			if len(rest) > 1 {
				rest = append(rest, ',')
			}
			rest = append(rest, c.raw[start:c.at]...)
			continue
		}
		if ok || string(name[1:len(name)-1]) != member { // a name in another spelling may be this one
			return nil, nil, false
		}
		ok = true
		for more := c.open('[', ']'); more; more = c.next(']') {
			items = append(items, c.value())
		}
	}
	if c.space(); c.bad || c.at < len(raw) || !ok {
		return nil, nil, false
	}
	return items, append(rest, '}'), true
}

// cutter goes through a value. It is at the end when something is wrong.
type cutter struct {
	raw []byte
	at  int
	bad bool
}

func (c *cutter) fail() {
	c.bad, c.at = true, len(c.raw)
}

func (c *cutter) space() {
	for c.at < len(c.raw) && (c.raw[c.at] == ' ' || c.raw[c.at] == '\t' || c.raw[c.at] == '\n' || c.raw[c.at] == '\r') {
		c.at++
	}
}

// token passes a byte that must come next, and what is around it.
func (c *cutter) token(b byte) {
	if c.space(); c.at >= len(c.raw) || c.raw[c.at] != b {
		c.fail()
		return
	}
	c.at++
	c.space()
}

// open begins a list or an object, and says whether there is something in it.
func (c *cutter) open(begin, end byte) (more bool) {
	if c.token(begin); c.bad {
		return false
	}
	if c.at < len(c.raw) && c.raw[c.at] == end {
		c.at++
		return false
	}
	return true
}

// next says whether something follows in a list or an object.
func (c *cutter) next(end byte) (more bool) {
	if c.space(); c.at < len(c.raw) && c.raw[c.at] == end {
		c.at++
		return false
	}
	c.token(',')
	return !c.bad
}

// value passes a value.
func (c *cutter) value() []byte {
	start, depth := c.at, 0
	for c.at < len(c.raw) {
		switch c.raw[c.at] {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth < 0 {
				return c.raw[start:c.at]
			}
			if depth == 0 {
				c.at++
				return c.raw[start:c.at]
			}
		case '"':
			c.str()
			if depth == 0 {
				return c.raw[start:c.at]
			}
			continue
		case ',', ':', ' ', '\t', '\n', '\r':
			if depth == 0 {
				return c.raw[start:c.at]
			}
		}
		c.at++
	}
	c.fail()
	return nil
}

// str passes a string.
func (c *cutter) str() {
	for c.at = ordinary(c.raw, c.at+1); c.at < len(c.raw); c.at = ordinary(c.raw, c.at) {
		switch c.raw[c.at] {
		case '"':
			c.at++
			return
		case '\\':
			c.at++
		}
		c.at++
	}
	c.fail()
}
