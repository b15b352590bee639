package sqlite

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"hash/maphash"
	"slices"

	"agentkernel"
	"agentkernel/internal/journal"
)

const (
	// maxText bounds what is remembered of one process's text, in bytes. Beyond it the text is forgotten, not lost, and begins anew.
	maxText = 8 << 20
	// maxTexts bounds what is remembered of all texts.
	maxTexts = 32 << 20
)

// ownText is what is remembered of a process's text: its newest bytes, and where what stands.
type ownText struct {
	seed  maphash.Seed
	first int64  // where known begins
	known []byte // what is in the parts from there on
	last  []span // where the newest arguments stand; nil: they are not known
	where map[uint64]int64
	large []span // pieces appended since the last call of parts that are parts of their own
	open  int64  // where the last part begins, if it has room; else the end
}

func newText(end int64) *ownText {
	return &ownText{seed: maphash.MakeSeed(), first: end, where: map[uint64]int64{}, open: end}
}

func (t *ownText) end() int64 { return t.first + int64(len(t.known)) }

func (t *ownText) at(s span) []byte { return t.known[s.start-t.first : s.end()-t.first] }

// has says whether these bytes stand at a place.
func (t *ownText) has(start int64, piece []byte) bool {
	return start >= t.first && start+int64(len(piece)) <= t.end() && bytes.Equal(t.at(span{start, int64(len(piece))}), piece)
}

// memory is about how many bytes t takes.
func (t *ownText) memory() int64 {
	const each = 40 // of a map, for a piece
	return int64(cap(t.known)) + int64(len(t.where))*each + 256
}

// place gives where arguments stand, after appending what is not there. It tries what most calls are first: the arguments before
// with something new near the end.
func (t *ownText) place(args []byte) []span {
	if t.end()-t.first > maxText {
		*t = *newText(t.end())
	}
	from := t.end()
	list, n := t.begin(args)
	tail := t.finish(args[n:])
	for middle := args[n : len(args)-int(tail.size)]; len(middle) > 0; {
		size := nextCut(middle, minSpan)
		list = t.piece(list, middle[:size])
		middle = middle[size:]
	}
	if list = join(list, tail); len(list) > maxSpans {
		list = t.anew(from, args)
	}
	t.last = list
	return list
}

// begin gives the spans that the arguments begin with, as those before did, and how many bytes they are.
func (t *ownText) begin(args []byte) (list []span, n int) {
	for _, s := range t.last {
		same := journal.CommonPrefix(args[n:], t.at(s))
		n += same
		if int64(same) < s.size {
			break
		}
	}
	if n < len(args) {
		n = cutBefore(args, n)
	}
	left := int64(n)
	for _, s := range t.last {
		s.size = min(s.size, left)
		list = join(list, s)
		left -= s.size
	}
	return list, n
}

// finish gives the span that the rest of arguments ends with, as those before did.
func (t *ownText) finish(rest []byte) span {
	if len(t.last) == 0 {
		return span{}
	}
	s := t.last[len(t.last)-1]
	same := commonSuffix(rest, t.at(s))
	size := int64(len(rest) - cutAfter(rest, len(rest)-same))
	return span{s.end() - size, size}
}

// piece puts a piece of arguments behind list. A small one that stands somewhere else is appended all the same: what follows
// would have to be a span of its own, too.
func (t *ownText) piece(list []span, piece []byte) []span {
	size := int64(len(piece))
	if n := len(list); n > 0 && t.has(list[n-1].end(), piece) {
		return join(list, span{list[n-1].end(), size})
	}
	sum := maphash.Bytes(t.seed, piece)
	if start, ok := t.where[sum]; ok && size >= minSpan && t.has(start, piece) {
		return join(list, span{start, size})
	}
	return join(list, t.add(sum, piece))
}

// add appends a piece.
func (t *ownText) add(sum uint64, piece []byte) span {
	s := span{t.end(), int64(len(piece))}
	t.where[sum] = s.start
	t.known = append(t.known, piece...)
	if s.size >= BlobThreshold {
		t.large = append(t.large, s)
	}
	return s
}

// anew appends arguments whole, in place of what was appended from a place on.
func (t *ownText) anew(from int64, args []byte) (list []span) {
	t.known, t.large = t.known[:from-t.first], nil
	for len(args) > 0 {
		size := nextCut(args, minSpan)
		list = join(list, t.add(maphash.Bytes(t.seed, args[:size]), args[:size]))
		args = args[size:]
	}
	return list
}

// textPart is a row of the table parts, or one that has become longer.
type textPart struct {
	start int64
	text  []byte
	grown bool
}

