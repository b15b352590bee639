package kernel_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel"
)

// grace is what a test gives a process to end.
func grace(d time.Duration) agentkernel.SignalOptions {
	return agentkernel.SignalOptions{Grace: agentkernel.Duration(d)}
}

// stopPrograms are those that are asked to stop: one lets the interrupt end it, one cleans up, one does not listen.
func (r *rig) stopPrograms() {
	r.backend.add("obeys", func(p *prog) error {
		_, err := p.call("time.sleep", `{"seconds":3600}`)
		return err
	})
	r.backend.add("cleans up", func(p *prog) error {
		if _, err := p.call("time.sleep", `{"seconds":3600}`); agentkernel.CodeOf(err) != agentkernel.CodeInterrupted {
			return err
		}
		_, err := p.call("time.sleep", `{"seconds":5}`)
		p.print("clean %v", err)
		return nil
	})
	r.backend.add("deaf", func(p *prog) error {
		for {
			if _, err := p.call("time.sleep", `{"seconds":3600}`); err != nil {
				p.print("%s ", agentkernel.CodeOf(err))
			}
		}
	})
}

// TestStop: a process that is asked to stop has its grace time, whatever it does with it, also when its kernel dies meanwhile, or
// when it is paused. It is told once.
func TestStop(t *testing.T) {
	ask := func(d time.Duration) func(t *testing.T, r *rig) *rig {
		return func(t *testing.T, r *rig) *rig {
			t.Helper()
			if err := r.Signal(t.Context(), 1, agentkernel.SignalStop, grace(d)); err != nil {
				t.Fatal(err)
			}
			return r
		}
	}
	die := func(down time.Duration) func(t *testing.T, r *rig) *rig {
		return func(t *testing.T, r *rig) *rig {
			t.Helper()
			r.store.mu.Lock()
			pos := r.store.pos
			r.store.mu.Unlock()
			if err := r.store.Flush(t.Context(), pos); err != nil { // which takes milliseconds by itself
				t.Fatal(err)
			}
			next := died(t, r, 0)
			pass(down)
			next = next.boot(t, next.store)
			next.stopPrograms()
			if _, err := next.Recover(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			return next
		}
	}
	sig := func(s agentkernel.Signal) func(t *testing.T, r *rig) *rig {
		return func(t *testing.T, r *rig) *rig {
			t.Helper()
			if err := r.Signal(t.Context(), 1, s); err != nil {
				t.Fatal(err)
			}
			return r
		}
	}
	wait := func(d time.Duration) func(t *testing.T, r *rig) *rig {
		return func(_ *testing.T, r *rig) *rig { pass(d); return r }
	}
	for name, c := range map[string]struct {
		program string
		steps   []func(t *testing.T, r *rig) *rig
		runs    time.Duration // from its creation, at least, and not a second longer
		state   agentkernel.State
		out     string
		says    string
	}{
		"one that obeys":            {"obeys", []func(t *testing.T, r *rig) *rig{ask(time.Minute)}, 10 * time.Second, agentkernel.StateKilled, "", "and did"},
		"one that cleans up":        {"cleans up", []func(t *testing.T, r *rig) *rig{ask(time.Minute)}, 15 * time.Second, agentkernel.StateExited, "clean <nil>", ""},
		"too little time":           {"cleans up", []func(t *testing.T, r *rig) *rig{ask(2 * time.Second)}, 12 * time.Second, agentkernel.StateKilled, "", "grace time was over"},
		"one that does not listen":  {"deaf", []func(t *testing.T, r *rig) *rig{ask(time.Minute)}, 70 * time.Second, agentkernel.StateKilled, "interrupted ", "grace time was over"},
		"asked twice, sooner":       {"deaf", []func(t *testing.T, r *rig) *rig{ask(time.Hour), wait(time.Second), ask(20 * time.Second)}, 31 * time.Second, agentkernel.StateKilled, "interrupted interrupted ", "grace time was over"},
		"asked twice, later":        {"deaf", []func(t *testing.T, r *rig) *rig{ask(time.Minute), ask(time.Hour)}, 70 * time.Second, agentkernel.StateKilled, "interrupted ", "grace time was over"},
		"the kernel dies meanwhile": {"deaf", []func(t *testing.T, r *rig) *rig{ask(time.Minute), wait(time.Second), die(20 * time.Second)}, 70 * time.Second, agentkernel.StateKilled, "interrupted ", "grace time was over"},
		"the kernel is dead longer": {"deaf", []func(t *testing.T, r *rig) *rig{ask(time.Minute), wait(time.Second), die(2 * time.Minute)}, 131 * time.Second, agentkernel.StateKilled, "interrupted ", "grace time was over"},
		"while it is paused":        {"obeys", []func(t *testing.T, r *rig) *rig{sig(agentkernel.SignalPause), ask(time.Minute)}, 70 * time.Second, agentkernel.StateKilled, "", "grace time was over"},
		"paused afterwards":         {"cleans up", []func(t *testing.T, r *rig) *rig{ask(time.Minute), wait(time.Second), sig(agentkernel.SignalPause)}, 70 * time.Second, agentkernel.StateKilled, "", "grace time was over"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, newRAMStore(), parkSoon)
				r.stopPrograms()
				created := r.spawnArgs(t, c.program)
				begun := time.Now()
				pass(10 * time.Second)
				for _, step := range c.steps {
					r = step(t, r)
				}
				if p, err := r.Process(t.Context(), created); err != nil || c.runs > 11*time.Second && !strings.Contains(name, "longer") && p.StopBy.IsZero() {
					t.Errorf("%+v, %v", p, err)
				}
				pass(time.Until(begun.Add(c.runs - time.Second)))
				if p, err := r.Process(t.Context(), created); err != nil || c.runs > 11*time.Second && !strings.Contains(name, "longer") && p.State.Terminal() {
					t.Errorf("too early: %s (%v), %v", p.State, p.Error, err)
				}
				pass(2 * time.Second)
				r.expectOutput(t, created, c.state, c.out)
				p, err := r.Process(t.Context(), created)
				if err != nil || c.says != "" && !strings.Contains(fmt.Sprint(p.Error), c.says) {
					t.Errorf("%v, %v", p.Error, err)
				}
				err = r.Signal(t.Context(), created, agentkernel.SignalStop)
				if agentkernel.CodeOf(err) != agentkernel.CodeConflict {
					t.Errorf("stop of an ended process: %v", err)
				}
			})
		})
	}
}

