package kernel_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel"
)

// spawnUntil starts a program with a deadline so long from now.
func (r *rig) spawnUntil(t *testing.T, program string, d time.Duration, change ...func(*agentkernel.Spec)) agentkernel.PID {
	t.Helper()
	s := spec(program)
	s.Deadline = time.Now().Add(d)
	for _, c := range change {
		c(&s)
	}
	p, err := r.Spawn(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return p.PID
}

// TestDeadline: at its deadline a process is asked to stop, and has the grace time of a stop, whatever it does at the moment, and
// also if no kernel was there when the deadline came. It is asked once, and its end names the deadline.
func TestDeadline(t *testing.T) {
	type step = func(t *testing.T, r *rig) *rig
	sig := func(s agentkernel.Signal, opt ...agentkernel.SignalOptions) step {
		return func(t *testing.T, r *rig) *rig {
			t.Helper()
			if err := r.Signal(t.Context(), 1, s, opt...); err != nil {
				t.Fatal(err)
			}
			return r
		}
	}
	down := func(d time.Duration) step {
		return func(t *testing.T, r *rig) *rig {
			t.Helper()
			next := stopped(t, r, 0)
			pass(d)
			next = next.boot(t, next.store, parkSoon)
			next.stopPrograms()
			if _, err := next.Recover(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			return next
		}
	}
	halt := func(t *testing.T, r *rig) *rig {
		t.Helper()
		if err := r.Halt(t.Context(), agentkernel.Hold{Tree: 1}); err != nil {
			t.Fatal(err)
		}
		return r
	}
	// The deadline is a minute after the creation, and the steps are taken ten seconds after it.
	for name, c := range map[string]struct {
		program string
		steps   []step
		runs    time.Duration // from the creation
		state   agentkernel.State
		exit    int
		out     string
		op      string
	}{
		"one that obeys":           {"obeys", nil, time.Minute, agentkernel.StateKilled, 124, "", "deadline"},
		"one that cleans up":       {"cleans up", nil, 65 * time.Second, agentkernel.StateExited, 0, "clean <nil>", ""},
		"one that does not listen": {"deaf", nil, 70 * time.Second, agentkernel.StateKilled, 124, "interrupted ", "deadline"},
		"no kernel until later":    {"cleans up", []step{down(5 * time.Minute)}, 315 * time.Second, agentkernel.StateExited, 0, "clean <nil>", ""},
		"no kernel, and deaf":      {"deaf", []step{down(5 * time.Minute)}, 320 * time.Second, agentkernel.StateKilled, 124, "interrupted ", "deadline"},
		"another kernel, in time":  {"obeys", []step{down(20 * time.Second)}, time.Minute, agentkernel.StateKilled, 124, "", "deadline"},
		"paused":                   {"cleans up", []step{sig(agentkernel.SignalPause)}, 70 * time.Second, agentkernel.StateKilled, 124, "", "deadline"},
		"halted":                   {"cleans up", []step{halt}, 70 * time.Second, agentkernel.StateKilled, 124, "", "deadline"},
		"asked to stop before":     {"deaf", []step{sig(agentkernel.SignalStop, grace(55*time.Second))}, 65 * time.Second, agentkernel.StateKilled, 137, "interrupted ", "stop"},
		"asked with more time":     {"deaf", []step{sig(agentkernel.SignalStop, grace(time.Hour))}, 70 * time.Second, agentkernel.StateKilled, 124, "interrupted interrupted ", "deadline"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, newRAMStore(), parkSoon)
				r.stopPrograms()
				begun := time.Now()
				pid := r.spawnUntil(t, c.program, time.Minute)
				pass(10 * time.Second)
				for _, step := range c.steps {
					r = step(t, r)
				}
				if p, err := r.Process(t.Context(), pid); err != nil || !p.Deadline.Equal(begun.Add(time.Minute)) {
					t.Errorf("%+v, %v", p, err)
				}
				pass(time.Until(begun.Add(c.runs - time.Second)))
				if p, err := r.Process(t.Context(), pid); err != nil || p.State.Terminal() {
					t.Errorf("too early: %s (%v), %v", p.State, p.Error, err)
				}
				pass(2 * time.Second)
				r.expectOutput(t, pid, c.state, c.out)
				p, err := r.Process(t.Context(), pid)
				if err != nil || p.ExitCode != c.exit || (p.Error != nil) != (c.op != "") || p.Error != nil && p.Error.Op != c.op {
					t.Errorf("exit code %d, %v, %v", p.ExitCode, p.Error, err)
				}
				if named := strings.Contains(fmt.Sprint(p.Error), "deadline was reached ("+begun.Add(time.Minute).UTC().Format(time.RFC3339)); named != (c.op == "deadline") {
					t.Errorf("%v", p.Error)
				}
			})
		})
	}
}

// TestDeadlineAndWallLimit: whichever comes first ends the process.
func TestDeadlineAndWallLimit(t *testing.T) {
	for wall, op := range map[time.Duration]string{50 * time.Second: "limit.wall", 65 * time.Second: "limit.wall", 75 * time.Second: "deadline"} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, newRAMStore())
			r.stopPrograms()
			pid := r.spawnUntil(t, "deaf", time.Minute, func(s *agentkernel.Spec) { s.Limits.Wall = agentkernel.Duration(wall) })
			pass(2 * time.Minute)
			if p, err := r.Process(t.Context(), pid); err != nil || p.Error == nil || p.Error.Op != op || p.ExitCode != 124 {
				t.Errorf("%s: %v, %v", wall, p.Error, err)
			}
		})
	}
}

