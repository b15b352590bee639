package kernel_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"agentkernel"
	"agentkernel/internal/kernel"
)

// TestCrashDuringARerun cuts the power at each operation of the store while a rerun goes along its origin and
// beyond it: afterwards it goes on where it was, no write of the origin is made again, and each of its own is made
// once or reported as unknown.
func TestCrashDuringARerun(t *testing.T) {
	first := steps("w1 n R2 W3 R4 . z p1 s1 w5 W6 R7 . i4 x")
	// While it sleeps by itself, and is parked, two results of the origin are still to come.
	second := steps("w1 n R2 W3 R4 . z p1 s1 w5 W6 R7 z . s2 w8? R2 W9? . w1? p2 i4 w5?")
	total := 1
	for at := 0; at <= total; at++ {
		for _, after := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				where := fmt.Sprintf("crash at %d (after: %v)", at, after)
				r := newRig(t, newRAMStore(), parkSoon)
				watchTools(r, nil)
				r.backend.add("first", first.run)
				r.backend.add("second", second.run)
				past, _ := r.run(t, spec("first"))
				r.store.mu.Lock()
				begin := r.store.ops
				if r.store.after = after; at > 0 {
					r.store.crashAt = begin + at
				}
				r.store.mu.Unlock()
				s := rerunning("second", past.PID)
				s.IdempotencyKey = "again"
				_, _ = r.Run(t.Context(), s, func(agentkernel.Event) error { return nil }) // it fails where the power fails
				left := r.store.crash()
				if at == 0 {
					r.store.mu.Lock()
					total = max(total, r.store.ops-begin)
					r.store.mu.Unlock()
				}
				r2 := r.boot(t, left, parkSoon)
				if _, err := r2.Recover(t.Context(), 0); err != nil {
					t.Fatalf("%s: %v", where, err)
				}
				p, err := r2.Spawn(t.Context(), s) // the key gives the process that there is, if it came to be
				if err == nil {
					p, err = r2.Wait(t.Context(), p.PID)
				}
				if err != nil || p.State != agentkernel.StateExited {
					t.Fatalf("%s: %+v %v", where, p, err)
				}
				out := printed(t, r2, p.PID)
				if !strings.Contains(out, "<2><1><0>1<1><0>") {
					t.Errorf("%s: it printed %q", where, out)
				}
				ran := " " + toolRuns(r) + " "
				for _, word := range []string{"w1", "w3", "w5", "w6", "i4"} {
					if n := strings.Count(ran, " "+word+" "); n != 1 {
						t.Errorf("%s: %s of the past was made %d times", where, word, n)
					}
				}
				for _, word := range []string{"w8?", "w9?", "w1?", "w5?"} {
					if n := strings.Count(ran, " "+word+" "); n > 1 || n == 0 && !strings.Contains(out, "outcome_unknown") {
						t.Errorf("%s: %s was made %d times, %q", where, word, n, out)
					}
				}
				completeByItself(t, r2, p.PID)
				saysWhatItTook(t, r2, p.PID)
			})
		}
	}
	if total < 20 {
		t.Errorf("only %d operations", total)
	}
}

// TestAPastThatIsGone ends the rerun that needs it: to go on would make its calls again.
func TestAPastThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		watchTools(r, nil)
		r.backend.add("first", steps("w1 w2 x").run)
		r.backend.add("second", func(p *prog) error {
			if _, err := p.call("time.sleep", `{"seconds":1000}`); err != nil {
				return err
			}
			return steps("w1 w2").run(p)
		})
		first, _ := r.run(t, spec("first"))
		second, err := r.Spawn(t.Context(), rerunning("second", first.PID))
		if err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		_ = r.store.Flush(t.Context(), 0)
		left := r.store.crash()
		left.remove(first.PID)
		r2 := r.boot(t, left)
		if _, err := r2.Recover(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		p, err := r2.Wait(t.Context(), second.PID)
		if err != nil || p.Error == nil || p.Error.Code != agentkernel.CodeNotFound || !strings.Contains(p.Error.Message(), "journal that answers its calls") {
			t.Errorf("%+v %v", p, err)
		}
		if got := toolRuns(r); got != "w1 w2" {
			t.Errorf("made: %s", got)
		}
	})
}

