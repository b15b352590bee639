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

// early is a call to a kernel that has not recovered yet.
type early struct {
	spec agentkernel.Spec // of the process that it is about
	open bool             // which pauses with a question open
	call func(ctx context.Context, r *rig, pid agentkernel.PID) error
}

func nothing(agentkernel.Event) error { return nil }

// earlyCalls are all calls from outside that need a kernel that carries the process.
func earlyCalls() map[string]early {
	session, asks, hosted := spec("session"), spec("write"), agentkernel.Spec{Backend: "hosted", Program: agentkernel.Program{Name: "agent"}}
	session.Program.Session = true
	asks.Allow, asks.Interactive = nil, true
	keyed := spec("sleep")
	keyed.IdempotencyKey = "key"
	signal := func(sig agentkernel.Signal) early {
		return early{spec: spec("sleep"), call: func(ctx context.Context, r *rig, pid agentkernel.PID) error { return r.Signal(ctx, pid, sig) }}
	}
	feed := func(key string) early {
		return early{spec: session, call: func(ctx context.Context, r *rig, pid agentkernel.PID) error {
			end, err := r.Feed(ctx, pid, agentkernel.Cell{Name: "cell", Source: "quick", Key: key}, nothing)
			if err == nil && string(end.Result) != "42" {
				return agentkernel.Errorf(agentkernel.CodeInternal, "feed", "%s %v", end.Result, end.Error)
			}
			return err
		}}
	}
	return map[string]early{
		"wait": {spec: spec("sleep"), call: func(ctx context.Context, r *rig, pid agentkernel.PID) error {
			_, err := r.Wait(ctx, pid)
			return err
		}},
		"kill": signal(agentkernel.SignalKill), "pause": signal(agentkernel.SignalPause),
		"resume": signal(agentkernel.SignalResume), "interrupt": signal(agentkernel.SignalInterrupt),
		"feed": feed(""), "feed with a key": feed("new"), "feed again": feed("old"),
		"end": {spec: session, call: func(ctx context.Context, r *rig, pid agentkernel.PID) error {
			_, err := r.EndSession(ctx, pid)
			return err
		}},
		"attach": {spec: hosted, call: func(ctx context.Context, r *rig, pid agentkernel.PID) error {
			_, err := r.Attach(ctx, pid, agentkernel.Attaching{})
			return err
		}},
		"resolve": {spec: pausing("write"), call: func(ctx context.Context, r *rig, pid agentkernel.PID) error { return r.Resolve(ctx, pid, 1, done) }},
		"follow": {spec: spec("sleep"), call: func(ctx context.Context, r *rig, pid agentkernel.PID) error {
			ended := false
			err := r.Events(ctx, pid, 1, true, func(ev agentkernel.Event) error {
				ended = ended || ev.Kind == agentkernel.EventEnd
				return nil
			})
			if err == nil && !ended {
				return agentkernel.Errorf(agentkernel.CodeInternal, "follow", "its end was not seen")
			}
			return err
		}},
		"run with a key": {spec: keyed, call: func(ctx context.Context, r *rig, _ agentkernel.PID) error {
			p, err := r.Run(ctx, keyed, nothing)
			if err == nil && p.State != agentkernel.StateExited {
				return agentkernel.Errorf(agentkernel.CodeInternal, "run", "it is %s", p.State)
			}
			return err
		}},
		"answer": {spec: asks, open: true, call: func(ctx context.Context, r *rig, pid agentkernel.PID) error {
			err := r.Answer(ctx, pid, 1, agentkernel.AnswerYes)
			if err != nil && strings.Contains(err.Error(), "is not open") { // it is carried, and paused before it has asked
				return nil
			}
			return err
		}},
	}
}

