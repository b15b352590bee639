package kernel_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
	"agentkernel/internal/sys/systest/toy"
)

// stuck adds programs that make the same call again and again: "stuck" until it was answered something else, "catches" whatever it
// is answered, "polls" with a sleep in between, and "many" at the same time.
func (r *rig) stuck() {
	fetch := callTool("fetch", `{"path":"x"}`)
	again := func(p *prog, n int, between func(int)) error {
		for i := range n {
			if res, err := p.call("tool.call", fetch); err == nil && string(res) != `"same"` {
				p.print("%s after %d", res, i)
				return nil
			}
			between(i)
		}
		return nil
	}
	r.backend.add("stuck", func(p *prog) error { return again(p, 1000, func(int) {}) })
	r.backend.add("polls", func(p *prog) error {
		return again(p, 200, func(int) { _, _ = p.call("time.sleep", `{"seconds":1}`) })
	})
	r.backend.add("counts", func(p *prog) error {
		return again(p, 200, func(i int) { _, _ = p.call("state.get", fmt.Sprintf(`{"key":"k%d"}`, i)) })
	})
	r.backend.add("logs", func(p *prog) error {
		for range 200 {
			if _, err := p.call("log.write", `{"message":"."}`); err != nil {
				return err
			}
		}
		return nil
	})
	r.backend.add("denied", func(p *prog) error {
		for range 1000 {
			_, _ = p.call("tool.call", `{"server":"fake","tool":"put","arguments":{}}`)
		}
		return nil
	})
	r.backend.add("many", func(p *prog) error {
		var ids []int64
		for range 60 {
			ids = append(ids, p.async("toy.charge", `{"for":"x","free":true}`))
		}
		for _, id := range ids {
			if _, err := p.wait(id); err != nil {
				return err
			}
		}
		_, err := p.call("toy.charge", `{"free":true,"for":"x"}`)
		return err
	})
	r.tools.mu.Lock()
	r.tools.answer = func(agentkernel.ToolCall) json.RawMessage { return json.RawMessage(`"same"`) }
	r.tools.mu.Unlock()
}

// made is how many calls have left the kernel.
func (r *rig) made() int {
	r.tools.mu.Lock()
	defer r.tools.mu.Unlock()
	return len(r.tools.keys)
}

// expectStuck expects a process to be paused since it makes no progress.
func (r *rig) expectStuck(t *testing.T, pid agentkernel.PID, times int) {
	t.Helper()
	p, err := r.Process(t.Context(), pid)
	want := fmt.Sprintf("was made %d times in a row with the same arguments and the same answer, since 2000-01-01T00:0", times)
	if err != nil || !p.Paused || !strings.HasPrefix(p.PauseNote, agentkernel.NoProgress) || !strings.Contains(p.PauseNote, want) {
		t.Errorf("%v: paused %t: %q, want %q", err, p.Paused, p.PauseNote, want)
	}
	if causes := p.WakeCauses(); len(causes) == 0 || causes[0] != "resume" {
		t.Errorf("woken by %q", causes)
	}
}

// TestNoProgress: a process that makes the same call with the same answer too often is paused before the next leaves the kernel, and
// again after as many if it is resumed. A crash changes nothing, wherever it comes.
func TestNoProgress(t *testing.T) {
	for _, crash := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, newRAMStore(), parkSoon)
			r.stuck()
			pid := r.spawnArgs(t, "stuck")
			again := func() {
				pass(time.Minute)
				if !crash {
					return
				}
				r = r.boot(t, r.store.crash(), parkSoon)
				if _, err := r.Recover(t.Context(), 0); err != nil {
					t.Fatal(err)
				}
				pass(time.Minute)
			}
			again()
			for round := 1; round <= 3; round++ {
				r.expectStuck(t, pid, 50)
				// Without power the answer to the last call of a round may be lost, and the call is made again.
				if n := r.made(); n < 50*round || n > 50*round && !crash || n > 51*round {
					t.Errorf("%d calls have left the kernel", n)
				}
				if n := len(r.entries(t, pid)); n > 3+round*(100+2+2) {
					t.Errorf("%d entries: something of the call that waits is in the journal", n)
				}
				if err := r.Signal(t.Context(), pid, agentkernel.SignalResume); err != nil {
					t.Fatal(err)
				}
				again()
			}
			r.tools.mu.Lock()
			r.tools.answer = func(agentkernel.ToolCall) json.RawMessage { return json.RawMessage(`"other"`) }
			r.tools.mu.Unlock()
			if err := r.Signal(t.Context(), pid, agentkernel.SignalResume); err != nil {
				t.Fatal(err)
			}
			if p, err := r.Wait(t.Context(), pid); err != nil || p.State != agentkernel.StateExited {
				t.Errorf("%+v %v", p, err)
			}
			r.expectOutput(t, pid, agentkernel.StateExited, `"other" after 200`)
		})
	}
}