// TestStopOfASession: one at rest ends at once; one that runs a cell ends with the cell.
func TestStopOfASession(t *testing.T) {
	for _, busy := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := sessionRig(t, newRAMStore())
			pid := r.begin(t)
			if busy {
				go func() {
					_, _ = r.Feed(t.Context(), pid, agentkernel.Cell{Source: "slow"}, func(agentkernel.Event) error { return nil })
				}()
				pass(time.Second)
			}
			if err := r.Signal(t.Context(), pid, agentkernel.SignalStop); err != nil {
				t.Fatal(err)
			}
			pass(time.Second)
			r.expectOutput(t, pid, agentkernel.StateExited, map[bool]string{true: "at once\n"}[busy])
		})
	}
}

// TestDetached: signals to a process reach those below it that are attached to it; the others with Tree alone. The tree is
// 1 -> 2 -> 3 and 1 -> 4 -> 5, of which 4 is detached.
func TestDetached(t *testing.T) {
	all := "1 2 3 4 5"
	for _, c := range []struct {
		sig  agentkernel.Signal
		pid  agentkernel.PID
		tree bool
		hit  string
	}{
		{agentkernel.SignalKill, 1, false, "1 2 3"},
		{agentkernel.SignalKill, 1, true, all},
		{agentkernel.SignalKill, 4, false, "4 5"},
		{agentkernel.SignalStop, 1, false, "1 2 3"},
		{agentkernel.SignalStop, 1, true, all},
		{agentkernel.SignalStop, 4, false, "4 5"},
		{agentkernel.SignalPause, 1, false, "1 2 3"},
		{agentkernel.SignalPause, 1, true, all},
		{agentkernel.SignalInterrupt, 1, false, "1"},
		{agentkernel.SignalInterrupt, 1, true, all},
	} {
		for _, crash := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s %d, tree %t, after a crash %t", c.sig, c.pid, c.tree, crash), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t, newRAMStore())
					r.stopPrograms()
					for i, parent := range []agentkernel.PID{0, 1, 2, 1, 4} {
						s := spec("obeys")
						s.Parent, s.Detached = parent, i == 3
						if _, err := r.Spawn(t.Context(), s); err != nil {
							t.Fatal(err)
						}
					}
					pass(time.Second)
					if crash {
						next := died(t, r, 0)
						r = next.boot(t, next.store)
						r.stopPrograms()
						if c.sig != agentkernel.SignalKill { // which unfinished ones obey, too
							if _, err := r.Recover(t.Context(), 0); err != nil {
								t.Fatal(err)
							}
							pass(time.Second)
						}
					}
					if err := r.Signal(t.Context(), c.pid, c.sig, agentkernel.SignalOptions{Tree: c.tree}); err != nil {
						t.Fatal(err)
					}
					pass(time.Second)
					var hit []string
					for pid := agentkernel.PID(1); pid <= 5; pid++ {
						if p, err := r.Process(t.Context(), pid); err != nil || p.Paused || p.State.Terminal() {
							hit = append(hit, pid.String())
						}
					}
					if got := strings.Join(hit, " "); got != c.hit {
						t.Errorf("hit %s, want %s", got, c.hit)
					}
				})
			})
		}
	}
}

