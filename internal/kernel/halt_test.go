package kernel_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
)

// haltPrograms are one that calls a tool every ten seconds, and one that sleeps and then says so.
func (r *rig) haltPrograms() {
	r.backend.add("ticks", func(p *prog) error {
		for {
			if _, err := p.call("tool.call", callTool("append", `{"line":"tick"}`)); err != nil {
				return err
			}
			if _, err := p.call("time.sleep", `{"seconds":10}`); err != nil {
				return err
			}
		}
	})
	r.backend.add("sleeps", func(p *prog) error {
		_, err := p.call("time.sleep", `{"seconds":60}`)
		p.print("awake %v", err)
		return err
	})
}

func (r *rig) ticks() int {
	r.tools.mu.Lock()
	defer r.tools.mu.Unlock()
	return len(r.tools.lines)
}

// TestHalt: what a hold is over makes no call, whatever it waits for, until it is thawed; also if the kernel dies meanwhile. The
// rest goes on.
func TestHalt(t *testing.T) {
	for _, c := range []struct {
		name string
		hold agentkernel.Hold
		all  bool // it is over the other namespace, too
	}{
		{"kernel", agentkernel.Hold{Why: "an incident"}, true},
		{"namespace", agentkernel.Hold{Namespace: "default"}, false},
		{"tree", agentkernel.Hold{Tree: 1}, false},
	} {
		for _, crash := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, crash %t", c.name, crash), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t, newRAMStore(), parkSoon)
					r.haltPrograms()
					s := spec("ticks")
					s.Allow = []string{"*"}
					top, err := r.Spawn(t.Context(), s)
					if err != nil {
						t.Fatal(err)
					}
					below := spec("sleeps")
					below.Parent = top.PID
					if _, err := r.Spawn(t.Context(), below); err != nil {
						t.Fatal(err)
					}
					other := spec("sleeps")
					other.Namespace = "other"
					if _, err := r.Spawn(t.Context(), other); err != nil {
						t.Fatal(err)
					}
					pass(25 * time.Second)
					if err := r.Halt(t.Context(), c.hold); err != nil {
						t.Fatal(err)
					}
					before := r.ticks()
					if before != 3 {
						t.Errorf("%d ticks before", before)
					}
					if crash {
						if err := r.store.Flush(t.Context(), r.store.pos); err != nil { // which takes milliseconds by itself
							t.Fatal(err)
						}
						next := died(t, r, 0)
						r = next.boot(t, next.store, parkSoon)
						r.haltPrograms()
						if _, err := r.Recover(t.Context(), 0); err != nil {
							t.Fatal(err)
						}
					}
					pass(time.Hour)
					if n := r.ticks(); n != before {
						t.Errorf("%d ticks while it stood still", n-before)
					}
					r.expectOutput(t, 2, agentkernel.StateWaiting, "")
					if c.all {
						r.expectOutput(t, 3, agentkernel.StateWaiting, "")
					} else {
						r.expectOutput(t, 3, agentkernel.StateExited, "awake <nil>")
					}
					p, err := r.Process(t.Context(), 1)
					if err != nil || p.Halted != c.hold.Over() || p.Paused {
						t.Errorf("%+v, %v", p, err)
					}
					if i := r.info(t); len(i.Holds) != 1 || !i.Holds[0].Same(&c.hold) || i.Holds[0].Why != c.hold.Why {
						t.Errorf("%+v", i.Holds)
					}
					_, err = r.Spawn(t.Context(), spec("sleeps"))
					if c.hold.Tree == 0 && (agentkernel.CodeOf(err) != agentkernel.CodeUnavailable || !strings.Contains(agentkernel.AsError(err, "", "").Hint, "agentkernel thaw")) {
						t.Errorf("spawn: %v", err)
					}
					if err := r.Halt(t.Context(), c.hold); agentkernel.CodeOf(err) != agentkernel.CodeConflict {
						t.Errorf("halted twice: %v", err)
					}
					if err := r.Thaw(t.Context(), c.hold); err != nil {
						t.Fatal(err)
					}
					if err := r.Thaw(t.Context(), c.hold); agentkernel.CodeOf(err) != agentkernel.CodeConflict {
						t.Errorf("thawed twice: %v", err)
					}
					pass(25 * time.Second)
					if n := r.ticks() - before; n != 3 { // what was due is at once
						p, err := r.Process(t.Context(), 1)
						t.Errorf("%d ticks afterwards: %+v, %v", n, p, err)
					}
					r.expectOutput(t, 2, agentkernel.StateExited, "awake <nil>")
					r.expectOutput(t, 3, agentkernel.StateExited, "awake <nil>")
					if i := r.info(t); len(i.Holds) != 0 {
						t.Errorf("%+v", i.Holds)
					}
				})
			})
		}
	}
}

