package kernel_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel"
)

// cells are those that sessions of these tests know.
var cells = map[string]func(*prog) (string, error){
	"quick": func(*prog) (string, error) { return "42", nil },
	"print": func(p *prog) (string, error) { p.print("hello\n"); return "null", nil },
	"fail": func(*prog) (string, error) {
		return "", agentkernel.Errorf(agentkernel.CodeProgram, "piece", "no")
	},
	"tool": func(p *prog) (string, error) {
		out, err := p.call("tool.call", callTool("echo", `{"n":1}`))
		return string(out), err
	},
	"state": func(p *prog) (string, error) {
		_, err := p.call("state.set", `{"key":"k","value":7}`)
		return "1", err
	},
	"sleep": func(p *prog) (string, error) {
		_, err := p.call("time.sleep", `{"seconds":0.002}`)
		return "2", err
	},
	"slow": func(p *prog) (string, error) {
		p.print("at once\n")
		time.Sleep(2 * time.Second)
		p.print("much later\n")
		return "3", nil
	},
}

// sessionRig is a rig whose backend keeps sessions of these cells.
func sessionRig(t *testing.T, store *ramStore, change ...func(*kernel.Config)) *rig {
	t.Helper()
	return newRig(t, store, append(change, func(c *kernel.Config) {
		for _, b := range c.Backends {
			if plain, ok := b.(plainBackend); ok {
				b = plain.Backend
			}
			b := b.(*goBackend)
			b.sessions = true
			b.add("session", func(p *prog) error { return p.session(cells) })
			for name := range cells {
				b.add(name, nil)
			}
		}
	})...)
}

// begin starts a session and returns when it waits for its first cell.
func (r *rig) begin(t *testing.T) agentkernel.PID {
	t.Helper()
	return r.beginAs(t, spec("session"))
}

// beginAs is begin for a Spec.
func (r *rig) beginAs(t *testing.T, s agentkernel.Spec) (pid agentkernel.PID) {
	t.Helper()
	s.Program.Session = true
	waits := errors.New("it waits")
	if _, err := r.Run(t.Context(), s, func(ev agentkernel.Event) error {
		pid = ev.PID
		if ev.Kind == agentkernel.EventIdle {
			return waits
		}
		return nil
	}); !errors.Is(err, waits) {
		t.Fatal(err)
	}
	return pid
}

// feed gives what a cell printed, and its result or error.
func (r *rig) feed(ctx context.Context, pid agentkernel.PID, source string) (string, error) {
	var out strings.Builder
	end, err := r.Feed(ctx, pid, agentkernel.Cell{Name: "cell", Source: source}, func(ev agentkernel.Event) error {
		out.WriteString(ev.Text)
		return nil
	})
	if end.Error != nil {
		return out.String() + "!" + end.Error.Message(), err
	}
	return out.String() + string(end.Result), err
}

// plainBackend is a backend whose programs nobody can drive himself.
type plainBackend struct{ agentkernel.Backend }

type plainSandbox struct{ agentkernel.Sandbox }

func (b plainBackend) Start(ctx context.Context, req agentkernel.StartRequest) (agentkernel.Sandbox, error) {
	box, err := b.Backend.Start(ctx, req)
	return plainSandbox{box}, err
}

// A cell says and journals the same, whoever drives it; and what a caller waits for is one commit.
func TestACellIsTheSameWhoeverDrivesIt(t *testing.T) {
	journals := map[bool]string{}
	for _, plain := range []bool{false, true} {
		r := sessionRig(t, newRAMStore(), func(c *kernel.Config) {
			if plain {
				c.Backends[0] = plainBackend{c.Backends[0]}
			}
		})
		pid := r.begin(t)
		for _, c := range []struct {
			source, want string
			commits      int // the intent of a call that leaves the kernel is one more
		}{
			{"quick", "42", 1}, {"print", "hello\nnull", 1}, {"fail", "!no", 1}, {"tool", `{"n":1}`, 2}, {"state", "1", 1}, {"sleep", "2", 1}, {"quick", "42", 1},
		} {
			before := r.store.flushCount()
			if got, err := r.feed(t.Context(), pid, c.source); got != c.want || err != nil {
				t.Errorf("plain %v, %s: %q %v", plain, c.source, got, err)
			}
			// Of one that the queue drives the caller may see the first words before the last, and each look is a commit.
			if n := r.store.flushCount() - before; n < c.commits || n > c.commits && !plain {
				t.Errorf("plain %v, %s: %d commits, not %d", plain, c.source, n, c.commits)
			}
		}
		if p, err := r.EndSession(t.Context(), pid); err != nil || p.State != agentkernel.StateExited {
			t.Errorf("the end: %+v %v", p, err)
		}
		entries, err := r.Journal(t.Context(), pid, 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			journals[plain] += fmt.Sprintf("%d %s call %d %s %s %s %s %v\n", e.Seq, e.Kind, e.Call, e.Op, e.Stream, e.Args, e.Data, e.Err)
		}
	}
	if journals[false] != journals[true] {
		t.Errorf("driven by its caller:\n%s\nby the queue:\n%s", journals[false], journals[true])
	}
}

func TestACellThatTakesLongLeavesItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := sessionRig(t, newRAMStore())
		pid := r.begin(t)
		ctx, cancel := context.WithCancel(t.Context())
		begun := time.Now()
		_, err := r.Feed(ctx, pid, agentkernel.Cell{Source: "slow"}, func(ev agentkernel.Event) error {
			if ev.Kind == agentkernel.EventOutput {
				if took := time.Since(begun); ev.Text != "at once\n" || took > 10*time.Millisecond {
					t.Errorf("%q was shown after %v", ev.Text, took)
				}
				time.AfterFunc(time.Second, cancel)
			}
			return nil
		})
		if took := time.Since(begun); !errors.Is(err, context.Canceled) || took < time.Second || took > time.Second+10*time.Millisecond {
			t.Errorf("the caller gave up after a second: %v after %v", err, took)
		}
		if _, err := r.feed(t.Context(), pid, "quick"); agentkernel.CodeOf(err) != agentkernel.CodeConflict {
			t.Errorf("another cell beside it: %v", err)
		}
		time.Sleep(2 * time.Second)
		if got, err := r.feed(t.Context(), pid, "quick"); got != "42" || err != nil {
			t.Errorf("the session does not go on: %q %v", got, err)
		}
	})
}

// What comes while a cell runs meets it wherever it is driven.
func TestACellIsStopped(t *testing.T) {
	for _, c := range []struct {
		name string
		stop func(r *rig, pid agentkernel.PID) error
		want func(p agentkernel.Process, end agentkernel.CellEnd, err error) bool
	}{
		{"kill", func(r *rig, pid agentkernel.PID) error {
			return r.Signal(context.Background(), pid, agentkernel.SignalKill)
		},
			func(p agentkernel.Process, end agentkernel.CellEnd, err error) bool {
				return err == nil && end.Ended && end.Error.Code == agentkernel.CodeKilled && p.State == agentkernel.StateKilled
			}},
		{"pause", func(r *rig, pid agentkernel.PID) error {
			return r.Signal(context.Background(), pid, agentkernel.SignalPause)
		},
			func(p agentkernel.Process, end agentkernel.CellEnd, err error) bool {
				return err == nil && !end.Ended && p.Paused
			}},
		{"close", func(r *rig, pid agentkernel.PID) error { return r.Close() },
			func(p agentkernel.Process, end agentkernel.CellEnd, err error) bool {
				return agentkernel.CodeOf(err) == agentkernel.CodeUnavailable
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for _, after := range []time.Duration{500 * time.Microsecond, time.Second} { // while the caller drives it, and then
					r := sessionRig(t, newRAMStore())
					pid := r.begin(t)
					stopped := make(chan error, 1)
					time.AfterFunc(after, func() { stopped <- c.stop(r, pid) })
					end, err := r.Feed(t.Context(), pid, agentkernel.Cell{Source: "slow"}, func(agentkernel.Event) error { return nil })
					if err := <-stopped; err != nil {
						t.Error(err)
					}
					p, _ := r.Process(t.Context(), pid)
					if !c.want(p, end, err) {
						t.Errorf("after %v: %+v %+v %v", after, p, end, err)
					}
					time.Sleep(3 * time.Second) // a program of this backend dies when it looks up
				}
			})
		})
	}
}

