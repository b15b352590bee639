package kernel_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel"
	"agentkernel/internal/places"
)

// turnAway is how a process is kept from going on, and goes on again.
type turnAway struct {
	name string
	away func(t *testing.T, r *rig) *rig
	back func(t *testing.T, r *rig)
	lost int // calls under way whose answer is lost
}

// TestWhatWaitsForItsTurnIsNotSent: of calls that wait for a place among those that a server does at once, none is sent while their
// process stands still or their kernel is gone, and each is sent once when it goes on. Of none it is unknown whether it happened.
func TestWhatWaitsForItsTurnIsNotSent(t *testing.T) {
	hold := func(h agentkernel.Hold) turnAway {
		return turnAway{name: "halt " + h.Over(), away: func(t *testing.T, r *rig) *rig {
			if err := r.Halt(t.Context(), h); err != nil {
				t.Fatal(err)
			}
			return r
		}, back: func(t *testing.T, r *rig) {
			if err := r.Thaw(t.Context(), h); err != nil {
				t.Fatal(err)
			}
		}}
	}
	signal := func(t *testing.T, r *rig, sig agentkernel.Signal) {
		if err := r.Signal(t.Context(), 1, sig); err != nil {
			t.Fatal(err)
		}
	}
	recovers := func(t *testing.T, r *rig) {
		if _, err := r.Recover(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []turnAway{
		hold(agentkernel.Hold{}), hold(agentkernel.Hold{Tree: 1}),
		{"pause", func(t *testing.T, r *rig) *rig { signal(t, r, agentkernel.SignalPause); return r },
			func(t *testing.T, r *rig) { signal(t, r, agentkernel.SignalResume) }, 0},
		{"pause and a crash", func(t *testing.T, r *rig) *rig {
			signal(t, r, agentkernel.SignalPause)
			next := dies(t, r)
			recovers(t, next)
			return next
		}, func(t *testing.T, r *rig) { signal(t, r, agentkernel.SignalResume) }, 1},
		{"crash", dies, recovers, 1},
		{"the end of the kernel", func(t *testing.T, r *rig) *rig {
			go func() { _ = r.Close() }() // it waits for the call that is under way, in vain
			pass(time.Minute)
			return dies(t, r)
		}, recovers, 1},
	} {
		for _, after := range []time.Duration{100 * time.Millisecond, time.Second} { // the journal has them then
			t.Run(fmt.Sprintf("%s after %s", c.name, after), func(t *testing.T) { testTurnAway(t, &c, after) })
		}
	}
}

// dies is the kernel after one that has died.
func dies(t *testing.T, r *rig) *rig {
	next := died(t, r, 0)
	return next.boot(t, next.store, parkSoon, func(*kernel.Config) { next.tools.limit(1) })
}

// turnPrograms are a program that makes five writes at once, and says what became of them.
func turnPrograms(r *rig) {
	r.backend.add("p", func(p *prog) error {
		var ids []int64
		for i := range 5 {
			ids = append(ids, p.async("tool.call", callTool("append", fmt.Sprintf(`{"line":%d}`, i))))
		}
		for _, id := range ids {
			_, err := p.wait(id)
			p.print("%v.", err == nil)
		}
		return nil
	})
}

func testTurnAway(t *testing.T, c *turnAway, after time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore(), parkSoon)
		turnPrograms(r)
		free := make(chan struct{})
		r.tools.delay = func() { <-free }
		r.tools.limit(1)
		s := spec("p")
		s.Allow = []string{"*"}
		if _, err := r.Spawn(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		pass(after)
		_ = r.store.Flush(t.Context(), 0)
		tools := r.tools
		sent := func() int {
			tools.mu.Lock()
			defer tools.mu.Unlock()
			return len(tools.keys)
		}
		if n := sent(); n != 1 {
			t.Fatalf("%d are under way", n)
		}
		next := c.away(t, r)
		close(free) // the first is answered
		pass(time.Hour)
		if n := sent(); n != 1 {
			t.Errorf("%d were sent in spite of it", n-1)
		}
		c.back(t, next)
		p, err := next.Wait(t.Context(), 1)
		if err != nil || p.State != agentkernel.StateExited {
			t.Fatalf("%+v, %v", p, err)
		}
		tools.mu.Lock()
		keys := slices.Clone(tools.keys)
		tools.mu.Unlock()
		if after == time.Second && !slices.IsSorted(keys[1:]) { // they end in the numbers of the calls; the tool of each was looked up first, side by side
			t.Errorf("sent in another order than they were made: %v", keys)
		}
		if len(keys) != 5 || len(slices.Compact(keys)) != 5 {
			t.Errorf("sent were %v", keys)
		}
		if out := next.output(t, 1); strings.Count(out, "true") != 5-c.lost || strings.Count(out, "false") != c.lost {
			t.Errorf("it is told %s", out)
		}
	})
}

