package backup

import (
	"context"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/kernel/specs"
)

// PauseRestored pauses the unfinished processes of a store that was restored from a backup, and that no kernel has
// yet: what they did after the backup is in no journal, so somebody has to say that they may do it again. A child is paused with the
// highest process above it that is paused here, as a pause by hand would, and is resumed with that. It gives
// how many it paused; those that were paused stay so.
func PauseRestored(ctx context.Context, store agentkernel.Store, at time.Time, note string) (int, error) {
	return pauseAll(ctx, store, at, note, true)
}

// PauseEach is PauseRestored for processes of which each has to be looked at by itself.
func PauseEach(ctx context.Context, store agentkernel.Store, at time.Time, note string) (int, error) {
	return pauseAll(ctx, store, at, note, false)
}

func pauseAll(ctx context.Context, store agentkernel.Store, at time.Time, note string, trees bool) (int, error) {
	list, err := store.Processes(ctx, agentkernel.Filter{Unfinished: true})
	if err != nil {
		return 0, err
	}
	n := 0
	var last agentkernel.Position
	heads := map[agentkernel.PID]bool{} // those with which others may be paused
	for _, row := range list {
		heads[row.PID] = trees && !row.Paused
	}
	for _, row := range list {
		if row.Paused {
			continue
		}
		if last, err = pauseRestored(ctx, store, row.PID, at, note, heads); err != nil {
			return n, err
		}
		n++
	}
	return n, store.Flush(ctx, last)
}

func pauseRestored(ctx context.Context, store agentkernel.Store, pid agentkernel.PID, at time.Time, note string, heads map[agentkernel.PID]bool) (agentkernel.Position, error) {
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
	with := pausedWith(&rec.Spec, heads)
	if with != 0 {
		note = agentkernel.NoteWith + with.String()
	}
	rec.Paused, rec.PauseNote = true, note
	return store.Append(agentkernel.Batch{Process: &rec,
		Entries: []agentkernel.Entry{{PID: pid, Seq: seq, Kind: agentkernel.EntryPaused, At: at, Note: note, Data: history.PauseData{With: with}.Encode()}}})
}

// pausedWith is the highest of the heads whose signals reach a process; 0: none do.
func pausedWith(s *agentkernel.Spec, heads map[agentkernel.PID]bool) agentkernel.PID {
	for _, pid := range s.Ancestors {
		if heads[pid] && specs.Attached(s, pid) {
			return pid
		}
	}
	return 0
}
