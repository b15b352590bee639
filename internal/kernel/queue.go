package kernel

import (
	"sync"
	"time"

	"agentkernel/internal/sched"
)

// lendAfter is how long a program may compute before its slot is lent to a more urgent process.
const lendAfter = time.Second

// readyQueue hands ready processes to at most `slots` goroutines, and to as many more for which programs that compute for
// long had to lend their slots.
type readyQueue struct {
	slots int
	now   func() time.Time
	drive func(*process)

	mu      sync.Mutex
	waiting sched.Queue[*process]
	running int                // slots in use
	turns   map[*turn]struct{} // who uses them, but for loans
	lent    int                // turns that go on without a slot
	timer   *time.Timer        // looks for a slot to lend; nil: nobody needs one
	closed  bool
	idle    *sync.Cond
}

// turn is the time that a process has a slot.
type turn struct {
	priority int
	since    time.Time
	lent     bool
}

func newReadyQueue(slots int, now func() time.Time, drive func(*process)) *readyQueue {
	q := &readyQueue{slots: slots, now: now, drive: drive, turns: map[*turn]struct{}{}}
	q.idle = sync.NewCond(&q.mu)
	return q
}

// push queues a process that has just become ready.
func (q *readyQueue) push(p *process) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	q.waiting.Push(p, p.spec.Priority, q.now())
	if q.running < q.slots {
		q.running++
		go q.slot(nil)
		return
	}
	q.lend()
}

// lend gives the slots of programs that have computed for long to processes that are more urgent, and sees to it that it is
// called again if that is for later; q.mu is held. Between equals nobody lends: who computes longer would reach its limit of
// time by the computing of others.
func (q *readyQueue) lend() {
	for !q.closed && q.lent < q.slots {
		priority, ok := q.waiting.Highest()
		t := q.lender(priority)
		if !ok || t == nil {
			return
		}
		if wait := lendAfter - q.now().Sub(t.since); wait > 0 {
			if q.timer == nil {
				q.timer = time.AfterFunc(wait, q.lendLater)
			} else { // the most urgent finds its lender first
				q.timer.Reset(wait)
			}
			return
		}
		p, _ := q.waiting.PopHighest()
		t.lent = true
		q.lent++
		go q.slot(p)
	}
}

func (q *readyQueue) lendLater() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.timer = nil
	q.lend()
}

// lender gives, of the turns that are less urgent than a priority, the one that has lasted longest; q.mu is held.
func (q *readyQueue) lender(priority int) (longest *turn) {
	for t := range q.turns {
		if !t.lent && t.priority > priority && (longest == nil || t.since.Before(longest.since)) {
			longest = t
		}
	}
	return longest
}

// slot drives processes, p first if it is not nil, until none waits that the slot is for.
func (q *readyQueue) slot(p *process) {
	for {
		q.mu.Lock()
		ok := p != nil
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
		if p = nil; !q.end(t) {
			return
		}
	}
}

// next says for whom the caller's slot is: the most urgent program that has lent one gets it back, unless somebody more urgent
// waits; if nobody has lent one, it is for who waits. q.mu is held.
func (q *readyQueue) next() (p *process, ok, back bool) {
	var first *turn
	for t := range q.turns {
		if t.lent && (first == nil || t.priority < first.priority) {
			first = t
		}
	}
	if first == nil {
		p, ok = q.waiting.Pop()
		return p, ok, false
	}
	if priority, some := q.waiting.Highest(); some && priority < first.priority && !q.closed {
		p, ok = q.waiting.PopHighest() // not who has waited longest: it may be less urgent than the lender
		return p, ok, false
	}
	first.lent = false
	q.lent--
	q.lend() // there may be another to borrow from
	return nil, false, true
}

// begin notes who has a slot from now on; q.mu is held. It ends with end.
func (q *readyQueue) begin(p *process) *turn {
	t := &turn{priority: p.spec.Priority, since: q.now()}
	q.turns[t] = struct{}{}
	q.lend()
	return t
}

// end says whether the slot is still there.
func (q *readyQueue) end(t *turn) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.turns, t)
	if t.lent {
		q.lent--
		q.lend()
		q.idle.Broadcast()
	}
	return !t.lent
}

// borrow gives the caller a slot in which it drives a process itself, if one is free and nobody waits for it. It
// ends with repay.
func (q *readyQueue) borrow() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.running == q.slots || q.waiting.Len() > 0 {
		return false
	}
	q.running++
	return true
}

// repay ends a loan. If there is something left to do about p, a goroutine of the queue's own goes on in the slot; else
// what came up meanwhile gets it.
func (q *readyQueue) repay(p *process, rest func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if rest != nil {
		t := q.begin(p)
		go func() {
			rest()
			if q.end(t) {
				q.slot(nil)
			}
		}()
		return
	}
	if q.waiting.Len() > 0 && !q.closed {
		go q.slot(nil)
		return
	}
	q.running--
	q.idle.Broadcast()
}

// close lets no further process begin to run.
func (q *readyQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
}

// drain waits until no program runs.
func (q *readyQueue) drain() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.running+q.lent > 0 {
		q.idle.Wait()
	}
}
