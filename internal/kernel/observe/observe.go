// Package observe makes of what is appended to journals what an agentkernel.Observer is told. That
// is the same whichever way a call was answered, and a replay appends nothing. It must never hold
// up who appends, and knows no process table.
package observe

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"agentkernel"
)

// Observed is a kernel that an observer looks at.
type Observed struct {
	to    agentkernel.Observer
	clock func() time.Time
	mu    sync.Mutex
	calls map[agentkernel.PID]map[int64]call // that have begun and not ended
}

// call is one that has begun.
type call struct {
	agentkernel.ObservedCall
	later bool // the observer is told when it is told that its process was recovered
}

// New returns what tells an observer; nil: there is none.
func New(to agentkernel.Observer, clock func() time.Time) *Observed {
	if to == nil {
		return nil
	}
	return &Observed{to: to, clock: clock, calls: map[agentkernel.PID]map[int64]call{}}
}

// Appended tells of entries that a process's journal has now. now is the process, and label names a
// call.
func (o *Observed) Appended(entries []agentkernel.Entry, now func() agentkernel.Process, namespace string, label func(*agentkernel.Entry) string) {
	for i := range entries {
		switch e := &entries[i]; e.Kind {
		case agentkernel.EntryCreated, agentkernel.EntryRecover:
			p := now()
			p.State = agentkernel.StateReady // or it is about to be
			if e.Kind == agentkernel.EntryCreated {
				o.to.Created(p)
			} else {
				o.to.Recovered(p)
				o.tellLater(e.PID)
			}
		case agentkernel.EntryCall:
			o.Begun(agentkernel.ObservedCall{PID: e.PID, Namespace: namespace, Call: e.Call, Op: e.Op, Label: label(e), Effect: e.Effect, Copied: e.TakenOver(), Begun: e.At})
			if e.Done {
				o.ended(e)
			}
		case agentkernel.EntryResult:
			o.ended(e)
		case agentkernel.EntryTerminal:
			o.mu.Lock()
			delete(o.calls, e.PID)
			o.mu.Unlock()
			o.to.Ended(now())
		}
	}
}

// Begun tells of a call that is under way.
func (o *Observed) Begun(c agentkernel.ObservedCall) { o.Again(false, false, c) }

// Again is Begun for a call that was begun before. told: the observer knows of it; asleep: its process was read back, and sleeps
// on: if it is recovered, the observer is told then.
func (o *Observed) Again(told, asleep bool, c agentkernel.ObservedCall) {
	o.mu.Lock()
	of := o.calls[c.PID]
	if of == nil {
		of = map[int64]call{}
		o.calls[c.PID] = of
	}
	of[c.Call] = call{c, asleep && !told}
	o.mu.Unlock()
	if !told && !asleep {
		o.to.CallBegun(c)
	}
}

// tellLater tells of the calls of a process that was read back, and that somebody has woken now.
func (o *Observed) tellLater(pid agentkernel.PID) {
	o.mu.Lock()
	var tell []agentkernel.ObservedCall
	for n, c := range o.calls[pid] {
		if c.later {
			tell = append(tell, c.ObservedCall)
			o.calls[pid][n] = call{c.ObservedCall, false}
		}
	}
	o.mu.Unlock()
	slices.SortFunc(tell, func(a, b agentkernel.ObservedCall) int { return cmp.Compare(a.Call, b.Call) })
	for _, c := range tell {
		o.to.CallBegun(c)
	}
}

// Unloaded forgets the calls of a process that is in the store alone: when it is read back they are
// begun again. o may be nil.
func (o *Observed) Unloaded(pid agentkernel.PID) {
	if o != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.calls, pid)
	}
}

// ended tells of the result of a call. That of one to which its program has not come again is not
// told: nobody was told that it had begun.
func (o *Observed) ended(e *agentkernel.Entry) {
	o.mu.Lock()
	c, known := o.calls[e.PID][e.Call]
	delete(o.calls[e.PID], e.Call)
	o.mu.Unlock()
	if known {
		c.Ended, c.Err = o.clock(), e.Err // an entry that has both is of the time when the call began
		o.to.CallEnded(c.ObservedCall)
	}
}

// Waited tells that a process which waited may run.
func (o *Observed) Waited(w agentkernel.ObservedWait) { o.to.Waited(w) }
