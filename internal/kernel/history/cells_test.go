package history_test

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"agentkernel"
	"agentkernel/internal/kernel/history"
)

// journal is a store with one journal.
type journal struct {
	agentkernel.StoreReader
	entries []agentkernel.Entry
}

func (j journal) Entries(_ context.Context, _ agentkernel.PID, from int64, limit int) ([]agentkernel.Entry, error) {
	list := j.entries[min(from-1, int64(len(j.entries))):]
	if limit > 0 {
		list = list[:min(limit, len(list))]
	}
	return slices.Clone(list), nil
}

// TestCells: a cell is what answered a proc.next. An abort is of the cell that it names, and of none if that was never handed
// over.
func TestCells(t *testing.T) {
	var j journal
	put := func(kind agentkernel.EntryKind, call int64, op, data string) {
		j.entries = append(j.entries, agentkernel.Entry{Seq: int64(len(j.entries) + 1), Kind: kind, Call: call, Op: op, Data: json.RawMessage(data)})
	}
	put(agentkernel.EntryCall, 1, "proc.next", "")
	put(agentkernel.EntryResult, 1, "", `{"piece":{"source":"a","key":"k"}}`)
	put(agentkernel.EntryCall, 2, "proc.next", "")
	put(agentkernel.EntryResult, 2, "", `{"piece":{"source":"b"}}`)
	put(agentkernel.EntryCall, 3, "tool.call", "")
	put(agentkernel.EntryResult, 3, "", `{"piece":{"source":"a tool's"}}`)
	put(agentkernel.EntryAborted, 2, "", "")
	put(agentkernel.EntryCall, 4, "proc.next", "")
	put(agentkernel.EntryAborted, 4, "", "")
	put(agentkernel.EntryCall, 5, "proc.next", "")
	put(agentkernel.EntryResult, 5, "", `{"end":true}`)
	got, err := history.Cells(t.Context(), j, 7)
	want := []history.Handed{{Seq: 2, Next: 1, Source: "a", Key: "k"}, {Seq: 4, Next: 2, Source: "b", Aborted: true}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v: the cells are %+v, want %+v", err, got, want)
	}
}
