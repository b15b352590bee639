// Package slots runs what is ready on a bounded number of goroutines, the more urgent first, and lets the more urgent preempt
// what computes for long.
package slots

import (
	"context"
	"sync"
	"time"

	"agentkernel/internal/sched"
)

// preemptAfter is how long a program may compute before its slot goes to a more urgent process.
const preemptAfter = time.Second

// crowd is how many items may wait before whoever makes many more of them has to; see Ease.
const crowd = 2048

// Item is something that can be driven, such as a process. Priority is the same each time; lower is more urgent. So is Flow, which says
// with whom it shares the slots that its kind gets: see sched.Shares.
type Item interface {
	comparable
	Priority() int
	Flow() string
}

// Queue hands ready items to at most `slots` goroutines, and to as many more for which items that compute for long were
// preempted.
type Queue[T Item] struct {
	slots int
	now   func() time.Time
	drive func(T)

	mu        sync.Mutex
	waiting   sched.Shares[T]
	queued    map[T]struct{}     // what waits
	running   int                // slots in use
	turns     map[*turn]struct{} // who uses them, but for those that TryAcquire gave
	preempted int                // turns that go on without a slot
	timer     *time.Timer        // looks for a program to preempt; nil: nobody needs its slot
	eased     chan struct{}      // closed when no more than crowd wait; nil: nobody waits for that
	closed    bool
	idle      *sync.Cond
}

// turn is the time that an item has a slot.
type turn struct {
	flow      string
	priority  int
	since     time.Time
	preempted bool
}

// New returns a queue that calls drive for each item, in a slot. weight is that of a flow; nil: all have the same.
func New[T Item](slots int, now func() time.Time, weight func(flow string) int, drive func(T)) *Queue[T] {
	q := &Queue[T]{slots: slots, now: now, drive: drive, waiting: sched.Shares[T]{Weight: weight}, queued: map[T]struct{}{}, turns: map[*turn]struct{}{}}
	q.idle = sync.NewCond(&q.mu)
	return q
}

// Push queues an item that has just become ready. One that waits already keeps its place, and has no second one.
func (q *Queue[T]) Push(p T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	if q.running < q.slots { // then nobody waits; which of several items gets it is not left to the scheduler of goroutines
		q.running++
		go q.slot(p)
		return
	}
	if _, twice := q.queued[p]; twice {
		return
	}
	q.queued[p] = struct{}{}
	q.waiting.Push(p, p.Flow(), p.Priority(), q.now())
	q.preempt()
}

// preempt gives the slots of programs that have computed for long to processes that are more urgent, and sees to it that it is
// called again if that is for later; q.mu is held. Between equals nobody is preempted: who computes longer would reach its limit of
// time by the computing of others.
func (q *Queue[T]) preempt() {
	for !q.closed && q.preempted < q.slots {
		priority, ok := q.waiting.Highest()
		t := q.preemptible(priority)
		if !ok || t == nil {
			return
		}
		if wait := preemptAfter - q.now().Sub(t.since); wait > 0 {
			if q.timer == nil {
				q.timer = time.AfterFunc(wait, q.preemptLater)
			} else { // the most urgent finds whom it preempts first
				q.timer.Reset(wait)
			}
			return
		}
		p, _ := q.popped(q.waiting.PopHighest())
		t.preempted = true
		q.preempted++
		go q.slot(p)
	}
}

func (q *Queue[T]) preemptLater() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.timer = nil
	q.preempt()
}

// preemptible gives, of the turns that are less urgent than a priority, the one that has lasted longest; q.mu is held.
func (q *Queue[T]) preemptible(priority int) (longest *turn) {
	for t := range q.turns {
		if !t.preempted && t.priority > priority && (longest == nil || t.since.Before(longest.since)) {
			longest = t
		}
	}
	return longest
}

