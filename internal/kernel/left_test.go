package kernel_test

import (
	"context"
	"errors"
	"testing"

	"agentkernel"
	"agentkernel/internal/kernel"
)

// unhurried gives PIDs to callers who have left, too, as a store on this machine does.
type unhurried struct{ *ramStore }

func (s unhurried) NewPID(ctx context.Context) (agentkernel.PID, error) {
	return s.ramStore.NewPID(context.WithoutCancel(ctx))
}

// Whoever leaves while the program is looked at, which takes a minute where it is compiled, knows of no process: none is made later.
func TestCallerWhoLeftBeforeTheProcess(t *testing.T) {
	store := newRAMStore()
	r := newRig(t, store, func(c *kernel.Config) { c.Store = unhurried{store} })
	r.backend.add("p", func(*prog) error { t.Error("it runs"); return nil })
	ctx, leave := context.WithCancel(t.Context())
	r.backend.mu.Lock()
	r.backend.onCheck = leave
	r.backend.mu.Unlock()
	if _, err := r.Run(ctx, spec("p"), func(agentkernel.Event) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("run: %v", err)
	}
	if _, err := r.Spawn(ctx, spec("p")); !errors.Is(err, context.Canceled) {
		t.Errorf("spawn: %v", err)
	}
	if n, err := r.Count(t.Context(), agentkernel.Filter{}); n != 0 || err != nil {
		t.Errorf("%d processes: %v", n, err)
	}
}
