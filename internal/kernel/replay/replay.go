// Package replay compares a program that runs again with what its journal says that it did.
package replay

import (
	"encoding/json"
	"fmt"

	"agentkernel"
	"agentkernel/internal/journal"
	"agentkernel/internal/kernel/advice"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/kernel/room"
)

// Replay is what a journal still knows: calls with their results in the order in which they were delivered, and what was
// printed. It shrinks as the program repeats itself, and is Empty when the program goes beyond it.
type Replay struct {
	history.Queue
	session bool // see sameButAddresses
	skip    int  // bytes of Output[0] that were repeated
	all     *room.Total
	share   room.Share // of all
}

// New returns the replay of a journal. session: its program is a session, whose cells show addresses. all counts what is in memory of journals
// that are repeated, until Drop.
func New(q history.Queue, session bool, all *room.Total) *Replay {
	r := &Replay{Queue: q, session: session, all: all}
	n := int64(0)
	for id, e := range q.Calls {
		if _, twice := q.Results[id]; !twice || !e.Done {
			n += history.Size(&e)
		}
	}
	for _, e := range q.Results {
		n += history.Size(&e)
	}
	for i := range q.Output {
		n += history.Size(&q.Output[i])
	}
	all.Set(&r.share, n)
	return r
}

// Drop ends a replay; nil: none. It returns nil.
func (r *Replay) Drop() *Replay {
	if r != nil {
		r.all.Set(&r.share, 0)
	}
	return nil
}

// Diverged is the error that ends a program which does not repeat its journal.
func Diverged(format string, args ...any) *agentkernel.Error {
	return agentkernel.Errorf(agentkernel.CodeDiverged, "replay", format, args...)
}

// Ended is an error (nil: none) as the end of a process, unless it has one already: of a divergence that says nothing else it says how
// the two are compared.
func Ended(err *agentkernel.Error, pid agentkernel.PID) *agentkernel.Error {
	if err == nil || err.PID != 0 {
		return err
	}
	if err = err.WithPID(pid); err.Code == agentkernel.CodeDiverged && err.Hint == "" {
		err = err.WithHint(advice.Compare, pid)
	}
	return err
}

// Issued is a call as the program issues it.
type Issued struct {
	ID    int64
	Op    string
	Async bool
	Args  json.RawMessage // canonical
	Cell  bool            // it is the call with which a session reports how its cell ended
	Moved bool            // the program runs on another backend than before
}

// Take takes a call from the journal. nil, nil: the journal does not have it.
func (r *Replay) Take(c Issued) (*agentkernel.Entry, *agentkernel.Error) {
	entry, ok := r.Calls[c.ID]
	if !ok {
		return nil, nil
	}
	if err := Differs(&entry, &c); err != nil {
		return nil, err
	}
	delete(r.Calls, c.ID)
	return &entry, nil
}

// Differs says in what a call is not the one that the journal has; nil: it is.
func Differs(entry *agentkernel.Entry, c *Issued) *agentkernel.Error {
	same := string(entry.Args) == string(c.Args) ||
		c.Cell && (sameButAddresses(string(entry.Args), string(c.Args)) || c.Moved && sameEnd(entry.Args, c.Args))
	if entry.Op == c.Op && entry.Async == c.Async && same {
		return nil
	}
	return Diverged("call %d is not the one in the journal\n%s", c.ID,
		journal.Diff(history.Describe(entry.Op, entry.Async, entry.Args), history.Describe(c.Op, c.Async, c.Args)))
}

// NextAsync delivers the next async result that the journal has. issued is the last call number.
func (r *Replay) NextAsync(issued int64) (agentkernel.Reply, *agentkernel.Error) {
	id := r.Order[0]
	if id > issued {
		return agentkernel.Reply{}, Diverged("the program waits for a result, but the journal delivers call %d next, which the program has not issued", id)
	}
	r.Order = r.Order[1:]
	e := r.Results[id]
	delete(r.Results, id)
	return agentkernel.Reply{ID: id, Result: e.Data, Err: e.Err}, nil
}

// Arrived takes the result of an async call that came while the program repeats its journal, in entry seq. It stands behind
// all that the journal had, and is delivered behind it, whether the program has come to the call again or not.
func (r *Replay) Arrived(a agentkernel.Reply, seq int64) {
	r.Results[a.ID] = agentkernel.Entry{Kind: agentkernel.EntryResult, Seq: seq, Call: a.ID, Data: a.Result, Err: a.Err}
	r.Order = append(r.Order, a.ID)
}

// Printed compares output with the journal's and gives what goes beyond it.
func (r *Replay) Printed(stream, text string) (string, *agentkernel.Error) {
	for text != "" && len(r.Output) > 0 {
		e := r.Output[0]
		want := history.Text(&e)[r.skip:]
		n := min(len(want), len(text)) // of what the journal has
		m, same := n, want[:n] == text[:n]
		if !same && r.session {
			n, m = commonButAddresses(want, text)
			same = n == len(want) || m == len(text)
		}
		if e.Stream != stream || !same {
			return "", Diverged("the program printed something else on %s than the journal has on %s\n%s", stream, e.Stream,
				journal.Diff(journal.String(want), journal.String(text)))
		}
		text = text[m:]
		r.skip += n
		if n == len(want) {
			r.Output, r.skip = r.Output[1:], 0
		}
	}
	return text, nil
}

// Left says what the program has not repeated; "" when it has repeated all.
func (r *Replay) Left() string {
	switch {
	case len(r.Calls) > 0:
		low := int64(-1)
		for id := range r.Calls {
			if low < 0 || id < low {
				low = id
			}
		}
		e := r.Calls[low]
		return fmt.Sprintf("the journal goes on with call %d: %s", low, journal.Short(history.Describe(e.Op, e.Async, e.Args), 120))
	case len(r.Output) > 0:
		return fmt.Sprintf("the journal has more output: %s", journal.Short(journal.String(history.Text(&r.Output[0])[r.skip:]), 120))
	}
	return ""
}

// EndsBefore is the divergence of a program that ended, with an error or without, before it had repeated all; nil: it has.
func (r *Replay) EndsBefore(err *agentkernel.Error) *agentkernel.Error {
	left := r.Left()
	switch {
	case left == "":
		return nil
	case err != nil:
		return Diverged("the program failed (%s), but %s", err.Message(), left)
	}
	return Diverged("the program ended, but %s", left)
}

// Asks says whether the journal stops where a session waits for its next cell.
func (r *Replay) Asks() bool {
	for id, e := range r.Calls {
		if _, answered := r.Results[id]; history.AsksForCell(&e) && !e.Done && !answered {
			return true
		}
	}
	return false
}
