package kernel_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
	"agentkernel/internal/sys/systest/toy"
)

// keyed is a server that remembers keys: what it was asked for, and with which keys.
type keyed struct {
	mu   sync.Mutex
	seen []string // "w2 1/2": the word of a call, and its key without the store
	fail func(word string) error
}

// remembering makes the tools of a rig remember keys; fail may keep an answer back, or change it.
func remembering(r *rig, fail func(word string) error) *keyed {
	s := &keyed{fail: fail}
	r.tools.mu.Lock()
	defer r.tools.mu.Unlock()
	r.tools.fail = func(c agentkernel.ToolCall) (agentkernel.ToolResult, error) {
		var a struct{ N string }
		_ = json.Unmarshal(c.Arguments, &a)
		word := map[string]string{"append": "w", "put": "i", "echo": "r"}[c.Tool] + a.N
		_, key, _ := strings.Cut(c.Key, "/")
		s.mu.Lock()
		s.seen = append(s.seen, word+" "+key)
		fail := s.fail
		s.mu.Unlock()
		if fail == nil {
			return agentkernel.ToolResult{}, nil
		}
		return agentkernel.ToolResult{}, fail(word)
	}
	return s
}

// answers lets the server answer everything from now on.
func (s *keyed) answers() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen, s.fail = nil, nil
}

// of is with which keys a call has come.
func (s *keyed) of(word string) (keys []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, line := range s.seen {
		if w, key, _ := strings.Cut(line, " "); w == word {
			keys = append(keys, key)
		}
	}
	return keys
}

// cut keeps the answer of a call back until its process is killed.
func cut(word string) func(string) error {
	return func(w string) error {
		if w == word {
			pass(time.Hour)
		}
		return nil
	}
}

// killed runs a program and kills it after a second.
func (r *rig) killed(t *testing.T, s agentkernel.Spec) agentkernel.PID {
	t.Helper()
	p, err := r.Spawn(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	pass(time.Second)
	if err := r.Signal(t.Context(), p.PID, agentkernel.SignalKill); err != nil {
		t.Fatal(err)
	}
	pass(time.Second)
	return p.PID
}

// pausedRerun runs a rerun that pauses at a write in doubt, and that of a rerun of a rerun where the one before was killed at it.
func (r *rig) pausedRerun(t *testing.T, program string, past agentkernel.PID, change ...func(*agentkernel.Past)) agentkernel.PID {
	t.Helper()
	s := rerunning(program, past, change...)
	s.OnUnknown = agentkernel.UnknownPause
	p, _ := r.rerun(t, s)
	if p, err := r.Wait(t.Context(), p.PID); err != nil || !p.Paused {
		t.Fatalf("it does not wait for a decision: %+v %v", p, err)
	}
	return p.PID
}

// TestARetryInARerunHasTheKeyOfTheOrigin: a write that a rerun makes once more stands for that of the origin, so that a server which
// remembers keys makes it once, also where a rerun of the rerun does it, and where the kernel dies meanwhile.
func TestARetryInARerunHasTheKeyOfTheOrigin(t *testing.T) {
	for _, second := range []steps{"r1 w2 p7", "r9 w2 p7"} {
		for _, how := range []string{"at once", "in a rerun of it", "after a crash", "decided while no kernel runs"} {
			t.Run(fmt.Sprintf("%s, %s", second, how), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t, newRAMStore(), parkSoon)
					server := remembering(r, cut("w2"))
					r.backend.add("first", steps("r1 w2").run)
					r.backend.add("second", second.run)
					first := r.killed(t, spec("first"))
					server.answers()
					pid := r.pausedRerun(t, "second", first)
					pass(time.Minute) // it is parked
					switch how {
					case "in a rerun of it":
						if err := r.Signal(t.Context(), pid, agentkernel.SignalKill); err != nil {
							t.Fatal(err)
						}
						pid = r.pausedRerun(t, "second", pid)
					case "after a crash":
						r = r.boot(t, r.store.crash(), parkSoon)
						if _, err := r.Recover(t.Context(), 0); err != nil {
							t.Fatal(err)
						}
						pass(time.Second)
					case "decided while no kernel runs":
						r = r.boot(t, r.store.crash(), parkSoon)
					}
					server = remembering(r, nil)
					if err := r.Resolve(t.Context(), pid, 2, retry); err != nil {
						t.Fatal(err)
					}
					p, err := r.Wait(t.Context(), pid)
					if want := []string{"1/2"}; err != nil || p.State != agentkernel.StateExited || !slices.Equal(server.of("w2"), want) {
						t.Errorf("%+v %v: made with the keys %v, want %v", p, err, server.of("w2"), want)
					}
				})
			})
		}
	}
}