// TestNoProgressIsCountedOverCrashes: the count is in the journal, and a kernel that dies after each call loses nothing of it, with an
// image or without one.
func TestNoProgressIsCountedOverCrashes(t *testing.T) {
	for _, parks := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			y := &toy.World{Delay: time.Second}
			r := newRig(t, newRAMStore(), with(y))
			r.backend.add("charges", func(p *prog) error {
				for range 100 {
					_, _ = p.call("toy.charge", `{"for":"x","free":true}`)
				}
				return nil
			})
			s := spec("charges")
			s.Limits.Repeats = 8
			p, err := r.Spawn(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			pass(1500 * time.Millisecond)
			for range 6 {
				if parks {
					r = r.boot(t, r.store.crash(), with(y), parkSoon)
				} else {
					r = r.boot(t, r.store.crash(), with(y))
				}
				if _, err := r.Recover(t.Context(), 0); err != nil {
					t.Fatal(err)
				}
				pass(1500 * time.Millisecond) // one call is answered, and the next is under way
			}
			pass(time.Minute)
			now, err := r.Process(t.Context(), p.PID)
			if err != nil || !now.Paused || !strings.Contains(now.PauseNote, "was made 8 times in a row") {
				t.Errorf("%v %q", err, now.PauseNote)
			}
			results := 0
			for _, e := range r.entries(t, p.PID) {
				if e.Kind == agentkernel.EntryResult {
					results++
				}
			}
			if results != 8 {
				t.Errorf("%d calls were answered", results)
			}
		})
	}
}

// TestWhatIsProgress: sleeping in between, other calls, and changing answers.
func TestWhatIsProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore(), parkSoon)
		r.stuck()
		for _, program := range []string{"polls", "counts", "logs"} {
			if p, err := r.Wait(t.Context(), r.spawnArgs(t, program)); err != nil || p.State != agentkernel.StateExited {
				t.Errorf("%s: %+v %v", program, p, err)
			}
		}
		n := 0
		r.tools.mu.Lock()
		r.tools.answer = func(agentkernel.ToolCall) json.RawMessage {
			n++
			return json.RawMessage([]string{`"same"`, `null`}[min(n/49, 1)])
		}
		r.tools.mu.Unlock()
		if p, _ := r.run(t, spec("stuck")); p.State != agentkernel.StateExited {
			t.Errorf("%+v", p)
		}
		r.stuck()
		s := spec("stuck")
		s.Limits.Repeats = agentkernel.AnyRepeats
		if p, _ := r.run(t, s); p.State != agentkernel.StateExited {
			t.Errorf("%+v", p)
		}
	})
}

// TestNoProgressOfRefusals: calls that are refused never leave the kernel, and a program that catches that makes no progress either.
func TestNoProgressOfRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		r.stuck()
		s := spec("denied")
		s.Allow = nil
		for _, deny := range []string{"", "tool"} {
			if s.Deny = nil; deny != "" {
				s.Deny = []string{deny}
			}
			p, err := r.Spawn(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			pass(time.Minute)
			r.expectStuck(t, p.PID, 50)
			if entries := r.entries(t, p.PID); entries[len(entries)-1].Kind != agentkernel.EntryPaused || entries[len(entries)-2].Call != 50 {
				t.Errorf("the journal ends with %+v", entries[len(entries)-2:])
			}
			if err := r.Signal(t.Context(), p.PID, agentkernel.SignalKill); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestNoProgressAtTheSameTime: calls under way together are in a row as their answers are.
func TestNoProgressAtTheSameTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := &toy.World{Delay: time.Second}
		r := newRig(t, newRAMStore(), with(y))
		r.stuck()
		pid := r.spawnArgs(t, "many")
		pass(time.Minute)
		r.expectStuck(t, pid, 60)
		if n := len(y.Charged()); n != 60 {
			t.Errorf("%d calls were made", n)
		}
	})
}

