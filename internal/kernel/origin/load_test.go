package origin

import (
	"context"
	"errors"
	"strings"
	"testing"

	"agentkernel"
)

// shelf has processes without calls.
type shelf map[agentkernel.PID]agentkernel.ProcessRecord

func (s shelf) Process(_ context.Context, pid agentkernel.PID) (agentkernel.ProcessRecord, error) {
	rec, ok := s[pid]
	if !ok {
		return rec, agentkernel.Errorf(agentkernel.CodeNotFound, "store", "no process %d", pid)
	}
	rec.PID = pid
	return rec, nil
}

func (s shelf) Entries(context.Context, agentkernel.PID, int64, int) ([]agentkernel.Entry, error) {
	return []agentkernel.Entry{{Seq: 1, Kind: agentkernel.EntryCreated}}, nil
}

// TestLoad: an origin is an ended process of the same namespace. Of one that has not ended the error says what to do.
func TestLoad(t *testing.T) {
	row := func(namespace string, state agentkernel.State, paused bool) (rec agentkernel.ProcessRecord) {
		rec.Namespace, rec.State, rec.Paused = namespace, state, paused
		return rec
	}
	store := shelf{
		1: row("n", agentkernel.StateExited, false),
		2: row("other", agentkernel.StateExited, false),
		3: row("n", agentkernel.StateUnfinished, false),
		4: row("n", agentkernel.StateUnfinished, true),
	}
	rules := func(string) Rule { return Rule{} }
	for name, c := range map[string]struct {
		pid   agentkernel.PID
		alive bool
		code  agentkernel.Code
		says  string
	}{
		"one that has ended":      {pid: 1},
		"of another namespace":    {pid: 2, code: agentkernel.CodeDenied, says: `belongs to the namespace "other"`},
		"one that runs":           {pid: 3, alive: true, code: agentkernel.CodeConflict, says: "process 3 is running"},
		"one that nobody carries": {pid: 3, code: agentkernel.CodeConflict, says: "process 3 is unfinished"},
		"one that is paused":      {pid: 4, code: agentkernel.CodeConflict, says: "process 4 is paused"},
		"one that never was":      {pid: 9, code: agentkernel.CodeNotFound},
	} {
		s := &agentkernel.Spec{Namespace: "n", Past: &agentkernel.Past{PID: c.pid}}
		o, err := Load(t.Context(), store, s, rules, func(rec *agentkernel.ProcessRecord) bool { return c.alive })
		if (o != nil) != (c.code == "") || agentkernel.CodeOf(err) != c.code || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if o, err := Load(t.Context(), store, &agentkernel.Spec{Namespace: "n"}, rules, nil); o != nil || err != nil {
		t.Errorf("a Spec that names none: %v", err)
	}
	if err := Lost(agentkernel.Errorf(agentkernel.CodeNotFound, "store", "pruned")); err.Code != agentkernel.CodeNotFound || !strings.Contains(err.Message(), "pruned") {
		t.Error(err)
	}
	if err := Lost(errors.New("broken")); err.Code != agentkernel.CodeStorage {
		t.Error(err)
	}
}
