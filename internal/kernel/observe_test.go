package kernel_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentkernel"
	"agentkernel/internal/kernel"
)

// notes is an observer that writes down what it is told.
type notes struct {
	mu    sync.Mutex
	lines []string
}

func (n *notes) add(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, fmt.Sprintf(format, args...))
}

func (n *notes) take() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	lines := n.lines
	n.lines = nil
	return lines
}

func (n *notes) Created(p agentkernel.Process) {
	n.add("%d created %s %s", p.PID, p.Namespace, p.State)
}
func (n *notes) Recovered(p agentkernel.Process) {
	n.add("%d recovered %s %d", p.PID, p.State, p.Recoveries)
}
func (n *notes) CallBegun(c agentkernel.ObservedCall) {
	n.add("%d.%d begun %s %s copied=%t", c.PID, c.Call, c.Label, c.Effect, c.Copied)
}
func (n *notes) CallEnded(c agentkernel.ObservedCall) {
	code := agentkernel.Code("ok")
	if c.Err != nil {
		code = c.Err.Code
	}
	n.add("%d.%d ended %s %s after %s", c.PID, c.Call, c.Op, code, c.Ended.Sub(c.Begun))
}
func (n *notes) Waited(w agentkernel.ObservedWait) {
	since := "unknown"
	if !w.Since.IsZero() {
		since = w.Until.Sub(w.Since).String()
	}
	n.add("%d waited %s parked=%t", w.PID, since, w.Parked)
}
func (n *notes) Ended(p agentkernel.Process) { n.add("%d ended %s", p.PID, p.State) }

func observedBy(n *notes) func(*kernel.Config) { return func(c *kernel.Config) { c.Observer = n } }

func (n *notes) want(t *testing.T, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, n.take()); diff != "" {
		t.Errorf("what was observed (-want +got):\n%s", diff)
	}
}

func TestObserverOfARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := new(notes)
		r := newRig(t, newRAMStore(), observedBy(n))
		r.tools.delay = func() { time.Sleep(3 * time.Second) }
		r.backend.add("p", func(p *prog) error {
			if _, err := p.call("state.set", `{"key":"k","value":1}`); err != nil {
				return err
			}
			if _, err := p.call("tool.call", callTool("append", `{"n":1}`)); err != nil {
				return err
			}
			_, _ = p.call("no.such", `{}`)
			return nil
		})
		first := spec("p")
		first.Budget.Calls = 5 // a call that reserves something of it was made as well
		p, _ := r.run(t, first)
		n.want(t, "1 created default ready",
			"1.1 begun state.set pure copied=false", "1.1 ended state.set ok after 0s",
			"1.2 begun tool.call fake.append write copied=false", "1.2 ended tool.call ok after 3s", "1 waited 3s parked=true",
			"1.3 begun no.such  copied=false", "1.3 ended no.such not_found after 0s",
			"1 ended exited")

		again := spec("p")
		again.Past = &agentkernel.Past{PID: p.PID}
		r.run(t, again)
		got := n.take()
		for _, line := range []string{"2.2 begun tool.call fake.append write copied=true", "2.2 ended tool.call ok after 0s", "2 ended exited"} {
			if !slices.Contains(got, line) {
				t.Errorf("of the rerun %q is missing: %q", line, got)
			}
		}
	})
}

func TestObserverOfAWaitAKillAndARecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := new(notes)
		r := newRig(t, newRAMStore(), parkSoon, observedBy(n))
		r.backend.add("sleeps", func(p *prog) error {
			for range 2 {
				if _, err := p.call("time.sleep", `{"seconds":60}`); err != nil {
					return err
				}
			}
			return nil
		})
		spawn := func() agentkernel.PID {
			p, err := r.Spawn(t.Context(), spec("sleeps"))
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			return p.PID
		}
		first := spawn()
		pass(90 * time.Second)
		n.want(t, "1 created default ready", "1.1 begun time.sleep pure copied=false", "1.1 ended time.sleep ok after 1m0s",
			"1 waited 1m0s parked=true", "1.2 begun time.sleep pure copied=false")
		if err := r.Signal(t.Context(), first, agentkernel.SignalKill); err != nil {
			t.Fatal(err)
		}
		n.want(t, "1 ended killed")

		second := spawn()
		pass(10 * time.Second)
		if _, err := r.Process(t.Context(), second); err != nil { // now all of it is durable
			t.Fatal(err)
		}
		n.take()
		after := new(notes)
		again := r.boot(t, r.store.crash(), parkSoon, observedBy(after))
		if _, err := again.Recover(context.WithoutCancel(t.Context()), 0); err != nil {
			t.Fatal(err)
		}
		if _, err := again.Wait(t.Context(), second); err != nil {
			t.Fatal(err)
		}
		after.want(t, "2 recovered ready 1", "2.1 begun time.sleep pure copied=false", "2.1 ended time.sleep ok after 1m0s", "2 waited 1m0s parked=true",
			"2.2 begun time.sleep pure copied=false", "2.2 ended time.sleep ok after 1m0s", "2 waited 1m0s parked=true", "2 ended exited")
	})
}