// TestRerunChildren: a child of the origin that ended is not begun again but becomes the origin of the new one; one
// that goes on is waited for.
func TestRerunChildren(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		watchTools(r, nil)
		r.backend.add("kid", steps("w1 w2").run)
		r.backend.add("slow", steps("z w3").run)
		parent := func(first string, end error) func(p *prog) error {
			return func(p *prog) error {
				if _, err := p.call("tool.call", callTool("echo", `{"n":"`+first+`"}`)); err != nil {
					return err
				}
				kid, err := p.call("proc.spawn", `{"source":"kid"}`)
				if err != nil {
					return err
				}
				if _, err := p.call("proc.wait", fmt.Sprintf(`{"pid":%s}`, kid)); err != nil {
					return err
				}
				slow, err := p.call("proc.spawn", `{"source":"slow"}`)
				if err != nil || end != nil {
					return end
				}
				res, err := p.call("proc.wait", fmt.Sprintf(`{"pid":%s}`, slow))
				p.print("%s %s", slow, res)
				return err
			}
		}
		r.backend.add("first", parent("5", agentkernel.Errorf(agentkernel.CodeProgram, "p", "no")))
		r.backend.add("second", parent("6", nil))
		first, _ := r.run(t, spec("first"))
		second, said := r.rerun(t, rerunning("second", first.PID))
		if second.State != agentkernel.StateExited {
			t.Fatalf("%+v %v", second, second.Error)
		}
		if got := toolRuns(r); got != "r5 w1 w2 r6 w3" {
			t.Errorf("made: %s\n%s", got, said)
		}
		if got := printed(t, r, second.PID); !strings.HasPrefix(got, "3 ") || !strings.Contains(got, `"state":"exited"`) {
			t.Errorf("the child that went on: %s", got)
		}
	})
}

// TestRerunProperties: whatever a program did and wherever it failed, a rerun of it unchanged makes no call
// again that had an answer; changed at any place, it makes nothing again that had changed the world.
func TestRerunProperties(t *testing.T) {
	words := []string{"w1", "w2", "w3", "i1", "i2", "r1", "r2", "W4", "W5", "R6", "R7", ".", "n", "s1", "l", "z", "p1"}
	rapid.Check(t, func(rt *rapid.T) {
		program := rapid.SliceOfN(rapid.SampledFrom(words), 1, 12).Draw(rt, "program")
		cut := rapid.IntRange(0, len(program)-1).Draw(rt, "cut")
		word := rapid.SampledFrom(words).Draw(rt, "word")
		changed := append(append(append([]string(nil), program[:cut]...), word), program[cut+rapid.IntRange(0, 1).Draw(rt, "replace"):]...)
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, newRAMStore(), func(c *kernel.Config) { c.Now = sinceStart() })
			watchTools(r, nil)
			r.backend.add("first", steps(strings.Join(program, " ")+" . x").run)
			r.backend.add("same", steps(strings.Join(program, " ")+" .").run)
			r.backend.add("changed", steps(strings.Join(changed, " ")+" .").run)
			first, _ := r.run(t, spec("first"))
			made := countWrites(r)
			same, said := r.rerun(t, rerunning("same", first.PID))
			if same.State != agentkernel.StateExited || same.Usage.ToolCalls != 0 || !strings.Contains(said, "; none ") {
				rt.Errorf("unchanged: %+v, %s", same, said)
			}
			saysWhatItTook(rt, r, same.PID)
			if a, b := printed(t, r, first.PID), printed(t, r, same.PID); a != b {
				rt.Errorf("printed %q, then %q", a, b)
			}
			if _, err := r.Run(t.Context(), rerunning("changed", first.PID), func(agentkernel.Event) error { return nil }); err != nil {
				rt.Fatal(err)
			}
			wanted := map[string]int{}
			for _, w := range changed {
				if changes(w) {
					wanted[strings.ToLower(w)]++
				}
			}
			for w, n := range countWrites(r) {
				if n > max(made[w], wanted[w]) {
					rt.Errorf("%s was made %d times; the past made it %d times, the new program wants it %d times", w, n, made[w], wanted[w])
				}
			}
		})
	})
}

// changes says whether a step changes the world.
func changes(word string) bool { return strings.Contains("wWi", word[:1]) }

// countWrites is how often each call was made that changes the world.
func countWrites(r *rig) map[string]int {
	n := map[string]int{}
	for w := range strings.FieldsSeq(toolRuns(r)) {
		if changes(w) {
			n[w]++
		}
	}
	return n
}

// remove takes a process out of the store, as housekeeping does.
func (s *ramStore) remove(pid agentkernel.PID) {
	var kept []agentkernel.Batch
	for _, b := range s.durable {
		if b.Process != nil && b.Process.PID == pid || len(b.Entries) > 0 && b.Entries[0].PID == pid {
			continue
		}
		kept = append(kept, b)
	}
	s.durable = kept
}
