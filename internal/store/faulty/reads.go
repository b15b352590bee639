package faulty

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"

	"agentkernel"
)

// Process reads a process's row, a held one first.
func (s *Store) Process(ctx context.Context, pid agentkernel.PID) (p agentkernel.ProcessRecord, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err = s.do(Read, func() (err error) {
		for _, b := range slices.Backward(s.heldOf(pid)) {
			if b.Process != nil {
				p = *b.Process
				return nil
			}
		}
		p, err = s.inner.Process(ctx, pid)
		return err
	})
	return p, err
}

func (s *Store) heldOf(pid agentkernel.PID) []agentkernel.Batch {
	var found []agentkernel.Batch
	for _, h := range s.held {
		if h.pid == pid {
			found = append(found, h.batch)
		}
	}
	return found
}

// Processes lists rows without program text, newest first.
func (s *Store) Processes(ctx context.Context, f agentkernel.Filter) (list []agentkernel.ProcessRecord, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err = s.do(Read, func() (err error) {
		list, err = s.rows(ctx, f)
		return err
	})
	return list, err
}

// Count says how many rows Processes would list without a limit.
func (s *Store) Count(ctx context.Context, f agentkernel.Filter) (n int, err error) {
	f.Limit = 0
	s.mu.Lock()
	defer s.mu.Unlock()
	err = s.do(Read, func() error {
		list, err := s.rows(ctx, f)
		n = len(list)
		return err
	})
	return n, err
}

// rows puts the held rows over those of the inner store; s.mu is held.
func (s *Store) rows(ctx context.Context, f agentkernel.Filter) (list []agentkernel.ProcessRecord, err error) {
	durable, err := s.inner.Processes(ctx, agentkernel.Filter{})
	if err != nil {
		return nil, err
	}
	rows := map[agentkernel.PID]agentkernel.ProcessRecord{}
	for _, p := range durable {
		rows[p.PID] = p
	}
	for _, h := range s.held {
		if h.batch.Process != nil {
			p := *h.batch.Process
			p.Spec.Program.Source, p.Spec.Program.Modules = "", nil
			rows[p.PID] = p
		}
	}
	owner, err := s.owner(ctx, f)
	if err != nil {
		return nil, err
	}
	for _, pid := range slices.Backward(slices.Sorted(maps.Keys(rows))) {
		if p := rows[pid]; (f.Key == "" || pid == owner) && selects(f, p) && (f.Limit <= 0 || len(list) < f.Limit) {
			list = append(list, p)
		}
	}
	return list, nil
}

func selects(f agentkernel.Filter, p agentkernel.ProcessRecord) bool {
	return (f.Namespace == "" || p.Namespace == f.Namespace) && (f.Parent == 0 || p.Parent == f.Parent) &&
		(!f.Unfinished || !p.State.Terminal()) && (!f.Active || !p.State.Terminal() && p.Parked == nil) && (f.Before == 0 || p.PID < f.Before)
}

// Due lists the parked processes that have to be woken first.
func (s *Store) Due(ctx context.Context, kernel int64, limit int) (list []agentkernel.Due, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err = s.do(Read, func() error {
		rows, err := s.rows(ctx, agentkernel.Filter{Unfinished: true})
		for _, p := range slices.Backward(rows) {
			if p.Parked != nil && !p.Parked.Until.IsZero() && (kernel == 0 || p.Parked.Kernel == kernel) {
				list = append(list, agentkernel.Due{PID: p.PID, At: p.Parked.Until})
			}
		}
		slices.SortStableFunc(list, func(a, b agentkernel.Due) int { return a.At.Compare(b.At) })
		list = list[:min(limit, len(list))]
		return err
	})
	return list, err
}

// Inbox reads what a process has been sent and has not taken.
func (s *Store) Inbox(ctx context.Context, pid agentkernel.PID) (list []agentkernel.Post, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err = s.do(Read, func() error {
		list, err = s.inner.Inbox(ctx, pid)
		for _, h := range s.held {
			for _, p := range h.batch.Posts {
				if p.To == pid {
					list = append(list, p)
				}
			}
			if h.pid == pid {
				list = slices.DeleteFunc(list, func(p agentkernel.Post) bool { return slices.Contains(h.batch.Took, p.PostID) })
			}
		}
		return err
	})
	slices.SortStableFunc(list, func(a, b agentkernel.Post) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), a.At.Compare(b.At))
	})
	return list, err
}

