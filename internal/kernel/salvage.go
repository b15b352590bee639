package kernel

import (
	"context"

	"agentkernel"
)

// processLeft reads what is left of a process's row. lost says that something is; only what shows, ends or counts processes may
// go by such a row.
func processLeft(ctx context.Context, store agentkernel.StoreReader, pid agentkernel.PID) (rec agentkernel.ProcessRecord, lost, err error) {
	if s, ok := store.(agentkernel.Salvager); ok {
		return s.ProcessLeft(ctx, pid)
	}
	rec, err = store.Process(ctx, pid)
	return rec, nil, err
}

// shownLeft is shown for a row of which something may be lost.
func shownLeft(rec agentkernel.ProcessRecord, lost error) agentkernel.Process {
	if lost != nil && rec.Error == nil {
		rec.Error = agentkernel.AsError(lost, agentkernel.CodeCorrupt, "store")
	}
	return shown(rec)
}

// entriesLeft reads what is left of a journal.
func entriesLeft(ctx context.Context, store agentkernel.StoreReader, pid agentkernel.PID, from int64, limit int) (list []agentkernel.Entry, lost, err error) {
	if s, ok := store.(agentkernel.Salvager); ok {
		return s.EntriesLeft(ctx, pid, from, limit)
	}
	list, err = store.Entries(ctx, pid, from, limit)
	return list, nil, err
}
