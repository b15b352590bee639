package history

import (
	"context"
	"encoding/json"

	"agentkernel"
	"agentkernel/internal/journal"
)

// Report turns the entries of a journal from a position on into events. What is read from the store need not be durable:
// settled waits for that before fn hears of it. done: the last event was the end.
func Report(ctx context.Context, store agentkernel.StoreReader, pid agentkernel.PID, from int64, settled func(context.Context) error,
	fn func(agentkernel.Event) error) (last int64, done bool, err error) {
	last = from - 1
	for {
		entries, _, err := Entries(ctx, store, pid, last+1, pageSize)
		if err == nil {
			err = settled(ctx)
		}
		if err != nil {
			return last, false, err
		}
		for i := range entries {
			last = entries[i].Seq
			ev, ok := Event(&entries[i])
			if !ok {
				continue
			}
			if ev.Text == "" {
				rec, _, err := Row(ctx, store, pid)
				if err == nil {
					err = settled(ctx)
				}
				if err != nil {
					return last, false, err
				}
				proc := Shown(rec, nil)
				ev.Process = &proc
			}
			if err := fn(ev); err != nil {
				return last, false, err
			}
			done = done || ev.Kind == agentkernel.EventEnd
		}
		if len(entries) < pageSize {
			return last, done, nil
		}
	}
}

// Event is what an entry shows to those who watch the process; false: nothing.
func Event(e *agentkernel.Entry) (agentkernel.Event, bool) {
	ev := agentkernel.Event{PID: e.PID, Seq: e.Seq, At: e.At}
	switch e.Kind {
	case agentkernel.EntryCreated:
		ev.Kind = agentkernel.EventCreated
	case agentkernel.EntryOutput:
		ev.Kind, ev.Stream, ev.Text = agentkernel.EventOutput, e.Stream, Text(e)
	case agentkernel.EntryPaused, agentkernel.EntryResumed, agentkernel.EntryRecover, agentkernel.EntryMoved:
		ev.Kind = agentkernel.EventState
	case agentkernel.EntryTerminal:
		ev.Kind = agentkernel.EventEnd
	case agentkernel.EntrySignal:
		w, ok := WarningOf(e)
		ev.Kind, ev.Text = agentkernel.EventBudget, w.String()
		return ev, ok
	case agentkernel.EntryPast:
		ev.Kind, ev.Text = agentkernel.EventPast, e.Note
	case agentkernel.EntryCall:
		desc, _ := agentkernel.FindSyscall(e.Op)
		ev.Kind = desc.Event
		switch {
		case ev.Kind == agentkernel.EventIdle:
			ev.Idle = new(agentkernel.Idle)
			_ = json.Unmarshal(e.Args, ev.Idle) // it was read when the call was made
		case ev.Kind == agentkernel.EventLog && e.Err == nil:
			ev.Text = logLine(e.Args)
		default:
			return ev, false
		}
	default:
		return ev, false
	}
	return ev, true
}

// logLine is a call of the process's log as text: "info: message".
func logLine(args json.RawMessage) string {
	var a struct {
		Message json.RawMessage `json:"message"`
		Level   string          `json:"level"`
	}
	if json.Unmarshal(args, &a) != nil {
		return string(args)
	}
	if a.Level == "" {
		a.Level = "info"
	}
	return a.Level + ": " + journal.Text(a.Message)
}
