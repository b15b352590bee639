package recording

import (
	"context"
	"encoding/json"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/history"
)

// Import puts a recording into the store, as a process that has ended.
func (r *Recorder) Import(ctx context.Context, file []byte, o agentkernel.ImportOptions) (agentkernel.Process, error) {
	if err := r.host.Accepting(); err != nil {
		return agentkernel.Process{}, err
	}
	if err := agentkernel.ValidateNamespace(o.Namespace); err != nil {
		return agentkernel.Process{}, err
	}
	rec, err := Decode(file)
	if err != nil {
		return agentkernel.Process{}, err
	}
	if err := r.cfg.Room(ctx); err != nil {
		return agentkernel.Process{}, err
	}
	pid, err := r.store.NewPID(ctx)
	if err != nil {
		return agentkernel.Process{}, err
	}
	row, entries := imported(rec, pid, o)
	if rec.Files != nil {
		if r.cfg.Layers == nil {
			return agentkernel.Process{}, agentkernel.Errorf(agentkernel.CodeUnsupported, "import", "the recording has files, and this kernel keeps none")
		}
		if err := r.cfg.Layers.Import(row.PID, rec.Files); err != nil {
			return agentkernel.Process{}, err
		}
	}
	pos, err := r.store.Append(agentkernel.Batch{Entries: entries, Process: &row, State: rec.State})
	if err != nil {
		return agentkernel.Process{}, err
	}
	return row.Process, r.store.Flush(ctx, pos)
}

// imported gives the row and the journal of a recording under a new PID. What the recording's process was
// permitted is not permitted here, what refers to other processes refers to nobody, and no path of it is kept.
func imported(r *Recording, pid agentkernel.PID, o agentkernel.ImportOptions) (agentkernel.ProcessRecord, []agentkernel.Entry) {
	p := r.Process
	bare := r.Spec.WithoutHost()
	bare.Program.Earlier, bare.Program.Cells = nil, 0
	s := agentkernel.Spec{Program: bare.Program, Namespace: o.Namespace, Deny: r.Spec.Deny, OnUnknown: r.Spec.OnUnknown, Durability: r.Spec.Durability}
	if s.Namespace == "" {
		s.Namespace = "default"
	}
	if s.Priority = p.Priority; s.Priority < 1 || s.Priority > 1000 {
		s.Priority = agentkernel.DefaultPriority
	}
	p.PID, p.Parent, p.Namespace, p.Priority, p.Name = pid, 0, s.Namespace, s.Priority, s.Program.Name
	p.Paused, p.PauseNote, p.PausedFor, p.Resident, p.WaitsFor = false, "", nil, false, nil
	p.Walls, p.Moved = nil, nil                                                            // what this kernel would vouch for
	p.Halted, p.StopBy, p.WaitsSince, p.WakeAt = "", time.Time{}, time.Time{}, time.Time{} // of one that lives
	if p.Error = withoutHint(p.Error); p.Error != nil {
		p.Error.PID = pid
	}
	s.Backend = p.Backend
	entries := r.Entries // nothing else has it, and a copy may be large
	calls := int64(0)
	for i := range entries {
		e := &entries[i]
		e.PID, e.Err = pid, withoutHint(e.Err)
		if e.Kind == agentkernel.EntryTerminal && e.Err != nil {
			e.Err.PID = pid
		}
		calls = max(calls, e.Call)
	}
	entries[0].Data, entries[0].Imported = history.SpecData(&s), &agentkernel.ProcessOf{PID: r.Manifest.PID, Store: r.Manifest.Store}
	entries[0].WriteNote()
	if !p.State.Terminal() {
		last := entries[len(entries)-1]
		p.State, p.ExitCode, p.Ended = agentkernel.StateKilled, agentkernel.ExitKilled, last.At
		p.Error = agentkernel.Errorf(agentkernel.CodeKilled, agentkernel.OpImport, "it had not ended when it was exported; it was imported up to there")
		data, err := json.Marshal(map[string]any{"state": p.State, "exit_code": p.ExitCode})
		if err != nil {
			data = nil
		}
		entries = append(entries, agentkernel.Entry{PID: pid, Seq: last.Seq + 1, At: last.At, Kind: agentkernel.EntryTerminal, Data: data, Err: p.Error})
	}
	return agentkernel.ProcessRecord{Process: p, Spec: s, Calls: calls}, entries
}

// withoutHint is a copy of an error of a recording, without what it says is to be done: hints are this kernel's words, also where a rerun is
// told the error, and commands in them would name processes of another store.
func withoutHint(e *agentkernel.Error) *agentkernel.Error {
	if e == nil {
		return nil
	}
	return e.WithHint("")
}
