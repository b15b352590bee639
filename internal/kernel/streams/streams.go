// Package streams has the open streams of processes (sys.Stream): what stands behind the handles that calls have answered.
// They live outside the journal, so a kernel that dies takes them along; what a process has received of them is in its journal.
package streams

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"agentkernel"
	"agentkernel/internal/journal"
	"agentkernel/internal/kernel/advice"
	"agentkernel/internal/sys"
)

// Max is how many streams a process may have open. See Full.
const Max = 64

// Full refuses a call that opens a stream where so many are open or about to be; nil: it may.
func Full(op string, open int) *agentkernel.Error {
	if open < Max {
		return nil
	}
	return agentkernel.Errorf(agentkernel.CodeLimit, op, "%d streams are open, which is the limit", Max).WithHint(advice.CloseSome)
}

// Registry has those of all processes.
type Registry struct {
	run   func(func()) bool // runs a function in a goroutine; false: it did not
	ended func(agentkernel.PID, sys.Settlement)

	mu   sync.Mutex
	open map[agentkernel.PID]map[string]*stream
}

// New returns a registry that closes streams in goroutines which run begins. ended is told what those have used up that have ended before
// they were read to their ends.
func New(run func(func()) bool, ended func(agentkernel.PID, sys.Settlement)) *Registry {
	return &Registry{run: run, ended: ended, open: map[agentkernel.PID]map[string]*stream{}}
}

// stream is an open stream.
type stream struct {
	sys.Stream
	call  int64         // that has opened it
	turn  chan struct{} // whoever has taken the one that it holds asks it
	items sys.Items     // that it gave and that no journal has yet
	given bool          // items holds something
	err   error         // why it failed; nil: it has not
	over  atomic.Bool   // it was ended with its process, or with the cell: what it gives from now on is for nobody
}

// Open makes a handle for the stream that a call has answered, if it has answered one. A rerun has handles of its origin, which mean nothing else.
func (r *Registry) Open(pid agentkernel.PID, call int64, out *sys.Outcome) {
	if out.Stream == nil {
		return
	}
	handle := fmt.Sprintf("%d.%d", pid, call)
	s := &stream{Stream: out.Stream, call: call, turn: make(chan struct{}, 1)}
	s.turn <- struct{}{}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open[pid] == nil {
		r.open[pid] = map[string]*stream{}
	}
	r.open[pid][handle] = s
	out.Result = journal.String(handle)
	out.Done = func(committed bool) {
		if e, ok := s.Stream.(sys.Ender); ok && committed {
			e.OnEnd(func(used agentkernel.Amounts) { r.ended(pid, sys.Settlement{Call: call, Used: used}) })
		} else if !committed {
			r.close(pid, handle)
		}
	}
}

// Count is how many streams a process has open, those left out that calls under way have opened a moment ago; nil: none is.
func (r *Registry) Count(pid agentkernel.PID, underWay func(call int64) bool) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.open[pid] {
		if underWay == nil || !underWay(s.call) {
			n++
		}
	}
	return n
}

func (r *Registry) find(pid agentkernel.PID, handle string) *stream {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.open[pid][handle]
}

// close closes a stream, if it is open. That may take time, for which nobody waits.
func (r *Registry) close(pid agentkernel.PID, handle string) {
	if s := r.take(pid, handle); s != nil && !r.run(s.Close) {
		s.Close()
	}
}

// take takes a stream that is being closed out of the registry; nil: it is not open.
func (r *Registry) take(pid agentkernel.PID, handle string) *stream {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.open[pid][handle]
	if s == nil || s.over.Load() { // whoever has ended it has closed it
		return nil
	}
	if delete(r.open[pid], handle); len(r.open[pid]) == 0 {
		delete(r.open, pid)
	}
	return s
}

// Finish closes those of a process that is ending, and says what they have used up of what their calls have kept. It waits for that a
// moment. Calls that wait for them, or come meanwhile, are told nothing of it: they wait until they are dropped with the process.
func (r *Registry) Finish(pid agentkernel.PID) []sys.Settlement { return r.end(pid, 0, false) }

