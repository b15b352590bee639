package sqlite

import (
	"context"
	"slices"
	"time"

	"agentkernel"
)

// How processes are forgotten. Forget takes away rows and images and notes the PIDs; from then on the process is not
// there. Its journal, unless it is short, and its working set are left in the table leftovers, and Sweep removes them bit by
// bit. Programs that nobody runs any more SweepPrograms removes. Blobs lose their references by
// triggers, whoever deletes a row; Sweep removes those that have none. Each step is one transaction, so that a crash
// leaves nothing half done.

// Lineages reports all processes in the order of their PIDs.
func (s *Store) Lineages(ctx context.Context, fn func(agentkernel.Lineage) error) error {
	if err := s.flushAll(ctx); err != nil {
		return err
	}
	return s.reads.do(ctx, func(c *conn) error {
		return c.query(func(r row) error {
			if err := ctx.Err(); err != nil {
				return agentkernel.AsError(err, agentkernel.CodeCanceled, "store")
			}
			k := agentkernel.Lineage{PID: agentkernel.PID(r.int(0)), Parent: agentkernel.PID(r.int(1)), Past: agentkernel.PID(r.int(2)),
				Namespace: r.text(3), State: agentkernel.State(r.text(4)), ExitCode: int(r.int(5))}
			if !r.isNull(6) {
				k.Ended = microTime(r.int(6))
			}
			return fn(k)
		}, `SELECT pid, parent, CASE WHEN instr(spec, '"past":') THEN spec ->> '$.past.pid' END, namespace, state, exit_code, ended
FROM processes ORDER BY pid`)
	})
}

// Forget removes processes that have ended, in one step.
func (s *Store) Forget(ctx context.Context, pids []agentkernel.PID, at time.Time) (r agentkernel.Removed, err error) {
	if err := ctx.Err(); err != nil {
		return r, agentkernel.AsError(err, agentkernel.CodeCanceled, "store")
	}
	pids = slices.Clone(pids)
	slices.Sort(pids)
	err = s.work(func(w *writer) error {
		f := forgetting{w: w, q: s.queue}
		if err := w.transaction(s.queue, func() error { return f.all(pids, at) }); err != nil {
			return err
		}
		s.queue.dropped(f.gone, f.keys)
		r.Processes, r.Entries = int64(len(f.gone)), f.entries
		return nil
	})
	return r, err
}

// forgetting is one call of Forget.
type forgetting struct {
	w    *writer
	q    *queue
	gone []agentkernel.PID
	keys []agentkernel.Key

	entries int64 // in the rows of the processes
}

func (f *forgetting) all(pids []agentkernel.PID, at time.Time) error {
	for _, pid := range pids {
		if err := f.one(pid); err != nil {
			return err
		}
	}
	return f.w.notePruned(f.gone, at)
}

// The conditions repeat what the caller has found out: no caller can take a living process away.
const deleteProcess = `DELETE FROM processes WHERE pid = ?1 AND state <> 'unfinished'
  AND NOT EXISTS (SELECT 1 FROM processes c WHERE c.parent = ?1 AND c.state = 'unfinished')
RETURNING namespace, idempotency_key, ` + shortLength

func (f *forgetting) one(pid agentkernel.PID) error {
	if !f.q.settled(pid) {
		return nil
	}
	r, found, err := f.w.c.one(deleteProcess, int64(pid))
	if err != nil || !found {
		return err
	}
	f.gone = append(f.gone, pid)
	f.entries += r.int(2)
	if !r.isNull(1) {
		f.keys = append(f.keys, agentkernel.Key{Namespace: r.text(0), Name: r.text(1)})
	}
	err = f.w.c.query(func(r row) error {
		f.keys = append(f.keys, agentkernel.Key{Namespace: r.text(0), Name: r.text(1)})
		return nil
	}, "DELETE FROM keys WHERE pid = ? RETURNING namespace, key", int64(pid))
	if err != nil {
		return err
	}
	f.w.texts.kept.remove(pid)
	if err := f.w.emptyInbox(pid); err != nil {
		return err
	}
	if err := f.w.deleteImage(pid); err != nil {
		return err
	}
	return f.w.c.exec("INSERT OR IGNORE INTO leftovers(pid) VALUES (?)", int64(pid))
}

// notePruned remembers, in as few ranges as possible, which PIDs were forgotten, and when. pids are sorted.
func (w *writer) notePruned(pids []agentkernel.PID, at time.Time) error {
	if len(pids) == 0 {
		return nil
	}
	first, last := int64(pids[0]), int64(pids[0])
	r, found, err := w.c.one("SELECT first, last, at FROM pruned WHERE first < ? ORDER BY first DESC LIMIT 1", first)
	if err != nil {
		return err
	}
	if found && r.int(1) == first-1 && r.int(2) == at.UnixMicro() {
		first = r.int(0)
	}
	put := func() error {
		return w.c.exec("INSERT INTO pruned(first, last, at) VALUES (?,?,?) ON CONFLICT(first) DO UPDATE SET last = excluded.last", first, last, at.UnixMicro())
	}
	for _, pid := range pids[1:] {
		if int64(pid) != last+1 {
			if err := put(); err != nil {
				return err
			}
			first = int64(pid)
		}
		last = int64(pid)
	}
	return put()
}

// absent is the error for a process that is not in the database.
func (c *conn) absent(pid agentkernel.PID) error {
	r, found, err := c.one("SELECT last, at FROM pruned WHERE first <= ? ORDER BY first DESC LIMIT 1", int64(pid))
	switch {
	case err != nil:
		return err
	case found && r.int(0) >= int64(pid):
		return agentkernel.Errorf(agentkernel.CodeNotFound, agentkernel.OpPruned, "process %d was pruned on %s; it had ended, and its journal went with it",
			pid, microTime(r.int(1)).Format("2006-01-02 at 15:04:05 UTC")).WithPID(pid).WithHint("agentkernel ps --all lists those that are there")
	}
	return notFound(pid)
}