// TestRepeatsOfARerun: what an origin answers counts for nobody.
func TestRepeatsOfARerun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		r.stuck()
		old := r.spawnArgs(t, "stuck")
		pass(time.Minute)
		if err := r.Signal(t.Context(), old, agentkernel.SignalKill); err != nil {
			t.Fatal(err)
		}
		s := spec("stuck")
		s.Past = &agentkernel.Past{PID: old}
		p, err := r.Spawn(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		r.expectStuck(t, p.PID, 50)
		if n := r.made(); n != 100 {
			t.Errorf("%d calls were made; 50 of them by the rerun", n)
		}
	})
}

// TestNoProgressOfAHostedProgram: its next call waits until somebody resumes the process.
func TestNoProgressOfAHostedProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		r.stuck()
		s := spec("host")
		s.Backend, s.Limits.Repeats = "hosted", 3
		p, err := r.Spawn(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		c, err := r.attach(t, p.PID)
		if err != nil {
			t.Fatal(err)
		}
		answers := make(chan string, 10)
		go func() {
			for range 4 {
				res, err := c.Syscall(t.Context(), "tool.call", json.RawMessage(callTool("fetch", `{"path":"x"}`)))
				answers <- fmt.Sprint(string(res), err)
			}
		}()
		synctest.Wait()
		r.expectStuck(t, p.PID, 3)
		if n := len(answers); n != 3 {
			t.Errorf("%d answers", n)
		}
		if err := r.Signal(t.Context(), p.PID, agentkernel.SignalResume); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := len(answers); n != 4 || r.made() != 4 {
			t.Errorf("%d answers, and %d calls", n, r.made())
		}
	})
}

// TestRepeatsAreInherited: a child may repeat a call no more often than its parent.
func TestRepeatsAreInherited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		r.stuck()
		r.backend.add("parent", func(p *prog) error {
			_, err := p.call("proc.spawn", `{"source":"stuck","detached":true,"limits":{"repeats":0}}`)
			return err
		})
		s := spec("parent")
		s.Limits.Repeats = 5
		if p, _ := r.run(t, s); p.State != agentkernel.StateExited {
			t.Fatalf("%+v", p)
		}
		pass(time.Minute)
		all, err := r.List(t.Context(), agentkernel.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(all, func(p agentkernel.Process) bool { return p.Parent != 0 })
		r.expectStuck(t, all[at].PID, 5)
	})
}

// TestNoProgressOfAChild: a child that makes no progress ends with the limit, which its parent is told that waits for it without a limit of
// time; if it were paused, the parent would wait for ever. One that was detached is paused as one without a parent is.
func TestNoProgressOfAChild(t *testing.T) {
	for _, crash := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, newRAMStore(), parkSoon)
			r.stuck()
			r.backend.add("parent", func(p *prog) error {
				if _, err := p.call("proc.spawn", `{"source":"stuck","detached":true}`); err != nil {
					return err
				}
				pid, err := p.call("proc.spawn", `{"source":"stuck"}`)
				if err != nil {
					return err
				}
				end, err := p.call("proc.wait", fmt.Sprintf(`{"pid":%s}`, pid))
				p.print("%s", end)
				return err
			})
			pid := r.spawnArgs(t, "parent")
			if crash {
				pass(time.Millisecond)
				r = r.boot(t, r.store.crash(), parkSoon)
				if _, err := r.Recover(t.Context(), 0); err != nil {
					t.Fatal(err)
				}
			}
			pass(time.Minute)
			p, err := r.Process(t.Context(), pid)
			if err != nil || p.State != agentkernel.StateExited {
				t.Fatalf("the parent is %+v, %v", p, err)
			}
			if out := r.output(t, pid); !strings.Contains(out, `limit_exceeded: repeats limit reached: fake.fetch`) || !strings.Contains(out, "50 times in a row") {
				t.Errorf("the parent was told %s", out)
			}
			r.expectStuck(t, pid+1, 50)
			child, err := r.Process(t.Context(), pid+2)
			if limit, _ := child.Error.Limit(); err != nil || !child.State.Terminal() || limit != "repeats" || child.ExitCode != agentkernel.ExitKilled || child.Usage.ToolCalls != 50 {
				t.Errorf("the child is %+v, %v", child, err)
			}
		})
	}
}
