package sqlite

import (
	"context"
	"sync"
	"time"

	"agentkernel"
)

const (
	// flushAfter is how long a batch waits for somebody to ask for it. With the commit itself it stays
	// under the 5 ms that the contract promises.
	flushAfter = 3 * time.Millisecond
	// A group, which becomes one transaction, is bounded so that those who wait for its first batch do
	// not wait for megabytes behind it.
	maxGroupBatches = 1024
	maxGroupBytes   = 8 << 20
)

// pending is a batch on its way to the disk.
type pending struct {
	batch agentkernel.Batch
	pid   agentkernel.PID
	pos   agentkernel.Position
	size  int64
	at    time.Time
}

// tail is where a process's journal ends, queued batches included.
type tail struct {
	next int64                // seq of the next entry; 0: look it up
	pos  agentkernel.Position // its newest batch
}

type waiter struct {
	pos agentkernel.Position
	ch  chan error // capacity 1, answered once
}

// queue is the store's one total order between Append and the disk: positions are given out in it, the
// one who commits takes from its front, and Flush waits for it. It does not know what a database is.
type queue struct {
	wake   chan struct{} // capacity 1: there may be something to take
	max    int64         // bytes; beyond it append waits
	images *imageCache   // follows the total order, so it changes under mu

	mu       sync.Mutex
	space    sync.Cond // bytes went down, or the queue failed or was closed
	waiting  []pending // appended, not yet taken
	group    []pending // taken, not yet durable
	spare    []pending // backing array of the last group, for reuse
	jobs     []*job    // see jobs.go
	bytes    int64     // of waiting and group
	appended agentkernel.Position
	durable  agentkernel.Position
	wanted   agentkernel.Position // somebody waits for everything up to here
	waiters  []waiter
	tails    map[agentkernel.PID]tail
	mail     map[agentkernel.PID]agentkernel.Position // see mailed
	keys     map[agentkernel.Key]agentkernel.PID      // owner, 0 if nobody; only while it may not be in the database
	ends     map[agentkernel.PID]int64                // see guess
	forgot   int64                                    // tails and keys dropped so far: see learn
	failed   error
	claimed  bool // somebody commits: see lead.go
	closed   bool
	timer    *time.Timer
	armed    bool
}

func newQueue(max int64, images *imageCache) *queue {
	q := &queue{wake: make(chan struct{}, 1), max: max, images: images,
		tails: map[agentkernel.PID]tail{}, mail: map[agentkernel.PID]agentkernel.Position{}, keys: map[agentkernel.Key]agentkernel.PID{},
		ends: map[agentkernel.PID]int64{}}
	q.space.L = &q.mu
	return q
}

func errClosed() error {
	return agentkernel.Errorf(agentkernel.CodeUnavailable, "store", "the store has been closed")
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default: // the writer has been told already
	}
}

// append gives a batch its position. It waits only when too much waits for the disk already. A batch that
// would break the journal (a gap, a repetition) or take another process's idempotency key is refused
// here: once queued, nothing but the disk can keep a batch from being written.
func (q *queue) append(p pending) (agentkernel.Position, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.failed == nil && !q.closed && q.bytes > 0 && q.bytes+p.size > q.max {
		q.wanted = q.appended
		q.signal()
		q.space.Wait()
	}
	if err := q.unusable(); err != nil {
		return 0, err
	}
	t := q.tails[p.pid]
	if t.next == 0 {
		t.next = q.ends[p.pid]
	}
	if err := q.check(&p, t); err != nil {
		return 0, err
	}
	delete(q.ends, p.pid)
	q.appended++
	p.pos, p.at = q.appended, time.Now()
	t.pos = p.pos
	if n := len(p.batch.Entries); n > 0 {
		t.next = p.batch.Entries[n-1].Seq + 1
	}
	if k, ok := keyOf(&p.batch); ok {
		q.keys[k] = p.pid
	}
	if p.batch.Image != nil {
		q.images.put(p.batch.Image)
	}
	q.tails[p.pid] = t
	q.noteMail(&p)
	q.waiting = append(q.waiting, p)
	q.bytes += p.size
	q.arm(flushAfter)
	return p.pos, nil
}

func (q *queue) unusable() error {
	if q.failed != nil {
		return q.failed
	}
	if q.closed {
		return errClosed()
	}
	return nil
}

// arm makes sure that somebody looks at the queue again. The timer runs only while something waits.
func (q *queue) arm(after time.Duration) {
	if q.armed {
		return
	}
	q.armed = true
	if q.timer == nil {
		q.timer = time.AfterFunc(after, q.overdue)
		return
	}
	q.timer.Reset(after)
}