// TestSpawnDetached: a program may detach a child, and one that is to stop starts no more.
func TestSpawnDetached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		r.stopPrograms()
		r.backend.add("parent", func(p *prog) error {
			if _, err := p.call("proc.spawn", `{"source":"obeys","detached":true}`); err != nil {
				return err
			}
			if _, err := p.call("proc.spawn", `{"source":"obeys"}`); err != nil {
				return err
			}
			_, _ = p.call("time.sleep", `{"seconds":3600}`)
			_, err := p.call("proc.spawn", `{"source":"obeys"}`)
			p.print("%s", agentkernel.CodeOf(err))
			return nil
		})
		parent := r.spawnArgs(t, "parent")
		pass(time.Second)
		if err := r.Signal(t.Context(), parent, agentkernel.SignalStop); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		r.expectOutput(t, parent, agentkernel.StateExited, "conflict")
		r.expectOutput(t, 2, agentkernel.StateWaiting, "")
		r.expectOutput(t, 3, agentkernel.StateKilled, "")
	})
}

// TestUserSignals: each is taken once, in their order, whether the program waits for it or not, however it is parked, and also
// when it holds signals back meanwhile.
func TestUserSignals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore(), parkSoon)
		r.backend.add("p", func(p *prog) error {
			for range 3 {
				got, err := p.call("signals.wait", `{}`)
				p.print("%s %v ", got, err)
			}
			_, err := p.call("signals.wait", `{"timeout":5}`)
			p.print("%s ", agentkernel.CodeOf(err))
			id := p.async("signals.wait", `{}`)
			_, err1 := p.call("signals.mask", `{}`)
			_, err2 := p.call("time.sleep", `{"seconds":60}`)
			p.print("%v %v critical ", err1, err2)
			_, err = p.call("signals.unmask", `{}`)
			got, err3 := p.wait(id)
			p.print("%v %s %v ", err, got, err3)
			_, err = p.call("time.now", `{}`)
			p.print("%s", agentkernel.CodeOf(err))
			return nil
		})
		pid := r.spawnArgs(t, "p")
		pass(10 * time.Second)
		send := func(payload string) {
			t.Helper()
			o := agentkernel.SignalOptions{Payload: json.RawMessage(payload)}
			if err := r.Signal(t.Context(), pid, agentkernel.SignalUser, o); err != nil {
				t.Fatal(err)
			}
		}
		send(`{"b":1, "a":2}`)
		pass(10 * time.Second)
		r.expectOutput(t, pid, agentkernel.StateWaiting, `{"a":2,"b":1} <nil> `)
		if err := r.Signal(t.Context(), pid, agentkernel.SignalPause); err != nil {
			t.Fatal(err)
		}
		send(`2`)
		send(`3`)
		pass(10 * time.Second)
		if err := r.Signal(t.Context(), pid, agentkernel.SignalResume); err != nil {
			t.Fatal(err)
		}
		pass(15 * time.Second) // in the critical section
		send(`"masked"`)
		if err := r.Signal(t.Context(), pid, agentkernel.SignalInterrupt); err != nil {
			t.Fatal(err)
		}
		pass(2 * time.Minute)
		r.expectOutput(t, pid, agentkernel.StateExited,
			`{"a":2,"b":1} <nil> 2 <nil> 3 <nil> timeout <nil> <nil> critical <nil> "masked" <nil> interrupted`)
	})
}

