package kernel_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
	"agentkernel/internal/sys/systest/toy"
)

// TestInterruptOfACallOfAnEarlierLife: a signal that comes after a crash, before the program is back in the call in which it waits,
// interrupts that call, and not the next one that it makes some day.
func TestInterruptOfACallOfAnEarlierLife(t *testing.T) {
	for name, call := range map[string][2]string{
		"sleep":   {"time.sleep", `{"seconds":1000}`},
		"signals": {"signals.wait", `{}`},
	} {
		for _, sig := range []agentkernel.Signal{agentkernel.SignalInterrupt, agentkernel.SignalStop} {
			for _, images := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t, newRAMStore())
					r.backend.noImages = !images
					var slow atomic.Bool
					r.backend.add("p", func(p *prog) error {
						if _, err := p.call("time.now", `{}`); err != nil {
							return err
						}
						if slow.Load() {
							pass(time.Second) // it is still on its way back when the signal comes
						}
						_, err := p.call(call[0], call[1])
						p.print("%s", agentkernel.CodeOf(err))
						return err
					})
					p, err := r.Spawn(t.Context(), spec("p"))
					if err != nil {
						t.Fatal(err)
					}
					pass(10 * time.Second)
					slow.Store(true)
					_ = r.store.Flush(t.Context(), 0)
					r2 := r.boot(t, r.store.crash())
					if _, err := r2.Recover(t.Context(), 0); err != nil {
						t.Fatal(err)
					}
					if err := r2.Signal(t.Context(), p.PID, sig); err != nil {
						t.Fatal(err)
					}
					pass(5 * time.Second)
					got, err := r2.Process(t.Context(), p.PID)
					if err != nil || !got.State.Terminal() || got.Usage.Output == 0 {
						t.Errorf("%s, %s, images %v: it was not interrupted: %s %v %v", name, sig, images, got.State, got.Error, err)
					}
					entries, err := r2.Journal(t.Context(), p.PID, 1, 0)
					interrupted := 0
					for _, e := range entries {
						if e.Err != nil && e.Err.Code == agentkernel.CodeInterrupted && e.Kind != agentkernel.EntryTerminal {
							interrupted++
						}
					}
					if err != nil || interrupted != 1 {
						t.Errorf("%s, %s, images %v: %d calls were interrupted, %v", name, sig, images, interrupted, err)
					}
				})
			}
		}
	}
}

// TestAnInterruptedCallIsNotPaidForAgain: a paid call of an earlier life whose program was interrupted is not made once more for that.
// Of a write a human decides first.
func TestAnInterruptedCallIsNotPaidForAgain(t *testing.T) {
	for _, effect := range []agentkernel.Effect{agentkernel.EffectPaid, agentkernel.EffectWrite} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, newRAMStore(), with(&toy.World{Delay: time.Hour}))
			r.backend.noImages = true
			var slow atomic.Bool
			r.backend.add("p", func(p *prog) error {
				if slow.Load() {
					pass(time.Second)
				}
				_, err := p.call("toy.charge", pay(effect, 2, 1))
				p.print("%s", agentkernel.CodeOf(err))
				return err
			})
			s := budgeted("p", agentkernel.Budget{USD: 100})
			s.OnUnknown = agentkernel.UnknownPause
			p, err := r.Spawn(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			pass(time.Second)
			slow.Store(true)
			_ = r.store.Flush(t.Context(), 0)
			r2 := r.boot(t, r.store.crash(), with(&toy.World{Delay: time.Hour}))
			if _, err := r2.Recover(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			if err := r2.Signal(t.Context(), p.PID, agentkernel.SignalInterrupt); err != nil {
				t.Fatal(err)
			}
			pass(5 * time.Second)
			entries, err := r2.Journal(t.Context(), p.PID, 1, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				if e.Kind == agentkernel.EntryRetry {
					t.Errorf("%s: the call was made again: %+v", effect, e)
				}
			}
			got, err := r2.Process(t.Context(), p.PID)
			if write := effect == agentkernel.EffectWrite; err != nil || got.Paused != write || got.State.Terminal() == write {
				t.Errorf("%s: %s, paused: %v, %v", effect, got.State, got.Paused, err)
			}
		})
	}
}

// TestDeadlineWhileNoKernelRuns: whoever's deadline passes while no kernel runs is asked to stop in the call that it waits for, and
// has its grace time.
func TestDeadlineWhileNoKernelRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		r.backend.noImages = true
		var slow atomic.Bool
		r.backend.add("p", func(p *prog) error {
			if slow.Load() {
				pass(time.Second)
			}
			_, err := p.call("time.sleep", `{"seconds":1000}`)
			p.print("cleaned up after %s", agentkernel.CodeOf(err))
			return err
		})
		s := spec("p")
		s.Deadline = time.Now().Add(time.Minute)
		p, err := r.Spawn(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		pass(10 * time.Second)
		slow.Store(true)
		crashed := r.store.crash()
		pass(time.Hour)
		r2 := r.boot(t, crashed)
		if _, err := r2.Recover(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		pass(5 * time.Second)
		r2.expectOutput(t, p.PID, agentkernel.StateKilled, "cleaned up after interrupted")
	})
}

// TestRaiseWaitsForWhatIsHeld: a call for which too little is left because others hold it waits for what they give back, also where
// the program would be handed the error.
func TestRaiseWaitsForWhatIsHeld(t *testing.T) {
	for _, on := range []agentkernel.OnBudget{agentkernel.BudgetPause, agentkernel.BudgetRaise, agentkernel.BudgetKill} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, newRAMStore(), with(&toy.World{Delay: time.Second}))
			r.backend.add("pays", func(p *prog) error {
				_, err := p.call("toy.charge", pay("paid", 2, 1))
				p.print("%s", agentkernel.CodeOf(err))
				return err
			})
			r.backend.add("parent", func(p *prog) error {
				for range 3 {
					if _, err := p.call("proc.spawn", `{"source":"pays"}`); err != nil {
						return err
					}
				}
				return nil
			})
			s := budgeted("parent", agentkernel.Budget{USD: 4})
			s.OnBudget = on
			root, err := r.Spawn(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			pass(time.Minute)
			for i := range agentkernel.PID(3) {
				r.expectOutput(t, root.PID+1+i, agentkernel.StateExited, "")
			}
		})
	}
}
