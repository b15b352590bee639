package kernel_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
)

// What a hostile program can try with children: more of anything than it has itself, and a life that goes on
// when it is ended.

func TestForkBomb(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		var refused atomic.Int64
		bomb := func(p *prog) error {
			for range 10 {
				if _, err := p.call("proc.spawn", `{"source":"bomb"}`); agentkernel.CodeOf(err) == agentkernel.CodeLimit {
					refused.Add(1)
				}
			}
			_, err := p.call("time.sleep", `{"seconds":60}`)
			return err
		}
		r.backend.add("bomb", bomb)
		s := spec("bomb")
		s.Limits.Processes = 50
		p, err := r.Spawn(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		pass(30 * time.Second)
		info, err := r.Info(t.Context())
		if err != nil || info.Processes != 50 || refused.Load() < 100 {
			t.Errorf("%d processes live, %d spawns were refused; %v", info.Processes, refused.Load(), err)
		}
		if err := r.Signal(t.Context(), p.PID, agentkernel.SignalKill); err != nil {
			t.Fatal(err)
		}
		if info, _ = r.Info(t.Context()); info.Processes != 0 {
			t.Errorf("%d processes are left after the kill", info.Processes)
		}
	})
}

// TestPlacesInTheTreeAreGivenBack: ended children make room, and a tree that has ended is forgotten.
func TestPlacesInTheTreeAreGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		r.backend.add("p", func(p *prog) error {
			for range 20 {
				pid, err := p.call("proc.spawn", `{"source":"child"}`)
				if err != nil {
					return err
				}
				if _, err := p.call("proc.wait", fmt.Sprintf(`{"pid":%s}`, pid)); err != nil {
					return err
				}
			}
			return nil
		})
		r.backend.add("child", func(*prog) error { return nil })
		s := spec("p")
		s.Limits.Processes = 2
		if p, _ := r.run(t, s); p.State != agentkernel.StateExited {
			t.Errorf("%v", p.Error)
		}
		synctest.Wait()
		if n := r.Trees(); n != 0 {
			t.Errorf("%d trees are kept", n)
		}
	})
}

// TestGenerationsAreBounded: a program that starts its successor and ends would go on for ever.
func TestGenerationsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		var born, refused atomic.Int64
		r.backend.add("worm", func(p *prog) error {
			born.Add(1)
			if _, err := p.call("proc.spawn", `{"source":"worm"}`); agentkernel.CodeOf(err) == agentkernel.CodeLimit {
				refused.Add(1)
			}
			return nil
		})
		r.run(t, spec("worm"))
		pass(time.Minute)
		if born.Load() != 33 || refused.Load() != 1 {
			t.Errorf("%d generations, %d spawns were refused", born.Load(), refused.Load())
		}
	})
}

// TestNoChildOutlivesTheKillOfItsTree: a daemon starts a child by way of another child that ends at once.
func TestNoChildOutlivesTheKillOfItsTree(t *testing.T) {
	for name, rootLives := range map[string]bool{"the root lives": true, "the root has ended": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, newRAMStore())
				ticks := 0
				r.backend.add("p", func(p *prog) error {
					if _, err := p.call("proc.spawn", `{"source":"between"}`); err != nil || !rootLives {
						return err
					}
					_, err := p.call("time.sleep", `{"seconds":1000}`)
					return err
				})
				r.backend.add("between", func(p *prog) error { _, err := p.call("proc.spawn", `{"source":"daemon"}`); return err })
				r.backend.add("daemon", func(p *prog) error {
					for {
						if _, err := p.call("time.sleep", `{"seconds":1}`); err != nil {
							return err
						}
						ticks++
					}
				})
				p, err := r.Spawn(t.Context(), spec("p"))
				if err != nil {
					t.Fatal(err)
				}
				pass(5500 * time.Millisecond)
				if err := r.Signal(t.Context(), p.PID, agentkernel.SignalKill); err != nil {
					t.Errorf("kill: %v", err)
				}
				before := ticks
				pass(time.Minute)
				if before == 0 || ticks != before {
					t.Errorf("the daemon ticked %d times, and %d times after the kill", before, ticks-before)
				}
			})
		})
	}
}

