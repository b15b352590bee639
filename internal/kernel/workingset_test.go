package kernel_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel"
)

// keeper is a program that sleeps, and then sets keys to values of a million bytes. It gives how many were refused for want of room.
func keeper(p *prog, after, keys int) (refused int, err error) {
	if _, err := p.call("time.sleep", fmt.Sprintf(`{"seconds":%d}`, after)); err != nil {
		return 0, err
	}
	for i := range keys {
		_, err := p.call("state.set", fmt.Sprintf(`{"key":"%d","value":%q}`, i, strings.Repeat("x", 1_000_000)))
		if agentkernel.CodeOf(err) == agentkernel.CodeLimit {
			refused++
		} else if err != nil {
			return refused, err
		}
	}
	return refused, nil
}

// keepers starts programs of n processes, numbered from 0, which are never parked.
func keepers(t *testing.T, r *rig, n int, program func(p *prog, i int) error) (pids []agentkernel.PID) {
	t.Helper()
	for i := range n {
		name := fmt.Sprint("p", i)
		r.backend.add(name, func(p *prog) error { return program(p, i) })
		s := spec(name)
		s.Tools, s.Allow = nil, nil
		s.Limits.Memory, s.Limits.Repeats = 2<<20, agentkernel.AnyRepeats // less than its working set
		p, err := r.Spawn(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, p.PID)
	}
	return pids
}

func stayInMemory(c *kernel.Config) { c.ParkAfter, c.Residents = time.Hour, 100 }

// TestWorkingSetsOfAllPrograms: what is in the kernel's memory counts, and more than it can spare is refused.
func TestWorkingSetsOfAllPrograms(t *testing.T) {
	kernel.SetMostHeld(t, 20<<20)
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore(), stayInMemory)
		pids := keepers(t, r, 8, func(p *prog, i int) error { // one after the other
			refused, err := keeper(p, i, 4)
			p.print("%d refused", refused)
			if err == nil {
				_, err = p.call("time.sleep", `{"seconds":60}`)
			}
			return err
		})
		pass(30 * time.Second)
		if n := r.HeldForAll(); n < 20_000_000 || n > 20<<20 {
			t.Errorf("%d bytes are held, of 20 MiB", n)
		}
		for i, pid := range pids {
			p, err := r.Wait(t.Context(), pid)
			want := "0 refused"
			if i >= 5 {
				want = "4 refused"
			}
			if out := r.output(t, pid); err != nil || p.State != agentkernel.StateExited || out != want {
				t.Errorf("program %d: %q, want %q; %v %v", i, out, want, p.Error, err)
			}
		}
		if n := r.HeldForAll(); n != 0 {
			t.Errorf("%d bytes are held for nobody", n)
		}
	})
}

// TestWorkingSetsAfterCrash: no more is read into memory than there is room for. What was refused stays so in the journal, and can be
// tried again.
func TestWorkingSetsAfterCrash(t *testing.T) {
	kernel.SetMostHeld(t, 13<<20)
	synctest.Test(t, func(t *testing.T) {
		store := newRAMStore()
		r := newRig(t, store, stayInMemory)
		pids := keepers(t, r, 3, func(p *prog, i int) error {
			if refused, err := keeper(p, 20*i, 6); refused > 0 || err != nil {
				return fmt.Errorf("%d refused: %w", refused, err)
			}
			if _, err := p.call("time.sleep", `{"seconds":100}`); err != nil {
				return err
			}
			for {
				_, err := p.call("state.get", `{"key":"0"}`)
				if err == nil {
					p.print("read")
					_, err = p.call("time.sleep", `{"seconds":60}`)
					return err
				} else if agentkernel.CodeOf(err) != agentkernel.CodeLimit {
					return err
				}
				p.print("no room, ")
				if _, err := p.call("time.sleep", `{"seconds":90}`); err != nil {
					return err
				}
			}
		})
		next := r
		restart := func() {
			t.Helper()
			if err := next.store.Flush(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			next = next.boot(t, next.store.crash(), stayInMemory)
			if _, err := next.Recover(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
		}
		pass(30 * time.Second) // two have written
		restart()
		pass(20 * time.Second) // the third writes, where the others have nothing in memory
		if n := next.HeldForAll(); n < 6_000_000 || n > 7_000_000 {
			t.Errorf("%d bytes are held when one has written", n)
		}
		restart()
		pass(95 * time.Second) // at 100, 120 and 140 seconds each of them reads
		if n := next.HeldForAll(); n < 12_000_000 || n > 13<<20 {
			t.Errorf("%d bytes are held when all have read", n)
		}
		restart() // the refusal is in the journal
		outs := map[string]int{}
		for _, pid := range pids {
			p, err := next.Wait(t.Context(), pid)
			if outs[next.output(t, pid)]++; err != nil || p.State != agentkernel.StateExited {
				t.Errorf("%+v %v", p, err)
			}
		}
		if outs["read"] != 2 || outs["no room, read"] != 1 {
			t.Errorf("they printed %v", outs)
		}
		list, err := next.Journal(t.Context(), pids[2], 1, 0)
		if err != nil || !slices.ContainsFunc(list, func(e agentkernel.Entry) bool {
			return e.Op == "state.get" && e.Done && e.Err != nil && e.Err.Code == agentkernel.CodeLimit
		}) {
			t.Errorf("the journal has no refusal: %v", err)
		}
		kernel.SetMostHeld(t, 1<<30)
		if v, err := elsewhere(t, next).Replay(t.Context(), export(t, next, pids[2]), agentkernel.ReplayOptions{}); err != nil || !v.Equal {
			t.Errorf("it cannot be repeated where there is room: %+v %v", v, err)
		}
	})
}

// TestWorkingSetOfParked: what is parked has none in memory.
func TestWorkingSetOfParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore(), parkSoon, keepLoaded)
		pids := keepers(t, r, 1, func(p *prog, _ int) error {
			if refused, err := keeper(p, 1, 3); refused > 0 || err != nil {
				return err
			}
			if _, err := p.call("time.sleep", `{"seconds":60}`); err != nil {
				return err
			}
			if _, err := p.call("state.delete", `{"key":"0"}`); err != nil {
				return err
			}
			p.compute(10 * time.Second)
			return nil
		})
		for _, c := range []struct {
			after       time.Duration
			least, most int64
		}{{1100 * time.Millisecond, 3_000_000, 4_000_000}, {30 * time.Second, 0, 1000}, {35 * time.Second, 2_000_000, 3_000_000}} {
			pass(c.after)
			if n := r.HeldForAll(); n < c.least || n > c.most {
				t.Errorf("%d bytes are held, want %d to %d", n, c.least, c.most)
			}
		}
		p, err := r.Wait(t.Context(), pids[0])
		synctest.Wait() // it is told before what it kept is dropped
		if err != nil || p.State != agentkernel.StateExited || r.HeldForAll() != 0 {
			t.Errorf("%+v %v, and %d bytes are held", p, err, r.HeldForAll())
		}
	})
}