// overdue asks for a commit if the oldest waiting batch has waited long enough. A younger one, left
// after a Flush took what was before it, gets its own full time.
func (q *queue) overdue() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.armed = false
	if len(q.waiting) == 0 || q.failed != nil {
		return
	}
	if left := flushAfter - time.Since(q.waiting[0].at); left > 0 {
		q.arm(left)
		return
	}
	q.wanted = q.appended
	q.signal()
}

// flush waits until everything up to pos is durable.
func (q *queue) flush(ctx context.Context, pos agentkernel.Position) error {
	q.mu.Lock()
	if err := q.unusable(); err != nil {
		q.mu.Unlock()
		return err
	}
	if pos <= q.durable {
		q.mu.Unlock()
		return nil
	}
	if pos > q.appended {
		q.mu.Unlock()
		return agentkernel.Errorf(agentkernel.CodeInvalid, "store", "flush of position %d, but only %d were appended", pos, q.appended)
	}
	q.wanted = max(q.wanted, pos)
	w := waiter{pos, make(chan error, 1)}
	q.waiters = append(q.waiters, w)
	q.mu.Unlock()
	q.signal()
	select {
	case err := <-w.ch:
		return err
	case <-ctx.Done():
		return agentkernel.AsError(ctx.Err(), agentkernel.CodeCanceled, "store")
	}
}

// take gives the next group, nil if nobody asks for any. Everything that waits goes along, up to the
// bounds: a transaction costs the same for one batch as for many.
func (q *queue) take() []pending {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 || q.wanted <= q.durable || q.failed != nil {
		return nil
	}
	n, bytes := 0, int64(0)
	for n < len(q.waiting) && n < maxGroupBatches && (n == 0 || bytes+q.waiting[n].size <= maxGroupBytes) {
		bytes += q.waiting[n].size
		n++
	}
	q.group, q.spare = append(q.spare[:0], q.waiting[:n]...), nil
	rest := copy(q.waiting, q.waiting[n:])
	clear(q.waiting[rest:])
	q.waiting = q.waiting[:rest]
	return q.group
}

// uncommitted says whether there is anything that is not durable; q.mu is held.
func (q *queue) uncommitted() bool { return len(q.group)+len(q.waiting) > 0 }

// wantAll asks for a commit of everything.
func (q *queue) wantAll() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.wanted = q.appended
}

// done reports the group that take gave as durable, or the store as failed.
func (q *queue) done(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err != nil {
		q.fail(err)
		return
	}
	for i := range q.group {
		p := &q.group[i]
		q.bytes -= p.size
		q.durable = p.pos
		q.dropMail(p)
		if (ended(p.batch) || p.batch.Process != nil && p.batch.Process.Parked != nil) && q.tails[p.pid].pos == p.pos {
			delete(q.tails, p.pid)
			q.forgot++
		}
		if k, ok := keyOf(&p.batch); ok {
			delete(q.keys, k)
			q.forgot++
		}
	}
	clear(q.group)
	q.group, q.spare = nil, q.group[:0]
	kept := q.waiters[:0]
	for _, w := range q.waiters {
		if w.pos <= q.durable {
			w.ch <- nil
		} else {
			kept = append(kept, w)
		}
	}
	clear(q.waiters[len(kept):])
	q.waiters = kept
	q.space.Broadcast()
}

// ended says whether nothing more is to be expected of the batch's process.
func ended(b agentkernel.Batch) bool {
	n := len(b.Entries)
	return n > 0 && b.Entries[n-1].Kind == agentkernel.EntryTerminal
}

// fail makes the queue refuse everything; what was not durable is gone.
func (q *queue) fail(err error) {
	q.failed = err
	q.waiting, q.group, q.spare, q.bytes = nil, nil, nil, 0
	clear(q.keys)
	q.images.drop()
	for _, w := range q.waiters {
		w.ch <- err
	}
	q.waiters = nil
	q.space.Broadcast()
}

// close refuses further batches and asks for a commit of what is there.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.wanted = q.appended
	if q.timer != nil {
		q.timer.Stop()
	}
	q.space.Broadcast()
	q.signal()
}

// newest is the position of everything appended so far.
func (q *queue) newest() agentkernel.Position {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.appended
}

// failure is the error that the store answers since a commit failed, nil if none did.
func (q *queue) failure() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.failed
}
