// Package holds is the set of what stands still. It says which hold is over a process, and never stops or starts anything: that is
// the kernel's.
package holds

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"agentkernel"
)

// most is how many holds there may be over trees, and how many over namespaces: each new call looks at all of them. One over the
// kernel finds room always.
const most = 1000

// Store keeps the set for the next kernel.
type Store interface {
	Holds(ctx context.Context) ([]agentkernel.Hold, error)
	SetHolds(ctx context.Context, holds []agentkernel.Hold) error
}

// Lives refuses a process that has ended with all below it (CodeConflict), or never was (CodeNotFound).
type Lives func(ctx context.Context, pid agentkernel.PID) error

// Set is what stands still. The zero value is not usable; see Read.
type Set struct {
	store Store
	now   func() time.Time
	lives Lives

	change sync.Mutex // held by whoever changes the set, over its write
	all    atomic.Pointer[[]agentkernel.Hold]
}

// Read gives the set as an earlier kernel has left it.
func Read(ctx context.Context, store Store, now func() time.Time, lives Lives) (*Set, error) {
	all, err := store.Holds(ctx)
	if err != nil {
		return nil, err
	}
	s := &Set{store: store, now: now, lives: lives}
	s.all.Store(&all)
	return s, nil
}

// All are the holds, those over trees last.
func (s *Set) All() []agentkernel.Hold { return *s.all.Load() }

// Living are All, without those over trees of which nothing is left: they are taken out.
func (s *Set) Living(ctx context.Context) ([]agentkernel.Hold, error) {
	s.change.Lock()
	defer s.change.Unlock()
	return s.living(ctx)
}

// living is Living; s.change is held.
func (s *Set) living(ctx context.Context) ([]agentkernel.Hold, error) {
	all := s.All()
	var failed error
	next := slices.DeleteFunc(slices.Clone(all), func(h agentkernel.Hold) bool {
		if h.Tree == 0 {
			return false
		}
		err := s.lives(ctx, h.Tree)
		gone := agentkernel.CodeOf(err) == agentkernel.CodeConflict || agentkernel.CodeOf(err) == agentkernel.CodeNotFound
		if err != nil && !gone {
			failed = err
		}
		return gone
	})
	if failed != nil || len(next) == len(all) {
		return all, failed
	}
	return next, s.set(ctx, next)
}

// Over gives the hold because of which a process stands still; nil: there is none.
func (s *Set) Over(pid agentkernel.PID, namespace string, ancestors []agentkernel.PID) *agentkernel.Hold {
	all := s.All()
	for i := range all {
		if all[i].Covers(pid, namespace, ancestors) {
			return &all[i]
		}
	}
	return nil
}

// Refuse refuses to begin a process where a hold is over it; nil: none is.
func (s *Set) Refuse(op, namespace string, ancestors []agentkernel.PID) error {
	if h := s.Over(0, namespace, ancestors); h != nil {
		return h.Halted(op)
	}
	return nil
}

// Kernel gives the hold that is over all; nil: there is none.
func (s *Set) Kernel() *agentkernel.Hold { return s.Over(0, "", nil) }

// Add puts a hold into the set, durably. CodeConflict: it is there, or the tree has ended; CodeNotFound: there is no such tree.
func (s *Set) Add(ctx context.Context, h agentkernel.Hold) error {
	s.change.Lock()
	defer s.change.Unlock()
	if h.Tree != 0 {
		if err := s.lives(ctx, h.Tree); err != nil {
			return err
		}
	}
	all := s.All()
	if i := slices.IndexFunc(all, func(x agentkernel.Hold) bool { return h.Same(&x) }); i >= 0 {
		e := all[i].Halted("halt")
		e.Code = agentkernel.CodeConflict
		return e
	}
	if s.full(&h) {
		var err error
		if all, err = s.living(ctx); err != nil {
			return err
		}
	}
	if s.full(&h) {
		return agentkernel.Errorf(agentkernel.CodeLimit, "halt", "%d holds are there, which is the limit", most).WithHint("end some of them; a hold over a namespace is over many processes")
	}
	h.Since = s.now().Truncate(time.Microsecond)
	next := append(slices.Clone(all), h)
	slices.SortFunc(next, func(a, b agentkernel.Hold) int {
		return cmp.Or(cmp.Compare(a.Tree, b.Tree), cmp.Compare(a.Namespace, b.Namespace))
	})
	return s.set(ctx, next)
}

// full says whether there are too many holds of the kind of this one.
func (s *Set) full(h *agentkernel.Hold) bool {
	n := 0
	for _, x := range s.All() {
		if (x.Tree != 0) == (h.Tree != 0) && (x.Namespace != "") == (h.Namespace != "") {
			n++
		}
	}
	return n >= most
}

// Remove takes a hold out of the set, durably. CodeConflict: it is not there.
func (s *Set) Remove(ctx context.Context, h agentkernel.Hold) error {
	s.change.Lock()
	defer s.change.Unlock()
	all := s.All()
	i := slices.IndexFunc(all, func(x agentkernel.Hold) bool { return h.Same(&x) })
	if i < 0 {
		return agentkernel.Errorf(agentkernel.CodeConflict, "thaw", "%s is not halted", h.Over())
	}
	return s.set(ctx, slices.Delete(slices.Clone(all), i, i+1))
}

// set replaces the set; s.change is held.
func (s *Set) set(ctx context.Context, next []agentkernel.Hold) error {
	if err := s.store.SetHolds(context.WithoutCancel(ctx), next); err != nil {
		return err
	}
	s.all.Store(&next)
	return nil
}
