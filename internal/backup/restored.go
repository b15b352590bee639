package backup

import (
	"context"
	"time"

	"agentkernel"
)

// PauseRestored pauses the unfinished processes of a store that was restored from a backup, and that no kernel has
// yet: what they did after the backup is in no journal, so somebody has to say that they may do it again. It gives
// how many it paused; those that were paused stay so.
func PauseRestored(ctx context.Context, store agentkernel.Store, at time.Time, note string) (int, error) {
	list, err := store.Processes(ctx, agentkernel.Filter{Unfinished: true})
	if err != nil {
		return 0, err
	}
	n := 0
	var last agentkernel.Position
	for _, row := range list {
		if row.Paused {
			continue
		}
		if last, err = pauseRestored(ctx, store, row.PID, at, note); err != nil {
			return n, err
		}
		n++
	}
	return n, store.Flush(ctx, last)
}

func pauseRestored(ctx context.Context, store agentkernel.Store, pid agentkernel.PID, at time.Time, note string) (agentkernel.Position, error) {
	rec, err := store.Process(ctx, pid) // lists come without program text
	if err != nil {
		return 0, err
	}
	entries, err := store.Entries(ctx, pid, 1, 0)
	if err != nil {
		return 0, err
	}
	seq := int64(1)
	if n := len(entries); n > 0 {
		seq = entries[n-1].Seq + 1
	}
	rec.Paused, rec.PauseNote = true, note
	return store.Append(agentkernel.Batch{Process: &rec,
		Entries: []agentkernel.Entry{{PID: pid, Seq: seq, Kind: agentkernel.EntryPaused, At: at, Note: note}}})
}
