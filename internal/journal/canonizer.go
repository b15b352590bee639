package journal

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"sort"
)

// Canonizer is [Canonical] for arguments of calls, which remembers long ones: of a conversation that goes on only what is new is read. A list that a
// member of the arguments is counts item by item. It gives the same text as Canonical, or the same error.
type Canonizer struct{ known *Known[reading] }

// NewCanonizer remembers about so many bytes.
func NewCanonizer(most int) *Canonizer { return &Canonizer{NewKnown[reading](most)} }

// Canonical rewrites arguments that an owner gives. The names are those of the members, in order; nil: they are not known.
func (c *Canonizer) Canonical(owner int64, raw json.RawMessage) (canonical json.RawMessage, names []string, err error) {
	if len(raw) < LongText || len(raw) > math.MaxInt32/8 {
		canonical, err = Canonical(raw)
		return canonical, nil, err
	}
	t, same := c.known.Take(owner, raw)
	if t.Found.read(raw, same) {
		c.known.Put(owner, t, raw, same, t.Found.size())
		return t.Found.out, t.Found.names(), nil
	}
	canonical, err = Canonical(raw) // it says what is wrong, or takes what is rare
	return canonical, nil, err
}

// reading is an object that was read, and what was written of it, which is not changed any more.
type reading struct {
	members []member // in the order in which they came
	order   []int    // by name
	out     []byte
}

// member is a member of an object: where its value stands in what was read, and in what was written.
type member struct {
	name         string
	from         int32
	outFrom, end int32
	moved        int // see writer.sort
	list         bool
	items        []item // of a list
}

// item is where an item of a list ends: in what was read, and in what was written of the list.
type item struct {
	to, out int32
	moved   int // with those before it
}

// start is where the writer begins with a member: in what is read, and in what the survey has found. The first items of a list may be written
// already.
type start struct{ at, objects, long, items int }

const (
	// maxMembers is more than any call has arguments.
	maxMembers = 100
	// minItem is how long items are on average where it is worth remembering them, in bytes.
	minItem = 64
	// What a member and an item of a reading take, in bytes.
	aroundMember = 120
	aroundItem   = 16
)

func (r *reading) size() int {
	n := len(r.out)
	for i := range r.members {
		n += aroundMember + aroundItem*cap(r.members[i].items)
	}
	return n
}

func (r *reading) names() []string {
	names := make([]string, len(r.order))
	for i, at := range r.order {
		names[i] = r.members[at].name
	}
	return names
}

// keep leaves of a reading what is behind so many bytes of what was read: the last member is a list then that goes on, if any is left.
func (r *reading) keep(same int) {
	complete := func(it item) bool { return int(it.to) < same } // what is behind it is the same, too
	last := -1
	for i := range r.members {
		if list := r.members[i].items; len(list) > 0 && complete(list[0]) {
			last = i
		}
	}
	r.members = r.members[:last+1]
	if last >= 0 {
		m := &r.members[last]
		m.items = m.items[:sort.Search(len(m.items), func(i int) bool { return !complete(m.items[i]) })]
	}
}

// read reads an object that begins with so many bytes of the one that was read before. False: it is none, or there is something about it that
// only Canonical can tell; r is worth nothing then.
func (r *reading) read(raw []byte, same int) bool {
	r.keep(same)
	s := surveyor{survey: survey{raw: raw}}
	starts := make([]start, 0, 16) // of the member that goes on, and of those behind it
	kept := len(r.members)
	more, ok := true, true
	if kept > 0 {
		kept--
		m := &r.members[kept]
		s.at = int(m.items[len(m.items)-1].to)
		starts = append(starts, start{at: s.at, items: len(m.items)})
		if !s.items(m) {
			return false
		}
		more, ok = s.between('}')
	} else if s.space(); s.next() != '{' {
		return false
	}
	for more && ok {
		m, begins, found := s.member()
		if !found || len(r.members) == maxMembers {
			return false
		}
		r.members, starts = append(r.members, m), append(starts, begins)
		more, ok = s.between('}')
	}
	s.space()
	return ok && s.at == len(raw) && r.write(&s.survey, starts, kept)
}

// next passes a byte and gives it; 0: there is none.
func (s *surveyor) next() byte {
	if s.at >= len(s.raw) {
		return 0
	}
	s.at++
	return s.raw[s.at-1]
}

// between passes what is behind a member or an item: a comma, or the closing bracket, behind which no more come.
func (s *surveyor) between(end byte) (more, ok bool) {
	s.space()
	b := s.next()
	return b == ',', b == ',' || b == end
}

