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

// A program begins while its process is still made. What is said of the process before the two come together counts:
// the beginning was for nothing then, and nobody sees anything of it.
func TestABeginningForNothing(t *testing.T) {
	const nothing = agentkernel.Signal("")
	for name, c := range map[string]struct {
		between, after agentkernel.Signal
		state          agentkernel.State
		runs           int32
		printed        string
	}{
		"nothing": {nothing, nothing, agentkernel.StateExited, 1, `"once\n"`},
		"paused":  {agentkernel.SignalPause, agentkernel.SignalResume, agentkernel.StateExited, 2, `"once\n"`},
		"killed":  {agentkernel.SignalKill, nothing, agentkernel.StateKilled, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, newRAMStore(), func(c *kernel.Config) { c.Slots = 1 })
				var runs atomic.Int32
				r.backend.add("once", func(p *prog) error {
					runs.Add(1)
					p.print("once\n")
					_, err := p.call("log.write", `{"message":"x"}`)
					return err
				})
				signal := func(pid agentkernel.PID, sig agentkernel.Signal) {
					if sig == nothing {
						return
					}
					if err := r.Signal(t.Context(), pid, sig); err != nil {
						t.Error(sig, err)
					}
					synctest.Wait()
				}
				pid, err := r.RunAfter(t.Context(), spec("once"), func(pid agentkernel.PID) {
					synctest.Wait() // the program has printed
					if runs.Load() != 1 {
						t.Error("the program had no head start")
					}
					signal(pid, c.between)
				})
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if p, err := r.Process(t.Context(), pid); err != nil || p.Paused != (c.between == agentkernel.SignalPause) {
					t.Errorf("%+v %v", p, err)
				}
				signal(pid, c.after)
				p, err := r.Wait(t.Context(), pid)
				if err != nil || p.State != c.state || runs.Load() != c.runs {
					t.Errorf("%+v %v after %d runs", p, err, runs.Load())
				}
				entries, err := r.store.Entries(t.Context(), pid, 1, 100)
				if err != nil {
					t.Fatal(err)
				}
				printed, calls := "", 0
				for _, e := range entries {
					switch e.Kind {
					case agentkernel.EntryOutput:
						printed += string(e.Data)
					case agentkernel.EntryCall:
						calls++
					}
				}
				if printed != c.printed || (calls == 1) != (printed != "") {
					t.Errorf("the journal has %q and %d calls", printed, calls)
				}
				if p, _ := r.run(t, spec("once")); p.State != agentkernel.StateExited { // the slot was given back
					t.Errorf("%+v", p)
				}
				synctest.Wait()
				if n := r.backend.sandboxes(); n != 0 {
					t.Errorf("%d sandboxes are left", n)
				}
			})
		})
	}
}

// A kernel that is told to end while a program has begun and its process is not there yet ends, and so does the program.
func TestABeginningMeetsTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		r.backend.add("waits", func(p *prog) error {
			_, err := p.call("time.sleep", `{"seconds":3600}`)
			return err
		})
		var closing sync.WaitGroup
		r.backend.onStart = func(agentkernel.StartRequest) {
			closing.Go(func() { _ = r.Close() })
			time.Sleep(time.Millisecond) // it has begun to close
		}
		begun := time.Now()
		_, err := r.Run(t.Context(), spec("waits"), func(agentkernel.Event) error { return nil })
		closing.Wait()
		if agentkernel.CodeOf(err) != agentkernel.CodeUnavailable || time.Since(begun) > time.Second {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		if n := r.backend.sandboxes(); n != 0 {
			t.Errorf("%d sandboxes are left", n)
		}
	})
}