// What befalls a session while its next cell is looked at is told whoever brings it, and no older answer.
func TestASessionThatIsSignalledBeforeItsCell(t *testing.T) {
	for _, c := range []struct {
		sig  agentkernel.Signal
		want string
	}{{agentkernel.SignalKill, "has ended"}, {agentkernel.SignalPause, "is paused"}, {agentkernel.SignalInterrupt, ""}} {
		r := sessionRig(t, newRAMStore())
		pid := r.begin(t)
		if got, err := r.feed(t.Context(), pid, "quick"); got != "42" || err != nil {
			t.Fatal(got, err)
		}
		r.backend.onCheck = func() {
			if err := r.Signal(t.Context(), pid, c.sig); err != nil {
				t.Error(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		got, err := r.feed(ctx, pid, "state")
		cancel()
		r.backend.setOnCheck(nil)
		switch {
		case c.want != "" && agentkernel.CodeOf(err) == agentkernel.CodeConflict && strings.Contains(err.Error(), c.want):
		case c.want == "" && err == nil && got == "1":
		case c.want == "" && agentkernel.CodeOf(err) == agentkernel.CodeConflict: // it has not asked again yet
		default:
			t.Errorf("%s: %q %v", c.sig, got, err)
		}
	}
}

// Callers who drive cells take no more slots than there are, and a session that lost its sandbox gets it back.
func TestManySessionsInFewSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := sessionRig(t, newRAMStore(), func(c *kernel.Config) { c.Slots, c.Residents, c.ParkAfter = 2, 3, time.Millisecond })
		var group sync.WaitGroup
		for range 10 {
			pid := r.begin(t)
			group.Go(func() {
				for i := range 20 {
					source, want := "quick", "42"
					if i%3 == 0 {
						source, want = "sleep", "2"
					}
					if got, err := r.feed(t.Context(), pid, source); got != want || err != nil {
						t.Errorf("%s: %q %v", source, got, err)
					}
				}
			})
		}
		group.Wait()
	})
}

// Of callers who come at once one is served, with his own answer; the others are told that the session is busy.
func TestManyCallersOfOneSession(t *testing.T) {
	r := sessionRig(t, newRAMStore())
	pid := r.begin(t)
	var group sync.WaitGroup
	var served, refused atomic.Int64
	for caller := range 8 {
		source, want := "quick", "42"
		if caller%2 == 1 {
			source, want = "state", "1"
		}
		group.Go(func() {
			for range 200 {
				switch got, err := r.feed(t.Context(), pid, source); {
				case err == nil && got == want:
					served.Add(1)
				case agentkernel.CodeOf(err) == agentkernel.CodeConflict:
					refused.Add(1)
					time.Sleep(10 * time.Microsecond)
				default:
					t.Errorf("%s: %q %v", source, got, err)
				}
			}
		})
	}
	group.Wait()
	if served.Load() == 0 || refused.Load() == 0 {
		t.Errorf("%d were served, %d refused: they did not meet", served.Load(), refused.Load())
	}
}

// Signals and parking at any moment: no cell is answered wrongly, none hangs, and the session goes on.
func TestCellsUnderFire(t *testing.T) {
	r := sessionRig(t, newRAMStore(), func(c *kernel.Config) { c.Slots, c.ParkAfter = 2, time.Millisecond })
	pid := r.begin(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	under, cease := context.WithCancel(ctx)
	var fire sync.WaitGroup
	var answered atomic.Int64
	for _, salvo := range [][]agentkernel.Signal{{agentkernel.SignalPause, agentkernel.SignalResume}, {agentkernel.SignalInterrupt}} {
		fire.Go(func() {
			for last := int64(-1); under.Err() == nil; {
				for _, sig := range salvo {
					if err := r.Signal(ctx, pid, sig); err != nil {
						t.Error(err)
					}
				}
				time.Sleep(rand.N(500 * time.Microsecond))
				// An interrupt that aborts a cell, and a pause that meets one, has the session repeat all its cells: it
				// has to come to something in between.
				for last = max(last, answered.Load()); answered.Load() == last && under.Err() == nil; {
					time.Sleep(20 * time.Microsecond)
				}
			}
		})
	}
	want := map[string]string{"quick": "42", "print": "hello\nnull", "sleep": "2", "state": "1"}
	names := []string{"quick", "print", "sleep", "state"}
	for answered.Load() < 100 {
		name := names[rand.IntN(len(names))]
		got, err := r.feed(ctx, pid, name)
		switch {
		case agentkernel.CodeOf(err) == agentkernel.CodeConflict && ctx.Err() == nil: // paused, or busy
			time.Sleep(10 * time.Microsecond)
		case err != nil:
			t.Fatalf("after %d: %v", answered.Load(), err)
		case got == want[name]:
			answered.Add(1)
		case got == "null", got == "", got == "!a signal asked it to stop", got == "hello\n": // interrupted or paused
		case strings.Contains(got, "!it was stopped while it computed"): // and was given up
		default:
			t.Errorf("%s: %q", name, got)
		}
	}
	cease()
	fire.Wait()
	// The last cell may still run, and an interrupt that nothing was there for meets the next call.
	for try := 0; ; try++ {
		got, err := r.feed(ctx, pid, "quick")
		if got == "42" && err == nil {
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("the session does not go on: %q %v", got, err)
		}
		time.Sleep(time.Millisecond)
	}
}
