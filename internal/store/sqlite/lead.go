package sqlite

import (
	"context"
	"errors"

	"agentkernel"
)

// Who commits. The connection that writes belongs to whoever has claimed it: the caller of Flush if nobody
// has, so that a lone caller neither waits for another goroutine to be woken nor to be woken by it, which
// costs more than writing the rows; otherwise the writer's goroutine, which goes on for as long as others
// wait, and does what is no commit (timer, close, unused blobs, jobs).

// claim makes the caller the one who commits everything up to pos. It says no when somebody does already,
// and when there is nothing to commit or no way to.
func (q *queue) claim(pos agentkernel.Position) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.claimed || pos <= q.durable || pos > q.appended || q.unusable() != nil {
		return false
	}
	q.claimed = true
	q.wanted = max(q.wanted, pos)
	return true
}

// claimAny makes the writer's goroutine the one who commits, unless somebody does; release will wake it.
func (q *queue) claimAny() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.claimed {
		return false
	}
	q.claimed = true
	return true
}

// claimToStage makes the caller the one who writes, if there is something to commit and nobody waits for it.
func (q *queue) claimToStage() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.claimed || q.wanted > q.durable || !q.uncommitted() || len(q.jobs) > 0 || q.unusable() != nil {
		return false
	}
	q.claimed = true
	return true
}

// release ends a claim and says whether everything up to pos is durable. What came up meanwhile is left to
// the writer's goroutine; chores says that there is work for it besides.
func (q *queue) release(pos agentkernel.Position, chores bool) (durable bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.claimed = false
	if chores || q.closed || len(q.jobs) > 0 || q.uncommitted() && q.wanted > q.durable {
		q.signal()
	}
	return q.failed == nil && pos <= q.durable
}

// Flush waits until everything up to pos is durable. When ctx ends it returns CodeCanceled, and the
// batches become durable all the same; a commit that the caller itself has begun is not broken off.
func (s *Store) Flush(ctx context.Context, pos agentkernel.Position) error {
	if ctx.Err() == nil && s.queue.claim(pos) && s.lead(pos) {
		return nil
	}
	return s.queue.flush(ctx, pos)
}

// lead commits one group and gives the claim back. Not durable: the group was full before pos, or failed.
func (s *Store) lead(pos agentkernel.Position) (durable bool) {
	defer func() { durable = s.queue.release(pos, s.writer.sweep) }()
	s.writer.turn(s.queue)
	return false
}

// Stage begins the next commit; see fastpath.Stager.
func (s *Store) Stage() {
	if !s.queue.claimToStage() {
		return
	}
	defer s.queue.release(0, s.writer.sweep)
	s.writer.answering(s.queue, s.writer.begin, func() {})
}

// run serves the queue until it is closed and empty. It never returns while somebody could still be given
// a position, and keeps its last claim for ever: the connection is closed after it.
func (w *writer) run(q *queue) {
	for range q.wake {
		if !q.claimAny() {
			continue
		}
		for w.turn(q) {
		}
		if w.sweep && w.unstage(q) == nil {
			w.removeUnusedBlobs(q)
		}
		w.doJob(q)
		if q.finished() {
			return
		}
		q.release(0, w.sweep && q.failure() == nil)
	}
}

var errBrokenOff = errors.New("a commit was broken off")

// turn commits the next group, if anybody waits for one, and answers those who do. It says whether there may
// be another. Only whoever has the claim may call it.
func (w *writer) turn(q *queue) (more bool) {
	group := q.take()
	if group == nil {
		return false
	}
	return w.answering(q, func() error { return w.commit(group) }, func() { q.done(nil) })
}

// unstage ends the commit that Stage has begun: other work needs the connection. It gives the store's failure.
func (w *writer) unstage(q *queue) error {
	for w.open && q.failure() == nil {
		q.wantAll()
		w.turn(q)
	}
	return q.failure()
}

// answering does work on the connection and says whether it succeeded. If it did not, the store has failed.
func (w *writer) answering(q *queue, work func() error, done func()) bool {
	err := errBrokenOff // if work panics, nobody may take the connection for sound
	defer func() {
		if err == nil {
			done()
			return
		}
		e := failed(w.path, err)
		w.log.Error("the store failed; nothing more is written", "error", e.Error(), "hint", e.Hint)
		q.done(e)
	}()
	err = work()
	return err == nil
}
