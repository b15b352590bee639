package kernel

import (
	"sync"
	"time"

	"agentkernel/internal/sched"
)

// readyQueue hands ready processes to at most `slots` goroutines.
type readyQueue struct {
	slots int
	now   func() time.Time
	drive func(*process)

	mu      sync.Mutex
	waiting sched.Queue[*process]
	running int
	closed  bool
	idle    *sync.Cond
}

func newReadyQueue(slots int, now func() time.Time, drive func(*process)) *readyQueue {
	q := &readyQueue{slots: slots, now: now, drive: drive}
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
		go q.slot()
	}
}

func (q *readyQueue) slot() {
	for {
		q.mu.Lock()
		p, ok := q.waiting.Pop()
		if !ok || q.closed {
			q.running--
			q.idle.Broadcast()
			q.mu.Unlock()
			return
		}
		q.mu.Unlock()
		q.drive(p)
	}
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

// repay ends a loan. If there is something left to do, a goroutine of the queue's own goes on in the slot; else what
// came up meanwhile gets it.
func (q *readyQueue) repay(rest func()) {
	if rest != nil {
		go func() {
			rest()
			q.slot()
		}()
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting.Len() > 0 && !q.closed {
		go q.slot()
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

// drain waits until no slot is in use.
func (q *readyQueue) drain() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.running > 0 {
		q.idle.Wait()
	}
}