// TestHaltOfWhatIsUnderWay: a call that is outside when everything is halted ends, its result is kept, and the program has it when it
// goes on. A pause and a kill work as ever.
func TestHaltOfWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		r.tools.delay = func() { time.Sleep(10 * time.Second) }
		r.haltPrograms()
		s := spec("ticks")
		s.Allow = []string{"*"}
		for range 2 {
			if _, err := r.Spawn(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}
		pass(5 * time.Second)
		if err := r.Halt(t.Context(), agentkernel.Hold{}); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		if n := r.ticks(); n != 2 {
			t.Errorf("%d calls", n)
		}
		for _, pid := range []agentkernel.PID{1, 2} {
			entries, err := r.Journal(t.Context(), pid, 1, 0)
			if err != nil || entries[len(entries)-1].Kind != agentkernel.EntryResult {
				t.Errorf("%d: %v, %v", pid, entries[len(entries)-1], err)
			}
		}
		if err := r.Signal(t.Context(), 2, agentkernel.SignalPause); err != nil {
			t.Fatal(err)
		}
		if err := r.Thaw(t.Context(), agentkernel.Hold{}); err != nil {
			t.Fatal(err)
		}
		pass(25 * time.Second)
		if n := r.ticks(); n != 3 {
			t.Errorf("%d calls of both, one of which is paused", n)
		}
		if err := r.Halt(t.Context(), agentkernel.Hold{}); err != nil {
			t.Fatal(err)
		}
		if err := r.Signal(t.Context(), 2, agentkernel.SignalResume); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		if n := r.ticks(); n != 3 {
			t.Errorf("%d calls: one that is resumed while everything is halted went on", n)
		}
		if err := r.Signal(t.Context(), 1, agentkernel.SignalKill); err != nil {
			t.Fatal(err)
		}
		if p, err := r.Process(t.Context(), 1); err != nil || p.State != agentkernel.StateKilled {
			t.Errorf("%+v, %v", p, err)
		}
	})
}

// TestAnEndIsNotHeld: a program that computes on under a hold ends, by its last line or by exit, and makes no other call.
func TestAnEndIsNotHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for op, want := range map[string]agentkernel.State{"": agentkernel.StateExited, "proc.exit": agentkernel.StateExited, "proc.self": agentkernel.StateWaiting} {
			r := newRig(t, newRAMStore())
			halted := make(chan struct{})
			r.backend.add("p", func(p *prog) (err error) {
				if <-halted; op != "" {
					_, err = p.call(op, map[string]string{"proc.exit": `{"code":3}`}[op])
				}
				return err
			})
			p, err := r.Spawn(t.Context(), spec("p"))
			if err == nil {
				synctest.Wait()
				err = r.Halt(t.Context(), agentkernel.Hold{})
			}
			if err != nil {
				t.Fatal(err)
			}
			close(halted)
			pass(time.Minute)
			if now, err := r.Process(t.Context(), p.PID); err != nil || now.State != want || (op == "proc.exit") != (now.ExitCode == 3) {
				t.Errorf("%q: %s, exit code %d, %v", op, now.State, now.ExitCode, err)
			}
			_ = r.Thaw(t.Context(), agentkernel.Hold{})
			pass(time.Minute)
		}
	})
}

func TestBadHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		for _, c := range []struct {
			hold agentkernel.Hold
			code agentkernel.Code
		}{
			{agentkernel.Hold{Namespace: "a", Tree: 1}, agentkernel.CodeInvalid},
			{agentkernel.Hold{Tree: -1}, agentkernel.CodeInvalid},
			{agentkernel.Hold{Tree: 99}, agentkernel.CodeNotFound},
			{agentkernel.Hold{Namespace: "$a"}, agentkernel.CodeInvalid},
			{agentkernel.Hold{Namespace: "a\n$(touch b)"}, agentkernel.CodeInvalid},
			{agentkernel.Hold{Namespace: "\x1b[2J"}, agentkernel.CodeInvalid},
			{agentkernel.Hold{Namespace: strings.Repeat("x", 201)}, agentkernel.CodeInvalid},
			{agentkernel.Hold{Why: strings.Repeat("x", 2000)}, agentkernel.CodeInvalid},
		} {
			if err := r.Halt(t.Context(), c.hold); agentkernel.CodeOf(err) != c.code {
				t.Errorf("%+.80v: %v", c.hold, err)
			}
		}
		if err := r.Thaw(t.Context(), agentkernel.Hold{}); agentkernel.CodeOf(err) != agentkernel.CodeConflict || !strings.Contains(err.Error(), "the kernel is not halted") {
			t.Error(err)
		}
	})
}

// TestARetryWaitsForTheThaw: a retry that a human decides while all stands still is made at the thaw, once, also by the next kernel.
func TestARetryWaitsForTheThaw(t *testing.T) {
	for _, crash := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, newRAMStore())
			r.tools.delay = func() { pass(time.Hour) }
			r.backend.add("p", func(p *prog) error {
				_, err := p.call("tool.call", callTool("append", `{}`))
				p.print("%v", err)
				return nil
			})
			s := spec("p")
			s.OnUnknown, s.Allow = agentkernel.UnknownPause, []string{"*"}
			p, err := r.Spawn(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			r = r.boot(t, r.store.crash())
			r.tools.mu.Lock()
			r.tools.delay = nil
			r.tools.mu.Unlock()
			if _, err := r.Recover(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if err := r.Halt(t.Context(), agentkernel.Hold{}); err != nil {
				t.Fatal(err)
			}
			if err := r.Resolve(t.Context(), p.PID, 1, agentkernel.Resolution{Decision: agentkernel.DecisionRetry}); err != nil {
				t.Fatal(err)
			}
			pass(time.Minute)
			if n := r.ticks(); n != 0 {
				t.Errorf("%d calls while all stood still", n)
			}
			if crash {
				r = r.boot(t, r.store.crash())
				if _, err := r.Recover(t.Context(), 0); err != nil {
					t.Fatal(err)
				}
				pass(time.Minute)
			}
			if err := r.Thaw(t.Context(), agentkernel.Hold{}); err != nil {
				t.Fatal(err)
			}
			pass(time.Minute)
			r.expectOutput(t, p.PID, agentkernel.StateExited, "<nil>")
			if n := r.ticks(); n != 1 {
				t.Errorf("%d calls, after a crash %t", n, crash)
			}
		})
	}
}

// TestNothingIsPutBelowWhatIsHalted: nobody from outside starts a process anywhere in a tree that stands still.
func TestNothingIsPutBelowWhatIsHalted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		r.stopPrograms()
		for _, parent := range []agentkernel.PID{0, 1, 2} {
			s := spec("deaf")
			s.Parent = parent
			if _, err := r.Spawn(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Halt(t.Context(), agentkernel.Hold{Tree: 1}); err != nil {
			t.Fatal(err)
		}
		for parent := range agentkernel.PID(4) {
			s := spec("deaf")
			s.Parent = parent
			if _, err := r.Spawn(t.Context(), s); (agentkernel.CodeOf(err) == agentkernel.CodeUnavailable) != (parent != 0) {
				t.Errorf("below %d: %v", parent, err)
			}
		}
		if err := r.Signal(t.Context(), 1, agentkernel.SignalKill); err != nil {
			t.Fatal(err)
		}
		if info, err := r.Info(t.Context()); err != nil || len(info.Holds) != 0 {
			t.Errorf("of the tree nothing is left, and it is held: %+v, %v", info.Holds, err)
		}
	})
}