// Waiting counts what of a kind Inbox would read.
func (s *Store) Waiting(ctx context.Context, pid agentkernel.PID, kind string) (n int, err error) {
	list, err := s.Inbox(ctx, pid)
	for i := range list {
		if list[i].Kind == kind {
			n++
		}
	}
	return n, err
}

// Posted lists the unfinished processes that have something in their inboxes.
func (s *Store) Posted(ctx context.Context) ([]agentkernel.PID, error) {
	rows, err := s.Processes(ctx, agentkernel.Filter{Unfinished: true})
	var found []agentkernel.PID
	for _, p := range slices.Backward(rows) {
		list, ierr := s.Inbox(ctx, p.PID)
		if err = cmp.Or(err, ierr); len(list) > 0 {
			found = append(found, p.PID)
		}
	}
	return found, err
}

// ByKey finds the process that was created with an idempotency key.
func (s *Store) ByKey(ctx context.Context, namespace, key string) (pid agentkernel.PID, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err = s.do(Read, func() (err error) {
		pid, err = s.byKey(ctx, namespace, key)
		return err
	})
	return pid, err
}

// byKey is ByKey; s.mu is held.
func (s *Store) byKey(ctx context.Context, namespace, key string) (agentkernel.PID, error) {
	for _, h := range s.held {
		if p := h.batch.Process; p != nil && p.Namespace == namespace && p.Spec.IdempotencyKey == key {
			return p.PID, nil
		}
		if k := h.batch.Key; k != nil && *k == (agentkernel.Key{Namespace: namespace, Name: key}) {
			return h.batch.Entries[0].PID, nil
		}
	}
	return s.inner.ByKey(ctx, namespace, key)
}

// owner is the process that has the key of a filter; 0: none. s.mu is held.
func (s *Store) owner(ctx context.Context, f agentkernel.Filter) (agentkernel.PID, error) {
	if f.Key == "" {
		return 0, nil
	}
	pid, err := s.byKey(ctx, f.Namespace, f.Key)
	if agentkernel.CodeOf(err) == agentkernel.CodeNotFound {
		err = nil
	}
	return pid, err
}

// Entries reads a journal from seq on.
func (s *Store) Entries(ctx context.Context, pid agentkernel.PID, from int64, limit int) (list []agentkernel.Entry, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err = s.do(Read, func() (err error) {
		if list, err = s.inner.Entries(ctx, pid, from, limit); err != nil {
			return err
		}
		for _, b := range s.heldOf(pid) {
			for _, e := range b.Entries {
				if e.Seq >= from && (limit <= 0 || len(list) < limit) {
					list = append(list, e)
				}
			}
		}
		return nil
	})
	return list, err
}

// Image gives the newest image of a process.
func (s *Store) Image(ctx context.Context, pid agentkernel.PID) (im agentkernel.Image, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err = s.do(Read, func() (err error) {
		for _, b := range slices.Backward(s.heldOf(pid)) {
			switch {
			case b.Image == nil:
			case len(b.Image.Bytes) == 0:
				return agentkernel.Errorf(agentkernel.CodeNotFound, "store", "there is no image of process %d", pid)
			default:
				im = *b.Image
				return nil
			}
		}
		im, err = s.inner.Image(ctx, pid)
		return err
	})
	return im, err
}

// SmallState reads a working set that is not larger than that, and its size.
func (s *Store) SmallState(ctx context.Context, pid agentkernel.PID, atMost int64) (state map[string]json.RawMessage, size int64, err error) {
	if state, err = s.State(ctx, pid); err == nil {
		state, size = agentkernel.SmallState(state, atMost)
	}
	return state, size, err
}

// State reads the whole working set of a process.
func (s *Store) State(ctx context.Context, pid agentkernel.PID) (state map[string]json.RawMessage, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err = s.do(Read, func() (err error) {
		if state, err = s.inner.State(ctx, pid); err != nil {
			return err
		}
		for _, b := range s.heldOf(pid) {
			for k, v := range b.State {
				if len(v) == 0 {
					delete(state, k)
				} else {
					state[k] = v
				}
			}
		}
		return nil
	})
	return state, err
}

// Holds reads what stands still.
func (s *Store) Holds(ctx context.Context) (holds []agentkernel.Hold, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err = s.do(Read, func() (err error) {
		holds, err = s.inner.Holds(ctx)
		return err
	})
	return holds, err
}

// SetHolds replaces what stands still, durably.
func (s *Store) SetHolds(ctx context.Context, holds []agentkernel.Hold) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.do(Flush, func() error { return s.inner.SetHolds(ctx, holds) })
}
