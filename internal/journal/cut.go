package journal

import (
	"bytes"
	"encoding/json"
	"sort"

	"agentkernel/internal/quickjson"
)

// Cut takes a member that is a list out of an object, and gives its items and the object without it. False: raw is no object, has no such
// member, or several, or it is no list. It looks for the ends of values alone: whoever reads them finds out what is wrong with them.
// What is no JSON may be cut into parts of which some are none.
func Cut(raw json.RawMessage, member string) (items []json.RawMessage, rest json.RawMessage, ok bool) {
	l := List{items: make([]struct{ from, to int }, 0, someItems)}
	if _, rest, ok = l.Cut(raw, member, 0); !ok {
		return nil, nil, false
	}
	items = make([]json.RawMessage, len(l.items))
	for i := range items {
		items[i] = l.Item(raw, i)
	}
	return items, rest, true
}

// someItems is how many items there is room for at first.
const someItems = 16

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
	c := quickjson.Cursor{Raw: raw}
	kept = sort.Search(len(l.items), func(i int) bool { return l.items[i].to >= same }) // what is behind it is the same, too
	l.items = l.items[:kept]
	var more bool
	if ok = kept > 0; ok {
		rest = bytes.Clone(l.before)
		c.At = l.items[kept-1].to
		l.pass(&c, c.Next(']'))
		more = c.Next('}')
	} else {
		rest = []byte{'{'}
		more = c.Open('{', '}')
	}
	for ; more; more = c.Next('}') {
		start := c.At
		name := c.Value()
		c.Token(':')
		if len(name) < 2 || name[0] != '"' || string(name[1:len(name)-1]) != member && !bytes.Contains(name, []byte(`\`)) {
			c.Value()
			if len(rest) > 1 {
				rest = append(rest, ',')
			}
			rest = append(rest, c.Raw[start:c.At]...)
			continue
		}
		if ok || string(name[1:len(name)-1]) != member { // a name in another spelling may be this one
			return 0, nil, false
		}
		ok = true
		l.before = bytes.Clone(rest)
		l.pass(&c, c.Open('[', ']'))
	}
	if c.Space(); c.Bad || c.At < len(raw) || !ok {
		return 0, nil, false
	}
	return kept, append(rest, '}'), true
}

// pass passes the items that come.
func (l *List) pass(c *quickjson.Cursor, more bool) {
	for ; more; more = c.Next(']') {
		from := c.At
		c.Value()
		l.items = append(l.items, struct{ from, to int }{from, c.At})
	}
}
