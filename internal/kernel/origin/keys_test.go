package origin

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"agentkernel"
)

// journals is a store of processes that have ended.
type journals map[agentkernel.PID]journalled

type journalled struct {
	past    agentkernel.PID
	entries []agentkernel.Entry
}

func (s journals) Process(_ context.Context, pid agentkernel.PID) (agentkernel.ProcessRecord, error) {
	j, ok := s[pid]
	if !ok {
		return agentkernel.ProcessRecord{}, agentkernel.Errorf(agentkernel.CodeNotFound, "store", "no process %d", pid)
	}
	rec := agentkernel.ProcessRecord{Process: agentkernel.Process{PID: pid, State: agentkernel.StateKilled}}
	if j.past != 0 {
		rec.Spec.Past = &agentkernel.Past{PID: j.past}
	}
	return rec, nil
}

func (s journals) Entries(_ context.Context, pid agentkernel.PID, _ int64, _ int) ([]agentkernel.Entry, error) {
	return s[pid].entries, nil
}

// wrote is a write that was cut off, as call number n, of the process that of names; nil: of its own.
func wrote(n int64, of *agentkernel.OriginCall) agentkernel.Entry {
	return agentkernel.Entry{Seq: n + 1, Kind: agentkernel.EntryCall, Call: n, Op: "tool.call", Effect: agentkernel.EffectWrite,
		Args: json.RawMessage(fmt.Sprintf(`{"n":%d}`, n)), Origin: of}
}

// TestKeysOfCallsThatStandForOthers: the key is that of the call that was made first, in the store that it was made in.
func TestKeysOfCallsThatStandForOthers(t *testing.T) {
	created := agentkernel.Entry{Seq: 1, Kind: agentkernel.EntryCreated}
	imported := agentkernel.Entry{Seq: 1, Kind: agentkernel.EntryCreated, Imported: &agentkernel.ProcessOf{PID: 70, Store: "far"}}
	store := journals{
		1:  {0, []agentkernel.Entry{created, wrote(3, nil)}},
		5:  {1, []agentkernel.Entry{created, wrote(4, &agentkernel.OriginCall{PID: 1, Call: 3}), wrote(5, nil)}},
		8:  {5, []agentkernel.Entry{created, wrote(2, &agentkernel.OriginCall{PID: 5, Call: 4}), wrote(6, &agentkernel.OriginCall{PID: 5, Call: 5, As: true})}},
		9:  {0, []agentkernel.Entry{imported, wrote(1, nil), wrote(2, &agentkernel.OriginCall{PID: 8, Call: 2})}}, // 8 of the other store
		10: {9, []agentkernel.Entry{created, wrote(1, &agentkernel.OriginCall{PID: 9, Call: 1})}},
		11: {99, []agentkernel.Entry{created, wrote(1, &agentkernel.OriginCall{PID: 99, Call: 1})}}, // whose past is gone
	}
	uuid := func(pid agentkernel.PID) string {
		if pid < 5 {
			return "older"
		}
		return "here"
	}
	for _, c := range []struct {
		past agentkernel.PID
		of   *agentkernel.OriginCall
		want string
	}{
		{1, nil, "here/20/7"},
		{1, &agentkernel.OriginCall{PID: 1, Call: 3}, "older/1/3"},
		{5, &agentkernel.OriginCall{PID: 5, Call: 4, As: true}, "older/1/3"},
		{5, &agentkernel.OriginCall{PID: 5, Call: 5}, "here/5/5"},
		{8, &agentkernel.OriginCall{PID: 8, Call: 2}, "older/1/3"},
		{8, &agentkernel.OriginCall{PID: 8, Call: 6, As: true}, "here/5/5"},
		{9, &agentkernel.OriginCall{PID: 9, Call: 1}, "far/70/1"},
		{9, &agentkernel.OriginCall{PID: 9, Call: 2}, "far/8/2"},
		{10, &agentkernel.OriginCall{PID: 10, Call: 1}, "far/70/1"},
		{11, &agentkernel.OriginCall{PID: 11, Call: 1}, "here/11/1"},
	} {
		rec, err := store.Process(t.Context(), c.past)
		if err != nil {
			t.Fatal(err)
		}
		h, err := Read(t.Context(), store, &rec, 0, func(string) Rule { return Rule{} })
		if err != nil {
			t.Fatal(err)
		}
		if got := h.CallKey(Key{20, 7}, c.of, uuid); got != c.want {
			t.Errorf("past %d, %v: %s, want %s", c.past, c.of, got, c.want)
		}
		h.Leave()
		if got := h.CallKey(Key{20, 7}, c.of, uuid); got != c.want {
			t.Errorf("past %d, %v, beyond the difference: %s, want %s", c.past, c.of, got, c.want)
		}
	}
	if got := (*Origin)(nil).CallKey(Key{20, 7}, nil, uuid); got != "here/20/7" {
		t.Errorf("of no rerun: %s", got)
	}
}
