package kernel_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel"
)

// The tests of this file repeat, without a simulator, what internal/sim has found.

// Who is told to take up all processes has a list of them, and by the time he comes to one it may have ended: one that runs here
// anyway, or one that somebody else has taken up. Nothing may stand behind the end of a journal.
func TestRecoveryDoesNotReviveWhatHasEndedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		r.backend.add("sleeper", func(p *prog) error { _, err := p.call("time.sleep", `{"seconds":100}`); return err })
		old, err := r.Spawn(t.Context(), spec("sleeper"))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		next := r.boot(t, r.store.crash())
		young, err := next.Spawn(t.Context(), spec("sleeper"))
		if err != nil {
			t.Fatal(err)
		}
		next.store.beforeNextRead(func() { // of the old one's journal
			go func() { // it waits for whoever reads that now
				if _, err := next.Recover(context.Background(), old.PID); err != nil {
					t.Error(err)
				}
			}()
			pass(time.Hour) // the young one ends
		})
		if _, err := next.Recover(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		pass(time.Hour)
		for _, pid := range []agentkernel.PID{old.PID, young.PID} {
			entries, err := next.Journal(t.Context(), pid, 1, 0)
			if err != nil {
				t.Fatal(err)
			}
			end := slices.IndexFunc(entries, func(e agentkernel.Entry) bool { return e.Kind == agentkernel.EntryTerminal })
			if end != len(entries)-1 {
				t.Errorf("process %d: behind its end, entry %d, are %d more", pid, end+1, len(entries)-1-end)
			}
		}
	})
}

// A program that is paused right after it issued an async call has not been told that the call is under way. From an image of
// that moment it would issue the call again.
func TestAnAsyncCallIsMadeOnceAlthoughItsProgramIsPausedAndParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore(), parkSoon)
		goOn := make(chan struct{})
		r.backend.add("p", func(p *prog) error {
			<-goOn
			_, err := p.wait(p.async("tool.call", callTool("append", `{"n":1}`)))
			return err
		})
		p, err := r.Spawn(t.Context(), spec("p"))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := r.Signal(t.Context(), p.PID, agentkernel.SignalPause); err != nil {
			t.Fatal(err)
		}
		close(goOn)
		pass(time.Minute)
		if err := r.Signal(t.Context(), p.PID, agentkernel.SignalResume); err != nil {
			t.Fatal(err)
		}
		if p, err = r.Wait(t.Context(), p.PID); err != nil || p.State != agentkernel.StateExited || len(r.tools.keys) != 1 {
			t.Errorf("%s %v %v: the tool was called %d times", p.State, p.Error, err, len(r.tools.keys))
		}
	})
}

// A call that fails because the kernel is being closed is made again by the next one. Its program is not parked behind it:
// nobody would answer the call then.
func TestACallThatACloseHasRefusedIsMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore(), func(cfg *kernel.Config) { cfg.Grace = time.Minute })
		r.backend.add("child", func(*prog) error { return nil })
		r.tools.delay = func() { pass(time.Second) } // for which Close waits
		r.backend.add("slow", func(p *prog) error { _, err := p.call("tool.call", callTool("append", `{}`)); return err })
		if _, err := r.Spawn(t.Context(), spec("slow")); err != nil {
			t.Fatal(err)
		}
		var once sync.Once
		closed := make(chan struct{})
		r.backend.add("p", func(p *prog) error {
			once.Do(func() {
				r.backend.setOnCheck(func() { // of the child
					r.backend.setOnCheck(nil)
					go func() {
						defer close(closed)
						if err := r.Close(); err != nil {
							t.Error(err)
						}
					}()
					pass(time.Microsecond)
				})
			})
			_, err := p.call("proc.spawn", `{"source":"child"}`)
			return err
		})
		p, err := r.Spawn(t.Context(), spec("p"))
		if err != nil {
			t.Fatal(err)
		}
		<-closed
		next := r.boot(t, r.store.crash())
		if _, err := next.Recover(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if p, err = next.Wait(ctx, p.PID); err != nil || p.State != agentkernel.StateExited {
			t.Errorf("%s %v %v", p.State, p.Error, err)
		}
	})
}

// What is below a process is below it also where one between has ended: a kill of what no kernel runs must not leave it behind.
func TestAKillReachesBelowOneThatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		r.backend.add("sleeper", func(p *prog) error { _, err := p.call("time.sleep", `{"seconds":100}`); return err })
		r.backend.add("leaves", func(p *prog) error { _, err := p.call("proc.spawn", `{"source":"sleeper"}`); return err })
		r.backend.add("root", func(p *prog) error {
			if _, err := p.call("proc.spawn", `{"source":"leaves"}`); err != nil {
				return err
			}
			_, err := p.call("time.sleep", `{"seconds":100}`)
			return err
		})
		root, err := r.Spawn(t.Context(), spec("root"))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := r.store.Flush(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		next := r.boot(t, r.store.crash())
		if err := next.Signal(t.Context(), root.PID, agentkernel.SignalKill); err != nil {
			t.Fatal(err)
		}
		all, err := next.List(t.Context(), agentkernel.Filter{})
		if err != nil || len(all) != 3 {
			t.Fatalf("%d processes, %v", len(all), err)
		}
		for _, p := range all {
			if !p.State.Terminal() {
				t.Errorf("process %d lives: %s", p.PID, p.State)
			}
		}
	})
}

