package kernel_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel"
)

// A caller that drives the program itself at first still hears what it prints while it computes, and may go.
func TestARunThatTakesLongLeavesItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		r.backend.add("slow", func(p *prog) error {
			p.print("at once\n")
			time.Sleep(2 * time.Second)
			p.print("much later\n")
			return nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		begun := time.Now()
		var pid agentkernel.PID
		_, err := r.Run(ctx, spec("slow"), func(ev agentkernel.Event) error {
			pid = ev.PID
			if ev.Kind == agentkernel.EventOutput {
				if took := time.Since(begun); ev.Text != "at once\n" || took > 10*time.Millisecond {
					t.Errorf("%q was shown after %v", ev.Text, took)
				}
				time.AfterFunc(time.Second, cancel)
			}
			return nil
		})
		if took := time.Since(begun); !errors.Is(err, context.Canceled) || took < time.Second || took > time.Second+10*time.Millisecond {
			t.Errorf("the caller gave up after a second: %v after %v", err, took)
		}
		if p, err := r.Wait(t.Context(), pid); err != nil || p.State != agentkernel.StateExited || time.Since(begun) < 2*time.Second {
			t.Errorf("the process did not go on: %+v %v", p, err)
		}
	})
}

// Callers that drive programs themselves take no more slots than there are.
func TestCallersKeepToTheSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore(), func(c *kernel.Config) { c.Slots = 2 })
		var now, most atomic.Int32
		r.backend.add("busy", func(p *prog) error {
			for range 3 {
				n := now.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				time.Sleep(300 * time.Microsecond)
				now.Add(-1)
				if _, err := p.call("time.sleep", `{"seconds":0.001}`); err != nil {
					return err
				}
			}
			return nil
		})
		var group sync.WaitGroup
		for range 20 {
			group.Go(func() {
				if p, err := r.Run(t.Context(), spec("busy"), func(agentkernel.Event) error { return nil }); err != nil || p.State != agentkernel.StateExited {
					t.Errorf("%+v %v", p, err)
				}
			})
		}
		group.Wait()
		if most.Load() != 2 {
			t.Errorf("%d programs ran at once in 2 slots", most.Load())
		}
	})
}