// TestChildrenShareTheWallLimit: the time from start to end holds for all that the program starts.
func TestChildrenShareTheWallLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		began := time.Now()
		r.backend.add("p", func(p *prog) error {
			if _, err := p.call("time.sleep", `{"seconds":3}`); err != nil {
				return err
			}
			_, err := p.call("proc.spawn", `{"source":"child","limits":{"wall":"5h"}}`)
			return err
		})
		r.backend.add("child", func(p *prog) error { _, err := p.call("time.sleep", `{"seconds":1000}`); return err })
		s := spec("p")
		s.Limits.Wall = agentkernel.Duration(5 * time.Second)
		r.run(t, s)
		child, err := r.Wait(t.Context(), 2)
		if err != nil || child.State != agentkernel.StateKilled || child.Error.Op != "limit.wall" || time.Since(began) > 6*time.Second {
			t.Errorf("after %s: %s %v %v", time.Since(began), child.State, child.Error, err)
		}
	})
}

// TestJournalOfTheWholeTreeIsBounded: a program may not fill the disk, alone or with children.
func TestJournalOfTheWholeTreeIsBounded(t *testing.T) {
	write := func(p *prog) error {
		for {
			if _, err := p.call("log.write", `{"message":"`+strings.Repeat("x", 100<<10)+`"}`); err != nil {
				return err
			}
		}
	}
	for name, root := range map[string]func(p *prog) error{
		"alone": write,
		"by its output": func(p *prog) error {
			for range 100_000 {
				p.print("x")
			}
			<-p.s.dead
			return nil
		},
		"with children": func(p *prog) error {
			for {
				pid, err := p.call("proc.spawn", `{"source":"child"}`)
				if err != nil {
					return err
				}
				if _, err := p.call("proc.wait", fmt.Sprintf(`{"pid":%s}`, pid)); err != nil {
					return err
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newRAMStore()
				r := newRig(t, store)
				r.backend.add("p", root)
				r.backend.add("child", func(p *prog) error {
					_, err := p.call("log.write", `{"message":"`+strings.Repeat("x", 200<<10)+`"}`)
					return err
				})
				s := spec("p")
				s.Limits.Journal = 1 << 20
				p, _ := r.run(t, s)
				if p.State != agentkernel.StateKilled || p.Error.Op != "limit.journal" || p.ExitCode != agentkernel.ExitKilled {
					t.Errorf("%s %v", p.State, p.Error)
				}
				if n := store.size(); n > 2<<20 {
					t.Errorf("the store holds %d bytes", n)
				}
			})
		})
	}
}

// TestACallBeyondTheJournal: a call whose arguments the journal has no room for is not written, be it one that would be refused, or one of
// each of many processes of a tree.
func TestACallBeyondTheJournal(t *testing.T) {
	for _, op := range []string{"log.write", "state.set"} {
		synctest.Test(t, func(t *testing.T) {
			store := newRAMStore()
			r := newRig(t, store)
			r.backend.add("child", func(p *prog) error {
				_, err := p.call(op, fmt.Sprintf(`{"key":"k","message":"x","value":%q}`, strings.Repeat("x", 20<<20)))
				return err
			})
			r.backend.add("p", func(p *prog) error {
				for range 3 {
					pid, err := p.call("proc.spawn", `{"source":"child"}`)
					if err != nil {
						return err
					}
					if _, err := p.call("proc.wait", fmt.Sprintf(`{"pid":%s}`, pid)); err != nil {
						return err
					}
				}
				return nil
			})
			s := spec("p")
			s.Limits.Journal = 1 << 20
			if p, _ := r.run(t, s); p.State != agentkernel.StateExited {
				t.Errorf("%s: %s %v", op, p.State, p.Error)
			}
			if child, err := r.Process(t.Context(), 2); err != nil || child.Error == nil || child.Error.Op != "limit.journal" {
				t.Errorf("%s: %v, %v", op, child.Error, err)
			}
			if n := store.size(); n > 1<<20 {
				t.Errorf("%s: the store holds %d bytes", op, n)
			}
		})
	}
}

func (s *ramStore) size() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.all() {
		for _, e := range b.Entries {
			n += len(e.Args) + len(e.Data)
		}
	}
	return n
}