// member passes a member, whose name is written as it is read.
func (s *surveyor) member() (m member, begins start, ok bool) {
	if s.space(); s.at >= len(s.raw) || s.raw[s.at] != '"' {
		return m, begins, false
	}
	name, err := s.str()
	if err != nil || beginsWithDollar(name) || bytes.IndexByte(name, '\\') >= 0 {
		return m, begins, false
	}
	if s.space(); s.next() != ':' {
		return m, begins, false
	}
	s.space()
	m = member{name: string(name), from: int32(s.at), list: s.at < len(s.raw) && s.raw[s.at] == '['}
	begins = start{at: s.at, objects: len(s.objects), long: len(s.long)}
	if m.list {
		ok = s.items(&m)
		return m, begins, ok
	}
	_, err = s.value(1)
	return m, begins, err == nil
}

// items passes a list, or what is behind the items that m has.
func (s *surveyor) items(m *member) bool {
	more, ok := true, true
	if len(m.items) > 0 {
		more, ok = s.between(']')
	} else {
		s.at++
		if s.space(); s.at < len(s.raw) && s.raw[s.at] == ']' {
			s.at++
			more = false
		}
	}
	for more && ok {
		if _, err := s.value(2); err != nil || len(m.items) > len(s.raw)/minItem {
			return false
		}
		m.items = append(m.items, item{to: int32(s.at)})
		more, ok = s.between(']')
	}
	return ok
}

// write writes what was read. Of the first members, and of the first items of the list that goes on, it was written before.
func (r *reading) write(found *survey, starts []start, kept int) bool {
	w := rewriter{before: r.out, writer: writer{survey: found, mayMove: movesFor(found.raw)}}
	size := len(found.raw)
	if kept < len(r.members) && starts[0].items > 0 {
		size += aroundCopy - starts[0].at // the rest is copied
	}
	w.out = make([]byte, 0, size)
	r.order = r.order[:0]
	for i := range r.members {
		r.order = append(r.order, i)
	}
	slices.SortFunc(r.order, func(a, b int) int { return cmp.Compare(r.members[a].name, r.members[b].name) })
	moved := 0
	w.out = append(w.out, '{')
	for i, at := range r.order {
		m := &r.members[at]
		if i > 0 {
			if m.name == r.members[r.order[i-1]].name {
				return false
			}
			w.out = append(w.out, ',')
		}
		w.out = append(append(append(w.out, '"'), m.name...), `":`...)
		from := w.len()
		if at < kept {
			w.copy(m.outFrom, m.end)
		} else if !w.member(m, starts[at-kept]) {
			return false
		}
		m.outFrom, m.end = from, w.len()
		moved += m.moved
	}
	w.out = append(w.out, '}')
	if !slices.IsSorted(r.order) {
		moved += int(w.len()) - len("{}")
	}
	r.out = w.whole()
	return moved <= w.mayMove
}

// rewriter is a writer that takes what it can from what was written before.
type rewriter struct {
	writer
	before []byte
	pieces [][]byte // that stand before what is in out
	size   int      // of the pieces
}

// aroundCopy is the room for what is written beside what is copied, if little is new.
const aroundCopy = 4 << 10

// len is how much is written.
func (w *rewriter) len() int32 { return int32(w.size + len(w.out)) }

// copy writes what was written before.
func (w *rewriter) copy(from, to int32) {
	n := len(w.out)
	w.pieces = append(w.pieces, w.out[:n:n], w.before[from:to])
	w.size += n + int(to-from)
	w.out = w.out[n:]
}

// whole is all that is written. Half a megabyte is put together without being cleared first.
func (w *rewriter) whole() []byte {
	if len(w.pieces) == 0 {
		return w.out
	}
	return bytes.Join(append(w.pieces, w.out), nil)
}

// member writes the value of a member.
func (w *rewriter) member(m *member, begins start) bool {
	w.at, w.begun, w.passed, w.moved = begins.at, begins.objects, begins.long, 0
	if !m.list {
		err := w.canonical()
		m.moved = w.moved
		return err == nil
	}
	from := w.len()
	if n := begins.items; n > 0 {
		w.copy(m.outFrom, m.outFrom+m.items[n-1].out)
		w.moved = m.items[n-1].moved
		w.space()
	} else {
		w.out = append(w.out, '[')
		w.begin()
	}
	for i := begins.items; i < len(m.items); i++ {
		w.separate() // nothing before the first
		if w.canonical() != nil {
			return false
		}
		m.items[i].out, m.items[i].moved = w.len()-from, w.moved
	}
	w.out = append(w.out, ']')
	m.moved = w.moved
	return true
}
