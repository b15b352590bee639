package kernel_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel"
)

// withFiles is a backend whose programs may have folders.
type withFiles struct{ *goBackend }

func (b withFiles) Info() agentkernel.BackendInfo {
	i := b.goBackend.Info()
	i.Files = true
	return i
}

// folder counts how often the changes of a process were applied; measured is called before that.
type folder struct {
	agentkernel.Layers
	measured func()
	applied  int
}

func (*folder) Create(agentkernel.PID, *agentkernel.Spec) error    { return nil }
func (*folder) Stdin(agentkernel.PID) (string, error)              { return "", nil }
func (*folder) Begin(agentkernel.PID) ([]agentkernel.Mount, error) { return nil, nil }
func (*folder) Drift(agentkernel.PID) ([]string, error)            { return nil, nil }
func (*folder) Changes(agentkernel.PID) (agentkernel.Changes, error) {
	return agentkernel.Changes{}, nil
}
func (*folder) Imported(agentkernel.PID) bool                  { return false }
func (*folder) Discard(context.Context, agentkernel.PID) error { return nil }
func (f *folder) Apply(context.Context, agentkernel.PID, agentkernel.ApplyOptions) (agentkernel.Applied, error) {
	f.applied++
	return agentkernel.Applied{}, nil
}

func (f *folder) Used(agentkernel.PID) (changes, beside int64, err error) {
	if look := f.measured; look != nil {
		f.measured = nil
		look()
	}
	return 0, 0, nil
}

// impatient is a store that does not wait for a caller who has left, as real ones do not.
type impatient struct{ *ramStore }

func (s impatient) Flush(ctx context.Context, upTo agentkernel.Position) error {
	if err := ctx.Err(); err != nil {
		return agentkernel.AsError(err, agentkernel.CodeCanceled, "store")
	}
	return s.ramStore.Flush(ctx, upTo)
}

// TestTheKernelEndsBeforeItPublishes: a program that has exited while its kernel ends has its changes applied, by that kernel or the next one.
// It ended with 0, and they never were.
func TestTheKernelEndsBeforeItPublishes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := &folder{}
		backend := newGoBackend()
		change := func(c *kernel.Config) {
			c.Backends, c.Layers = []agentkernel.Backend{withFiles{backend}}, files
		}
		store := newRAMStore()
		r := newRig(t, store, change, func(c *kernel.Config) { c.Store = impatient{store} })
		backend.add("p", func(p *prog) error { p.print("done\n"); return nil })
		closed := make(chan error, 1)
		files.measured = func() {
			go func() { closed <- r.Close() }()
			pass(time.Second)
		}
		s := spec("p")
		s.Tools, s.Allow = nil, nil
		s.Workspace = &agentkernel.Workspace{Path: "/w", Publish: true}
		p, err := r.Spawn(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if err := <-closed; err != nil {
			t.Error(err)
		}
		next := r.boot(t, r.store.crash(), change)
		if _, err := next.Recover(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		if end, err := next.Wait(t.Context(), p.PID); err != nil || end.State != agentkernel.StateExited || files.applied != 1 {
			t.Errorf("%s %v %v, applied %d times", end.State, end.Error, err, files.applied)
		}
	})
}
