package rows

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"agentkernel"
)

// TestClaimsAreServedInOrder: of those who want a process that somebody reads, one at a time reads it next, in the order in which
// they came; once it is there, all have it, and none is forgotten who did not want to wait any longer.
func TestClaimsAreServedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pid = agentkernel.PID(7)
		r := New[string](0)
		ctx, cancel := context.WithCancel(t.Context())
		var order, have, left []int
		done := make(chan func())
		claim := func(i int, ctx context.Context) {
			go func() {
				p, first, err := r.Claim(ctx, pid)
				done <- func() {
					switch {
					case err != nil:
						left = append(left, i)
					case first:
						order = append(order, i)
					case p == "seven":
						have = append(have, i)
					}
				}
			}()
			synctest.Wait()
		}
		if _, first, err := r.Claim(ctx, pid); !first || err != nil {
			t.Fatalf("the first claim: first %t, %v", first, err)
		}
		for i := range 6 {
			if i == 1 {
				claim(i, ctx)
			} else {
				claim(i, t.Context())
			}
		}
		cancel()
		(<-done)()
		for range 3 { // nothing was found: the next one looks
			r.Loaded(pid)
			(<-done)()
		}
		if !slices.Equal(order, []int{0, 2, 3}) || !slices.Equal(left, []int{1}) || have != nil {
			t.Errorf("read by %v, left %v, have it %v", order, left, have)
		}
		if !r.Adopt(pid, "seven", false) {
			t.Fatal("no process is let in")
		}
		r.Loaded(pid)
		(<-done)()
		(<-done)()
		slices.Sort(have)
		if !slices.Equal(have, []int{4, 5}) || r.pins[pid] != 3 || len(r.loading) != 0 {
			t.Errorf("have it %v, %d pins, %d claims", have, r.pins[pid], len(r.loading))
		}
	})
}

// TestAClaimGivenToWhoLeft: a caller who leaves in the moment in which it becomes his turn hands it on.
func TestAClaimGivenToWhoLeft(t *testing.T) {
	const pid = agentkernel.PID(7)
	r := New[string](0)
	if _, first, _ := r.Claim(t.Context(), pid); !first {
		t.Fatal("not the first")
	}
	gone, stays := make(chan string, 1), make(chan string, 1)
	r.loading[pid] = append(r.loading[pid], gone, stays)
	r.Loaded(pid)
	r.leave(pid, gone)
	if p, ok := <-stays; p != "" || !ok {
		t.Errorf("the next one was given %v", p)
	}
	r.Loaded(pid)
	if len(r.loading) != 0 {
		t.Errorf("%d claims are left", len(r.loading))
	}
}

func enter(t *testing.T, r *Rows[string], pid agentkernel.PID, p string) {
	t.Helper()
	if err := r.Enter(pid, p, func() {}); err != nil {
		t.Fatal(err)
	}
}

// TestWhatIsUsedStays: a process goes to sleep only if nobody uses it, and it is listed again for that when the last user is gone.
func TestWhatIsUsedStays(t *testing.T) {
	r := New[string](0)
	enter(t, r, 1, "one")
	enter(t, r, 2, "two")
	if p, first, err := r.Claim(t.Context(), 1); p != "one" || first || err != nil {
		t.Fatalf("claimed %q, %t, %v", p, first, err)
	}
	r.Parked(1, "one")
	r.Parked(2, "another one")
	yes := func(string) bool { return true }
	if p := r.Surplus(0, yes); p != "" {
		t.Errorf("%q is to be unloaded, which is in use or was never parked", p)
	}
	if r.Evict(1, func() bool { return true }) {
		t.Error("it is in use, and went")
	}
	r.Unpin(1, "one")
	if p := r.Surplus(1, yes); p != "" {
		t.Errorf("%q is to be unloaded, and no more are listed than may be", p)
	}
	if p := r.Surplus(0, yes); p != "one" {
		t.Errorf("%q is to be unloaded", p)
	}
	if r.Evict(1, func() bool { return false }) || !r.Evict(1, func() bool { return true }) || r.Lookup(1) != "" {
		t.Error("one that may not go went, or one that may did not")
	}
	if loaded, asleep, _ := r.Counts(); loaded != 1 || asleep != 1 {
		t.Errorf("%d are in memory, %d asleep", loaded, asleep)
	}
	if !r.Adopt(1, "one", true) {
		t.Error("no process is let in")
	}
	if loaded, asleep, _ := r.Counts(); loaded != 2 || asleep != 0 {
		t.Errorf("it is read back: %d are in memory, %d asleep", loaded, asleep)
	}
	r.Unpin(1, "one")
	r.Remove(1)
	if p := r.Surplus(0, yes); p != "" || r.Lookup(1) != "" {
		t.Errorf("%q is to be unloaded, which has ended", p)
	}
}

// TestThoseOfEarlierKernels are counted until this one has taken them up.
func TestThoseOfEarlierKernels(t *testing.T) {
	r := New[string](5)
	if !r.Adopt(1, "one", false) {
		t.Fatal("no process is let in")
	}
	for range 2 { // the second time they are its own already
		r.CarryAll(3)
	}
	if loaded, asleep, unfinished := r.Counts(); loaded != 1 || asleep != 3 || unfinished != 1 || !r.CarriesAll() {
		t.Errorf("%d are in memory, %d asleep, %d unfinished", loaded, asleep, unfinished)
	}
}

// TestNoneIsLetIn once the store has failed or the kernel stops: whoever stops it has seen to all that are there.
func TestNoneIsLetIn(t *testing.T) {
	why := agentkernel.Errorf(agentkernel.CodeStorage, "store", "the disk is full")
	for name, end := range map[string]func(r *Rows[string]) ([]string, bool){
		"failed": func(r *Rows[string]) ([]string, bool) { return r.Fail(why) },
		"closed": func(r *Rows[string]) ([]string, bool) { return r.Close() },
	} {
		r := New[string](0)
		enter(t, r, 2, "two")
		enter(t, r, 1, "one")
		if all, first := end(r); !first || !slices.Equal(all, []string{"one", "two"}) {
			t.Errorf("%s: %v, first %t", name, all, first)
		}
		if all, first := end(r); first || all != nil {
			t.Errorf("%s again: %v, first %t", name, all, first)
		}
		if r.Refuses() == nil || r.Enter(3, "three", func() { t.Errorf("%s: one has entered", name) }) == nil || r.Adopt(3, "three", false) {
			t.Errorf("%s: it lets processes in", name)
		}
		if name == "closed" && r.Evict(1, func() bool { return true }) {
			t.Error("whoever stops the kernel has seen one that goes to sleep")
		}
		if (r.Failed() != nil) != (name == "failed") || r.Closed() != (name == "closed") {
			t.Errorf("%s: failed with %v, closed %t", name, r.Failed(), r.Closed())
		}
	}
}
