package watch

import (
	"context"

	"agentkernel"
)

// Source is where a reader has what his Watcher does not have.
type Source struct {
	// Durable returns when everything up to pos is durable.
	Durable func(ctx context.Context, pos agentkernel.Position) error
	// Journal reports the events that the journal has from a position on. done: the last was the end.
	Journal func(ctx context.Context, from int64, fn func(agentkernel.Event) error) (last int64, done bool, err error)
}

// Read hands fn the events of a process, each only when what it reports is durable, until the process ends, or pauses if
// untilPause is set. seen is the last journal position that the reader has.
func (w *Watcher) Read(ctx context.Context, from Source, seen int64, untilPause bool, fn func(agentkernel.Event) error) error {
	read := seen // in the journal
	for {
		if err := w.Wait(ctx); err != nil {
			return err
		}
		events, pos, lagged, failure := w.Take()
		if len(events) > 0 || lagged {
			if err := from.Durable(ctx, pos); err != nil {
				return err
			}
		}
		if lagged {
			paused := false
			last, done, err := from.Journal(ctx, seen+1, func(ev agentkernel.Event) error {
				paused = ev.Process != nil && ev.Process.Paused
				return fn(ev)
			})
			if err != nil || done || untilPause && paused {
				return err
			}
			seen, read = max(seen, last), max(read, last)
		}
		for _, ev := range events {
			if known(&ev, seen, read) {
				continue
			}
			if ev.Kind == agentkernel.EventAsk && ev.Seq < seen {
				ev.Seq = 0 // shown once more: who begins again there is told twice of what lies between
			}
			seen = max(seen, ev.Seq)
			if err := fn(ev); err != nil {
				return err
			}
			if ev.Kind == agentkernel.EventEnd || untilPause && ev.Kind == agentkernel.EventState && ev.Process.Paused {
				return nil
			}
		}
		if failure != nil {
			return failure
		}
	}
}

// known says whether a reader has had an event: seen is the last position that he was told of, read the last that he has read
// in the journal.
func known(ev *agentkernel.Event, seen, read int64) bool {
	switch ev.Kind {
	case agentkernel.EventAsk, agentkernel.EventState:
		return false
	case agentkernel.EventIdle: // it may come after what was journalled behind it: a session that is resumed while its cell is aborted
		return ev.Seq <= read
	}
	return ev.Seq <= seen
}
