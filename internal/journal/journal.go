// Package journal defines how values are written in journals and compared on replay: the canonical form,
// the plain form, and the diff that a divergence shows. docs/values.md is the specification.
//
// It must never do I/O and never know a store, a guest or the kernel. What it reads comes from hostile
// programs and servers: whatever they send costs time and memory in proportion to its length. What it
// remembers of one text for the next ([Known]) saves time, and changes nothing that is written.
package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// Canonical rewrites JSON in canonical form. Equal values have equal canonical bytes. Empty input is null.
func Canonical(raw json.RawMessage) (json.RawMessage, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return json.RawMessage("null"), nil
	}
	if len(raw) > math.MaxInt32/8 {
		return nil, errors.New("it is larger than 256 MiB")
	}
	s, err := look(raw)
	if err != nil {
		return nil, err
	}
	w := writer{survey: s, out: make([]byte, 0, len(raw)), mayMove: movesFor(raw)}
	w.space()
	if err := w.canonical(); err != nil {
		return nil, err
	}
	return w.out, nil
}

// Names gives the names of the members of an object in canonical form, false for anything else.
func Names(canonical json.RawMessage) ([]string, bool) {
	if len(canonical) == 0 || canonical[0] != '{' {
		return nil, false
	}
	w := writer{survey: &survey{raw: canonical}}
	var names []string
	for w.begin(); w.more('}'); w.comma() {
		names = append(names, string(unescaped(w.name())))
		w.skip()
	}
	return names, true
}

// TextOf gives the member of an object that is a string; the last one counts, if there are several. False: raw is no object, or has
// no such member.
func TextOf(raw json.RawMessage, member string) (text string, ok bool) {
	if !json.Valid(raw) {
		return "", false
	}
	w := writer{survey: &survey{raw: raw}}
	if w.space(); w.raw[w.at] != '{' {
		return "", false
	}
	for w.begin(); w.more('}'); w.comma() {
		if string(unescaped(w.name())) != member {
			w.skip()
		} else if ok = w.raw[w.at] == '"'; ok {
			s := w.str()
			text = string(unescaped(s[1 : len(s)-1]))
			w.space()
		} else {
			w.skip()
		}
	}
	if !ok {
		return "", false
	}
	return text, true
}

// movesPerByte bounds the work of sorting what is nested: an object in an object is moved twice if both are
// out of order. No value that means something comes near it.
const movesPerByte = 64

func movesFor(raw []byte) int { return movesPerByte*len(raw) + 1<<16 }

var errTangled = errors.New("too many sets and unsorted objects are nested in one another")

// canonical writes the value that comes next in canonical form.
func (w *writer) canonical() error {
	switch c := w.raw[w.at]; c {
	case '{':
		return w.canonicalObject()
	case '[':
		return w.canonicalArray(notSorted)
	case '"':
		w.text()
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return w.number()
	default:
		w.verbatim()
	}
	return nil
}

// part is a piece of what was written, and where the key by which it is sorted stands: of an item in what
// was written, of a member in what was read. Small, because there may be one for every few bytes.
type part struct{ from, to, keyFrom, keyTo int32 }

// order says what an array is sorted by.
type order uint8

const (
	notSorted order = iota
	byItem          // of a set
	byKey           // of a dict: the first item of each item
)

func (w *writer) canonicalArray(by order) error {
	start := len(w.out)
	w.out = append(w.out, '[')
	var parts []part
	for w.begin(); w.more(']'); w.separate() {
		p := part{from: int32(len(w.out))}
		p.keyFrom = p.from
		if by == byKey {
			p.keyFrom++ // behind the bracket of the pair
		}
		if err := w.canonical(); err != nil {
			return err
		}
		if by != notSorted {
			p.to = int32(len(w.out))
			p.keyTo = p.to
			parts = append(parts, p)
		}
	}
	w.out = append(w.out, ']')
	return w.sort(start, parts, func(a, b part) int {
		// The key of a pair is its first item, and no canonical text is the beginning of another's text and
		// comma: comparing on into the second item changes nothing unless the keys are equal.
		return bytes.Compare(w.out[a.keyFrom:a.keyTo], w.out[b.keyFrom:b.keyTo])
	})
}

func (w *writer) canonicalObject() error {
	kind := w.object()
	start := len(w.out)
	w.out = append(w.out, '{')
	var parts []part
	for w.begin(); w.more('}'); w.separate() {
		p := part{from: int32(len(w.out)), keyFrom: int32(w.at) + 1}
		name := w.name()
		p.keyTo = p.keyFrom + int32(len(name))
		w.out = append(AppendString(w.out, unescaped(name)), ':')
		var err error
		switch kind {
		case setTag:
			err = w.canonicalArray(byItem)
		case dictTag, namedDictTag:
			err = w.canonicalArray(byKey)
		default:
			err = w.canonical()
		}
		if err != nil {
			return err
		}
		p.to = int32(len(w.out))
		parts = append(parts, p)
	}
	w.out = append(w.out, '}')
	compare := func(a, b part) int {
		return bytes.Compare(unescaped(w.raw[a.keyFrom:a.keyTo]), unescaped(w.raw[b.keyFrom:b.keyTo]))
	}
	if err := w.sort(start, parts, compare); err != nil {
		return err
	}
	for i := 1; i < len(parts); i++ {
		if compare(parts[i-1], parts[i]) == 0 {
			return fmt.Errorf("the name %s is there twice", Short(w.raw[parts[i].keyFrom:parts[i].keyTo], 80))
		}
	}
	return nil
}

// sort puts the parts of the container that begins at start into order, parts included.
func (w *writer) sort(start int, parts []part, compare func(a, b part) int) error {
	if slices.IsSortedFunc(parts, compare) {
		return nil
	}
	slices.SortStableFunc(parts, compare)
	body := w.out[start+1 : len(w.out)-1]
	if w.moved += len(body); w.moved > w.mayMove {
		return errTangled
	}
	w.scratch = w.scratch[:0]
	for i, p := range parts {
		if i > 0 {
			w.scratch = append(w.scratch, ',')
		}
		w.scratch = append(w.scratch, w.out[p.from:p.to]...)
	}
	copy(body, w.scratch)
	return nil
}

// number writes an integer as it is and a float in its shortest form, always told apart.
func (w *writer) number() error {
	text := w.scalar()
	if !bytes.ContainsAny(text, ".eE") {
		if string(text) == "-0" {
			text = text[1:]
		}
		w.out = append(w.out, text...)
		return nil
	}
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return fmt.Errorf("number %.40s is outside the range of a float", text)
	}
	w.out = AppendFloat(w.out, f)
	return nil
}

// AppendFloat writes a finite float in its shortest form that reads back the same, with an exponent below
// 1e-4 and from 1e16 on as Python's repr does, and never so that it could be taken for an integer.
func AppendFloat(b []byte, f float64) []byte {
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-4 || abs >= 1e16) {
		format = 'e'
	}
	at := len(b)
	b = strconv.AppendFloat(b, f, format, -1, 64)
	if bytes.ContainsAny(b[at:], ".e") {
		return b
	}
	return append(b, ".0"...)
}
