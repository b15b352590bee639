package journal

import (
	"bytes"
	"encoding/json"
	"sort"
)

// Cut takes a member that is a list out of an object, and gives its items and the object without it. False: raw is no object, has no such
// member, or several, or it is no list. It looks for the ends of values alone: whoever reads them finds out what is wrong with them.
// What is no JSON may be cut into parts of which some are none.
func Cut(raw json.RawMessage, member string) (items []json.RawMessage, rest json.RawMessage, ok bool) {
	var l List
	if _, rest, ok = l.Cut(raw, member, 0); !ok {
		return nil, nil, false
	}
	for i := range l.items {
		items = append(items, l.Item(raw, i))
	}
	return items, rest, true
}

// List says where the items of a list stand that was cut out of an object.
type List struct {
	before []byte // the object without the list, as far as it comes before that
	items  []struct{ from, to int }
}

// Len is how many items there are.
func (l *List) Len() int { return len(l.items) }

// Item is one of the items.
func (l *List) Item(raw json.RawMessage, i int) json.RawMessage {
	return raw[l.items[i].from:l.items[i].to]
}

// Cut is [Cut] for an object that begins with so many bytes of the one of which l is. kept is how many items stand in these.
func (l *List) Cut(raw json.RawMessage, member string, same int) (kept int, rest json.RawMessage, ok bool) {
	c := cutter{raw: raw}
	kept = sort.Search(len(l.items), func(i int) bool { return l.items[i].to >= same }) // what is behind it is the same, too
	l.items = l.items[:kept]
	var more bool
	if ok = kept > 0; ok {
		rest = bytes.Clone(l.before)
		c.at = l.items[kept-1].to
		c.list(l, c.next(']'))
		more = c.next('}')
	} else {
		rest = []byte{'{'}
		more = c.open('{', '}')
	}
	for ; more; more = c.next('}') {
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
			return 0, nil, false
		}
		ok = true
		l.before = bytes.Clone(rest)
		c.list(l, c.open('[', ']'))
	}
	if c.space(); c.bad || c.at < len(raw) || !ok {
		return 0, nil, false
	}
	return kept, append(rest, '}'), true
}

// list passes the items that come.
func (c *cutter) list(l *List, more bool) {
	for ; more; more = c.next(']') {
		from := c.at
		c.value()
		l.items = append(l.items, struct{ from, to int }{from, c.at})
	}
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
