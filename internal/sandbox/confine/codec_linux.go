package confine

import (
	"encoding/binary"
	"errors"
)

// A plan goes to the spawner in a binary form of its own: JSON took a quarter of the time of a start. It holds
// what the executor needs: no words for people. Numbers are varints, texts and lists have their length before
// them.

type encoder struct{ b []byte }

func (e *encoder) num(n uint64) { e.b = binary.AppendUvarint(e.b, n) }

func (e *encoder) text(s string) {
	e.num(uint64(len(s)))
	e.b = append(e.b, s...)
}

func (e *encoder) flag(v bool) {
	if v {
		e.num(1)
	} else {
		e.num(0)
	}
}

func encodeList[T any](e *encoder, list []T, one func(T)) {
	e.num(uint64(len(list)))
	for _, v := range list {
		one(v)
	}
}

// The kinds of argument.
const (
	argNum = iota
	argStr
	argBytes
	argFD
	argSaved
	argFilter
)

// encodePlan appends the plan to b.
func encodePlan(b []byte, p *Plan) []byte {
	e := &encoder{b}
	e.num(uint64(p.Version)) //nolint:gosec // never negative
	e.text(p.Arch)
	e.num(p.Clone)
	e.flag(p.Maps != nil)
	if p.Maps != nil {
		e.flag(p.Maps.DenySetgroups)
		for _, ids := range [][]IDMap{p.Maps.UID, p.Maps.GID} {
			encodeList(e, ids, func(m IDMap) { e.num(uint64(m.Inside)); e.num(uint64(m.Outside)); e.num(uint64(m.Count)) })
		}
	}
	encodeList(e, p.Cgroups, e.text)
	encodeList(e, p.Trees, e.tree)
	encodeList(e, p.Setup, e.step)
	encodeList(e, p.Seal, e.step)
	e.text(p.Program.Path)
	encodeList(e, p.Program.Args, e.text)
	encodeList(e, p.Program.Env, e.text)
	return e.b
}

func (e *encoder) tree(t Tree) {
	e.text(t.Name)
	e.text(t.Source)
	e.flag(t.ReadOnly)
	e.flag(t.NoExec)
	e.flag(t.Device)
	e.flag(t.Owner != nil)
	if o := t.Owner; o != nil {
		for _, n := range []uint32{o.HostUID, o.HostGID, o.ShownUID, o.ShownGID} {
			e.num(uint64(n))
		}
	}
}

func (e *encoder) step(s Step) {
	e.num(s.Nr)
	encodeList(e, s.Args, e.arg)
	e.text(s.Save)
	encodeList(e, s.OK, func(n int) { e.num(uint64(n)) }) //nolint:gosec // an errno
}

func (e *encoder) arg(a Arg) {
	put := func(kind uint64, text string) { e.num(kind); e.text(text) }
	switch {
	case a.Str != nil:
		put(argStr, *a.Str)
	case a.Bytes != nil:
		put(argBytes, string(a.Bytes))
	case a.Filter != nil:
		put(argFilter, string(a.Filter))
	case a.FD != "":
		put(argFD, a.FD)
	case a.Saved != "":
		put(argSaved, a.Saved)
	default:
		e.num(argNum)
		e.num(uint64(a.Num)) //nolint:gosec // the bits count
	}
}

var errShortPlan = errors.New("the plan is cut off")

// decoder reads what encoder wrote. After an error everything it gives is zero.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) num() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.b, d.err = nil, errShortPlan
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) text() string {
	n := d.num()
	if n > uint64(len(d.b)) {
		d.b, d.err = nil, errShortPlan
		return ""
	}
	s := string(d.b[:n])
	d.b = d.b[n:]
	return s
}

func (d *decoder) flag() bool    { return d.num() != 0 }
func (d *decoder) small() uint32 { return uint32(d.num()) } //nolint:gosec // what was 32 bit before

func decodeList[T any](d *decoder, one func() T) []T {
	n := d.num()
	if n > uint64(len(d.b)) { // each element is a byte at least
		d.b, d.err = nil, errShortPlan
		return nil
	}
	list := make([]T, n)
	for i := range list {
		list[i] = one()
	}
	return list
}

func decodePlan(b []byte) (*Plan, error) {
	d := &decoder{b: b}
	p := &Plan{Version: int(d.num()), Arch: d.text(), Clone: d.num()} //nolint:gosec // checked by the caller
	if d.flag() {
		p.Maps = &Maps{DenySetgroups: d.flag(), UID: decodeList(d, d.idMap), GID: decodeList(d, d.idMap)}
	}
	p.Cgroups = decodeList(d, d.text)
	p.Trees = decodeList(d, d.tree)
	p.Setup = decodeList(d, d.step)
	p.Seal = decodeList(d, d.step)
	p.Program = Program{Path: d.text(), Args: decodeList(d, d.text), Env: decodeList(d, d.text)}
	return p, d.err
}

func (d *decoder) idMap() IDMap {
	return IDMap{Inside: d.small(), Outside: d.small(), Count: d.small()}
}

func (d *decoder) tree() Tree {
	t := Tree{Name: d.text(), Source: d.text(), ReadOnly: d.flag(), NoExec: d.flag(), Device: d.flag()}
	if d.flag() {
		t.Owner = &Owner{HostUID: d.small(), HostGID: d.small(), ShownUID: d.small(), ShownGID: d.small()}
	}
	return t
}

func (d *decoder) step() Step {
	return Step{Nr: d.num(), Args: decodeList(d, d.arg), Save: d.text(),
		OK: decodeList(d, func() int { return int(d.num()) })} //nolint:gosec // an errno
}

func (d *decoder) arg() (a Arg) {
	switch d.num() {
	case argNum:
		a.Num = int64(d.num()) //nolint:gosec // the bits count
	case argStr:
		s := d.text()
		a.Str = &s
	case argBytes:
		a.Bytes = append([]byte{}, d.text()...)
	case argFilter:
		a.Filter = append([]byte{}, d.text()...)
	case argFD:
		a.FD = d.text()
	case argSaved:
		a.Saved = d.text()
	default:
		d.err = errShortPlan
	}
	return a
}