// TestTurnsOfSeveralProcesses: what several processes have asked for is sent in that order, also when they have stood still meanwhile, and
// after a crash; and a namespace with many calls does not keep another waiting.
func TestTurnsOfSeveralProcesses(t *testing.T) {
	for name, away := range map[string]func(t *testing.T, r *rig, occupied *places.Turn) *rig{
		"a halt": func(t *testing.T, r *rig, occupied *places.Turn) *rig {
			if err := r.Halt(t.Context(), agentkernel.Hold{}); err != nil {
				t.Fatal(err)
			}
			occupied.Drop()
			pass(time.Second) // each has had its turn, and waits for the thaw
			if !occupied.Ready() {
				t.Fatal("the place is taken")
			}
			if err := r.Thaw(t.Context(), agentkernel.Hold{}); err != nil {
				t.Fatal(err)
			}
			pass(time.Second)
			occupied.Drop()
			return r
		},
		"a crash": func(t *testing.T, r *rig, _ *places.Turn) *rig {
			next := dies(t, r)
			if _, err := next.Recover(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			return next
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, newRAMStore(), parkSoon)
				r.backend.add("p", func(p *prog) error {
					_, err := p.call("tool.call", callTool("append", `{"line":1}`))
					return err
				})
				occupied := r.tools.limit(1).Turn("", time.Time{}, 0, nil)
				if !occupied.Ready() {
					t.Fatal("the place is taken")
				}
				const calls = 20
				for i := range calls {
					s := spec("p")
					s.Allow = []string{"*"}
					if i == calls-1 {
						s.Namespace = "other"
					}
					if _, err := r.Spawn(t.Context(), s); err != nil {
						t.Fatal(err)
					}
					pass(10 * time.Millisecond)
				}
				pass(time.Second)
				_ = r.store.Flush(t.Context(), 0)
				next := away(t, r, occupied)
				pass(time.Hour)
				next.tools.mu.Lock()
				defer next.tools.mu.Unlock()
				var order []int
				for _, key := range next.tools.keys {
					var pid int
					if _, err := fmt.Sscanf(key[strings.IndexByte(key, '/'):], "/%d/", &pid); err != nil {
						t.Fatal(err)
					}
					order = append(order, pid)
				}
				other := slices.Index(order, calls)
				if other < 0 || other > 1 && name == "a halt" || !slices.IsSorted(slices.Delete(slices.Clone(order), other, other+1)) || len(order) != calls {
					t.Errorf("the calls are sent in the order %v", order)
				}
			})
		})
	}
}