// TestStateIsBounded: the working set is in the kernel's memory.
func TestStateIsBounded(t *testing.T) {
	for name, value := range map[string]string{"large values": `"` + strings.Repeat("x", 4<<20) + `"`, "many keys": "1"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, newRAMStore())
				kept := 0
				r.backend.add("p", func(p *prog) error {
					for n := 0; ; n++ {
						_, err := p.call("state.set", fmt.Sprintf(`{"key":"k%d","value":%s}`, n, value))
						if agentkernel.CodeOf(err) == agentkernel.CodeLimit {
							break
						} else if err != nil {
							return err
						}
						kept++
					}
					// Smaller values and fewer keys are always possible.
					if _, err := p.call("state.set", `{"key":"k0","value":0}`); err != nil {
						return err
					}
					if _, err := p.call("state.delete", `{"key":"k1"}`); err != nil {
						return err
					}
					_, err := p.call("state.set", `{"key":"new","value":0}`)
					return err
				})
				p, _ := r.run(t, spec("p"))
				if p.State != agentkernel.StateExited || kept < 10 || kept > 10_000 {
					t.Errorf("%d keys were kept: %s %v", kept, p.State, p.Error)
				}
			})
		})
	}
}

// TestNamesAreShort: what stands in tables and messages is bounded.
func TestNamesAreShort(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for _, c := range []struct{ op, args string }{
		{"tool.call", `{"server":"fake","tool":"` + long + `"}`},
		{"tool.call", `{"server":"` + long + `","tool":"echo"}`},
		{"tool.describe", `{"server":"fake","tool":"` + long + `"}`},
		{"tool.list", `{"server":"` + long + `"}`},
		{"proc.spawn", `{"source":"p","name":"` + long + `"}`},
		{"log.write", `{"message":"x","level":"` + long + `"}`},
		{"state.set", `{"` + long + `":1}`},
		{long, `{}`},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, newRAMStore())
			var failure error
			r.backend.add("p", func(p *prog) error { _, failure = p.call(c.op, c.args); return nil })
			r.run(t, spec("p"))
			if failure == nil || len(failure.Error()) > 4<<10 {
				t.Errorf("%.20s %.40s: %.200v (%d bytes)", c.op, c.args, failure, len(fmt.Sprint(failure)))
			}
		})
	}
}

// TestOneMeaningOfArguments: names of arguments are exact and there once. encoding/json takes "TOOL" for
// "tool" and the last of two: what was permitted would depend on the order of the members, which is not the
// same in the journal.
func TestOneMeaningOfArguments(t *testing.T) {
	for _, args := range []string{
		`{"server":"fake","tool":"append","TOOL":"echo","arguments":{}}`,
		`{"server":"fake","tool":"append","tool":"echo","arguments":{}}`,
		`{"server":"fake","tool":"append","arguments":{},"ſerver":"fake"}`,
		`{"server":"fake","tool":"append","arguments":{},"Arguments":{}}`,
		`["fake","echo"]`,
		`"x"`,
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, newRAMStore())
			var failure error
			r.backend.add("p", func(p *prog) error { _, failure = p.call("tool.call", args); return nil })
			r.run(t, spec("p"))
			if agentkernel.CodeOf(failure) != agentkernel.CodeInvalid || len(r.tools.lines) > 0 {
				t.Errorf("%s: %v, the tool did %q", args, failure, r.tools.lines)
			}
		})
	}
}

// TestPermissionCannotBeGained: what was not granted stays so for children, other spellings and tools that
// were never imported.
func TestPermissionCannotBeGained(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*agentkernel.Spec)
		fn     func(p *prog) error
	}{
		"a write that nobody allowed": {func(*agentkernel.Spec) {}, func(p *prog) error {
			_, err := p.call("tool.call", callTool("append", `{}`))
			return err
		}},
		"a pattern for another tool": {func(s *agentkernel.Spec) { s.Allow = []string{"fake.put", "fake.appendix", "append", "fak", "other.*"} }, func(p *prog) error {
			_, err := p.call("tool.call", callTool("append", `{}`))
			return err
		}},
		"by a child that asks for more": {func(*agentkernel.Spec) {}, func(p *prog) error {
			if _, err := p.call("proc.spawn", `{"source":"child","allow":["*"]}`); agentkernel.CodeOf(err) != agentkernel.CodeInvalid {
				return fmt.Errorf("a child with more rights: %w", err)
			}
			pid, err := p.call("proc.spawn", `{"source":"child"}`)
			if err != nil {
				return err
			}
			res, err := p.call("proc.wait", fmt.Sprintf(`{"pid":%s}`, pid))
			if !strings.Contains(string(res), "permission_denied") {
				return fmt.Errorf("the child: %s %w", res, err)
			}
			return agentkernel.Errorf(agentkernel.CodeDenied, "", "as it should be")
		}},
		"a capability that was taken": {func(s *agentkernel.Spec) { s.Deny = []string{"proc.spawn"} }, func(p *prog) error {
			_, err := p.call("proc.spawn", `{"source":"child"}`)
			return err
		}},
		"a capability of a family that was taken": {func(s *agentkernel.Spec) { s.Deny = []string{"tool"} }, func(p *prog) error {
			_, err := p.call("tool.list", `{}`)
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, newRAMStore())
				var failure error
				r.backend.add("p", func(p *prog) error { failure = c.fn(p); return nil })
				r.backend.add("child", func(p *prog) error { _, err := p.call("tool.call", callTool("append", `{}`)); return err })
				s := spec("p")
				s.Allow = nil
				c.change(&s)
				r.run(t, s)
				if agentkernel.CodeOf(failure) != agentkernel.CodeDenied || len(r.tools.lines) > 0 {
					t.Errorf("%v, the tool did %q", failure, r.tools.lines)
				}
			})
		})
	}
}

