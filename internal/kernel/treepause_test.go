package kernel_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel"
)

// TestPauseActsOnTheTree: a pause holds everything below a process, and a resume lets go what was held because of it:
// not what was paused by itself, before or after. The tree is 1 -> 2 -> 3, and 4 beside it.
func TestPauseActsOnTheTree(t *testing.T) {
	type step struct {
		sig agentkernel.Signal
		pid agentkernel.PID
		// paused are those that are, after it.
		paused []agentkernel.PID
	}
	const pause, resume, crash = agentkernel.SignalPause, agentkernel.SignalResume, agentkernel.Signal("crash")
	all := []agentkernel.PID{1, 2, 3}
	for name, steps := range map[string][]step{
		"all of it":                       {{pause, 1, all}, {resume, 1, nil}},
		"twice":                           {{pause, 1, all}, {pause, 1, all}, {resume, 1, nil}, {resume, 1, nil}},
		"from the middle":                 {{pause, 2, all[1:]}, {resume, 1, all[1:]}, {resume, 2, nil}},
		"paused by itself before":         {{pause, 2, all[1:]}, {pause, 1, all}, {resume, 1, all[1:]}, {resume, 2, nil}},
		"the lowest by itself before":     {{pause, 3, all[2:]}, {pause, 1, all}, {resume, 1, all[2:]}, {resume, 3, nil}},
		"paused by itself later":          {{pause, 1, all}, {pause, 2, all}, {resume, 1, all[1:]}, {resume, 2, nil}},
		"a part goes on":                  {{pause, 1, all}, {resume, 2, all[:1]}, {resume, 1, nil}},
		"a part goes on and stops again":  {{pause, 1, all}, {resume, 2, all[:1]}, {pause, 3, []agentkernel.PID{1, 3}}, {resume, 1, all[2:]}},
		"a crash":                         {{pause, 1, all}, {crash, 0, all}, {resume, 1, nil}},
		"a crash, paused by itself":       {{pause, 2, all[1:]}, {pause, 1, all}, {crash, 0, all}, {resume, 1, all[1:]}, {resume, 2, nil}},
		"a crash, paused by itself later": {{pause, 1, all}, {pause, 2, all}, {crash, 0, all}, {resume, 1, all[1:]}},
		"a crash after a part went on":    {{pause, 1, all}, {resume, 2, all[:1]}, {crash, 0, all[:1]}, {pause, 1, all}, {resume, 1, nil}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, newRAMStore())
				r.backend.add("sleeper", sleeper)
				for _, parent := range []agentkernel.PID{0, 1, 2, 0} {
					r.child(t, "sleeper", parent)
				}
				for i, s := range steps {
					if s.sig == crash {
						next := died(t, r, 0)
						r = next.boot(t, next.store)
						if _, err := r.Recover(t.Context(), 0); err != nil {
							t.Fatal(err)
						}
					} else if err := r.Signal(t.Context(), s.pid, s.sig); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
					if got := r.paused(t); !slices.Equal(got, s.paused) {
						t.Fatalf("after step %d, %s %d, %v are paused, want %v", i+1, s.sig, s.pid, got, s.paused)
					}
				}
			})
		})
	}
}

func sleeper(p *prog) error {
	_, err := p.call("time.sleep", `{"seconds":1000}`)
	return err
}

// child starts a program below a process.
func (r *rig) child(t *testing.T, program string, parent agentkernel.PID) agentkernel.PID {
	t.Helper()
	s := spec(program)
	s.Parent = parent
	p, err := r.Spawn(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return p.PID
}

// paused lists those that are, by PID.
func (r *rig) paused(t *testing.T) (list []agentkernel.PID) {
	t.Helper()
	all, err := r.List(t.Context(), agentkernel.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range slices.Backward(all) {
		if p.Paused {
			list = append(list, p.PID)
		}
	}
	return list
}

// A program that was computing when it was paused issues its call afterwards: what it starts then waits with it.
func TestAChildOfAPausedProcessWaitsWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		compute := make(chan struct{})
		ran := false
		r.backend.add("parent", func(p *prog) error {
			<-compute
			pid, err := p.call("proc.spawn", `{"source":"child"}`)
			if err != nil {
				return err
			}
			_, err = p.call("proc.wait", `{"pid":`+string(pid)+`}`)
			p.result = json.RawMessage("1")
			return err
		})
		r.backend.add("child", func(*prog) error { ran = true; return nil })
		parent := r.child(t, "parent", 0)
		if err := r.Signal(t.Context(), parent, agentkernel.SignalPause); err != nil {
			t.Fatal(err)
		}
		close(compute)
		time.Sleep(time.Minute)
		if got := r.paused(t); ran || !slices.Equal(got, []agentkernel.PID{1, 2}) {
			t.Fatalf("%v are paused, the child ran: %t", got, ran)
		}
		if p, err := r.Process(t.Context(), 2); err != nil || p.PauseNote != "with process 1" {
			t.Errorf("%+v %v", p, err)
		}
		if err := r.Signal(t.Context(), parent, agentkernel.SignalResume); err != nil {
			t.Fatal(err)
		}
		if end, err := r.Wait(t.Context(), parent); err != nil || end.State != agentkernel.StateExited || !ran {
			t.Errorf("%+v %v, the child ran: %t", end, err, ran)
		}
	})
}

