package devllm

import (
	"context"
	"slices"
	"sync"
)

// queue lets so many requests through at once; the others wait, those of the lowest priority first, then by age.
type queue struct {
	mu       sync.Mutex
	parallel int // 0: all
	most     int // that may wait
	running  int
	waiting  []*waiter
}

type waiter struct {
	priority int
	turn     chan struct{}
}

func newQueue(parallel, most int) *queue { return &queue{parallel: parallel, most: most} }

// enter waits for a turn. It is not ok if too many wait already, or ctx ended; else release ends the turn.
func (q *queue) enter(ctx context.Context, priority int) (release func(), ok bool) {
	if q.parallel == 0 {
		return func() {}, true
	}
	q.mu.Lock()
	if q.running < q.parallel {
		q.running++
		q.mu.Unlock()
		return q.leave, true
	}
	if len(q.waiting) >= q.most {
		q.mu.Unlock()
		return nil, false
	}
	w := &waiter{priority, make(chan struct{})}
	at := len(q.waiting)
	for at > 0 && q.waiting[at-1].priority > priority {
		at--
	}
	q.waiting = slices.Insert(q.waiting, at, w)
	q.mu.Unlock()
	select {
	case <-w.turn:
		return q.leave, true
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(q.waiting, w); i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
	} else {
		q.next() // the turn came too late
	}
	return nil, false
}

func (q *queue) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.next()
}

// next hands the turn on; the caller holds the lock.
func (q *queue) next() {
	if len(q.waiting) == 0 {
		q.running--
		return
	}
	w := q.waiting[0]
	q.waiting = q.waiting[1:]
	close(w.turn)
}

// Waiting is how many requests wait for their turn.
func (s *Server) Waiting() int {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	return len(s.queue.waiting)
}