// TestACallIsHeldBackBeforeItIsSent: a server takes its time to say what its tools are, and its process is halted or paused meanwhile, or
// the kernel ends: the call is not sent, costs nothing, and is sent when the process goes on.
func TestACallIsHeldBackBeforeItIsSent(t *testing.T) {
	for _, c := range []turnAway{
		{"halt", func(t *testing.T, r *rig) *rig {
			if err := r.Halt(t.Context(), agentkernel.Hold{}); err != nil {
				t.Fatal(err)
			}
			return r
		}, func(t *testing.T, r *rig) {
			if err := r.Thaw(t.Context(), agentkernel.Hold{}); err != nil {
				t.Fatal(err)
			}
		}, 0},
		{"the end of the kernel", func(t *testing.T, r *rig) *rig {
			go func() { _ = r.Close() }()
			pass(time.Microsecond)
			return r
		}, nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, newRAMStore(), parkSoon, func(k *kernel.Config) { k.Grace = time.Hour })
				r.backend.add("p", func(p *prog) error {
					_, err := p.call("tool.call", callTool("append", `{"line":1}`))
					p.print("%v", err)
					return err
				})
				lists, sent := make(chan struct{}), 0
				r.tools.fail = func(call agentkernel.ToolCall) (agentkernel.ToolResult, error) {
					<-lists
					err := call.Admit(agentkernel.Tool{Server: "fake", Name: "append", Effect: agentkernel.EffectWrite})
					if err == nil {
						sent++
					}
					return agentkernel.ToolResult{NotSent: true}, err
				}
				s := spec("p")
				s.Allow, s.Budget = []string{"*"}, agentkernel.Budget{Calls: 1}
				p, err := r.Spawn(t.Context(), s)
				if err != nil {
					t.Fatal(err)
				}
				pass(time.Second)
				next := c.away(t, r)
				close(lists)
				pass(time.Hour)
				if sent != 0 {
					t.Errorf("it was sent %d times in spite of it", sent)
				}
				if c.back == nil {
					next = dies(t, r)
					if _, err := next.Recover(t.Context(), 0); err != nil {
						t.Fatal(err)
					}
				} else {
					c.back(t, next)
				}
				got, err := next.Wait(t.Context(), p.PID)
				if err != nil || got.State != agentkernel.StateExited || sent != 1 {
					t.Errorf("%+v, %v, sent %d times", got, err, sent)
				}
				if b, err := next.Budget(t.Context(), p.PID); err != nil || b.Spent.Calls != 1 || b.Held.Calls != 0 {
					t.Errorf("%+v, %v", b, err)
				}
			})
		})
	}
}

