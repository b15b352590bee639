package sqlite

import "agentkernel"

// job is work on the connection that writes which is no batch: a step of housekeeping. The writer's goroutine
// does one at a time, and commits what waits before the next.
type job struct {
	do   func(*writer) error
	done chan error // capacity 1, answered once
}

// work has do run on the connection that writes, and waits for it. It does not look at a context: a step takes
// milliseconds, and one that was begun is not broken off.
func (s *Store) work(do func(*writer) error) error {
	j := &job{do, make(chan error, 1)}
	if err := s.queue.give(j); err != nil {
		return err
	}
	return <-j.done
}

func (q *queue) give(j *job) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.unusable(); err != nil {
		return err
	}
	q.jobs = append(q.jobs, j)
	q.signal()
	return nil
}

// nextJob takes the oldest job; nil: there is none. A failed store does none any more.
func (q *queue) nextJob() *job {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.failed != nil {
		q.refuseJobs(q.failed)
	}
	if len(q.jobs) == 0 {
		return nil
	}
	j := q.jobs[0]
	q.jobs = q.jobs[1:]
	return j
}

// refuseJobs answers those who wait for a job that will not be done; q.mu is held.
func (q *queue) refuseJobs(err error) {
	for _, j := range q.jobs {
		j.done <- err
	}
	q.jobs = nil
}

// finished says whether the queue was closed and is empty; what was still to be done besides is refused.
func (q *queue) finished() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed || q.uncommitted() && q.failed == nil {
		return false
	}
	q.refuseJobs(errClosed())
	return true
}

// doJob does the oldest job. Only whoever has the claim may call it.
func (w *writer) doJob(q *queue) {
	j := q.nextJob()
	if j == nil {
		return
	}
	if err := w.unstage(q); err != nil {
		j.done <- err
		return
	}
	j.done <- explain(w.path, j.do(w))
}

// transaction runs do as one transaction. If do fails, nothing has happened. If the commit does, nobody knows, and
// the store must not write any more: see queue.fail.
func (w *writer) transaction(q *queue, do func() error) error {
	if err := w.c.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	if err := do(); err != nil {
		_ = w.c.script("ROLLBACK") // the first error says what happened
		return err
	}
	err := w.c.exec("COMMIT")
	if err == nil {
		return nil
	}
	_ = w.c.script("ROLLBACK")
	e := failed(w.path, err)
	w.log.Error("the store failed; nothing more is written", "error", e.Error(), "hint", e.Hint)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.fail(e)
	return e
}

// dropped makes the queue forget what it knows of processes that are not in the database any more.
func (q *queue) dropped(pids []agentkernel.PID, keys []agentkernel.Key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, pid := range pids {
		delete(q.tails, pid)
		delete(q.ends, pid)
		q.images.put(&agentkernel.Image{PID: pid}) // an empty one deletes
	}
	for _, k := range keys {
		delete(q.keys, k)
	}
	q.forgot++ // what is being read from the database at this moment does not count
}

// settled says whether everything appended of a process is durable.
func (q *queue) settled(pid agentkernel.PID) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.tails[pid].pos <= q.durable
}
