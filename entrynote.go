package agentkernel

import (
	"strconv"
	"strings"
)

// OriginCall names a call of another process, of which a call of a rerun is the same.
type OriginCall struct {
	PID  PID
	Call int64
	// As: the call was made again in the place of that one. It carries its key, and what it starts goes on from what that call had
	// started. Otherwise it was not made: what came of that call answers it.
	As bool
}

// TakenOver says that an entry is of a call that a rerun did not make: what came of a call of its origin answers it.
func (e *Entry) TakenOver() bool { return e.Origin != nil && !e.Origin.As }

// String is the Note of an entry with this Origin.
func (o OriginCall) String() string {
	word := noteFrom
	if o.As {
		word = noteAs
	}
	return word + o.PID.String() + noteCall + strconv.FormatInt(o.Call, 10)
}

// ProcessOf names a process of a store, this one or another.
type ProcessOf struct {
	PID   PID
	Store string // its UUID
}

// String is how people name it: "pid 12 of store 4f2c...".
func (p ProcessOf) String() string { return notePID + p.PID.String() + noteStore + p.Store }

// The words of notes. They are in stored journals and in recordings, and never change.
const (
	noteFrom   = "from pid "
	noteAs     = "as pid "
	noteCall   = " call "
	noteImport = "imported: "
	notePID    = "pid "
	noteStore  = " of store "
)

// WriteNote sets Note to what the fields say that have no JSON of their own, and leaves it as it is if they say nothing.
// Whoever appends an entry with such a field calls it first.
func (e *Entry) WriteNote() {
	switch {
	case e.Kind == EntryCreated && e.Imported != nil:
		e.Note = noteImport + e.Imported.String()
	case e.Kind == EntryCall && e.Origin != nil && len(e.Reserve) > 0:
		e.Note = e.Origin.String() + " " + noteReserved + e.Reserve.written()
	case e.Kind == EntryCall && e.Origin != nil:
		e.Note = e.Origin.String()
	case (e.Kind == EntryCall || e.Kind == EntryRetry) && len(e.Reserve) > 0:
		e.Note = noteReserved + e.Reserve.written()
	case e.Kind == EntryResult && (e.Settle != nil || len(e.Reserve) > 0 || strings.HasPrefix(e.Incarnation, noteSettled)), e.Kind == EntrySettled:
		e.Note = e.settledNote()
	case e.Kind == EntryResult && e.Incarnation != "":
		e.Note = e.Incarnation
	case e.Kind == EntrySignal && e.Signal != "":
		e.Note = string(e.Signal)
	case e.Kind == EntryResolve && e.Decision != "":
		e.Note = string(e.Decision)
	case e.Kind == EntryAllowed && e.Pattern != "":
		e.Note = e.Pattern
	}
}

// ReadNote sets the fields that WriteNote has written to Note. Whoever decodes an entry calls it: a store for what it has
// stored, and whoever reads JSON. It is the only reader of notes. A note of other words is for people, and sets nothing.
func (e *Entry) ReadNote() {
	if e.Note == "" {
		return
	}
	switch e.Kind {
	case EntryCreated:
		e.Imported = parseImported(e.Note)
	case EntryCall:
		e.readCall()
	case EntryRetry:
		e.Reserve = readReserved(e.Note)
	case EntryResult:
		if !e.readSettled() {
			e.Incarnation = e.Note
		}
	case EntrySettled:
		e.readSettled()
	case EntrySignal:
		e.Signal = Signal(e.Note)
	case EntryResolve:
		e.Decision = Decision(e.Note)
	case EntryAllowed:
		e.Pattern = e.Note
	}
}

// readCall reads the note of a call: which one of an origin it is the same as, what it has reserved, or the one behind the other.
func (e *Entry) readCall() {
	if of, reserved, both := strings.Cut(e.Note, " "+noteReserved); both {
		if e.Origin, e.Reserve = parseOrigin(of), readReserved(noteReserved+reserved); e.Origin == nil || e.Reserve == nil {
			e.Origin, e.Reserve = nil, nil
		}
		return
	}
	e.Origin, e.Reserve = parseOrigin(e.Note), readReserved(e.Note)
}

func parseOrigin(note string) *OriginCall {
	rest, as := strings.CutPrefix(note, noteAs)
	if !as {
		var from bool
		if rest, from = strings.CutPrefix(note, noteFrom); !from {
			return nil
		}
	}
	pid, call, _ := strings.Cut(rest, noteCall)
	n, err1 := strconv.ParseInt(pid, 10, 64)
	c, err2 := strconv.ParseInt(call, 10, 64)
	o := OriginCall{PID: PID(n), Call: c, As: as}
	if err1 != nil || err2 != nil || o.String() != note { // "+1" is a number, too, and not what was written
		return nil
	}
	return &o
}

func parseImported(note string) *ProcessOf {
	rest, ok := strings.CutPrefix(note, noteImport+notePID)
	if !ok {
		return nil
	}
	pid, store, _ := strings.Cut(rest, noteStore)
	n, err := strconv.ParseInt(pid, 10, 64)
	p := ProcessOf{PID: PID(n), Store: store}
	if err != nil || noteImport+p.String() != note {
		return nil
	}
	return &p
}
