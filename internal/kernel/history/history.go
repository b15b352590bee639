package history

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"agentkernel"
)

// History is what a journal says.
type History struct {
	Base Base // where the fold began; Stale: it cannot
	Standing
	Moved *agentkernel.Entry // the last move to another backend; nil: none
	Tools json.RawMessage    // what the program imports, where it runs now; see Standing.Noted
	// Publication is how the process ends once its files are in place, if it was about to put them there.
	Publication json.RawMessage
	Cell        Cell
	Queue       Queue
}

// Standing is what a journal says of a process that no restart of its program unwinds. The kernel keeps it for each process
// that it carries, entry by entry.
type Standing struct {
	Seq     int64 // of the last entry; 0: there is none
	Account Account
	// Servers are the incarnations of tool servers that answered last, by server.
	Servers map[string]string
	Pauses  Pauses
	// Unresolved are the writes whose outcome nobody knows and about which a human decides.
	Unresolved *Unresolved
	Noted      bool // the journal has what the program imports, where it runs now
	Locals     Locals
}

// Add takes an entry that stands behind all that were added before.
func (s *Standing) Add(e *agentkernel.Entry) {
	s.Seq = e.Seq
	s.Account.Add(e)
	if s.Locals != nil {
		s.Locals = s.Locals.Add(e)
	}
	s.Pauses.Add(e)
	s.Unresolved = s.Unresolved.Add(e)
	switch e.Kind {
	case agentkernel.EntryTools:
		s.Noted = true
	case agentkernel.EntryMoved:
		s.Noted = false // those were of the backend that it has left
	}
}

// Stale says that something behind the base unwinds what the base stands for: fold from the beginning of the journal.
func (h *History) Stale() bool { return h.Queue.stale }

// Pauses says how long a process was paused, and because of whom it is.
type Pauses struct {
	At     time.Time       `json:"at,omitzero"`      // when the pause began that it is in, or the last one
	Ended  time.Duration   `json:"ended,omitempty"`  // how long the pauses took that have ended
	With   agentkernel.PID `json:"with,omitempty"`   // because of which process it is paused; 0: because of none
	Paused bool            `json:"paused,omitempty"` // it is in a pause
}

// Add takes an entry that stands behind all that were added before.
func (p *Pauses) Add(e *agentkernel.Entry) {
	switch {
	case e.Kind != agentkernel.EntryPaused && e.Kind != agentkernel.EntryResumed:
		return
	case e.Kind == agentkernel.EntryPaused && !p.Paused:
		// The wall clock alone: a base in an image has no other, and both must give the same.
		p.Paused, p.At = true, e.At.Round(0)
	case e.Kind == agentkernel.EntryResumed && p.Paused:
		p.Paused = false
		p.Ended += e.At.Sub(p.At)
	}
	p.With = PausedWith(e)
}

// Lived is the time since a process was created, its pauses left out.
func (p *Pauses) Lived(created, now time.Time) time.Duration {
	if p.Paused {
		now = p.At
	}
	return now.Sub(created) - p.Ended
}

// PauseData is the Data of an EntryPaused.
type PauseData struct {
	With agentkernel.PID `json:"with,omitempty"` // because of which process; 0: because of none
}

// Encode gives the Data; nil: only the process itself is paused.
func (d PauseData) Encode() json.RawMessage {
	if d.With == 0 {
		return nil
	}
	data, err := json.Marshal(d)
	if err != nil {
		return nil // a number always encodes
	}
	return data
}

// PausedWith says because of which process an entry pauses its own; 0: because of none.
func PausedWith(e *agentkernel.Entry) agentkernel.PID {
	var d PauseData
	if json.Unmarshal(e.Data, &d) != nil {
		return 0
	}
	return d.With
}

// Unresolved are the writes of a process whose outcome nobody knows; nil has none. A paused entry that names a call asks, a resolve entry
// decides, and a retry entry says that a call which may be made again is about to be: a crash between the last two makes it
// once, and a crash after the retry entry leaves the outcome unknown again.
type Unresolved struct {
	Asked map[int64]Question // by call
	Again map[int64]bool     // calls that may be made again and were not begun yet
}

// Question asks what became of a call.
type Question struct {
	Call int64
	Why  *agentkernel.Error // what resume hands the program
	Seq  int64              // of the entry that asks
}

// Add takes an entry that stands behind all that were added before, and gives what is unresolved then.
func (u *Unresolved) Add(e *agentkernel.Entry) *Unresolved {
	switch {
	case e.Kind == agentkernel.EntryPaused && e.Call != 0 && e.Err != nil:
		u = u.orNew()
		u.Asked[e.Call] = Question{e.Call, e.Err, e.Seq}
	case e.Kind == agentkernel.EntryResolve && e.Decision == agentkernel.DecisionRetry:
		u = u.orNew()
		delete(u.Asked, e.Call)
		u.Again[e.Call] = true
	case e.Kind == agentkernel.EntryRetry || e.Kind == agentkernel.EntryResult:
		u.Drop(e.Call)
	}
	return u
}

func (u *Unresolved) orNew() *Unresolved {
	if u == nil {
		return &Unresolved{Asked: map[int64]Question{}, Again: map[int64]bool{}}
	}
	return u
}

// Drop forgets a call: its outcome is known, or it is about to be made again.
func (u *Unresolved) Drop(call int64) {
	if u != nil {
		delete(u.Asked, call)
		delete(u.Again, call)
	}
}

// Asks says whether a human is asked about a call.
func (u *Unresolved) Asks(call int64) bool {
	if u == nil {
		return false
	}
	_, ok := u.Asked[call]
	return ok
}

// Repeats says whether a call may be made again.
func (u *Unresolved) Repeats(call int64) bool { return u != nil && u.Again[call] }

// First is the call about which a human is asked first; 0: none.
func (u *Unresolved) First() int64 {
	if u == nil || len(u.Asked) == 0 {
		return 0
	}
	return slices.Min(slices.Collect(maps.Keys(u.Asked)))
}

// Questions are all that a human is asked, in the order in which they were asked.
func (u *Unresolved) Questions() []Question {
	if u == nil {
		return nil
	}
	return slices.SortedFunc(maps.Values(u.Asked), func(a, b Question) int { return cmp.Compare(a.Seq, b.Seq) })
}

// Cell is the cell that a session has been handed last.
type Cell struct {
	Next int64 `json:"next,omitempty"` // the proc.next that was answered with it; 0: none, or it has ended
	asks map[int64]bool
}

// AsksForCell says whether an entry is the call with which a session waits for its next cell: it shows that the session is idle.
func AsksForCell(e *agentkernel.Entry) bool {
	desc, _ := agentkernel.FindSyscall(e.Op)
	return e.Kind == agentkernel.EntryCall && desc.Event == agentkernel.EventIdle
}

// asked notes a call for the next cell.
func (c *Cell) asked(e *agentkernel.Entry) bool {
	if !AsksForCell(e) {
		return false
	}
	if c.asks == nil {
		c.asks = map[int64]bool{}
	}
	c.asks[e.Call] = true
	return true
}

func (c *Cell) add(e *agentkernel.Entry) {
	switch e.Kind {
	case agentkernel.EntryCall:
		if c.asked(e) {
			c.Next = 0
		}
	case agentkernel.EntryResult:
		if c.asks[e.Call] && e.Err == nil {
			c.Next = e.Call
		}
	case agentkernel.EntryAborted:
		c.Next = 0
	}
}
