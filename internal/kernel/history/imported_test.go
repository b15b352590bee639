package history_test

import (
	"testing"

	"agentkernel"
	"agentkernel/internal/kernel/history"
)

// TestImportedStays: what came with a recording counts as that, whatever follows in its journal.
func TestImportedStays(t *testing.T) {
	var a history.Account
	a.Add(&agentkernel.Entry{Seq: 1, Kind: agentkernel.EntryCreated, Imported: &agentkernel.ProcessOf{PID: 3, Store: "u"}})
	a.Add(&agentkernel.Entry{Seq: 2, Kind: agentkernel.EntryCreated})
	if !a.Imported {
		t.Error("a second creation makes a process of this store of it")
	}
}
