package kernel_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel"
)

// stoppable is a backend whose programs can be stopped while they compute: kept as they stand, or given up.
type stoppable struct {
	*goBackend
	keeps bool
}

func (b *stoppable) Start(ctx context.Context, req agentkernel.StartRequest) (agentkernel.Sandbox, error) {
	box, err := b.goBackend.Start(ctx, req)
	if err != nil {
		return nil, err
	}
	return &stoppableBox{goSandbox: box.(*goSandbox), keeps: b.keeps, stop: make(chan struct{}, 1)}, nil
}

type stoppableBox struct {
	*goSandbox
	keeps bool
	stop  chan struct{}
	held  bool
}

func (s *stoppableBox) Suspend(stop bool) error {
	if stop {
		s.stop <- struct{}{}
		return nil
	}
	select {
	case <-s.stop:
	default:
	}
	return nil
}

func (s *stoppableBox) Next(ctx context.Context, reply *agentkernel.Reply) (agentkernel.Turn, error) {
	if s.held {
		s.held = false
	} else {
		if reply != nil {
			s.history = append(s.history, *reply)
		}
		select {
		case s.replies <- reply:
		case <-ctx.Done():
			return agentkernel.Turn{}, context.Cause(ctx)
		}
	}
	select {
	case t := <-s.turns:
		return t, nil
	case <-ctx.Done():
		return agentkernel.Turn{}, context.Cause(ctx)
	case <-s.stop:
	}
	if !s.keeps {
		_ = s.Close()
		return agentkernel.Turn{Kind: agentkernel.TurnLost}, nil
	}
	s.held = true
	return agentkernel.Turn{Kind: agentkernel.TurnHeld}, nil
}

// TestPauseWhileComputing: a program that computes is paused at once, and says so. Resumed it goes on, wherever its sandbox
// has to begin, and nothing that it did is done again: not by the pause, and not by a crash in it.
func TestPauseWhileComputing(t *testing.T) {
	for name, c := range map[string]struct {
		keeps, noImages bool
		between         func(*testing.T, *rig, agentkernel.PID) *rig
		begun           int // how often the program began
	}{
		"kept":                   {keeps: true, begun: 1},
		"given up":               {noImages: true, begun: 2},
		"given up, with image":   {begun: 2},
		"killed":                 {keeps: true, between: killed, begun: 1},
		"given up and killed":    {between: killed, begun: 1},
		"kernel died":            {keeps: true, noImages: true, between: died, begun: 2},
		"given up, kernel died":  {between: died, begun: 2},
		"kernel stopped in good": {keeps: true, noImages: true, between: stopped, begun: 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &rig{store: newRAMStore(), backend: newGoBackend(), tools: &fakeTools{}}
				r.backend.noImages = c.noImages
				own := func(cfg *kernel.Config) {
					cfg.Backends, cfg.ParkAfter = []agentkernel.Backend{&stoppable{r.backend, c.keeps}}, 300*time.Millisecond
				}
				r = r.boot(t, r.store, own)
				compute := make(chan struct{})
				begun := 0
				r.backend.add("p", func(p *prog) error {
					begun++
					p.print("begin ")
					under := p.async("time.sleep", `{"seconds":60}`)
					if _, err := p.call("tool.call", callTool("append", `{"n":1}`)); err != nil {
						return err
					}
					if _, err := p.call("time.sleep", `{"seconds":2}`); err != nil { // it is parked here
						return err
					}
					p.print("computes ")
					select {
					case <-compute:
					case <-p.s.dead:
						panic(errStopped)
					}
					if _, err := p.call("tool.call", callTool("append", `{"n":2}`)); err != nil {
						return err
					}
					_, err := p.wait(under)
					p.print("end")
					return err
				})
				p, err := r.Spawn(t.Context(), spec("p"))
				if err != nil {
					t.Fatal(err)
				}
				pass(3 * time.Second)
				reported := make(chan agentkernel.Process, 1)
				go func() {
					got, err := r.Wait(t.Context(), p.PID)
					if err != nil {
						t.Error(err)
					}
					reported <- got
				}()
				synctest.Wait()
				if err := r.Signal(t.Context(), p.PID, agentkernel.SignalPause); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				select {
				case got := <-reported:
					if !got.Paused || got.State != agentkernel.StateWaiting {
						t.Errorf("it is reported as %+v", got)
					}
				default:
					t.Fatal("the pause is not reported while the program computes")
				}
				pass(30 * time.Second)
				if c.between != nil {
					if r = c.between(t, r, p.PID); r == nil {
						return
					}
					r = r.boot(t, r.store, own)
					if _, err := r.Recover(t.Context(), 0); err != nil {
						t.Fatal(err)
					}
					if now, err := r.Process(t.Context(), p.PID); err != nil || !now.Paused {
						t.Fatalf("after recovery: %+v %v", now, err)
					}
				}
				close(compute)
				if err := r.Signal(t.Context(), p.PID, agentkernel.SignalResume); err != nil {
					t.Fatal(err)
				}
				end, err := r.Wait(t.Context(), p.PID)
				if err != nil || end.State != agentkernel.StateExited || strings.Join(r.tools.lines, " ") != `{"n":1} {"n":2}` {
					t.Errorf("%+v %v %v; written: %q", end, end.Error, err, r.tools.lines)
				}
				if c.noImages && begun != c.begun { // an image runs through its origin
					t.Errorf("it began %d times, want %d", begun, c.begun)
				}
				if out := output(t, r, p.PID); out != "begin computes end" {
					t.Errorf("printed %q", out)
				}
				if took := end.Ended.Sub(end.Created); took < 60*time.Second || took > 61*time.Second {
					t.Errorf("its sleep of a minute ended after %v", took)
				}
			})
		})
	}
}