// TestCallsBeforeTheRecovery: a kernel may be called before it has recovered, and while it recovers. The caller waits, and is
// then answered as by the kernel before it.
func TestCallsBeforeTheRecovery(t *testing.T) {
	for name, c := range earlyCalls() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := sessionRig(t, newRAMStore())
				r.backend.add("sleep", func(p *prog) error { _, err := p.call("time.sleep", `{"seconds":20}`); return err })
				r.backend.add("write", oneWrite)
				pid := c.begin(t, r)
				_ = r.store.Flush(t.Context(), 0)
				next := r.boot(t, r.store.crash(), func(cfg *kernel.Config) { cfg.Recovers = true })
				said := make(chan error, 1)
				go func() { said <- c.call(t.Context(), next, pid) }()
				waits := func(when string) {
					synctest.Wait()
					select {
					case err := <-said:
						t.Fatalf("%s the recovery it is answered: %v", when, err)
					default:
					}
				}
				waits("before")
				on := make(chan struct{})
				next.store.beforeNextRead(func() { <-on })
				recovered := make(chan error, 1)
				go func() { _, err := next.Recover(t.Context(), 0); recovered <- err }()
				waits("during")
				close(on)
				if err := <-recovered; err != nil {
					t.Fatal(err)
				}
				if err := <-said; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// begin makes the process that the call is about, as it is when its kernel dies.
func (c *early) begin(t *testing.T, r *rig) agentkernel.PID {
	t.Helper()
	switch {
	case c.spec.Program.Session:
		pid := r.beginAs(t, c.spec)
		if _, err := r.Feed(t.Context(), pid, agentkernel.Cell{Name: "cell", Source: "quick", Key: "old"}, nothing); err != nil {
			t.Fatal(err)
		}
		return pid
	case c.open:
		p, err := r.Run(t.Context(), c.spec, func(ev agentkernel.Event) error {
			if ev.Kind != agentkernel.EventAsk {
				return nil
			}
			return r.Signal(t.Context(), ev.PID, agentkernel.SignalPause)
		})
		if err != nil {
			t.Fatal(err)
		}
		return p.PID
	case c.spec.OnUnknown == agentkernel.UnknownPause:
		r.tools.delay = func() { pass(time.Hour) }
	}
	p, err := r.Spawn(t.Context(), c.spec)
	if err != nil {
		t.Fatal(err)
	}
	pass(10 * time.Second)
	r.tools.mu.Lock()
	r.tools.delay = nil
	r.tools.mu.Unlock()
	return p.PID
}

// A kernel that has recovered answers at once, and so does one that recovers nothing; a recovery that does not end holds
// callers up for a while only, and one who goes is let go.
func TestCallsWithoutARecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		r.backend.add("sleep", func(p *prog) error { _, err := p.call("time.sleep", `{"seconds":20}`); return err })
		p, err := r.Spawn(t.Context(), spec("sleep"))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			recovers bool
			takes    time.Duration
		}{{false, 0}, {true, 30 * time.Second}} {
			next := r.boot(t, r.store.crash(), func(cfg *kernel.Config) { cfg.Recovers = c.recovers })
			begun := time.Now()
			if _, err := next.Wait(t.Context(), p.PID); agentkernel.CodeOf(err) != agentkernel.CodeConflict || time.Since(begun) != c.takes {
				t.Errorf("it recovers %v: %v after %v", c.recovers, err, time.Since(begun))
			}
			if _, err := next.Wait(t.Context(), 99); agentkernel.CodeOf(err) != agentkernel.CodeNotFound || time.Since(begun) != c.takes {
				t.Errorf("a process that never was: %v after %v", err, time.Since(begun))
			}
			gone, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := next.Wait(gone, p.PID); err == nil {
				t.Error("a caller who has gone is answered")
			}
			r = next
		}
	})
}

// Who asks for a recovery may leave in the middle of it (Ctrl-C, a timeout). What was taken up by then runs, nothing has failed by
// that, and the rest is taken up when somebody asks again.
func TestARecoveryWhoseCallerLeaves(t *testing.T) {
	for reads := 1; reads <= 5; reads++ { // the caller leaves at this one
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, newRAMStore())
			r.backend.add("p", func(p *prog) error {
				_, _ = p.call("tool.call", callTool("append", `{}`)) // its outcome may be unknown
				_, err := p.call("time.sleep", `{"seconds":20}`)
				return err
			})
			r.backend.add("past", func(p *prog) error { _, err := p.call("tool.call", callTool("append", `{}`)); return err })
			past, _ := r.run(t, spec("past"))
			first, err := r.Spawn(t.Context(), spec("p"))
			if err != nil {
				t.Fatal(err)
			}
			again := spec("p")
			again.Past = &agentkernel.Past{PID: past.PID}
			second, err := r.Spawn(t.Context(), again)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			r = r.boot(t, r.store.crash())
			ctx, leave := context.WithCancel(t.Context())
			n := 0
			var read func()
			read = func() {
				if n++; n == reads {
					leave()
					return
				}
				r.store.beforeNextRead(read)
			}
			r.store.beforeNextRead(read)
			if taken, err := r.Recover(ctx, 0); err == nil && len(taken) != 2 {
				t.Errorf("read %d: a recovery of %d says that it is complete", reads, len(taken))
			}
			if _, err := r.Recover(t.Context(), 0); err != nil {
				t.Errorf("read %d: %v", reads, err)
			}
			for _, pid := range []agentkernel.PID{first.PID, second.PID} {
				if p, err := r.Wait(t.Context(), pid); err != nil || p.State != agentkernel.StateExited {
					t.Errorf("read %d: pid %d: %s %v, %v", reads, pid, p.State, p.Error, err)
				}
			}
		})
	}
}