// TestBadDeadlines creates nothing; a process that was created in time is found by its key also later.
func TestBadDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		r.stopPrograms()
		for at, says := range map[time.Time]string{
			time.Now().Add(-time.Second):       "has passed",
			time.Now():                         "has passed",
			time.Unix(0, 0):                    "has passed",
			time.Now().AddDate(1000, 0, 0):     "ten years",
			time.Now().Add(11 * 8766 * 3.6e12): "ten years",
		} {
			s := spec("obeys")
			s.Deadline = at
			_, err := r.Spawn(t.Context(), s)
			_, many := r.SpawnMany(t.Context(), s, make([]agentkernel.Instance, 2))
			_, run := r.Run(t.Context(), s, func(agentkernel.Event) error { return nil })
			for _, err := range []error{err, many, run} {
				if agentkernel.CodeOf(err) != agentkernel.CodeInvalid || !strings.Contains(fmt.Sprint(err), says) {
					t.Errorf("%s: %v", at, err)
				}
			}
		}
		if n, err := r.store.Count(t.Context(), agentkernel.Filter{}); err != nil || n > 0 {
			t.Errorf("%d processes, %v", n, err)
		}
		keyed := func(s *agentkernel.Spec) { s.IdempotencyKey = "k" }
		pid := r.spawnUntil(t, "obeys", time.Minute, keyed)
		pass(2 * time.Minute)
		if again := r.spawnUntil(t, "obeys", -time.Minute, keyed); again != pid {
			t.Errorf("%d, and then %d", pid, again)
		}
	})
}

// TestDeadlinesOfChildren: a child's is not later than its parent's, unless it is detached.
func TestDeadlinesOfChildren(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		r.stopPrograms()
		begun := time.Now()
		at := func(d time.Duration) string { return fmt.Sprint(begun.Add(d).Unix()) }
		r.backend.add("parent", func(p *prog) error {
			for _, more := range []string{``, `,"deadline":` + at(30*time.Second), `,"deadline":` + at(time.Hour), `,"detached":true`,
				`,"detached":true,"deadline":` + at(time.Hour), `,"deadline":null`, `,"deadline":` + at(-time.Hour), `,"deadline":-1e300`, `,"detached":true,"deadline":1e300`, `,"deadline":"30m"`} {
				if _, err := p.call("proc.spawn", `{"source":"obeys"`+more+`}`); err != nil {
					p.print("%s ", agentkernel.CodeOf(err))
				}
			}
			_, err := p.call("time.sleep", `{"seconds":3600}`)
			return err
		})
		parent := r.spawnUntil(t, "parent", time.Minute)
		outside := spec("obeys")
		outside.Parent, outside.Deadline = parent, begun.Add(time.Hour)
		pass(time.Second)
		if _, err := r.Spawn(t.Context(), outside); err != nil {
			t.Fatal(err)
		}
		r.expectOutput(t, parent, agentkernel.StateWaiting, strings.Repeat("invalid_argument ", 4))
		for pid, want := range map[agentkernel.PID]time.Duration{2: time.Minute, 3: 30 * time.Second, 4: time.Minute, 5: 0, 6: time.Hour, 7: time.Minute, 8: time.Minute} {
			p, err := r.Process(t.Context(), pid)
			if err != nil || want == 0 != p.Deadline.IsZero() || want != 0 && p.Deadline.Unix() != begun.Add(want).Unix() {
				t.Errorf("process %d: %s, want %s, %v", pid, p.Deadline, want, err)
			}
		}
		pass(time.Minute)
		for pid := agentkernel.PID(1); pid <= 8; pid++ {
			if p, err := r.Process(t.Context(), pid); err != nil || p.State.Terminal() == (pid == 5 || pid == 6) {
				t.Errorf("process %d: %s, %v", pid, p.State, err)
			}
		}
	})
}

// TestDeadlineWhenTheClockJumps: a deadline goes by the clock of the machine, and one that jumps serves none twice.
func TestDeadlineWhenTheClockJumps(t *testing.T) {
	for name, c := range map[string]struct {
		jump time.Duration // half a minute before the deadline
		ends time.Duration // after the jump, at most half a minute more: the alarm looks at the clock as often
	}{
		"ahead":      {time.Hour, 10 * time.Second},
		"back":       {-time.Hour, time.Hour + 40*time.Second},
		"not at all": {0, 40 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var shift atomic.Int64
				now := func() time.Time { return time.Now().Round(0).Add(time.Duration(shift.Load())) }
				r := newRig(t, newRAMStore(), parkSoon, func(cfg *kernel.Config) { cfg.Now = now })
				r.stopPrograms()
				pid := r.spawnUntil(t, "deaf", time.Minute)
				pass(30 * time.Second)
				shift.Store(int64(c.jump))
				pass(c.ends - time.Second)
				if p, err := r.Process(t.Context(), pid); err != nil || p.State.Terminal() {
					t.Errorf("too early: %v, %v", p.Error, err)
				}
				pass(32 * time.Second)
				r.expectOutput(t, pid, agentkernel.StateKilled, "interrupted ")
			})
		})
	}
}
