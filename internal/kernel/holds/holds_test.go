package holds

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"agentkernel"
)

type ram struct {
	holds []agentkernel.Hold
	err   error
}

func (r *ram) Holds(context.Context) ([]agentkernel.Hold, error) { return r.holds, nil }

func (r *ram) SetHolds(_ context.Context, holds []agentkernel.Hold) error {
	if r.err == nil {
		r.holds = slices.Clone(holds)
	}
	return r.err
}

// all live.
func all(context.Context, agentkernel.PID) error { return nil }

func TestSet(t *testing.T) {
	store := &ram{}
	s, err := Read(t.Context(), store, time.Now, all)
	if err != nil || s.Kernel() != nil || s.Over(1, "a", nil) != nil {
		t.Fatalf("%+v, %v", s.All(), err)
	}
	for _, h := range []agentkernel.Hold{{Tree: 3}, {Namespace: "a", Why: "x"}} {
		if err := s.Add(t.Context(), h); err != nil {
			t.Fatal(err)
		}
		if err := s.Add(t.Context(), h); agentkernel.CodeOf(err) != agentkernel.CodeConflict {
			t.Errorf("twice: %v", err)
		}
	}
	for _, c := range []struct {
		pid       agentkernel.PID
		namespace string
		ancestors []agentkernel.PID
		held      bool
	}{{1, "a", nil, true}, {3, "b", nil, true}, {4, "b", []agentkernel.PID{1, 3}, true}, {4, "b", []agentkernel.PID{1}, false}} {
		if h := s.Over(c.pid, c.namespace, c.ancestors); (h != nil) != c.held {
			t.Errorf("%+v: %+v", c, h)
		}
	}
	if s.Kernel() != nil {
		t.Error("nothing is over the kernel")
	}
	store.err = errors.New("the disk is full")
	if s.Add(t.Context(), agentkernel.Hold{}) == nil || s.Remove(t.Context(), agentkernel.Hold{Tree: 3}) == nil || s.Kernel() != nil || len(s.All()) != 2 {
		t.Errorf("what is not stored holds, or holds no longer: %+v", s.All())
	}
	store.err = nil
	again, err := Read(t.Context(), store, time.Now, all)
	if err != nil || len(again.All()) != 2 || again.Over(1, "a", nil).Why != "x" {
		t.Errorf("the next kernel has %+v, %v", again.All(), err)
	}
	if err := again.Remove(t.Context(), agentkernel.Hold{Namespace: "a"}); err != nil || again.Over(1, "a", nil) != nil {
		t.Error(err)
	}
}

// However many trees are held, the kernel and a namespace can be, and trees that have ended need no room.
func TestThereAreNotTooMany(t *testing.T) {
	ended := map[agentkernel.PID]bool{}
	lives := func(_ context.Context, pid agentkernel.PID) error {
		if ended[pid] {
			return agentkernel.Errorf(agentkernel.CodeConflict, "halt", "it has ended")
		}
		return nil
	}
	s, err := Read(t.Context(), &ram{}, time.Now, lives)
	if err != nil {
		t.Fatal(err)
	}
	for i := range most + 1 {
		err := s.Add(t.Context(), agentkernel.Hold{Tree: agentkernel.PID(i + 1)})
		if full := i == most; full != (agentkernel.CodeOf(err) == agentkernel.CodeLimit) || !full && err != nil {
			t.Fatalf("hold %d: %v", i+1, err)
		}
	}
	for _, h := range []agentkernel.Hold{{}, {Namespace: "a"}} {
		if err := s.Add(t.Context(), h); err != nil {
			t.Errorf("%s: %v", h.Over(), err)
		}
	}
	ended[3], ended[most] = true, true
	if err := s.Add(t.Context(), agentkernel.Hold{Tree: most}); agentkernel.CodeOf(err) != agentkernel.CodeConflict {
		t.Error(err)
	}
	if err := s.Add(t.Context(), agentkernel.Hold{Tree: most + 1}); err != nil {
		t.Error(err)
	}
	left := len(s.All())
	ended[4] = true
	if living, err := s.Living(t.Context()); err != nil || len(living) != left-1 || len(s.All()) != left-1 {
		t.Errorf("%d of %d are left, %v", len(living), left, err)
	}
}
