package kernel_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel"
	"agentkernel/internal/sys"
)

// A call that the journal does not have yet, since a human is asked about it, keeps its program's sandbox: an image would
// stand behind the call, and after a crash nothing would answer it.
func TestNoImageAheadOfTheJournal(t *testing.T) {
	for name, call := range map[string]func(p *prog) error{
		"sync": func(p *prog) error { _, err := p.call("tool.call", callTool("append", `{}`)); return err },
		"async": func(p *prog) error {
			_, err := p.wait(p.async("tool.call", callTool("append", `{}`)))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, newRAMStore(), parkSoon)
				r.backend.add("asks", func(p *prog) error {
					if _, err := p.call("time.now", `{}`); err != nil {
						return err
					}
					p.print("%s", agentkernel.CodeOf(call(p)))
					return nil
				})
				s := spec("asks")
				s.Allow, s.Interactive = nil, true
				pid := make(chan agentkernel.PID, 1)
				go func() {
					_, _ = r.Run(context.Background(), s, func(ev agentkernel.Event) error {
						if ev.Kind == agentkernel.EventAsk {
							pid <- ev.PID
						}
						return nil
					})
				}()
				asked := <-pid
				pass(time.Minute) // it would have been parked long ago
				if p, err := r.Process(t.Context(), asked); err != nil || !p.Resident {
					t.Errorf("it is parked: %+v %v", p, err)
				}
				again := r.boot(t, r.store.crash(), parkSoon)
				if _, err := again.Recover(t.Context(), 0); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				p, err := again.Wait(ctx, asked)
				if err != nil || p.Asks() != "fake.append" {
					t.Errorf("it does not ask again: %+v %v", p, err)
				}
			})
		})
	}
}

// output is all that a process has printed.
func (r *rig) output(t *testing.T, pid agentkernel.PID) (out string) {
	t.Helper()
	if err := r.Events(t.Context(), pid, 1, false, func(ev agentkernel.Event) error { out += ev.Text; return nil }); err != nil {
		t.Fatal(err)
	}
	return out
}

// queue is a family whose calls wait for a time until it is their turn.
type queue struct {
	wait time.Duration
	made atomic.Int32
}

func (q *queue) family(c *kernel.Config) {
	c.Families = append(c.Families, sys.Family{Name: "queue", Ops: []sys.Op{{
		Syscall: agentkernel.Syscall{Name: "queue.up", Guest: "queue.up", Effect: agentkernel.EffectPaid, Capability: "queue", Result: "any"},
		Admit: func(*sys.Call) (sys.Admission, error) {
			return sys.Admission{Turn: q}, nil
		},
		Outside: func(context.Context, *sys.Call) (sys.Outcome, error) {
			q.made.Add(1)
			return sys.Outcome{Result: sys.Null}, nil
		},
	}}})
}

func (q *queue) Ready() bool { return false }
func (q *queue) Drop()       {}

func (q *queue) Wait(ctx context.Context) error {
	select {
	case <-time.After(q.wait):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func queues(times int) func(p *prog) error {
	return func(p *prog) error {
		for range times {
			if _, err := p.call("queue.up", `{}`); err != nil {
				return err
			}
		}
		return nil
	}
}

// Programs whose calls have begun to wait their turn keep their sandboxes. When these are all that there may be, and a program that wants to
// begin has the only slot, they give way as soon as they are ready and lack that slot.
func TestWhoWaitsForASandboxGetsThatOfWhoWaitsForASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue{wait: turnAfter / 2}
		r := newRig(t, newRAMStore(), q.family, func(c *kernel.Config) { c.Residents, c.Slots = 1, 1 })
		r.backend.places = make(chan struct{}, 3)
		r.backend.add("queues", queues(3))
		var pids []agentkernel.PID
		for range 12 {
			pids = append(pids, r.spawnWith(t, "queues", 100))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		for _, pid := range pids {
			if p, err := r.Wait(ctx, pid); err != nil || p.State != agentkernel.StateExited {
				t.Fatalf("%+v, %v", p, err)
			}
		}
	})
}

// turnAfter is how long a call waits for its turn before the journal has it.
const turnAfter = 250 * time.Millisecond

// A process whose call waits its turn for long is parked, also where others need its sandbox. The call is made once, when it is its turn:
// in the next kernel, too, and not while its process stands still.
func TestACallThatWaitsItsTurnForLongIsParked(t *testing.T) {
	for name, between := range map[string]func(t *testing.T, r *rig, q *queue) *rig{
		"nothing happens": func(_ *testing.T, r *rig, _ *queue) *rig { return r },
		"its kernel dies": func(t *testing.T, r *rig, q *queue) *rig {
			again := r.boot(t, r.store.crash(), parkSoon, q.family)
			if _, err := again.Recover(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			return again
		},
		"its kernel stands still": func(t *testing.T, r *rig, q *queue) *rig {
			if err := r.Halt(t.Context(), agentkernel.Hold{}); err != nil {
				t.Fatal(err)
			}
			pass(2 * q.wait)
			if n := q.made.Load(); n != 0 {
				t.Errorf("%d calls were made in a halt", n)
			}
			if err := r.Thaw(t.Context(), agentkernel.Hold{}); err != nil {
				t.Fatal(err)
			}
			return r
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := &queue{wait: time.Minute}
				r := newRig(t, newRAMStore(), parkSoon, q.family)
				r.backend.add("queues", queues(1))
				pid := r.spawnWith(t, "queues", 100)
				pass(turnAfter - time.Millisecond)
				if n := len(r.entries(t, pid)); n != 1 {
					t.Errorf("%d entries before it has waited for long", n)
				}
				pass(2 * time.Second)
				if p, err := r.Process(t.Context(), pid); err != nil || p.Resident || p.State != agentkernel.StateWaiting {
					t.Errorf("it is not parked: %+v %v", p, err)
				}
				r = between(t, r, q)
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				if p, err := r.Wait(ctx, pid); err != nil || p.State != agentkernel.StateExited || q.made.Load() != 1 {
					t.Errorf("%d were made: %+v %v", q.made.Load(), p, err)
				}
			})
		})
	}
}