// TestAnIdempotentCallOfTheOriginIsMadeAgainWithItsKey: one that was cut off, or whose answer was lost, is made again by a rerun as it
// is after a crash, with the key that its server has seen.
func TestAnIdempotentCallOfTheOriginIsMadeAgainWithItsKey(t *testing.T) {
	slow := func(word string) error {
		if word == "i2" {
			return agentkernel.Errorf(agentkernel.CodeTimeout, "tool.call", "too slow")
		}
		return nil
	}
	for name, c := range map[string]struct {
		second  steps
		fail    func(string) error
		again   bool
		crashes bool
	}{
		"cut off":                        {second: "r1 i2 i2"},
		"beyond the difference":          {second: "r9 i2 i2"},
		"timed out":                      {second: "r1 i2 i2", fail: slow},
		"timed out, beyond":              {second: "r9 i2 i2", fail: slow},
		"asked for":                      {second: "r9 i2 i2", again: true},
		"the rerun crashes in it":        {second: "r1 i2 i2", crashes: true},
		"the rerun crashes in it beyond": {second: "r9 i2 i2", crashes: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, newRAMStore(), parkSoon)
				fail := c.fail
				if fail == nil {
					fail = cut("i2")
				}
				server := remembering(r, fail)
				r.backend.add("first", steps("r1 i2").run)
				r.backend.add("second", c.second.run)
				var first agentkernel.PID
				if c.fail == nil {
					first = r.killed(t, spec("first"))
				} else {
					p, _ := r.run(t, spec("first"))
					first = p.PID
				}
				server.answers()
				s := rerunning("second", first, func(p *agentkernel.Past) {
					if c.again {
						p.Again = []string{"fake.*"}
					}
				})
				s.Budget = agentkernel.Budget{Calls: 10} // what it reserves is in the same note as where it is from
				want := []string{"1/2", "2/3"}
				if c.crashes {
					server.fail = cut("i2")
					if _, err := r.Spawn(t.Context(), s); err != nil {
						t.Fatal(err)
					}
					pass(time.Minute)
					_ = r.store.Flush(t.Context(), 0)
					if got := server.of("i2"); !slices.Equal(got, []string{"1/2"}) {
						t.Fatalf("before the crash: %v", got)
					}
					r = r.boot(t, r.store.crash(), parkSoon)
					server = remembering(r, nil)
					if _, err := r.Recover(t.Context(), 0); err != nil {
						t.Fatal(err)
					}
				} else {
					r.rerun(t, s)
				}
				p, err := r.Wait(t.Context(), 2)
				if got := server.of("i2"); err != nil || p.State != agentkernel.StateExited || !slices.Equal(got, want) {
					t.Errorf("%+v %v: made with the keys %v, want %v", p, err, got, want)
				}
				// Each was made by itself: a rerun of the rerun makes none of them, and those before it neither.
				server.answers()
				r.backend.add("third", steps("r8 i2 i2").run)
				if _, said := r.rerun(t, rerunning("third", 2)); len(server.of("i2")) > 0 {
					t.Errorf("a rerun of the rerun: %v\n%s", server.of("i2"), said)
				}
			})
		})
	}
}

// TestAWriteInDoubtThatIsAskedForHasItsKey: --again makes a write of which nobody knows whether it was made, with the key that says which
// one it is, and one that was made with a new key, since it is to be made twice.
func TestAWriteInDoubtThatIsAskedForHasItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		server := remembering(r, cut("w3"))
		r.backend.add("first", steps("r1 w2 w3").run)
		r.backend.add("second", steps("r9 w2 w3").run)
		first := r.killed(t, spec("first"))
		server.answers()
		_, said := r.rerun(t, rerunning("second", first, func(p *agentkernel.Past) { p.Again = []string{"fake.append"} }))
		if a, b := server.of("w2"), server.of("w3"); !slices.Equal(a, []string{"2/2"}) || !slices.Equal(b, []string{"1/3"}) {
			t.Errorf("made with the keys %v, %v", a, b)
		}
		if !strings.Contains(said, "call 3 (fake.append) may have been made by process 1 as call 3: it is made with the key of that one") {
			t.Errorf("said %q", said)
		}
	})
}

