package roles_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"agentkernel"
	"agentkernel/internal/kernel/roles"
)

// store has one process until it is pruned.
type store struct {
	agentkernel.StoreReader
	pruned  bool
	entries []agentkernel.Entry
}

func (s *store) Process(_ context.Context, pid agentkernel.PID) (agentkernel.ProcessRecord, error) {
	if pid != 7 || s.pruned {
		return agentkernel.ProcessRecord{}, agentkernel.Errorf(agentkernel.CodeNotFound, "store", "no process %d", pid)
	}
	return agentkernel.ProcessRecord{Spec: agentkernel.Spec{Namespace: "n"}}, nil
}

func (s *store) State(context.Context, agentkernel.PID) (map[string]json.RawMessage, error) {
	return map[string]json.RawMessage{"k": json.RawMessage("1")}, nil
}

func (s *store) Entries(_ context.Context, _ agentkernel.PID, from int64, _ int) ([]agentkernel.Entry, error) {
	return s.entries[from-1:], nil
}

// TestAnswersAreDurable: what the store was handed is durable before anybody is told of it, and of no process that is not
// there anything is told.
func TestAnswersAreDurable(t *testing.T) {
	s := &store{entries: []agentkernel.Entry{{Seq: 1}, {Seq: 2}}}
	var waited []agentkernel.PID
	var fails error
	r := roles.New(s, nil, nil, func(_ context.Context, pid agentkernel.PID) error {
		waited = append(waited, pid)
		return fails
	})
	if got, err := r.Spec(t.Context(), 7); err != nil || got.Namespace != "n" {
		t.Errorf("spec: %+v, %v", got, err)
	}
	if got, err := r.State(t.Context(), 7); err != nil || string(got["k"]) != "1" {
		t.Errorf("state: %v, %v", got, err)
	}
	if got, err := r.Journal(t.Context(), 7, 2, 0); err != nil || len(got) != 1 || got[0].Seq != 2 {
		t.Errorf("journal: %v, %v", got, err)
	}
	if got, err := r.Journal(t.Context(), 7, 0, 0); err != nil || len(got) != 2 {
		t.Errorf("journal from the beginning: %v, %v", got, err)
	}
	if !slices.Equal(waited, []agentkernel.PID{0, 0, 7, 7}) {
		t.Errorf("waited for %v", waited)
	}
	fails = errors.New("broken")
	for name, ask := range map[string]func(agentkernel.PID) error{
		"spec":    func(pid agentkernel.PID) error { _, err := r.Spec(t.Context(), pid); return err },
		"state":   func(pid agentkernel.PID) error { _, err := r.State(t.Context(), pid); return err },
		"journal": func(pid agentkernel.PID) error { _, err := r.Journal(t.Context(), pid, 1, 0); return err },
	} {
		if err := ask(7); !errors.Is(err, fails) {
			t.Errorf("%s that may not be durable: %v", name, err)
		}
		if err := ask(8); agentkernel.CodeOf(err) != agentkernel.CodeNotFound {
			t.Errorf("%s of no process: %v", name, err)
		}
	}
}

// TestJournalOfAPrunedProcess: what was read while it was pruned may be a part.
func TestJournalOfAPrunedProcess(t *testing.T) {
	s := &store{entries: []agentkernel.Entry{{Seq: 1}}}
	r := roles.New(s, nil, nil, func(context.Context, agentkernel.PID) error { s.pruned = true; return nil })
	if _, err := r.Journal(t.Context(), 7, 1, 0); agentkernel.CodeOf(err) != agentkernel.CodeNotFound {
		t.Errorf("a part of a journal is shown: %v", err)
	}
}

func TestNoRecordings(t *testing.T) {
	var none agentkernel.Recordings = roles.NoRecordings{}
	_, exported := none.Export(t.Context(), 7, agentkernel.ExportOptions{})
	_, imported := none.Import(t.Context(), nil, agentkernel.ImportOptions{})
	_, replayed := none.Replay(t.Context(), nil, agentkernel.ReplayOptions{})
	for _, err := range []error{exported, imported, replayed} {
		if agentkernel.CodeOf(err) != agentkernel.CodeUnsupported {
			t.Error(err)
		}
	}
}
