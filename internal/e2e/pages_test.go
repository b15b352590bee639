package e2e_test

import (
	"context"
	"sync"
	"testing"

	"agentkernel"
)

// While processes come, end and are parked, pages of a listing have nobody twice, the newest first, and lack nobody who was there, and
// unfinished, all the time.
func TestPagesWhileProcessesComeAndGo(t *testing.T) {
	bothKernels(t, func(t *testing.T, k agentkernel.Kernel) {
		const stay = 40
		spawn := func(source string) agentkernel.PID {
			p, err := k.Spawn(t.Context(), program(source))
			if err != nil {
				t.Error(err)
			}
			return p.PID
		}
		stays := map[agentkernel.PID]bool{}
		for i := range stay {
			stays[spawn("from kernel import sleep\nsleep(100000)")] = true
			if i%2 == 0 {
				spawn("1")
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		var others sync.WaitGroup
		defer others.Wait()
		defer cancel()
		for range 2 {
			others.Go(func() {
				for range 100 { // all that ever were are listed, too
					if ctx.Err() != nil {
						return
					}
					short, long := spawn("1"), spawn("from kernel import sleep\nsleep(100000)")
					if err := k.Signal(t.Context(), long, agentkernel.SignalKill); err != nil {
						p, perr := k.Process(t.Context(), long)
						t.Errorf("%v: %v, %v", err, p.Error, perr)
					}
					if _, err := k.Wait(t.Context(), short); err != nil {
						t.Error(err)
					}
				}
			})
		}
		for round := range 40 {
			f := agentkernel.Filter{Unfinished: round%2 == 0, Limit: 3 + round%9}
			seen := map[agentkernel.PID]bool{}
			for {
				page, err := k.List(t.Context(), f)
				if err != nil {
					t.Fatal(err)
				}
				if len(page) == 0 {
					break
				}
				if len(page) > f.Limit {
					t.Fatalf("%d processes on a page of %d", len(page), f.Limit)
				}
				for i := range page {
					p := &page[i]
					if f.Before != 0 && p.PID >= f.Before {
						t.Fatalf("pid %d follows pid %d", p.PID, f.Before)
					}
					seen[p.PID], f.Before = true, p.PID
					if stays[p.PID] && p.State.Terminal() {
						t.Fatalf("pid %d is %s", p.PID, p.State)
					}
				}
			}
			for pid := range stays {
				if !seen[pid] {
					t.Fatalf("round %d: pid %d is missing", round, pid)
				}
			}
		}
		n, err := k.Count(t.Context(), agentkernel.Filter{Unfinished: true})
		if err != nil || n < stay {
			t.Errorf("%d processes are unfinished, %v; %d stay", n, err, stay)
		}
	})
}
