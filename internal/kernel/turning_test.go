package kernel_test

import (
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
)

// A program that computes is seen to: while it does, and when its sandbox was lost with what that had counted.
func TestRunningTimeOfATurnUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := busyRig(t)
		pid := r.spawnWith(t, "computes", 10)
		time.Sleep(20 * time.Second)
		p, err := r.Process(t.Context(), pid)
		list, listErr := r.List(t.Context(), agentkernel.Filter{})
		if err != nil || listErr != nil || p.Usage.Running != 20*time.Second || list[0].Usage.Running != p.Usage.Running {
			t.Errorf("it computes: %+v %v %+v %v", p.Usage, err, list, listErr)
		}
		if err := r.Signal(t.Context(), pid, agentkernel.SignalKill); err != nil {
			t.Fatal(err)
		}
		if p, err = r.Wait(t.Context(), pid); err != nil || p.Usage.Running != 20*time.Second {
			t.Errorf("it was killed: %+v %v", p.Usage, err)
		}
	})
}