// killed kills the paused process, and ends the test.
func killed(t *testing.T, r *rig, pid agentkernel.PID) *rig {
	if err := r.Signal(t.Context(), pid, agentkernel.SignalKill); err != nil {
		t.Fatal(err)
	}
	if end, err := r.Process(t.Context(), pid); err != nil || end.State != agentkernel.StateKilled {
		t.Errorf("%+v %v", end, err)
	}
	synctest.Wait()
	if n := r.backend.sandboxes(); n != 0 {
		t.Errorf("%d sandboxes are left", n)
	}
	return nil
}

// died is a power cut.
func died(_ *testing.T, r *rig, _ agentkernel.PID) *rig {
	return &rig{store: r.store.crash(), backend: r.backend, tools: r.tools}
}

// stopped is a kernel that is closed.
func stopped(t *testing.T, r *rig, _ agentkernel.PID) *rig {
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	return died(t, r, 0)
}

// The wall limit leaves pauses out, also those that a kernel did not live to see the end of.
func TestPausesAreNoWallTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		r.backend.add("p", func(p *prog) error { _, err := p.call("time.sleep", `{"seconds":1000}`); return err })
		s := spec("p")
		s.Limits.Wall = agentkernel.Duration(10 * time.Second)
		p, err := r.Spawn(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		signal := func(sig agentkernel.Signal) {
			t.Helper()
			if err := r.Signal(t.Context(), p.PID, sig); err != nil {
				t.Fatal(err)
			}
		}
		pass(4 * time.Second)
		signal(agentkernel.SignalPause)
		pass(time.Minute)
		signal(agentkernel.SignalResume)
		pass(3 * time.Second)
		signal(agentkernel.SignalPause)
		pass(time.Minute)
		r = r.boot(t, r.store.crash())
		if _, err := r.Recover(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		signal(agentkernel.SignalResume)
		pass(2 * time.Second)
		if now, err := r.Process(t.Context(), p.PID); err != nil || now.State != agentkernel.StateWaiting {
			t.Fatalf("after 9 seconds without pauses: %+v %v", now, err)
		}
		end, err := r.Wait(t.Context(), p.PID)
		if err != nil || end.State != agentkernel.StateKilled || end.Error.Op != "limit.wall" || !strings.Contains(end.Error.Message(), "(used 10s)") {
			t.Errorf("%+v %v %v", end, end.Error, err)
		}
	})
}
