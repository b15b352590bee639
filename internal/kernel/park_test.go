package kernel_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
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