// TestBadSignals are refused with what is wrong, before anything happens.
func TestBadSignals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		r.stopPrograms()
		pid := r.spawnArgs(t, "deaf")
		pass(time.Second)
		for _, c := range []struct {
			sig  agentkernel.Signal
			with []agentkernel.SignalOptions
			code agentkernel.Code
			says string
		}{
			{"SIGTERM", nil, agentkernel.CodeInvalid, "interrupt, stop, user, pause, resume or kill"},
			{agentkernel.SignalKill, []agentkernel.SignalOptions{grace(time.Second)}, agentkernel.CodeInvalid, "goes with stop"},
			{agentkernel.SignalStop, []agentkernel.SignalOptions{grace(-time.Second)}, agentkernel.CodeInvalid, "more than 0"},
			{agentkernel.SignalStop, []agentkernel.SignalOptions{grace(100 * 365 * 24 * time.Hour)}, agentkernel.CodeInvalid, "at most 24h"},
			{agentkernel.SignalUser, []agentkernel.SignalOptions{{Payload: json.RawMessage(`{`)}}, agentkernel.CodeInvalid, "not JSON"},
			{agentkernel.SignalUser, []agentkernel.SignalOptions{{Payload: json.RawMessage(`"` + strings.Repeat("x", 70_000) + `"`)}}, agentkernel.CodeInvalid, "65536"},
			{agentkernel.SignalStop, []agentkernel.SignalOptions{{Payload: json.RawMessage(`1`)}}, agentkernel.CodeInvalid, "signal user"},
		} {
			err := r.Signal(t.Context(), pid, c.sig, c.with...)
			if agentkernel.CodeOf(err) != c.code || !strings.Contains(fmt.Sprint(err), c.says) {
				t.Errorf("%s %+.60v: %v; want %s with %q", c.sig, c.with, err, c.code, c.says)
			}
		}
		for i := range agentkernel.MaxSignalsWaiting + 1 {
			err := r.Signal(t.Context(), pid, agentkernel.SignalUser)
			if want := i == agentkernel.MaxSignalsWaiting; want != (agentkernel.CodeOf(err) == agentkernel.CodeLimit) {
				t.Fatalf("signal %d: %v", i+1, err)
			}
		}
		if p, err := r.Process(t.Context(), pid); err != nil || p.State.Terminal() || !p.StopBy.IsZero() {
			t.Errorf("%+v, %v", p, err)
		}
	})
}

// pidStore is a store that tells when a PID is taken.
type pidStore struct {
	*ramStore
	onPID func()
}

func (s *pidStore) NewPID(ctx context.Context) (agentkernel.PID, error) {
	if s.onPID != nil {
		s.onPID()
	}
	return s.ramStore.NewPID(ctx)
}

// TestSignalsToTheNewborn: a child that is being created while its parent gets a signal has it, too, unless it is detached and the
// signal is not for the tree.
func TestSignalsToTheNewborn(t *testing.T) {
	for _, sig := range []agentkernel.Signal{agentkernel.SignalStop, agentkernel.SignalPause, agentkernel.SignalKill} {
		for _, tree := range []bool{false, true} {
			for _, detached := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, tree %t, detached %t", sig, tree, detached), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						ram := newRAMStore()
						store := &pidStore{ramStore: ram}
						r := newRig(t, ram, func(c *kernel.Config) { c.Store = store })
						r.stopPrograms()
						r.backend.add("parent", func(p *prog) error {
							_, err := p.call("proc.spawn", fmt.Sprintf(`{"source":"deaf","detached":%t}`, detached))
							_, _ = p.call("time.sleep", `{"seconds":3600}`)
							return err
						})
						const parent = agentkernel.PID(1)
						pids := 0
						store.onPID = func() {
							if pids++; pids != 2 { // the child's
								return
							}
							go func() {
								if err := r.Signal(t.Context(), parent, sig, agentkernel.SignalOptions{Tree: tree}); err != nil {
									t.Error(err)
								}
							}()
							time.Sleep(time.Second)
						}
						r.spawnArgs(t, "parent")
						pass(time.Minute)
						child, err := r.Process(t.Context(), parent+1)
						if sig == agentkernel.SignalKill && agentkernel.CodeOf(err) == agentkernel.CodeNotFound {
							return // it was never born
						}
						if err != nil {
							t.Fatal(err)
						}
						if had := child.Paused || child.State.Terminal(); had != (tree || !detached) {
							t.Errorf("%s, paused %t", child.State, child.Paused)
						}
					})
				})
			}
		}
	}
}

// TestTellTheTree: what one of a tree does not take keeps a signal from none of the others.
func TestTellTheTree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		r.stopPrograms()
		r.backend.add("listens", func(p *prog) error {
			v, err := p.call("signals.wait", `{}`)
			p.print("%s", v)
			return err
		})
		for i, parent := range []agentkernel.PID{0, 1, 1, 1} {
			s := spec([]string{"deaf", "deaf", "listens", "listens"}[i])
			s.Parent = parent
			if _, err := r.Spawn(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}
		pass(time.Second)
		for range agentkernel.MaxSignalsWaiting {
			if err := r.Signal(t.Context(), 2, agentkernel.SignalUser); err != nil {
				t.Fatal(err)
			}
		}
		err := r.Signal(t.Context(), 1, agentkernel.SignalUser, agentkernel.SignalOptions{Tree: true, Payload: json.RawMessage(`"all"`)})
		if agentkernel.CodeOf(err) != agentkernel.CodeLimit || !strings.Contains(err.Error(), "process 2") {
			t.Errorf("of the one that is full it says %v", err)
		}
		pass(time.Second)
		r.expectOutput(t, 3, agentkernel.StateExited, `"all"`)
		r.expectOutput(t, 4, agentkernel.StateExited, `"all"`)
	})
}