// TestOthersCannotBeSeen: a process sees its children and nobody else.
func TestOthersCannotBeSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		r.backend.add("other", func(p *prog) error { p.print("secret"); return nil })
		r.backend.add("p", func(p *prog) error {
			for pid := range 5 {
				if res, err := p.call("proc.wait", fmt.Sprintf(`{"pid":%d}`, pid)); agentkernel.CodeOf(err) != agentkernel.CodeNotFound {
					return fmt.Errorf("process %d: %s %w", pid, res, err)
				}
			}
			return nil
		})
		r.run(t, spec("other"))
		if p, _ := r.run(t, spec("p")); p.State != agentkernel.StateExited {
			t.Error(p.Error)
		}
	})
}

// TestWaitForAChildWithALargeJournal: what a child did is not read into memory at once to find what it printed.
func TestWaitForAChildWithALargeJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRAMStore()
		r := newRig(t, store)
		r.backend.add("child", func(p *prog) error {
			for n := range 300 {
				if _, err := p.call("log.write", `{"message":1}`); err != nil {
					return err
				}
				p.print("%d ", n)
			}
			return nil
		})
		r.backend.add("p", func(p *prog) error {
			pid, err := p.call("proc.spawn", `{"source":"child"}`)
			if err != nil {
				return err
			}
			p.result, err = p.call("proc.wait", fmt.Sprintf(`{"pid":%s}`, pid))
			return err
		})
		p, _ := r.run(t, spec("p"))
		var got struct{ Stdout string }
		if err := json.Unmarshal(p.Result, &got); err != nil || !strings.HasPrefix(got.Stdout, "0 1 2 ") || !strings.HasSuffix(got.Stdout, "299 ") {
			t.Errorf("%.100s %v", p.Result, err)
		}
		if store.mostRead > 64 {
			t.Errorf("%d entries were read at once", store.mostRead)
		}
	})
}

// TestTheKernelHoldsNoMoreForATree: what children have under way counts together, and what was answered and taken counts no more.
func TestTheKernelHoldsNoMoreForATree(t *testing.T) {
	const children, size = 20, 1 << 20
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		r.tools.delay = func() { pass(time.Minute) }
		big := callTool("echo", `{"path":"`+strings.Repeat("x", size)+`"}`)
		var sent, refused atomic.Int64
		ask := func(p *prog) error {
			_, err := p.call("tool.call", big)
			if agentkernel.CodeOf(err) == agentkernel.CodeLimit {
				refused.Add(1)
				return nil
			}
			sent.Add(1)
			return err
		}
		r.backend.add("child", ask)
		r.backend.add("p", func(p *prog) error {
			var pids []string
			for range children {
				pid, err := p.call("proc.spawn", `{"source":"child"}`)
				if err != nil {
					return err
				}
				pids = append(pids, string(pid))
			}
			for _, pid := range pids {
				if _, err := p.call("proc.wait", fmt.Sprintf(`{"pid":%s}`, pid)); err != nil {
					return err
				}
			}
			return ask(p)
		})
		s := spec("p")
		s.Limits.Memory = 8 * size * 4 // the kernel counts four copies
		if p, _ := r.run(t, s); p.State != agentkernel.StateExited {
			t.Fatalf("%v", p.Error)
		}
		if sent.Load() < 4 || sent.Load() > 8+1 || sent.Load()+refused.Load() != children+1 {
			t.Errorf("%d large calls were under way together, %d refused", sent.Load(), refused.Load())
		}
	})
}
