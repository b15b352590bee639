package embedded_test

import (
	"encoding/json"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/embedded"
)

// What a process has used is known from its journal when no kernel has it, and from its image what the journal does not say.
func TestUsageOfWhatAKilledKernelLeft(t *testing.T) {
	home := t.TempDir()
	store := storeOf(t, home)
	row := func(pid agentkernel.PID) *agentkernel.ProcessRecord {
		return &agentkernel.ProcessRecord{Process: agentkernel.Process{PID: pid, Namespace: "default", Name: "a.py", State: agentkernel.StateUnfinished, Created: time.Now()}}
	}
	entries := func(pid agentkernel.PID) []agentkernel.Entry {
		return []agentkernel.Entry{
			{PID: pid, Seq: 1, Kind: agentkernel.EntryCreated, Data: json.RawMessage(`{}`)},
			{PID: pid, Seq: 2, Kind: agentkernel.EntryCall, Call: 1, Op: "tool.call", Args: json.RawMessage(`{"server":"s","name":"t"}`)},
			{PID: pid, Seq: 3, Kind: agentkernel.EntryResult, Call: 1, Note: "incarnation", Data: json.RawMessage(`"12345678"`)},
			{PID: pid, Seq: 4, Kind: agentkernel.EntryOutput, Stream: "stdout", Data: json.RawMessage(`"out\n"`)},
			{PID: pid, Seq: 5, Kind: agentkernel.EntryCall, Call: 2, Op: "time.sleep", Args: json.RawMessage(`{"seconds":9}`)},
		}
	}
	append := func(b agentkernel.Batch) {
		t.Helper()
		at, err := store.Append(b)
		must(t, err)
		must(t, store.Flush(t.Context(), at))
	}
	append(agentkernel.Batch{Process: row(1), Entries: entries(1)})
	append(agentkernel.Batch{Process: row(2), Entries: entries(2)[:3]})
	append(agentkernel.Batch{Entries: nil, Process: row(2), Image: &agentkernel.Image{PID: 2, Seq: 3, Bytes: []byte("image"),
		Kernel: []byte(`{"base":1,"calls":1,"tool_calls":1,"bytes_in":10,"waits":3,"running":5000000}`)}})
	append(agentkernel.Batch{Entries: entries(2)[3:]})
	must(t, store.Close())
	k, err := embedded.OpenReader(t.Context(), home)
	must(t, err)
	defer k.Close()
	want := map[agentkernel.PID]agentkernel.Usage{
		1: {Syscalls: 2, ToolCalls: 1, BytesIn: 10, Output: 4},
		2: {Syscalls: 2, ToolCalls: 1, BytesIn: 10, Output: 4, Waits: 3, Running: 5 * time.Millisecond},
	}
	list, err := k.List(t.Context(), agentkernel.Filter{Unfinished: true})
	must(t, err)
	if len(list) != 2 {
		t.Fatalf("%d processes", len(list))
	}
	for _, p := range list {
		one, err := k.Process(t.Context(), p.PID)
		must(t, err)
		if p.Usage != want[p.PID] || one.Usage != want[p.PID] {
			t.Errorf("process %d is listed with %+v and has %+v; want %+v", p.PID, p.Usage, one.Usage, want[p.PID])
		}
	}
}
