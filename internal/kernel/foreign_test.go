package kernel_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
)

// TestAChildOfTheOriginIsTakenUpLater: a rerun waits for a child that its origin started, a kernel dies, and the next one takes up the
// rerun first. It hears of the end of the child all the same.
func TestAChildOfTheOriginIsTakenUpLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore(), parkSoon)
		r.backend.add("slow", func(p *prog) error { _, err := p.call("time.sleep", `{"seconds":1000}`); return err })
		parent := func(key string, end error) func(p *prog) error {
			return func(p *prog) error {
				if _, err := p.call("state.get", fmt.Sprintf(`{"key":%q,"default":7}`, key)); err != nil {
					return err
				}
				slow, err := p.call("proc.spawn", `{"source":"slow"}`)
				if err != nil || end != nil {
					return end
				}
				_, err = p.call("proc.wait", fmt.Sprintf(`{"pid":%s}`, slow))
				return err
			}
		}
		r.backend.add("first", parent("a", agentkernel.Errorf(agentkernel.CodeProgram, "p", "no")))
		r.backend.add("second", parent("b", nil))
		first, _ := r.run(t, spec("first"))
		second, err := r.Spawn(t.Context(), rerunning("second", first.PID))
		if err != nil {
			t.Fatal(err)
		}
		pass(2 * time.Second) // both are parked
		r2 := r.boot(t, r.store.crash(), parkSoon)
		for _, pid := range []agentkernel.PID{second.PID, first.PID + 1} {
			if _, err := r2.Recover(t.Context(), pid); err != nil {
				t.Fatal(err)
			}
			pass(time.Minute)
		}
		pass(time.Hour)
		if got, err := r2.Process(t.Context(), second.PID); err != nil || got.State != agentkernel.StateExited {
			t.Errorf("the rerun: %s %v, %v", got.State, got.WaitsFor, err)
		} else if child, err := r2.Process(t.Context(), first.PID+1); err != nil || got.Ended.Sub(child.Ended) > time.Second/2 {
			t.Errorf("it heard of the end %v later, %v", got.Ended.Sub(child.Ended), err)
		}
	})
}