// slot drives items, p first if it is not the zero value, until none waits that the slot is for.
func (q *Queue[T]) slot(p T) {
	var none T
	for {
		q.mu.Lock()
		ok := p != none
		if !ok {
			var back bool
			if p, ok, back = q.next(); back {
				q.mu.Unlock()
				return
			}
		}
		if !ok || q.closed {
			q.running--
			q.idle.Broadcast()
			q.mu.Unlock()
			return
		}
		t := q.begin(p)
		q.mu.Unlock()
		q.drive(p)
		if p = none; !q.end(t) {
			return
		}
	}
}

// next says for whom the caller's slot is: the most urgent program that was preempted gets it back, unless somebody more urgent
// waits; if nobody was, it is for who waits. q.mu is held.
func (q *Queue[T]) next() (p T, ok, back bool) {
	var none T
	var first *turn
	for t := range q.turns {
		if t.preempted && (first == nil || t.priority < first.priority) {
			first = t
		}
	}
	if first == nil {
		p, ok = q.popped(q.waiting.Pop())
		q.ease()
		return p, ok, false
	}
	if priority, some := q.waiting.Highest(); some && priority < first.priority && !q.closed {
		p, ok = q.popped(q.waiting.PopHighest()) // not who has waited longest: it may be less urgent than the one that was preempted
		return p, ok, false
	}
	first.preempted = false
	q.preempted--
	q.preempt() // there may be another to preempt
	return none, false, true
}

// popped notes that an item waits no more; q.mu is held.
func (q *Queue[T]) popped(p T, ok bool) (T, bool) {
	delete(q.queued, p)
	return p, ok
}

// begin notes who has a slot from now on; q.mu is held. It ends with end.
func (q *Queue[T]) begin(p T) *turn {
	t := &turn{flow: p.Flow(), priority: p.Priority(), since: q.now()}
	q.turns[t] = struct{}{}
	q.preempt()
	return t
}

// end says whether the slot is still there.
func (q *Queue[T]) end(t *turn) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.turns, t)
	q.waiting.Charge(t.flow, q.now().Sub(t.since))
	if t.preempted {
		q.preempted--
		q.preempt()
		q.idle.Broadcast()
	}
	return !t.preempted
}

// TryAcquire gives the caller a slot in which it drives a process itself, if one is free and nobody waits for it. It
// ends with release.
func (q *Queue[T]) TryAcquire() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.running == q.slots || q.waiting.Len() > 0 {
		return false
	}
	q.running++
	return true
}

// Release ends what TryAcquire began. If there is something left to do about p, a goroutine of the queue's own goes on in the slot; else
// what came up meanwhile gets it.
func (q *Queue[T]) Release(p T, rest func()) {
	var none T
	q.mu.Lock()
	defer q.mu.Unlock()
	if rest != nil {
		t := q.begin(p)
		go func() {
			rest()
			if q.end(t) {
				q.slot(none)
			}
		}()
		return
	}
	if q.waiting.Len() > 0 && !q.closed {
		go q.slot(none)
		return
	}
	q.running--
	q.idle.Broadcast()
}

// Wanted says whether somebody waits for a slot.
func (q *Queue[T]) Wanted() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting.Len() > 0
}

// Ease waits while a crowd waits for slots, until ctx ends: what waits is held in memory.
func (q *Queue[T]) Ease(ctx context.Context) {
	q.mu.Lock()
	if q.closed || q.waiting.Len() <= crowd {
		q.mu.Unlock()
		return
	}
	if q.eased == nil {
		q.eased = make(chan struct{})
	}
	eased := q.eased
	q.mu.Unlock()
	select {
	case <-eased:
	case <-ctx.Done():
	}
}

// ease ends what waits in Ease when no crowd waits any more; q.mu is held.
func (q *Queue[T]) ease() {
	if q.eased != nil && (q.closed || q.waiting.Len() <= crowd) {
		close(q.eased)
		q.eased = nil
	}
}

// Close lets no further process begin to run.
func (q *Queue[T]) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.ease()
}

// Drain waits until no program runs.
func (q *Queue[T]) Drain() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.running+q.preempted > 0 {
		q.idle.Wait()
	}
}
