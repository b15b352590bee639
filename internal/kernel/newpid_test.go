package kernel_test

import (
	"context"
	"testing"

	"agentkernel"
)

// A store on another machine may have no PID to give, or not in time. Then nothing was made, and the kernel goes on.
func TestNoPID(t *testing.T) {
	r := newRig(t, newRAMStore())
	r.backend.add("p", func(*prog) error { return nil })
	refuse := func(err error) {
		r.store.mu.Lock()
		defer r.store.mu.Unlock()
		r.store.noPID = err
	}
	refuse(agentkernel.Errorf(agentkernel.CodeUnavailable, "store", "the database does not answer"))
	if _, err := r.Spawn(t.Context(), spec("p")); agentkernel.CodeOf(err) != agentkernel.CodeUnavailable {
		t.Errorf("spawn: %v", err)
	}
	if _, err := r.Run(t.Context(), spec("p"), func(agentkernel.Event) error { return nil }); agentkernel.CodeOf(err) != agentkernel.CodeUnavailable {
		t.Errorf("run: %v", err)
	}
	refuse(nil)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Spawn(gone, spec("p")); err == nil {
		t.Error("a process was made for a caller who had left")
	}
	if list, err := r.List(t.Context(), agentkernel.Filter{}); err != nil || len(list) != 0 {
		t.Errorf("there are %v, %v", list, err)
	}
	if p, _ := r.run(t, spec("p")); p.State != agentkernel.StateExited {
		t.Errorf("afterwards a process ended as %s", p.State)
	}
}
