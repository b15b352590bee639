package kernel_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel"
)

var (
	done  = agentkernel.Resolution{Decision: agentkernel.DecisionDone, Result: json.RawMessage(`{"b":1, "$a":2}`)}
	retry = agentkernel.Resolution{Decision: agentkernel.DecisionRetry}
	fail  = agentkernel.Resolution{Decision: agentkernel.DecisionFail, Message: "the order was cancelled"}
)

// oneWrite makes one write and says what it was told.
func oneWrite(p *prog) error {
	got, err := p.call("tool.call", callTool("append", `{"n":1}`))
	p.print("%s%s", got, told(err))
	return nil
}

func told(err error) string {
	if err == nil {
		return ""
	}
	return agentkernel.AsError(err, "", "").GuestText()
}

func pausing(program string) agentkernel.Spec {
	s := spec(program)
	s.OnUnknown = agentkernel.UnknownPause
	return s
}

// cutOff runs a program until its kernel dies in the middle of a write, and gives what is left. early kernels
// park the process first, so that it is recovered from an image.
func cutOff(t *testing.T, program func(*prog) error, image bool) (*rig, agentkernel.PID) {
	t.Helper()
	change := func(c *kernel.Config) { c.ParkAfter = time.Hour }
	if image {
		change = parkSoon
	}
	r := newRig(t, newRAMStore(), change)
	r.tools.delay = func() { pass(time.Hour) }
	r.backend.add("p", program)
	p, err := r.Spawn(t.Context(), pausing("p"))
	if err != nil {
		t.Fatal(err)
	}
	pass(10 * time.Second)
	_ = r.store.Flush(t.Context(), 0)
	store := r.store.crash()
	r.tools.mu.Lock()
	r.tools.delay = nil
	r.tools.mu.Unlock()
	return r.boot(t, store, change), p.PID
}

func TestResolve(t *testing.T) {
	for name, c := range map[string]struct {
		decision agentkernel.Resolution
		says     string
		writes   int
	}{
		"done":  {done, `{"$dict":[["b",1],["$a",2]]}`, 0}, // as a tool's answer
		"retry": {retry, `{"n":1}`, 1},
		"fail":  {fail, "tool_error: the order was cancelled", 0},
	} {
		for _, image := range []bool{true, false} {
			for _, recovered := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s, image %v, recovered %v", name, image, recovered), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						r, pid := cutOff(t, oneWrite, image)
						if recovered {
							if _, err := r.Recover(t.Context(), 0); err != nil {
								t.Fatal(err)
							}
							synctest.Wait()
							p, _ := r.Process(t.Context(), pid)
							if !p.Paused || !strings.Contains(p.PauseNote, fmt.Sprintf("agentkernel resolve %d 1", pid)) {
								t.Fatalf("recovered: %+v", p)
							}
						}
						if err := r.Resolve(t.Context(), pid, 1, c.decision); err != nil {
							t.Fatal(err)
						}
						p, err := r.Wait(t.Context(), pid)
						if err != nil || p.State != agentkernel.StateExited || p.Paused {
							t.Fatalf("%+v %v", p, err)
						}
						if got, n := output(t, r, pid), r.tools.wrote(); got != c.says || n != c.writes {
							t.Errorf("the program was told %q, the tool ran %d times", got, n)
						}
					})
				})
			}
		}
	}
}

// TestResolveWithoutACrash: a write that timed out is held, too, and so is one that was made again and
// timed out again.
func TestResolveWithoutACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		r.tools.fail = func(agentkernel.ToolCall) (agentkernel.ToolResult, error) {
			return agentkernel.ToolResult{}, agentkernel.Errorf(agentkernel.CodeTimeout, "tool.call", "too slow")
		}
		r.backend.add("p", oneWrite)
		p, err := r.Spawn(t.Context(), pausing("p"))
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if p, err = r.Wait(t.Context(), p.PID); err != nil || !p.Paused {
				t.Fatalf("%+v %v", p, err)
			}
			if err := r.Resolve(t.Context(), p.PID, 1, retry); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		// The third time the server certainly was not reached: that says nothing about the first two.
		r.tools.mu.Lock()
		r.tools.fail = func(agentkernel.ToolCall) (agentkernel.ToolResult, error) {
			return agentkernel.ToolResult{NotSent: true}, agentkernel.Errorf(agentkernel.CodeUnavailable, "tool.call", "not there")
		}
		r.tools.mu.Unlock()
		if err := r.Resolve(t.Context(), p.PID, 1, retry); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if p, err = r.Process(t.Context(), p.PID); err != nil || !p.Paused {
			t.Fatalf("after a retry that was not sent: %+v %v", p, err)
		}
		if err := r.Signal(t.Context(), p.PID, agentkernel.SignalResume); err != nil {
			t.Fatal(err)
		}
		if p, err = r.Wait(t.Context(), p.PID); err != nil || p.State != agentkernel.StateExited {
			t.Fatalf("%+v %v", p, err)
		}
		if got := output(t, r, p.PID); !strings.HasPrefix(got, "outcome_unknown: fake.append may or may not have happened: not there") {
			t.Errorf("resume told the program %q", got)
		}
	})
}

