package storetest

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentkernel"
)

// notes: a store gives back what an entry says in fields that have no JSON, as it was appended and as other versions have
// written it (the words alone), in journals of any length.
func notes(t *testing.T, open Opener) {
	f := start(t, open)
	said := []agentkernel.Entry{
		{Kind: agentkernel.EntryCreated, Data: json.RawMessage(`{}`), Imported: &agentkernel.ProcessOf{PID: 12, Store: "4f2c"}},
		{Kind: agentkernel.EntryCall, Call: 1, Op: "tool.call", Args: json.RawMessage(`{}`), Origin: &agentkernel.OriginCall{PID: 9, Call: 3}},
		{Kind: agentkernel.EntryResult, Call: 1, Data: json.RawMessage(`1`), Incarnation: "a \"server\" <ü>"},
		{Kind: agentkernel.EntryCall, Call: 2, Op: "x.y", Reserve: agentkernel.Amounts{"nano_usd": 1<<63 - 1, "tokens \"ü\"": 0}},
		{Kind: agentkernel.EntryRetry, Call: 2, Reserve: agentkernel.Amounts{"tokens": 1}},
		{Kind: agentkernel.EntryResult, Call: 2, Data: json.RawMessage(`1`), Incarnation: "i1", Settle: agentkernel.Amounts{}},
		{Kind: agentkernel.EntryCall, Call: 2, Op: "proc.spawn", Args: json.RawMessage(`{}`), Done: true, Data: json.RawMessage(`4`), Origin: &agentkernel.OriginCall{PID: 9, Call: 4, As: true}},
		{Kind: agentkernel.EntryCall, Call: 3, Op: "x.open", Reserve: agentkernel.Amounts{"tokens": 9}},
		{Kind: agentkernel.EntryResult, Call: 3, Data: json.RawMessage(`"9.3"`), Settle: agentkernel.Amounts{}, Reserve: agentkernel.Amounts{"tokens": 9}},
		{Kind: agentkernel.EntrySettled, Call: 3, Async: true, Settle: agentkernel.Amounts{"tokens": 4}},
		{Kind: agentkernel.EntrySettled, Call: 2, Settle: agentkernel.Amounts{}, Reserve: agentkernel.Amounts{"unsent": 1}},
		{Kind: agentkernel.EntrySignal, Signal: agentkernel.SignalInterrupt},
		{Kind: agentkernel.EntryResolve, Call: 2, Decision: agentkernel.DecisionRetry},
		{Kind: agentkernel.EntryAllowed, Pattern: "files.*"},
		{Kind: agentkernel.EntryPaused, Note: "from pid 9 call 3"},
		{Kind: agentkernel.EntryCall, Call: 4, Op: "tool.call", Origin: &agentkernel.OriginCall{PID: 9, Call: 5, As: true}, Reserve: agentkernel.Amounts{"calls": 1}},
		{Kind: agentkernel.EntryTerminal, Data: json.RawMessage(`{}`)},
	}
	withoutCalls := []agentkernel.Entry{said[0], said[10], said[12], said[13], said[14]}
	type journal struct {
		pid  agentkernel.PID
		want []agentkernel.Entry
	}
	var all []journal
	for _, list := range [][]agentkernel.Entry{said, withoutCalls} {
		for _, wordsAlone := range []bool{false, true} {
			p := record(f.pid())
			p.State, p.Ended = agentkernel.StateExited, at(9)
			want, stored := make([]agentkernel.Entry, len(list)), make([]agentkernel.Entry, len(list))
			for i, e := range list {
				e.PID, e.Seq, e.At = p.PID, int64(i)+1, at(int64(i))
				e.WriteNote()
				want[i], stored[i] = e, e
				if wordsAlone {
					stored[i].Imported, stored[i].Origin, stored[i].Incarnation, stored[i].Signal, stored[i].Decision, stored[i].Pattern = nil, nil, "", "", "", ""
					stored[i].Reserve, stored[i].Settle = nil, nil
				}
			}
			f.append(agentkernel.Batch{Process: p, Entries: stored})
			all = append(all, journal{p.PID, want})
		}
	}
	durable := false
	f.twice(func() {
		for i, j := range all {
			if i%2 == 1 && !durable {
				continue // no kernel appends such entries now
			}
			if diff := cmp.Diff(j.want, f.entries(j.pid)); diff != "" {
				t.Fatalf("process %d: not what was stored (-want +got):\n%.4000s", j.pid, diff)
			}
		}
		durable = true
	})
}
