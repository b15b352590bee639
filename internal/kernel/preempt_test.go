package kernel_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel"
)

// busyRig has programs that compute for a minute and one that ends at once, in two slots.
func busyRig(t *testing.T) *rig {
	r := newRig(t, newRAMStore(), func(c *kernel.Config) { c.Slots = 2 })
	r.backend.add("computes", func(p *prog) error {
		select {
		case <-time.After(time.Minute):
		case <-p.s.dead:
		}
		return nil
	})
	r.backend.add("short", func(*prog) error { return nil })
	return r
}

// spawnWith spawns a process and lets it come as far as it can.
func (r *rig) spawnWith(t *testing.T, source string, priority int) agentkernel.PID {
	t.Helper()
	s := spec(source)
	s.Priority = priority
	p, err := r.Spawn(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return p.PID
}

// took waits for a process and says how long that took.
func (r *rig) took(t *testing.T, pid agentkernel.PID) time.Duration {
	t.Helper()
	begun := time.Now()
	if p, err := r.Wait(t.Context(), pid); err != nil || p.State != agentkernel.StateExited {
		t.Errorf("%+v %v", p, err)
	}
	return time.Since(begun)
}

// A program that computes for long keeps its slot from others, but not from more urgent ones.
func TestAMoreUrgentProcessIsLentASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := busyRig(t)
		r.spawnWith(t, "computes", 100)
		r.spawnWith(t, "computes", 100)
		if d := r.took(t, r.spawnWith(t, "short", 1)); d > time.Second {
			t.Errorf("the urgent one waited for %s", d)
		}
		time.Sleep(5 * time.Second)
		if d := r.took(t, r.spawnWith(t, "short", 1)); d > 0 {
			t.Errorf("the programs compute for long, and the urgent one waited for %s", d)
		}
		if d := r.took(t, r.spawnWith(t, "short", 100)); d < 50*time.Second || d > 55*time.Second {
			t.Errorf("one that is no more urgent waited for %s", d)
		}
	})
}

// Urgent programs that compute, too, preempt as many programs as there are slots, and no more. The slots go back.
func TestNoMoreIsLentThanThereIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := busyRig(t)
		for _, priority := range []int{400, 400, 300, 300, 200, 200} {
			r.spawnWith(t, "computes", priority)
		}
		time.Sleep(10 * time.Second)
		if n := r.backend.sandboxes(); n != 4 {
			t.Errorf("%d programs compute in two slots", n)
		}
		urgent := r.spawnWith(t, "short", 1)
		if d := r.took(t, urgent); d < 49*time.Second || d > 51*time.Second { // the first two have ended
			t.Errorf("it waited for %s", d)
		}
		time.Sleep(3 * time.Minute)
		if d := r.took(t, r.spawnWith(t, "short", 500)); d > 0 {
			t.Errorf("all have ended, and it waited for %s", d)
		}
		r.spawnWith(t, "computes", 400)
		r.spawnWith(t, "computes", 400)
		r.spawnWith(t, "computes", 300)
		time.Sleep(10 * time.Second)
		if n := r.backend.sandboxes(); n != 3 {
			t.Errorf("%d programs compute", n)
		}
	})
}

// A kernel that closes waits for programs that go on without a slot, too, and preempts nobody any more.
func TestClosingWhileSlotsAreLent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := busyRig(t)
		for _, priority := range []int{400, 400, 300} {
			r.spawnWith(t, "computes", priority)
		}
		time.Sleep(10 * time.Second)
		r.spawnWith(t, "computes", 300)
		r.spawnWith(t, "computes", 400)
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if n := r.backend.sandboxes(); n != 0 {
			t.Errorf("%d sandboxes are left", n)
		}
	})
}

// Programs that make calls without end, none of which is waited for, share the slots with their equals and with those that are less urgent.
func TestAnEndlessProgramSharesItsSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore(), func(c *kernel.Config) { c.Slots, c.Residents = 2, 4 })
		var done [8]atomic.Int64
		for i := range done {
			r.backend.add(fmt.Sprint("endless", i), func(p *prog) error {
				for {
					again := len(p.past) > 0 // its image has computed it
					if !again {
						select {
						case <-time.After(10 * time.Millisecond):
						case <-p.s.dead:
						}
					}
					if _, err := p.call("rand.bytes", `{"n":3}`); err != nil {
						return err
					}
					if !again {
						done[i].Add(1)
					}
				}
			})
			r.spawnWith(t, fmt.Sprint("endless", i), 100)
		}
		r.backend.add("short", func(*prog) error { return nil })
		if d := r.took(t, r.spawnWith(t, "short", 100)); d > time.Second {
			t.Errorf("an equal waited for %s", d)
		}
		if d := r.took(t, r.spawnWith(t, "short", 200)); d > 5*time.Second {
			t.Errorf("one that is less urgent waited for %s", d)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		for i := range done {
			if n := done[i].Load(); n < 200 {
				t.Errorf("program %d came to %d calls in more than 10 s: a fair share are 250", i, n)
			}
		}
		if n := r.backend.sandboxes(); n > 5 { // who has the other slot may have looked for room at the same time
			t.Errorf("%d sandboxes are in memory, 4 may be", n)
		}
	})
}