// While a tree is paused it goes on growing: nothing of it escapes.
func TestATreeThatGrowsIsPausedWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore(), func(c *kernel.Config) { c.Slots = 8 })
		r.backend.add("grows", func(p *prog) error {
			for {
				if _, err := p.call("proc.spawn", `{"source":"grows"}`); err != nil {
					return sleeper(p)
				}
				if _, err := p.call("time.sleep", `{"seconds":1}`); err != nil {
					return err
				}
			}
		})
		root := r.child(t, "grows", 0)
		time.Sleep(5500 * time.Millisecond)
		if err := r.Signal(t.Context(), root, agentkernel.SignalPause); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		before, err := r.List(t.Context(), agentkernel.Filter{})
		if err != nil || len(before) < 8 {
			t.Fatalf("%d processes, %v", len(before), err)
		}
		time.Sleep(time.Minute)
		after, err := r.List(t.Context(), agentkernel.Filter{})
		if err != nil || len(after) != len(before) || len(r.paused(t)) != len(after) {
			t.Errorf("%d processes before, %d after, %d are paused; %v", len(before), len(after), len(r.paused(t)), err)
		}
		if err := r.Signal(t.Context(), root, agentkernel.SignalKill); err != nil {
			t.Error(err)
		}
	})
}

// A process that has ended can have left others behind, which are reached by its PID.
func TestPauseBelowAProcessThatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		r.backend.add("leaves", func(p *prog) error { _, err := p.call("proc.spawn", `{"source":"sleeper"}`); return err })
		r.backend.add("sleeper", sleeper)
		root := r.child(t, "leaves", 0)
		if end, err := r.Wait(t.Context(), root); err != nil || end.State != agentkernel.StateExited {
			t.Fatalf("%+v %v", end, err)
		}
		for _, c := range []struct {
			sig  agentkernel.Signal
			want []agentkernel.PID
		}{{agentkernel.SignalPause, []agentkernel.PID{2}}, {agentkernel.SignalResume, nil}} {
			if err := r.Signal(t.Context(), root, c.sig); err != nil {
				t.Fatal(err)
			}
			if got := r.paused(t); !slices.Equal(got, c.want) {
				t.Errorf("after %s %v are paused, want %v", c.sig, got, c.want)
			}
		}
		if err := r.Signal(t.Context(), root, agentkernel.SignalKill); err != nil {
			t.Fatal(err)
		}
		if err := r.Signal(t.Context(), root, agentkernel.SignalPause); agentkernel.CodeOf(err) != agentkernel.CodeConflict {
			t.Errorf("nothing is left to pause: %v", err)
		}
	})
}

// resume continues what a dead kernel left of the tree: a parent that waits for its child would wait for ever otherwise.
func TestResumeOfAnUnfinishedTree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		r.backend.add("sleeper", sleeper)
		for _, parent := range []agentkernel.PID{0, 1, 2} {
			r.child(t, "sleeper", parent)
		}
		for _, pid := range []agentkernel.PID{3, 1} {
			if err := r.Signal(t.Context(), pid, agentkernel.SignalPause); err != nil {
				t.Fatal(err)
			}
		}
		next := died(t, r, 0)
		r = next.boot(t, next.store)
		if err := r.Signal(t.Context(), 1, agentkernel.SignalResume); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := r.paused(t); !slices.Equal(got, []agentkernel.PID{3}) {
			t.Errorf("%v are paused", got)
		}
		if info, err := r.Info(t.Context()); err != nil || info.Unfinished != 0 {
			t.Errorf("%+v %v", info, err)
		}
	})
}

// A kill reaches the whole tree also if whoever asked for it does not wait for the end.
func TestAKillWhoseCallerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		end := make(chan struct{})
		defer close(end)
		r.backend.add("computes", func(*prog) error { <-end; return nil })
		root := r.child(t, "computes", 0)
		pids := []agentkernel.PID{root, r.child(t, "computes", root)}
		pids = append(pids, r.child(t, "computes", pids[1]))
		synctest.Wait()
		ctx, leave := context.WithCancel(t.Context())
		leave()
		_ = r.Signal(ctx, root, agentkernel.SignalKill) // it may say that it was not waited for
		synctest.Wait()
		for _, pid := range pids {
			if p, err := r.Process(t.Context(), pid); err != nil || p.State != agentkernel.StateKilled {
				t.Errorf("pid %d: %s, %v", pid, p.State, err)
			}
		}
	})
}

// A kill of what no kernel has taken up ends the tree, too: nothing of it is continued later.
func TestAKillOfAnUnfinishedTree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		r.backend.add("p", sleeper)
		root := r.child(t, "p", 0)
		pids := []agentkernel.PID{root, r.child(t, "p", root)}
		pids = append(pids, r.child(t, "p", pids[1]))
		other := r.child(t, "p", 0)
		r = r.boot(t, r.store.crash())
		if err := r.Signal(t.Context(), root, agentkernel.SignalKill); err != nil {
			t.Fatal(err)
		}
		for _, pid := range pids {
			if p, err := r.Process(t.Context(), pid); err != nil || p.State != agentkernel.StateKilled {
				t.Errorf("pid %d: %s, %v", pid, p.State, err)
			}
		}
		if p, err := r.Process(t.Context(), other); err != nil || p.State.Terminal() {
			t.Errorf("another tree: %s, %v", p.State, err)
		}
	})
}