// parts gives the rows for what was appended from a place on. A piece of 32 KiB or more has a row to itself: such a document, or
// picture, is a blob, which is there once for all processes that show it to a model.
func (t *ownText) parts(from int64) (list []textPart) {
	for at := from; at < t.end(); {
		if len(t.large) > 0 && t.large[0].start == at {
			list = append(list, textPart{start: at, text: t.at(t.large[0])})
			at = t.large[0].end()
			t.large, t.open = t.large[1:], at
			continue
		}
		end := t.end()
		if len(t.large) > 0 {
			end = t.large[0].start
		}
		if end > t.open+partSize {
			end = t.first + int64(runeStart(t.known, int(t.open+partSize-t.first)))
		}
		if end <= at { // no character more fits
			t.open = at
			continue
		}
		list = append(list, textPart{t.open, t.at(span{t.open, end - t.open}), t.open < at})
		if at = end; end-t.open > partSize-utf8Room || len(t.large) > 0 {
			t.open = end
		}
	}
	t.large = nil
	return list
}

// utf8Room is the room in a part in which the next character may not fit.
const utf8Room = 4

// texts remembers what the processes have that pay for calls. It belongs to the writer.
type texts struct {
	kept    *lru[agentkernel.PID, *ownText]
	planned map[*agentkernel.Entry]placed // of the group that is being written
}

// placed is an entry whose arguments are in the text of its process.
type placed struct {
	column []byte
	parts  []textPart
}

func newTexts() texts {
	return texts{newLRU[agentkernel.PID, *ownText](maxTexts), map[*agentkernel.Entry]placed{}}
}

// shares says whether the arguments of an entry are kept in the text of its process: those of a call that is paid by their length.
func shares(e *agentkernel.Entry) bool {
	return e.Effect == agentkernel.EffectPaid && len(e.Args) >= minShared && len(e.Args) <= maxShared
}

// placeTexts finds out what of a group is new. It must be written then, or the store has failed.
func (w *writer) placeTexts(group []pending) error {
	clear(w.texts.planned)
	for i := range group {
		for j := range group[i].batch.Entries {
			if e := &group[i].batch.Entries[j]; shares(e) {
				t, err := w.textOf(e.PID)
				if err != nil {
					return err
				}
				from := t.end()
				list := t.place(e.Args)
				w.texts.planned[e] = placed{spansColumn(e.Args, list), t.parts(from)}
				w.texts.kept.put(e.PID, t, t.memory())
			}
		}
		if ended(group[i].batch) {
			w.texts.kept.remove(group[i].pid)
		}
	}
	return nil
}

// errEnough ends a query.
var errEnough = errors.New("enough")

const selectLastParts = "SELECT start, size, text FROM parts WHERE pid = ? ORDER BY start DESC"

// textOf gives what is known of a process's text. What cannot be read of it is as if it were not there: the calls that need it
// fail when they are read, and those to come do not need it.
func (w *writer) textOf(pid agentkernel.PID) (*ownText, error) {
	if t, ok := w.texts.kept.get(pid); ok {
		return t, nil
	}
	var parts []textPart // the last one first
	next, size, full := int64(-1), int64(0), false
	room := int64(0) // where the last part begins, if it may grow
	err := w.c.query(func(r row) error {
		start, n := r.int(0), r.int(1)
		if next < 0 {
			next = start + n
			parts = append(parts, textPart{start: next})
			if room = next; n < partSize-utf8Room {
				room = start
			}
		}
		if full || start+n != parts[len(parts)-1].start || size+n > maxText {
			full = true
			return errEnough
		}
		data, err := w.partText(r[2])
		if err != nil || int64(len(data)) != n {
			full = true
			return errEnough
		}
		size += n
		parts = append(parts, textPart{start: start, text: data})
		return nil
	}, selectLastParts, int64(pid))
	if err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	if next < 0 {
		return newText(0), nil
	}
	t := newText(next)
	if len(parts) == 1 {
		return t, nil
	}
	t.first, t.open = parts[len(parts)-1].start, max(room, parts[len(parts)-1].start)
	for _, p := range slices.Backward(parts) {
		t.known = append(t.known, p.text...)
	}
	for rest, at := t.known, t.first; len(rest) > 0; {
		n := nextCut(rest, minSpan)
		t.where[maphash.Bytes(t.seed, rest[:n])] = at
		rest, at = rest[n:], at+int64(n)
	}
	return t, nil
}

// partText gives the bytes of a part.
func (w *writer) partText(v any) ([]byte, error) {
	switch v := v.(type) {
	case string:
		return []byte(v), nil
	case []byte:
		if len(v) == sha256.Size {
			return w.blobs.Get(context.Background(), [sha256.Size]byte(v))
		}
	}
	return nil, errSpans("a part is neither text nor the name of a blob")
}

const (
	insertPart = "INSERT INTO parts(pid, start, size, text) VALUES (?,?,?,?)"
	growPart   = "UPDATE parts SET size = ?3, text = ?4 WHERE pid = ?1 AND start = ?2"
)

// writePart writes a row of the table parts.
func (w *writer) writePart(pid agentkernel.PID, p *textPart) error {
	value, err := w.payload(p.text, BlobThreshold)
	if err != nil {
		return err
	}
	query := insertPart
	if p.grown {
		query = growPart
	}
	return w.c.exec(query, int64(pid), p.start, int64(len(p.text)), value)
}