// End does the same with those of a process that calls behind one have opened, and knows them no more.
func (r *Registry) End(pid agentkernel.PID, behind int64) []sys.Settlement {
	return r.end(pid, behind, true)
}

func (r *Registry) end(pid agentkernel.PID, behind int64, forget bool) []sys.Settlement {
	var ended []*stream
	r.mu.Lock()
	for handle, s := range r.open[pid] {
		if s.call > behind && !s.over.Swap(true) {
			ended = append(ended, s)
		}
		if s.call > behind && forget {
			delete(r.open[pid], handle)
		}
	}
	if len(r.open[pid]) == 0 {
		delete(r.open, pid)
	}
	r.mu.Unlock()
	slices.SortFunc(ended, func(a, b *stream) int { return cmp.Compare(a.call, b.call) })
	ends := make([]sys.Settlement, len(ended))
	var all sync.WaitGroup
	for i, s := range ended {
		all.Go(func() { ends[i] = r.settle(s) })
	}
	all.Wait()
	return ends
}

// settle closes a stream that was taken, and says what it has used up of what its call has kept.
func (r *Registry) settle(s *stream) sys.Settlement {
	end := sys.Settlement{Call: s.call}
	if settler, ok := s.Stream.(sys.Settler); ok {
		end.Used = settler.Settle()
	} else if !r.run(s.Close) {
		s.Close()
	}
	return end
}

// Of is the streams of a process, for handlers.
type Of struct {
	Registry *Registry
	PID      agentkernel.PID
}

// Close closes a stream; false: it is not open.
func (o Of) Close(handle string) (ends *sys.Settlement, open bool) {
	s := o.Registry.take(o.PID, handle)
	if s == nil {
		return nil, false
	}
	end := o.Registry.settle(s)
	return &end, true
}

// Waiting says what a stream waits for.
func (o Of) Waiting(handle string) string {
	if s := o.Registry.find(o.PID, handle); s != nil {
		if w, ok := s.Stream.(sys.Waiter); ok {
			return w.Waiting()
		}
	}
	return ""
}

// Reserve is what the next items of a stream may use up.
func (o Of) Reserve(handle string) agentkernel.Amounts {
	if s := o.Registry.find(o.PID, handle); s != nil {
		if r, ok := s.Stream.(sys.Reserver); ok {
			return r.Reserve()
		}
	}
	return nil
}

// Next asks a stream for its next items. What it gives is kept until the journal has it, so that an answer which nobody waited
// for is given again. A stream that has failed, or has given its last, is closed; false: it is not open.
func (o Of) Next(ctx context.Context, handle string) (out sys.Outcome, ok bool, err error) {
	s := o.Registry.find(o.PID, handle)
	if s == nil {
		return out, false, nil
	}
	select {
	case <-s.turn:
	case <-ctx.Done():
		return out, true, ctx.Err()
	}
	if !s.given && !s.over.Load() {
		s.items, err = s.Next(ctx)
		s.given, s.err = err == nil || ctx.Err() == nil, failure(err)
	}
	if s.over.Load() { // an error may be about that
		<-ctx.Done()
		s.given = false
	}
	if !s.given { // it has taken nothing
		s.turn <- struct{}{}
		return out, true, ctx.Err()
	}
	last := s.err != nil || len(s.items.List) == 0
	out = sys.Outcome{Result: s.items.Result(), Settle: s.items.Settle, Settled: true}
	if s.items.Ended {
		out.Ends = &sys.Settlement{Call: s.call, Used: s.items.Total}
	}
	out.Done = func(committed bool) {
		if s.given = !committed; committed && last {
			o.Registry.close(o.PID, handle)
		}
		s.items.Settle = agentkernel.Amounts{} // whoever gets them again does not pay again: the first call has
		s.turn <- struct{}{}
	}
	return out, true, s.err
}

// failure is the error of a stream that has failed, which is not to be taken for one about the call that has met it.
func failure(err error) error {
	if err == nil {
		return nil
	}
	e := agentkernel.AsError(err, agentkernel.CodeUnavailable, "stream")
	if sys.AboutTheCall(e.Code) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return agentkernel.Errorf(agentkernel.CodeUnavailable, e.Op, "%s", e.Message())
	}
	return e
}