// TestResolveOneOfTwo: the process goes on when both of two parallel writes are decided.
func TestResolveOneOfTwo(t *testing.T) {
	for _, image := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			r, pid := cutOff(t, func(p *prog) error {
				a := p.async("tool.call", callTool("append", `{"n":1}`))
				b := p.async("tool.call", callTool("append", `{"n":2}`))
				got, err := p.wait(a)
				p.print("%s%s ", got, told(err))
				got, err = p.wait(b)
				p.print("%s%s", got, told(err))
				return nil
			}, image)
			if _, err := r.Recover(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if err := r.Resolve(t.Context(), pid, 1, fail); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			p, err := r.Process(t.Context(), pid)
			if err != nil || !p.Paused || !strings.Contains(p.PauseNote, fmt.Sprintf("call 2 (tool.call fake.append) is unknown; decide with agentkernel resolve %d 2", pid)) {
				t.Fatalf("image %v: %+v %v", image, p, err)
			}
			if err := r.Resolve(t.Context(), pid, 2, retry); err != nil {
				t.Fatal(err)
			}
			p, err = r.Wait(t.Context(), pid)
			if got := output(t, r, pid); err != nil || p.State != agentkernel.StateExited || got != `tool_error: the order was cancelled {"n":2}` {
				t.Errorf("image %v: %+v %v %q", image, p, err, got)
			}
		})
	}
}

// TestResolveRefusals: what cannot be decided says why.
func TestResolveRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		r.backend.add("p", func(p *prog) error {
			_, _ = p.call("tool.call", callTool("echo", `{}`))
			_, _ = p.call("tool.call", callTool("append", `{}`))
			_, err := p.call("tool.call", callTool("append", `{"slow":1}`))
			return err
		})
		r.tools.fail = func(c agentkernel.ToolCall) (agentkernel.ToolResult, error) {
			switch string(c.Arguments) {
			case `{"slow":1}`:
				pass(time.Hour)
			case `{"lost":1}`:
				return agentkernel.ToolResult{}, agentkernel.Errorf(agentkernel.CodeTimeout, "tool.call", "too slow")
			}
			return agentkernel.ToolResult{}, nil
		}
		r.backend.add("raise", func(p *prog) error {
			_, _ = p.call("tool.call", callTool("append", `{"lost":1}`))
			_, err := p.call("time.sleep", `{"seconds":10000}`)
			return err
		})
		p, err := r.Spawn(t.Context(), pausing("p"))
		if err != nil {
			t.Fatal(err)
		}
		raise, err := r.Spawn(t.Context(), spec("raise"))
		if err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		check := func(pid agentkernel.PID, call int64, res agentkernel.Resolution, code agentkernel.Code, says string) {
			t.Helper()
			err := r.Resolve(t.Context(), pid, call, res)
			if agentkernel.CodeOf(err) != code || !strings.Contains(err.Error(), says) {
				t.Errorf("pid %d, call %d: got %v, want %s that says %q", pid, call, err, code, says)
			}
		}
		check(99, 1, done, agentkernel.CodeNotFound, "no process 99")
		check(p.PID, 9, done, agentkernel.CodeNotFound, "has made no call 9")
		check(p.PID, 1, done, agentkernel.CodeConflict, "has its result already")
		check(p.PID, 3, done, agentkernel.CodeConflict, "call 3 (tool.call fake.append) is under way")
		check(raise.PID, 1, retry, agentkernel.CodeConflict, "has been handed OutcomeUnknown")
		check(p.PID, 3, agentkernel.Resolution{Decision: "perhaps"}, agentkernel.CodeInvalid, "done, retry or fail")
		check(p.PID, 3, agentkernel.Resolution{Decision: agentkernel.DecisionFail}, agentkernel.CodeInvalid, "message is empty")
		check(p.PID, 3, agentkernel.Resolution{Decision: agentkernel.DecisionDone, Result: json.RawMessage(`{`)}, agentkernel.CodeInvalid, "not JSON")
		pass(2 * time.Hour)
		check(p.PID, 3, done, agentkernel.CodeConflict, "has ended already: exited")
	})
}

