package history

import (
	"context"
	"encoding/json"
	"strings"

	"agentkernel"
	"agentkernel/internal/kernel/advice"
)

// pageSize is how many entries are in memory at a time where a journal is only looked through: each may hold a large result.
const pageSize = 32

// Row reads what is left of a process's row. lost says that something is; only what shows, ends or counts processes may go by
// such a row.
func Row(ctx context.Context, store agentkernel.StoreReader, pid agentkernel.PID) (rec agentkernel.ProcessRecord, lost, err error) {
	if s, ok := store.(agentkernel.Salvager); ok {
		return s.ProcessLeft(ctx, pid)
	}
	rec, err = store.Process(ctx, pid)
	return rec, nil, err
}

// Entries reads what is left of a journal; lost says that something is.
func Entries(ctx context.Context, store agentkernel.StoreReader, pid agentkernel.PID, from int64, limit int) (
	list []agentkernel.Entry, lost, err error) {
	if s, ok := store.(agentkernel.Salvager); ok {
		return s.EntriesLeft(ctx, pid, from, limit)
	}
	list, err = store.Entries(ctx, pid, from, limit)
	return list, nil, err
}

// Each calls fn for each entry of a journal from a position on, and reads a few at a time.
func Each(ctx context.Context, store agentkernel.StoreReader, pid agentkernel.PID, from int64, fn func(e *agentkernel.Entry) error) error {
	for {
		entries, err := store.Entries(ctx, pid, from, pageSize)
		if err != nil {
			return err
		}
		for i := range entries {
			if err := fn(&entries[i]); err != nil {
				return err
			}
			from = entries[i].Seq + 1
		}
		if len(entries) < pageSize {
			return nil
		}
	}
}

// Printed is what a process has printed to its standard output.
func Printed(ctx context.Context, store agentkernel.StoreReader, pid agentkernel.PID) (string, error) {
	var out strings.Builder
	err := Each(ctx, store, pid, 1, func(e *agentkernel.Entry) error {
		if e.Kind == agentkernel.EntryOutput && e.Stream == "stdout" {
			out.WriteString(Text(e))
		}
		return nil
	})
	return out.String(), err
}

// Waited is what a parent is told of a child that has ended.
func Waited(ctx context.Context, store agentkernel.StoreReader, child agentkernel.PID) (json.RawMessage, error) {
	rec, err := store.Process(ctx, child)
	if err != nil {
		return nil, err
	}
	out, err := Printed(ctx, store, child)
	if err != nil {
		return nil, err
	}
	end := map[string]any{"pid": child, "state": rec.State, "exit_code": rec.ExitCode, "result": rec.Result, "error": nil, "stdout": out}
	if rec.Error != nil {
		end["error"] = rec.Error.GuestText() // "code: message"
	}
	return json.Marshal(end)
}

// Shown is a process as a row of the store shows it; lost says what that has lost, nil: nothing.
func Shown(rec agentkernel.ProcessRecord, lost error) agentkernel.Process {
	p := rec.Process
	if lost != nil && p.Error == nil {
		p.Error = agentkernel.AsError(lost, agentkernel.CodeCorrupt, "store")
	}
	p.Language = rec.Spec.Program.Language
	p.Replayable = p.Language.Replayable()
	p.Deadline = rec.Spec.Deadline
	return p.WithCause()
}

// Used is what a process has used, as its row, its image and its journal tell. The row of one that is in no kernel's memory any more,
// and has neither ended nor been parked, is of the time when it was created. How long it ran, and how often it waited, the image alone
// says.
func Used(ctx context.Context, store agentkernel.StoreReader, rec *agentkernel.ProcessRecord) agentkernel.Usage {
	if rec.State.Terminal() || rec.Parked != nil {
		return rec.Usage
	}
	a, base, _ := accountOf(ctx, store, rec.PID) // what cannot be read was not counted: reading it says why
	u := rec.Usage
	return agentkernel.Usage{Syscalls: max(u.Syscalls, a.Calls), ToolCalls: max(u.ToolCalls, a.ToolCalls), Waits: max(u.Waits, base.Waits),
		Running: max(u.Running, base.Running), Output: max(u.Output, a.Output), BytesIn: max(u.BytesIn, a.BytesIn)}
}

// AccountOf is the account of a process that is in no kernel's memory, as its image and its journal tell.
func AccountOf(ctx context.Context, store agentkernel.StoreReader, rec *agentkernel.ProcessRecord) (Account, error) {
	a, _, err := accountOf(ctx, store, rec.PID)
	return a, err
}

func accountOf(ctx context.Context, store agentkernel.StoreReader, pid agentkernel.PID) (a Account, base Base, err error) {
	if image, err := store.Image(ctx, pid); err == nil {
		if b, err := ParseBase(image.Kernel, image.Seq); err == nil {
			base = b
		}
	}
	from := base.Seq + 1
	if a = base.Account; base.Whole() {
		from, a = 1, Account{}
	}
	err = Each(ctx, store, pid, from, func(e *agentkernel.Entry) error {
		a.Add(e)
		return nil
	})
	return a, base, err
}

// StillThere gives the answer for a process that was read while it was being pruned: what was read may be a part.
func StillThere(ctx context.Context, store agentkernel.StoreReader, pid agentkernel.PID, err error) error {
	if _, perr := store.Process(ctx, pid); agentkernel.CodeOf(perr) == agentkernel.CodeNotFound {
		return perr
	}
	return err
}

// Unended is the row of a process that no kernel runs, as far as it is left. CodeConflict: it has ended.
func Unended(ctx context.Context, store agentkernel.StoreReader, op string, pid agentkernel.PID) (agentkernel.ProcessRecord, error) {
	rec, _, err := Row(ctx, store, pid)
	if err == nil && rec.State.Terminal() {
		err = agentkernel.Errorf(agentkernel.CodeConflict, op, "process %d has ended: %s", pid, rec.State).WithPID(pid)
	}
	return rec, err
}

// RunByNone is the error for a process that has not ended and that no kernel runs.
func RunByNone(op string, pid agentkernel.PID) *agentkernel.Error {
	return agentkernel.Errorf(agentkernel.CodeConflict, op, "process %d is unfinished: no kernel runs it", pid).WithPID(pid).WithHint(advice.Recover, pid)
}

// HasEnded is the error for a process that has ended.
func HasEnded(op string, pid agentkernel.PID, state agentkernel.State) *agentkernel.Error {
	return agentkernel.Errorf(agentkernel.CodeConflict, op, "process %d has ended already: %s", pid, state).WithPID(pid)
}

// Living refuses a process that has ended with all below it, or never was.
func Living(store agentkernel.StoreReader) func(ctx context.Context, pid agentkernel.PID) error {
	return func(ctx context.Context, pid agentkernel.PID) error {
		rec, _, err := Row(ctx, store, pid)
		if err != nil || !rec.State.Terminal() {
			return err
		}
		tree, err := Tree(ctx, store, pid)
		if err == nil && len(tree) == 0 {
			err = agentkernel.Errorf(agentkernel.CodeConflict, "halt", "process %d has ended already, and nothing below it goes on: %s", pid, rec.State).WithPID(pid)
		}
		return err
	}
}
