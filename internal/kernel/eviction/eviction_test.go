package eviction_test

import (
	"testing"

	"agentkernel"
	"agentkernel/internal/kernel/eviction"
)

func TestBefore(t *testing.T) {
	want := []eviction.Rank{ // each goes before all behind it
		{Images: true, LastRun: 1, PID: 9},
		{Images: true, LastRun: 2, PID: 7},
		{Images: true, LastRun: 2, PID: 8},
		{Images: true, Ready: true, LastRun: 4, PID: 5},
		{Images: true, Ready: true, LastRun: 3, PID: 6},
		{LastRun: 1, PID: 1},
	}
	for i, a := range want {
		for j, b := range want {
			if a.Before(b) != (i < j) {
				t.Errorf("%+v before %+v: %t", a, b, a.Before(b))
			}
		}
	}
}

// TestResidents: the one that goes first of those that may is taken, unless it may not any more; one at a time looks for idle ones.
func TestResidents(t *testing.T) {
	var r eviction.Residents[int64]
	if r.Look() || r.Count() != 0 {
		t.Error("somebody looks for idle ones, and there are none")
	}
	for pid := range int64(4) {
		r.Add(agentkernel.PID(pid), pid)
	}
	r.Remove(3, func() bool { return false })
	r.Remove(2, nil)
	rank := func(p int64) (eviction.Rank, bool) { return eviction.Rank{LastRun: p}, p != 0 }
	if p, ok := r.First(rank, func(int64) bool { return true }); p != 1 || !ok {
		t.Errorf("%d goes first: %t", p, ok)
	}
	if _, ok := r.First(rank, func(int64) bool { return false }); ok {
		t.Error("it went, and may not any more")
	}
	if r.Count() != 3 || !r.Look() || r.Look() {
		t.Errorf("%d are left, or two look", r.Count())
	}
	if r.Looked(); !r.Look() {
		t.Error("nobody looks any more")
	}
}

// TestTwoTakeTheFirst: where somebody else takes the one that goes first, the next one goes.
func TestTwoTakeTheFirst(t *testing.T) {
	var r eviction.Residents[agentkernel.PID]
	for pid := agentkernel.PID(1); pid <= 3; pid++ {
		r.Add(pid, pid)
	}
	owned := map[agentkernel.PID]bool{}
	rank := func(p agentkernel.PID) (eviction.Rank, bool) { return eviction.Rank{PID: p}, !owned[p] }
	take := func(p agentkernel.PID) bool {
		ok := !owned[p]
		owned[p] = true
		return ok
	}
	first := true
	p, ok := r.First(rank, func(p agentkernel.PID) bool {
		if first { // the other is a moment earlier
			first = false
			r.First(rank, take)
		}
		return take(p)
	})
	if !ok || p != 2 {
		t.Errorf("%d %t: the second was to go", p, ok)
	}
}