// leavesInDoubt has the kernel of a process die in its one write, and gives the next kernel, which asks what is to become of it. The tool
// goes on when free is closed.
func leavesInDoubt(t *testing.T, setUp func(next *rig)) (next *rig, pid agentkernel.PID, free chan struct{}) {
	t.Helper()
	r := newRig(t, newRAMStore(), parkSoon)
	r.backend.add("p", func(p *prog) error {
		_, err := p.call("tool.call", callTool("append", `{"line":1}`))
		return err
	})
	free = make(chan struct{})
	r.tools.delay = func() { <-free }
	s := pausing("p")
	s.Allow = []string{"*"}
	p, err := r.Spawn(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	pass(time.Second)
	next = dies(t, r)
	setUp(next)
	if _, err := next.Recover(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	pass(time.Second)
	return next, p.PID, free
}

// retries decides that the write is to be made again.
func (r *rig) retries(t *testing.T, pid agentkernel.PID) {
	t.Helper()
	if err := r.Resolve(t.Context(), pid, 1, agentkernel.Resolution{Decision: agentkernel.DecisionRetry}); err != nil {
		t.Fatal(err)
	}
	pass(time.Second)
}

// TestARetryThatWaitsForItsTurn is taken up after a crash without another question.
func TestARetryThatWaitsForItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next, pid, free := leavesInDoubt(t, func(next *rig) {
			if occupied := next.tools.limit(1).Turn("", time.Time{}, 0, nil); !occupied.Ready() {
				t.Fatal("the place is taken")
			}
		})
		next.retries(t, pid)
		last := dies(t, next)
		close(free)
		if _, err := last.Recover(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		if got, err := last.Wait(t.Context(), pid); err != nil || got.State != agentkernel.StateExited {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

// TestARetryThatIsHeldBackStaysInDoubt: nothing was sent the second time, and nobody knows what the first time did.
func TestARetryThatIsHeldBackStaysInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lists := make(chan struct{})
		next, pid, free := leavesInDoubt(t, func(next *rig) {
			next.tools.mu.Lock()
			defer next.tools.mu.Unlock()
			next.tools.fail = func(call agentkernel.ToolCall) (agentkernel.ToolResult, error) {
				<-lists
				return agentkernel.ToolResult{NotSent: true}, call.Admit(agentkernel.Tool{Server: "fake", Name: "append", Effect: agentkernel.EffectWrite})
			}
		})
		next.retries(t, pid)
		if err := next.Halt(t.Context(), agentkernel.Hold{}); err != nil {
			t.Fatal(err)
		}
		close(lists)
		pass(time.Second)
		if err := next.Signal(t.Context(), pid, agentkernel.SignalKill); err != nil {
			t.Fatal(err)
		}
		got, err := next.Process(t.Context(), pid)
		if err != nil || got.Error == nil || !strings.Contains(got.Error.Hint, "was under way: look whether it happened") {
			t.Errorf("%+v, %v", got, err)
		}
		close(free)
	})
}

// TestAnInterruptedCallIsNotMadeAtTheThaw: it has been answered, also where it was in the journal and waited for its turn.
func TestAnInterruptedCallIsNotMadeAtTheThaw(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore(), parkSoon)
		r.backend.add("p", func(p *prog) error {
			_, err := p.call("tool.call", callTool("append", `{"line":1}`))
			p.print("%v", agentkernel.CodeOf(err))
			return nil
		})
		occupied := r.tools.limit(1).Turn("", time.Time{}, 0, nil)
		if !occupied.Ready() {
			t.Fatal("the place is taken")
		}
		s := spec("p")
		s.Allow = []string{"*"}
		p, err := r.Spawn(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		pass(time.Second) // the journal has it
		if err := r.Halt(t.Context(), agentkernel.Hold{}); err != nil {
			t.Fatal(err)
		}
		occupied.Drop()
		pass(time.Second) // it has had its turn, and waits for the thaw
		if err := r.Signal(t.Context(), p.PID, agentkernel.SignalInterrupt); err != nil {
			t.Fatal(err)
		}
		if err := r.Thaw(t.Context(), agentkernel.Hold{}); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		if out := r.output(t, p.PID); out != string(agentkernel.CodeInterrupted) || len(r.tools.keys) != 0 {
			t.Errorf("it is told %q, and %d calls were sent", out, len(r.tools.keys))
		}
		if last := r.tools.places.Turn("", time.Time{}, 0, nil); !last.Ready() {
			t.Error("the place is lost")
		}
	})
}

// TestTheEndOfAKernelDoesNotWaitForTurns: a call that was not sent keeps no kernel from its end, and the next one sends it.
func TestTheEndOfAKernelDoesNotWaitForTurns(t *testing.T) {
	for _, after := range []time.Duration{100 * time.Millisecond, time.Second} { // the journal has it then
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, newRAMStore(), parkSoon, func(cfg *kernel.Config) { cfg.Grace = time.Hour })
			if occupied := r.tools.limit(1).Turn("", time.Time{}, 0, nil); !occupied.Ready() {
				t.Fatal("the place is taken")
			}
			r.backend.add("p", func(p *prog) error { _, err := p.call("tool.call", callTool("append", `{"line":1}`)); return err })
			s := spec("p")
			s.Allow = []string{"*"}
			p, err := r.Spawn(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			pass(after)
			begun := time.Now()
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begun); took > time.Second || len(r.tools.keys) != 0 {
				t.Errorf("it took %s, and the call was sent %d times", took, len(r.tools.keys))
			}
			next := dies(t, r)
			if _, err := next.Recover(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			if got, err := next.Wait(t.Context(), p.PID); err != nil || got.State != agentkernel.StateExited || len(next.tools.keys) != 1 {
				t.Errorf("%s, %v, sent %d times", got.State, err, len(next.tools.keys))
			}
		})
	}
}