// A sandbox that is killed again and again while its program repeats its journal has crashed: the program has not diverged.
func TestASandboxThatIsKilledInAReplayHasCrashed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &rig{store: newRAMStore(), backend: newGoBackend(), tools: &fakeTools{}}
		r = r.boot(t, r.store, func(cfg *kernel.Config) { cfg.Backends = []agentkernel.Backend{&mortal{r.backend}} })
		begun := 0
		r.backend.add("p", func(p *prog) error {
			begun++
			for range 3 - min(begun, 2) {
				if _, err := p.call("time.now", `{}`); err != nil {
					return err
				}
			}
			return errStruck
		})
		if p, _ := r.run(t, spec("p")); p.State != agentkernel.StateFailed || p.Error.Code != agentkernel.CodeCrashed {
			t.Errorf("%s %v", p.State, p.Error)
		}
	})
}

// A kill returns when the process has ended, also if somebody has taken the process up meanwhile and its sandbox is just being
// started.
func TestAKillWaitsForTheEndOfWhatIsTakenUpMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		r.backend.add("sleeper", func(p *prog) error { _, err := p.call("time.sleep", `{"seconds":100}`); return err })
		p, err := r.Spawn(t.Context(), spec("sleeper"))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		next := r.boot(t, r.store.crash())
		killed := make(chan error, 1)
		next.store.beforeNextRead(func() { // by the recovery, of the journal
			r.backend.onStart = func(agentkernel.StartRequest) { pass(time.Second) }
			go func() { killed <- next.Signal(context.Background(), p.PID, agentkernel.SignalKill) }()
			synctest.Wait()
		})
		if _, err := next.Recover(t.Context(), p.PID); err != nil {
			t.Error(err)
		}
		if err := <-killed; err != nil {
			t.Fatal(err)
		}
		if p, err = next.Process(t.Context(), p.PID); err != nil || p.State != agentkernel.StateKilled {
			t.Errorf("it is %s, %v", p.State, err)
		}
	})
}

// A kill reaches descendants that nobody has taken up yet, whether its process runs or has ended: a later recovery would continue
// them.
func TestAKillReachesWhatNobodyHasTakenUp(t *testing.T) {
	for _, program := range []string{"sleeper", "short"} {
		t.Run(program, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, newRAMStore())
				r.backend.add("short", func(*prog) error { return nil })
				r.backend.add("sleeper", func(p *prog) error { _, err := p.call("time.sleep", `{"seconds":100}`); return err })
				spawn := func(program string, parent agentkernel.PID) agentkernel.PID {
					s := spec(program)
					s.Parent = parent
					p, err := r.Spawn(t.Context(), s)
					if err != nil {
						t.Fatal(err)
					}
					return p.PID
				}
				root := spawn(program, 0)
				below := []agentkernel.PID{spawn("sleeper", root), spawn("sleeper", root)}
				synctest.Wait()
				if err := r.store.Flush(t.Context(), 0); err != nil {
					t.Fatal(err)
				}
				next := r.boot(t, r.store.crash())
				ctx, leave := context.WithCancel(t.Context())
				next.store.beforeNextRead(leave) // when the first is being taken up
				if taken, err := next.Recover(ctx, 0); err == nil || len(taken) != 1 {
					t.Fatalf("%d were taken up, %v", len(taken), err)
				}
				if err := next.Signal(t.Context(), root, agentkernel.SignalKill); err != nil {
					t.Fatal(err)
				}
				for _, pid := range below {
					if p, err := next.Process(t.Context(), pid); err != nil || p.State != agentkernel.StateKilled {
						t.Errorf("process %d is %s, %v", pid, p.State, err)
					}
				}
			})
		})
	}
}

// A call of an earlier life that is interrupted while its tool is looked up does not go out: its result is in the journal.
func TestACallThatIsInterruptedWhileItIsLookedUpDoesNotGoOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		r.backend.add("p", func(p *prog) error {
			_, err := p.call("tool.call", callTool("put", `{}`))
			p.print("%s", agentkernel.CodeOf(err))
			_, err = p.call("time.sleep", `{"seconds":60}`)
			return err
		})
		r.tools.delay = func() { pass(time.Hour) }
		p, err := r.Spawn(t.Context(), spec("p"))
		if err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		next := r.boot(t, r.store.crash())
		var looked atomic.Bool
		next.tools.mu.Lock()
		next.tools.look, next.tools.delay = func() { looked.Store(true); time.Sleep(2 * time.Second) }, nil
		next.tools.mu.Unlock()
		if _, err := next.Recover(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		if err := next.Signal(t.Context(), p.PID, agentkernel.SignalInterrupt); err != nil {
			t.Fatal(err)
		}
		pass(time.Hour)
		next.expectOutput(t, p.PID, agentkernel.StateExited, "interrupted")
		if n := len(next.tools.keys); !looked.Load() || n != 1 { // before the crash
			t.Errorf("looked up: %t; the tool was called %d times", looked.Load(), n)
		}
	})
}
