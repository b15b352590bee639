package sqlite

import (
	"context"

	"agentkernel"
)

// Programs that no process runs any more. An index of processes by program would find them at once, but each run would
// pay for it: one page more in its commit. So they are looked for among all processes while commits go on, and what
// those write meanwhile is noted.

const (
	programStep = 64   // programs that are dropped in one transaction
	processStep = 4096 // processes that are looked at with one connection before others may have it
)

// SweepPrograms removes the programs of nobody, and their blobs.
func (s *Store) SweepPrograms(ctx context.Context) (r agentkernel.Removed, err error) {
	err = s.dropStrays(ctx)
	for more := err == nil; more; {
		var swept agentkernel.Removed
		if swept, more, err = s.Sweep(ctx); err != nil {
			return r, err
		}
		r.Add(swept)
	}
	return r, err
}

func (s *Store) dropStrays(ctx context.Context) error {
	s.sweeping.Lock()
	defer s.sweeping.Unlock()
	if err := s.work(func(w *writer) error { w.taken = map[int64]bool{}; return nil }); err != nil {
		return err
	}
	strays, err := s.strayPrograms(ctx)
	for len(strays) > 0 && err == nil && ctx.Err() == nil {
		part := strays[:min(programStep, len(strays))]
		strays = strays[len(part):]
		err = s.work(func(w *writer) error {
			return w.transaction(s.queue, func() error { return w.dropPrograms(part) })
		})
	}
	if err == nil && ctx.Err() != nil {
		err = agentkernel.AsError(ctx.Err(), agentkernel.CodeCanceled, "store")
	}
	if stopped := s.work(func(w *writer) error { w.taken = nil; return nil }); err == nil {
		err = stopped
	}
	return err
}

// strayPrograms lists programs that no process ran when it was looked at. Processes that come while it looks may run
// them: the writer knows.
func (s *Store) strayPrograms(ctx context.Context) (strays []int64, err error) {
	used := map[int64]bool{}
	if err := s.eachProcess(ctx, func(program int64) { used[program] = true }); err != nil {
		return nil, err
	}
	err = s.inSteps(ctx, "SELECT id, id FROM programs WHERE id > ? ORDER BY id LIMIT ?", func(id int64) {
		if !used[id] {
			strays = append(strays, id)
		}
	})
	return strays, err
}

// eachProcess gives the program of each process.
func (s *Store) eachProcess(ctx context.Context, fn func(program int64)) error {
	return s.inSteps(ctx, "SELECT pid, program FROM processes WHERE pid > ? ORDER BY pid LIMIT ?", fn)
}

// inSteps gives the second column of a query, some rows at a time: it takes the first column of the last row, and how
// many rows.
func (s *Store) inSteps(ctx context.Context, query string, fn func(int64)) error {
	for last, n := int64(-1), processStep; n == processStep; {
		var values []int64
		next := last
		err := s.reads.do(ctx, func(c *conn) error {
			values = values[:0] // it may have begun before
			return c.query(func(r row) error {
				next = r.int(0)
				values = append(values, r.int(1))
				return nil
			}, query, last, int64(processStep))
		})
		if err != nil {
			return err
		}
		for _, v := range values {
			fn(v)
		}
		last, n = next, len(values)
	}
	return nil
}

// dropPrograms removes those of the programs that no process has taken since they were looked for.
func (w *writer) dropPrograms(ids []int64) error {
	for _, id := range ids {
		if w.taken[id] {
			continue
		}
		if err := w.dropProgram(id); err != nil {
			return err
		}
	}
	return nil
}

// dropProgram removes a program that no process runs any more, with the bases of images that it left behind.
func (w *writer) dropProgram(id int64) error {
	err := w.c.query(func(r row) error {
		w.seal.bases.remove(baseKey{id, r.text(0)})
		return nil
	}, "DELETE FROM image_bases WHERE program = ? AND NOT EXISTS (SELECT 1 FROM images WHERE base = image_bases.id) RETURNING fingerprint", id)
	if err != nil {
		return err
	}
	r, found, err := w.c.one(`DELETE FROM programs WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM image_bases WHERE program = ?1)
RETURNING sha256`, id)
	if err == nil && found {
		w.programs.forget(programSum(r.blob(0)), id)
	}
	return err
}

// forget makes a program unknown. If the transaction fails it is found in the database again.
func (x *programIndex) forget(sum programSum, id int64) {
	delete(x.ids, sum)
	if x.last.id == id {
		x.last.source, x.last.id = "", 0
	}
}
