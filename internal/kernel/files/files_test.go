package files

import (
	"context"
	"testing"

	"agentkernel"
)

// rows is a store whose one process ends right after its row was read for the first time.
type rows struct {
	agentkernel.StoreReader
	rec  agentkernel.ProcessRecord
	ends bool
}

func (r *rows) Process(context.Context, agentkernel.PID) (agentkernel.ProcessRecord, error) {
	rec := r.rec
	if r.ends {
		r.rec.State = agentkernel.StateExited
	}
	return rec, nil
}

// gone is a kernel that has no process in memory.
type gone struct{}

func (gone) Live(agentkernel.PID) bool { return false }
func (gone) AtRest(context.Context, agentkernel.PID) (carried, ended bool, free <-chan struct{}) {
	return false, false, nil
}

type layers struct{ agentkernel.Layers }

func (layers) Changes(agentkernel.PID) (agentkernel.Changes, error) {
	return agentkernel.Changes{State: agentkernel.LayerKept}, nil
}
func (layers) Discard(context.Context, agentkernel.PID) error { return nil }
func (layers) Apply(context.Context, agentkernel.PID, agentkernel.ApplyOptions) (agentkernel.Applied, error) {
	return agentkernel.Applied{}, nil
}

// A process that ends between the reading of its row and the look whether a kernel runs it has ended: its files are at rest.
func TestAProcessThatEndsMeanwhileIsAtRest(t *testing.T) {
	for _, ends := range []bool{true, false} {
		role := func() *Files {
			store := &rows{rec: agentkernel.ProcessRecord{Process: agentkernel.Process{PID: 1, State: agentkernel.StateUnfinished},
				Spec: agentkernel.Spec{Workspace: &agentkernel.Workspace{Path: "/w"}}}, ends: ends}
			return New(NewDisk(store, layers{}, nil, nil), gone{})
		}
		want, state := agentkernel.CodeConflict, agentkernel.LayerOpen
		if ends {
			want, state = "", agentkernel.LayerKept
		}
		if _, err := role().Apply(t.Context(), 1, agentkernel.ApplyOptions{}); agentkernel.CodeOf(err) != want {
			t.Errorf("ends %v: apply: %v", ends, err)
		}
		if err := role().Discard(t.Context(), 1); agentkernel.CodeOf(err) != want {
			t.Errorf("ends %v: discard: %v", ends, err)
		}
		if c, err := role().Changes(t.Context(), 1); err != nil || c.State != state {
			t.Errorf("ends %v: the changes are %s, %v", ends, c.State, err)
		}
	}
}
