// Package hosting keeps who is the host of a process whose program lives elsewhere, and where the calls of such a program stand
// in its journal. It makes no calls, and knows no process but by its PID.
package hosting

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"agentkernel"
	"agentkernel/internal/clip"
	"agentkernel/internal/journal"
	"agentkernel/internal/kernel/advice"
)

// Seats are the seats of hosts, one for each process that has had one. The zero value is empty.
type Seats struct{ seats sync.Map } // by PID

// Seat is where the host of a process sits. Its lock comes before that of the process, and is held while a call is issued: each
// sees the calls before it, and none is issued by a host of before.
type Seat struct {
	sync.Mutex
	host atomic.Pointer[Tenure]
}

// Of returns the seat of a process.
func (s *Seats) Of(pid agentkernel.PID) *Seat {
	seat, _ := s.seats.LoadOrStore(pid, &Seat{})
	return seat.(*Seat)
}

// Vacate tells the host of a process, if it has one, that it is the host no more: why, or nil if the process has ended.
func (s *Seats) Vacate(pid agentkernel.PID, why *agentkernel.Error) {
	if seat, ok := s.seats.LoadAndDelete(pid); ok {
		if t := seat.(*Seat).host.Swap(nil); t != nil {
			t.end(why)
		}
	}
}

// Admits says whether a process may be taken up whose last attachment has the number epoch, by a program that began with the one
// of the number began. That program is the host until another begins, whatever it has heard of: its connection may break before it
// learns the number of its attachment.
func (s *Seat) Admits(pid agentkernel.PID, began, epoch int64, how agentkernel.Attaching) error {
	refuse := func(code agentkernel.Code, format string, args ...any) *agentkernel.Error {
		return agentkernel.Errorf(code, "attach", format, args...).WithPID(pid)
	}
	switch {
	case how.Epoch < 0 || how.Epoch > epoch:
		return refuse(agentkernel.CodeInvalid, "process %d had no host with the epoch %d: the last one had %d", pid, how.Epoch, epoch)
	case how.Epoch > 0 && how.Epoch < began:
		return fenced(pid, epoch)
	case how.Epoch == 0 && !how.TakeOver && s.host.Load() != nil:
		return refuse(agentkernel.CodeConflict, "process %d has a host already, with the epoch %d", pid, epoch).WithHint(advice.TakeOver)
	}
	return nil
}

// fenced is the error of a host whose place another has taken.
func fenced(pid agentkernel.PID, epoch int64) *agentkernel.Error {
	return agentkernel.Errorf(agentkernel.CodeFenced, "attach", "another host has taken process %d up, with the epoch %d", pid, epoch).WithPID(pid)
}

// sit makes t the host. The one before, if any, is fenced.
func (s *Seat) sit(t *Tenure) {
	if old := s.host.Swap(t); old != nil {
		old.end(fenced(t.PID, t.Epoch))
	}
}

// leave lets go of t. False: it was not the host.
func (s *Seat) leave(t *Tenure) bool {
	left := s.host.CompareAndSwap(t, nil)
	t.end(agentkernel.Errorf(agentkernel.CodeCanceled, "attach", "the host has let go of process %d", t.PID).WithPID(t.PID))
	return left
}

// Tenure is the time for which somebody is the host of a process.
type Tenure struct {
	agentkernel.Attached
	*lanes
	began int64 // the attachment with which its program began
	once  sync.Once
	over  chan struct{}
	why   *agentkernel.Error
}

// attachment is the data of an attachment in the journal.
type attachment struct {
	Epoch int64 `json:"epoch"`
	Began int64 `json:"began,omitempty"` // with which its program began; 0: with this one
}

// Began is the attachment with which the program began that was the last host; 0: there was none.
func Began(entries []agentkernel.Entry) int64 {
	for _, e := range slices.Backward(entries) {
		if e.Kind == agentkernel.EntryAttached {
			var a attachment
			_ = json.Unmarshal(e.Data, &a) // 0 lets nobody in who should not be
			return cmp.Or(a.Began, a.Epoch)
		}
	}
	return 0
}

// NewTenure returns one that has not begun, for a process with a journal. began is the attachment with which its program began.
// gaps: its program goes on, and may have had answers that the journal has lost.
func NewTenure(pid agentkernel.PID, began, epoch int64, entries []agentkernel.Entry, gaps bool) *Tenure {
	l, calls := newLanes(entries, gaps)
	return &Tenure{Attached: agentkernel.Attached{PID: pid, Epoch: epoch, Calls: calls}, lanes: l, began: began, over: make(chan struct{})}
}

func (t *Tenure) end(why *agentkernel.Error) {
	t.once.Do(func() {
		t.why = why
		close(t.over)
	})
}

// reason says why it is over; nil: it is not, or the process has ended.
func (t *Tenure) reason() *agentkernel.Error {
	select {
	case <-t.over:
		return t.why
	default:
		return nil
	}
}

// Entry is the attachment in the journal.
func (t *Tenure) Entry() agentkernel.Entry {
	a := attachment{Epoch: t.Epoch}
	if t.began != t.Epoch {
		a.Began = t.began
	}
	data, _ := json.Marshal(a) // two numbers
	return agentkernel.Entry{Kind: agentkernel.EntryAttached, Data: data}
}

// said is the message of what a hosted program failed with, with the exception before it as a program in a sandbox has it.
func said(e *agentkernel.HostedError) string {
	switch {
	case e.Exception == "" || e.Message == e.Exception || strings.HasPrefix(e.Message, e.Exception+":"):
		return e.Message
	case e.Message == "":
		return clip.Short(e.Exception)
	}
	return clip.Short(e.Exception) + ": " + e.Message
}

// ending reads how a hosted program ended: with a result, or with a failure. The error says what is wrong with e.
func ending(e *agentkernel.HostedEnd) (result json.RawMessage, failure *agentkernel.Error, err error) {
	switch {
	case e.ExitCode < 0 || e.ExitCode > 255:
		return nil, nil, agentkernel.Errorf(agentkernel.CodeInvalid, "end", "the exit code %d is not one from 0 to 255", e.ExitCode)
	case e.Error != nil && (e.ExitCode != 0 || e.Result != nil):
		return nil, nil, agentkernel.Errorf(agentkernel.CodeInvalid, "end", "a program ends with an error, or with a result and an exit code")
	case e.Error != nil:
		failure = agentkernel.Errorf(agentkernel.CodeProgram, "run", "%s", clip.Long(said(e.Error)))
		failure.Exception, failure.Traceback = clip.Short(e.Error.Exception), clip.Long(e.Error.Traceback)
		return nil, failure, nil
	case e.Result == nil:
		return nil, nil, nil
	}
	if _, err = journal.Canonical(e.Result); err != nil {
		return nil, nil, agentkernel.Errorf(agentkernel.CodeInvalid, "end", "the result is no JSON: %v", err)
	}
	var b bytes.Buffer
	_ = json.Compact(&b, e.Result) // what is canonical is JSON; the order of its names is the program's
	return b.Bytes(), nil, nil
}
