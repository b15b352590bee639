// Package faulty wraps a store and makes it fail, or "crash", at the Nth operation, so that a test can walk
// through all the places where the disk or the kernel may die.
//
// It holds appended batches back until they are flushed: a crash can lose all that was not, which a store with
// a timer of its own would only do now and then. It must never hand anything to the inner store after a crash.
package faulty

import (
	"context"
	"errors"
	"sync"

	"agentkernel"
)

// ErrCrashed is what every operation answers from the crash on, unless Plan.Err says otherwise.
var ErrCrashed = errors.New("faulty: the kernel has crashed")

// Op is a kind of operation that is counted.
type Op string

// The operations. NewPID, Info and Close touch no disk and do not count.
const (
	Append Op = "append"
	Flush  Op = "flush"
	Read   Op = "read"
)

// Mode is what happens at the planned operation.
type Mode int

const (
	// Fail: the operation answers CodeStorage, and so does every later Append and Flush, as a store whose
	// disk is full. What was not flushed is lost. Later reads work and show what is durable.
	Fail Mode = iota
	// CrashBefore: the operation does not happen.
	CrashBefore
	// CrashAfter: the operation happens, but the caller never hears of it.
	CrashAfter
)

// Plan says what goes wrong and when. The zero plan lets everything through and only counts.
type Plan struct {
	At   int64 // the operation, counted from 1; 0: never
	Mode Mode
	// Counts says which operations count; nil: all.
	Counts func(Op) bool
	// Keep says how many of n batches that were appended and not flushed are durable after the crash, the
	// oldest first, as though a timer had come in time; nil: none. A failing store loses all.
	Keep func(n int) int
	Err  error // what a crashed store answers; nil: ErrCrashed
}

// Store is a store with a plan. Safe for concurrent use; operations run one after the other.
type Store struct {
	inner agentkernel.Store
	plan  Plan

	mu       sync.Mutex
	held     []held // appended, not handed over
	handed   agentkernel.Position
	appended agentkernel.Position
	count    int64
	dead     error // what Append and Flush answer since the fault
	crashed  bool
	tripped  chan struct{}
	fences
}

type held struct {
	batch   agentkernel.Batch
	pid     agentkernel.PID
	refused bool // its tree was fenced; what it had is gone
}

var _ agentkernel.Store = (*Store)(nil)

// Wrap puts a plan around a store. Close closes the inner store too.
func Wrap(inner agentkernel.Store, plan Plan) *Store {
	if plan.Err == nil {
		plan.Err = ErrCrashed
	}
	return &Store{inner: inner, plan: plan, tripped: make(chan struct{}), fences: newFences()}
}

// Operations is how many operations were counted so far. A first run with the zero plan says how far to loop.
func (s *Store) Operations() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}

// Tripped is closed when the planned operation has come.
func (s *Store) Tripped() <-chan struct{} { return s.tripped }

// Settle makes everything appended durable, as the timer of a real store does sooner or later. It is not
// counted; after the fault it does nothing.
func (s *Store) Settle(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead != nil {
		return nil
	}
	return s.hand(ctx, len(s.held))
}

// do counts an operation and runs it unless the plan says otherwise. The caller holds the lock.
func (s *Store) do(op Op, run func() error) error {
	if s.crashed || s.dead != nil && op != Read {
		return s.dead
	}
	if s.plan.Counts == nil || s.plan.Counts(op) {
		s.count++
		if s.count == s.plan.At {
			return s.trip(op, run)
		}
	}
	return run()
}

func (s *Store) trip(op Op, run func() error) error {
	defer close(s.tripped)
	if s.plan.Mode == Fail {
		s.dead = agentkernel.Errorf(agentkernel.CodeStorage, "store", "the disk failed as planned, at %s, operation %d", op, s.count).
			WithHint("free space, then: agentkernel recover")
		s.held = nil
		return s.dead
	}
	if s.plan.Mode == CrashAfter {
		if err := run(); err != nil {
			return errors.Join(s.crash(), err)
		}
	}
	return s.crash()
}

func (s *Store) crash() error {
	s.crashed, s.dead = true, s.plan.Err
	if s.plan.Keep != nil {
		if err := s.hand(context.Background(), min(s.plan.Keep(len(s.held)), len(s.held))); err != nil {
			return errors.Join(s.dead, err)
		}
	}
	s.held = nil
	return s.dead
}

// hand gives the oldest n held batches to the inner store and makes them durable.
func (s *Store) hand(ctx context.Context, n int) error {
	var last agentkernel.Position
	for i := range n {
		if s.held[i].refused {
			continue
		}
		pos, err := s.inner.Append(s.held[i].batch)
		if err != nil {
			s.drop(i)
			return err
		}
		last = pos
	}
	s.drop(n)
	if last == 0 {
		return nil
	}
	return s.inner.Flush(ctx, last)
}

func (s *Store) drop(n int) {
	s.held = append([]held(nil), s.held[n:]...)
	s.handed += agentkernel.Position(n)
}

// Info describes the inner store.
func (s *Store) Info() agentkernel.StoreInfo { return s.inner.Info() }

// NewPID reserves a PID.
func (s *Store) NewPID(ctx context.Context) (agentkernel.PID, error) { return s.inner.NewPID(ctx) }

// Append holds a batch back until it is flushed. What the inner store has against it shows in Flush.
func (s *Store) Append(b agentkernel.Batch) (pos agentkernel.Position, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err = s.do(Append, func() error {
		if err := s.refuses(&b); err != nil {
			return err
		}
		s.held = append(s.held, held{batch: b, pid: pidOf(b)})
		s.appended++
		pos = s.appended
		return nil
	})
	if err != nil {
		return 0, err
	}
	return pos, nil
}

func pidOf(b agentkernel.Batch) agentkernel.PID {
	switch {
	case len(b.Entries) > 0:
		return b.Entries[0].PID
	case b.Process != nil:
		return b.Process.PID
	case b.Image != nil:
		return b.Image.PID
	}
	return 0
}

// Flush hands over everything up to pos and makes it durable.
func (s *Store) Flush(ctx context.Context, pos agentkernel.Position) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.do(Flush, func() error {
		if pos > s.appended {
			return agentkernel.Errorf(agentkernel.CodeInvalid, "store", "flush of position %d, but only %d were appended", pos, s.appended)
		}
		if err := s.hand(ctx, max(0, int(pos-s.handed))); err != nil {
			return err
		}
		return s.fences.refused[pos]
	})
}

// Close closes the inner store, in every case. Before a fault it hands over what is held back.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.dead
	if err == nil {
		err = s.hand(context.Background(), len(s.held))
		s.dead = agentkernel.Errorf(agentkernel.CodeUnavailable, "store", "the store has been closed")
	}
	return errors.Join(err, s.inner.Close())
}
