package unresolved_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"agentkernel"
	"agentkernel/internal/kernel/unresolved"
)

// store has one process.
type store struct {
	agentkernel.StoreReader
	rec     agentkernel.ProcessRecord
	entries []agentkernel.Entry
}

func (s store) Process(context.Context, agentkernel.PID) (agentkernel.ProcessRecord, error) {
	return s.rec, nil
}

func (s store) Entries(context.Context, agentkernel.PID, int64, int) ([]agentkernel.Entry, error) {
	return s.entries, nil
}

func call(number int64, effect agentkernel.Effect) agentkernel.Entry {
	return agentkernel.Entry{Seq: number, Kind: agentkernel.EntryCall, Call: number, Op: "x", Effect: effect}
}

func result(number int64, err *agentkernel.Error) agentkernel.Entry {
	return agentkernel.Entry{Seq: 100 + number, Kind: agentkernel.EntryResult, Call: number, Data: json.RawMessage("1"), Err: err}
}

// TestWhy: each call about which there is nothing to decide has a reason of its own, and only the one that is left is under way.
func TestWhy(t *testing.T) {
	unknown := agentkernel.Errorf(agentkernel.CodeOutcomeUnknown, "x", "it may have happened")
	s := store{entries: []agentkernel.Entry{call(1, agentkernel.EffectWrite), result(1, nil), call(2, agentkernel.EffectWrite), result(2, unknown),
		call(3, agentkernel.EffectRead), call(4, agentkernel.EffectWrite)}}
	s.rec.State, s.rec.Spec.OnUnknown = agentkernel.StateUnfinished, agentkernel.UnknownPause
	instant := call(5, agentkernel.EffectWrite) // answered without having gone out
	instant.Done, instant.Err = true, unknown
	s.entries = append(s.entries, instant)
	ended, hands := s, s
	ended.rec.State = agentkernel.StateExited
	hands.rec.Spec.OnUnknown = ""
	for name, c := range map[string]struct {
		store store
		call  int64
		code  agentkernel.Code
		says  string
		open  bool
	}{
		"answered":             {s, 1, agentkernel.CodeConflict, "has its result already", false},
		"handed over":          {s, 2, agentkernel.CodeConflict, "handed OutcomeUnknown", false},
		"answered at once":     {s, 5, agentkernel.CodeConflict, "has its result already", false},
		"a read":               {s, 3, agentkernel.CodeConflict, "is no write", false},
		"never made":           {s, 9, agentkernel.CodeNotFound, "has made no call 9", false},
		"still under way":      {s, 4, agentkernel.CodeConflict, "named x) is under way", true},
		"an ended process":     {ended, 4, agentkernel.CodeConflict, "has ended already", false},
		"a process that hands": {hands, 4, agentkernel.CodeConflict, "nobody is asked", false},
	} {
		err := unresolved.Why(t.Context(), c.store, 7, c.call, func(e *agentkernel.Entry) string { return "named " + e.Op })
		if agentkernel.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
		if got := unresolved.Open(&c.store.rec, c.store.entries, c.call); got != c.open {
			t.Errorf("%s: to be decided: %t", name, got)
		}
	}
}

// TestEntries: a decision is the first entry; done and fail give the call its result, and retry does not.
func TestEntries(t *testing.T) {
	for _, c := range []struct {
		resolution agentkernel.Resolution
		data       string
		code       agentkernel.Code
		entries    int
	}{
		{agentkernel.Resolution{Decision: agentkernel.DecisionDone, Result: json.RawMessage(`{"a":1}`)}, `{"a":1}`, "", 2},
		{agentkernel.Resolution{Decision: agentkernel.DecisionFail, Message: "100% broken"}, "", agentkernel.CodeTool, 2},
		{agentkernel.Resolution{Decision: agentkernel.DecisionRetry}, "", "", 1},
	} {
		got := unresolved.Entries(3, c.resolution, agentkernel.Amounts{})
		if settles := len(got) == 2 && got[1].Settle != nil; settles != (c.resolution.Decision == agentkernel.DecisionFail) {
			t.Errorf("%s settles: %v", c.resolution.Decision, settles)
		}
		if len(got) != c.entries || got[0].Kind != agentkernel.EntryResolve || got[0].Decision != c.resolution.Decision || got[0].Call != 3 {
			t.Errorf("%s: %+v", c.resolution.Decision, got)
			continue
		}
		if c.entries == 1 {
			continue
		}
		r := got[1]
		if r.Kind != agentkernel.EntryResult || r.Call != 3 || string(r.Data) != c.data || (r.Err == nil) != (c.code == "") {
			t.Errorf("%s: %+v", c.resolution.Decision, r)
		}
		if r.Err != nil && (r.Err.Code != c.code || r.Err.Message() != c.resolution.Message) {
			t.Errorf("%s: %v", c.resolution.Decision, r.Err)
		}
	}
}

func TestNote(t *testing.T) {
	if note := unresolved.Note(7, 3, "a.b"); !strings.Contains(note, "call 3 (a.b)") || !strings.Contains(note, "resolve 7 3") {
		t.Error(note)
	}
}