// TestAWriteInDoubtIsNotCalledMade: neither what is said of it beyond the first difference, nor that nobody asked for it, is untrue.
func TestAWriteInDoubtIsNotCalledMade(t *testing.T) {
	for second, want := range map[steps]string{
		"r9 w2 w3": "call 3 (fake.append) may have been made by process 1 as call 3: its outcome is unknown here, too (--again 'fake.append' makes it again with the key of that one)",
		"r1 w2 w3": "none was live",
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, newRAMStore())
			server := remembering(r, cut("w3"))
			r.backend.add("first", steps("r1 w2 w3").run)
			r.backend.add("second", second.run)
			first := r.killed(t, spec("first"))
			server.answers()
			if _, said := r.rerun(t, rerunning("second", first)); !strings.Contains(said, want) || strings.Contains(said, "call 3 (fake.append) was made") {
				t.Errorf("%s: said %q", second, said)
			}
			if w3 := server.of("w3"); len(w3) != 0 {
				t.Errorf("%s: made once more, with the keys %v", second, w3)
			}
		})
	}
}

// TestAgainBeforeTheFirstDifferenceIsTold: what somebody asked to be made again, and was answered, is no silence.
func TestAgainBeforeTheFirstDifferenceIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		r.backend.add("first", steps("r1 w2").run)
		first, _ := r.run(t, spec("first"))
		_, said := r.rerun(t, rerunning("first", first.PID, func(p *agentkernel.Past) { p.Again = []string{"fake.append"} }))
		if want := "none was live (--again is for calls beyond the first difference; with --from CALL, too, it begins at that call)"; !strings.HasSuffix(said, want) {
			t.Errorf("said %q", said)
		}
	})
}

// TestARerunSaysWhatWasDecided: a call that was made again by decision was live.
func TestARerunSaysWhatWasDecided(t *testing.T) {
	for _, c := range []struct {
		by     agentkernel.Resolution
		second steps
		says   string
	}{
		{retry, "r1 w2", "calls 1-2 answered from the journal of process 1, but for call 2, which was made again by decision; no other was live"},
		{done, "r1 w2", "calls 1-2 answered from the journal of process 1, but for call 2, which was decided; none was live"},
		{retry, "r1 w2 w3", "calls 1-2 answered from the journal of process 1, but for call 2, which was made again by decision; live from call 3: the journal of process 1 ends there"},
		{retry, "r1 w2 l", "1 of calls 1-3 answered from the journal of process 1, not call 2, which was made again by decision; none is a difference: state, log, exit and the like belong to the new process"},
	} {
		for _, crash := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, newRAMStore())
				server := remembering(r, cut("w2"))
				r.backend.add("first", steps("r1 w2").run)
				r.backend.add("second", steps(string(c.second)).run)
				first := r.killed(t, spec("first"))
				server.answers()
				pid := r.pausedRerun(t, "second", first)
				if crash {
					r = r.boot(t, r.store.crash())
				}
				if err := r.Resolve(t.Context(), pid, 2, c.by); err != nil {
					t.Fatal(err)
				}
				p, err := r.Wait(t.Context(), pid)
				if err != nil {
					t.Fatal(err)
				}
				var said []string
				for _, e := range r.entries(t, pid) {
					if e.Kind == agentkernel.EntryPast {
						said = append(said, e.Note)
					}
				}
				if !slices.Equal(said, []string{c.says}) {
					t.Errorf("%s of %s, crash %t: said %q", c.by.Decision, c.second, crash, said)
				}
				made := int64(strings.Count(string(c.second), "w3"))
				if c.by.Decision == agentkernel.DecisionRetry {
					made++
				}
				if p.Usage.ToolCalls != made {
					t.Errorf("%s of %s: %d tool calls are counted, want %d", c.by.Decision, c.second, p.Usage.ToolCalls, made)
				}
			})
		}
	}
}

// TestWhatIsPaidIsNotPaidAgain: a call that costs money and has an answer is answered beyond the first difference, too; one that failed
// or had no answer is made.
func TestWhatIsPaidIsNotPaidAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &toy.World{}
		r := newRig(t, newRAMStore(), with(w))
		asks := func(what ...string) func(*prog) error {
			return func(p *prog) error {
				for _, f := range what {
					if _, err := p.call("toy.charge", `{"for":"`+f+`","effect":"paid","reserve":{"tokens":5},"use":{"tokens":3}}`); err != nil {
						return err
					}
				}
				return agentkernel.Errorf(agentkernel.CodeProgram, "program", "it failed")
			}
		}
		r.backend.add("first", asks("a", "b", "c"))
		r.backend.add("second", asks("x", "c", "b", "b"))
		first, _ := r.run(t, spec("first"))
		second, said := r.rerun(t, rerunning("second", first.PID))
		if got := strings.Join(w.Charged(), ", "); got != "a /1/1, b /1/2, c /1/3, x /2/1, b /2/4" {
			t.Errorf("charged: %s", got)
		}
		if !strings.Contains(said, "call 2 (toy.c) was made by process 1 as call 3: answered from its journal") {
			t.Errorf("said %q", said)
		}
		completeByItself(t, r, second.PID)
	})
}