// TestCrashWhileResolving cuts the power at each operation of the store from the moment at which a human
// decides: in the end the write was made at most as often as the human allowed, or the human is asked again.
func TestCrashWhileResolving(t *testing.T) {
	for name, decision := range map[string]agentkernel.Resolution{"done": done, "retry": retry, "fail": fail} {
		for _, image := range []bool{true, false} {
			total := 1
			for at := 0; at <= total; at++ {
				for _, after := range []bool{false, true} {
					synctest.Test(t, func(t *testing.T) {
						where := fmt.Sprintf("%s, image %v, crash at %d (after: %v)", name, image, at, after)
						r, pid := cutOff(t, oneWrite, image)
						if _, err := r.Recover(t.Context(), 0); err != nil {
							t.Fatal(err)
						}
						synctest.Wait()
						_ = r.store.Flush(t.Context(), 0)
						r.store.mu.Lock()
						begin := r.store.ops
						if r.store.after = after; at > 0 {
							r.store.crashAt = begin + at
						}
						r.store.mu.Unlock()
						_ = r.Resolve(t.Context(), pid, 1, decision) // it fails where the power fails
						pass(time.Second)
						left := r.store.crash()
						if at == 0 {
							r.store.mu.Lock()
							total = max(total, r.store.ops-begin)
							r.store.mu.Unlock()
						}
						r2 := r.boot(t, left)
						if _, err := r2.Recover(t.Context(), 0); err != nil {
							t.Fatalf("%s: %v", where, err)
						}
						pass(time.Second)
						p, err := r2.Wait(t.Context(), pid)
						if err != nil {
							t.Fatalf("%s: %v", where, err)
						}
						allowed := map[agentkernel.Decision]int{agentkernel.DecisionRetry: 1}[decision.Decision]
						if p.Paused { // the decision, or what came of it, was lost: the question is asked again
							if err := r2.Resolve(t.Context(), pid, 1, decision); err != nil {
								t.Fatalf("%s: deciding again: %v", where, err)
							}
							allowed *= 2
							p, err = r2.Wait(t.Context(), pid)
						}
						if n := r.tools.wrote(); err != nil || p.State != agentkernel.StateExited || n > allowed {
							t.Errorf("%s: %+v %v, the tool ran %d times, %d allowed", where, p, err, n, allowed)
						}
					})
				}
			}
			if total < 2 {
				t.Errorf("%s: only %d operations", name, total)
			}
		}
	}
}

// wrote is how often a tool other than echo has done something.
func (t *fakeTools) wrote() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.lines)
}

// A decision about a process that no kernel has taken up continues it with what is below it.
func TestADecisionTakesUpTheTree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		r.tools.delay = func() { pass(time.Hour) }
		r.backend.add("write", oneWrite)
		r.backend.add("below", sleeper)
		p, err := r.Spawn(t.Context(), pausing("write"))
		if err != nil {
			t.Fatal(err)
		}
		below := r.child(t, "below", r.child(t, "below", p.PID))
		pass(10 * time.Second)
		r.tools.mu.Lock()
		r.tools.delay = nil
		r.tools.mu.Unlock()
		r = r.boot(t, r.store.crash())
		if err := r.Resolve(t.Context(), p.PID, 1, done); err != nil {
			t.Fatal(err)
		}
		if p, err = r.Wait(t.Context(), p.PID); err != nil || p.State != agentkernel.StateExited {
			t.Errorf("%s %v, %v", p.State, p.Error, err)
		}
		if p, err = r.Wait(t.Context(), below); err != nil || p.State != agentkernel.StateExited {
			t.Errorf("below it: %s %v, %v", p.State, p.Error, err)
		}
	})
}

// TestADecisionWhileComputing: a program that computes while the outcome of its write becomes unknown stands still until somebody decides,
// and has not run meanwhile. It goes on then, or stays as it is if somebody had paused it.
func TestADecisionWhileComputing(t *testing.T) {
	for _, byHand := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, newRAMStore())
			r.tools.fail = func(agentkernel.ToolCall) (agentkernel.ToolResult, error) {
				pass(3 * time.Second)
				return agentkernel.ToolResult{}, agentkernel.Errorf(agentkernel.CodeUnavailable, "tool", "the connection broke")
			}
			r.backend.add("p", func(p *prog) error {
				id := p.async("tool.call", callTool("append", `{"n":1}`))
				p.compute(10 * time.Second)
				got, err := p.wait(id)
				p.print("%s%s", got, told(err))
				return nil
			})
			s := pausing("p")
			s.Limits.Time = agentkernel.Duration(15 * time.Second)
			p, err := r.Spawn(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			pass(time.Second)
			if byHand {
				if err := r.Signal(t.Context(), p.PID, agentkernel.SignalPause); err != nil {
					t.Fatal(err)
				}
			}
			pass(time.Minute)
			if p, err := r.Process(t.Context(), p.PID); err != nil || !p.Paused || !strings.Contains(p.PauseNote, "agentkernel resolve") {
				t.Fatalf("by hand %t: %+v, %v", byHand, p, err)
			}
			if err := r.Resolve(t.Context(), p.PID, 1, fail); err != nil {
				t.Fatal(err)
			}
			pass(time.Minute)
			if byHand { // whoever wanted that lets it go on
				if p, err := r.Process(t.Context(), p.PID); err != nil || !p.Paused || p.PauseNote != "" {
					t.Errorf("decided: %+v, %v", p, err)
				}
				if err := r.Signal(t.Context(), p.PID, agentkernel.SignalResume); err != nil {
					t.Fatal(err)
				}
				pass(time.Minute)
			}
			r.expectOutput(t, p.PID, agentkernel.StateExited, "tool_error: the order was cancelled")
			if p, err := r.Process(t.Context(), p.PID); err != nil || p.Usage.Running > 11*time.Second {
				t.Errorf("by hand %t: it ran for %s, %v", byHand, p.Usage.Running, err)
			}
		})
	}
}
