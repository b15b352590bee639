package sqlite

import (
	"context"
	"fmt"

	"agentkernel"
)

// salvage notes that payloads are lost, for whoever wants to see what is left. A nil one takes no loss.
type salvage struct {
	err     error // the first
	outline bool  // payloads are not wanted
}

// outlines says that payloads are not wanted: then none is read, and none can be lost.
func (s *salvage) outlines() bool { return s != nil && s.outline }

func (s *salvage) reset() {
	if s != nil {
		s.err = nil
	}
}

// note gives err back if it must be one.
func (s *salvage) note(err error) error {
	if s == nil {
		e := *agentkernel.AsError(err, agentkernel.CodeCorrupt, "store")
		e.Code = agentkernel.CodeCorrupt
		return &e
	}
	if s.err == nil {
		s.err = err
	}
	return nil
}

// ofProcess adds to an error about a payload whose it is.
func ofProcess(pid agentkernel.PID, err error) error {
	return of(pid, err, fmt.Sprintf("process %d", pid))
}

func ofEntry(pid agentkernel.PID, seq int64, err error) error {
	return of(pid, err, fmt.Sprintf("entry %d of process %d", seq, pid))
}

func of(pid agentkernel.PID, err error, what string) error {
	e := *agentkernel.AsError(err, agentkernel.CodeStorage, "store")
	if e.Code == agentkernel.CodeNotFound { // the blob is, the process is not
		e.Code = agentkernel.CodeCorrupt
	}
	e.PID, e.Err = pid, fmt.Errorf("%s cannot be read: %w", what, e.Err)
	return &e
}

// ProcessLeft reads what is left of a process's row.
func (s *Store) ProcessLeft(ctx context.Context, pid agentkernel.PID) (rec agentkernel.ProcessRecord, lost, err error) {
	if rec, err = s.Process(ctx, pid); agentkernel.CodeOf(err) != agentkernel.CodeCorrupt {
		return rec, nil, err
	}
	return s.reads.processLeft(s.of(ctx, pid), pid)
}

// EntriesLeft reads what is left of a journal from seq on.
func (s *Store) EntriesLeft(ctx context.Context, pid agentkernel.PID, from int64, limit int) (list []agentkernel.Entry, lost, err error) {
	found := &salvage{}
	list, err = s.entries(ctx, pid, from, limit, found)
	return list, found.err, err
}

// ProcessLeft reads what is left of a process's row.
func (r *Reader) ProcessLeft(ctx context.Context, pid agentkernel.PID) (rec agentkernel.ProcessRecord, lost, err error) {
	return r.reads.processLeft(ctx, pid)
}

// EntriesLeft reads what is left of a journal from seq on.
func (r *Reader) EntriesLeft(ctx context.Context, pid agentkernel.PID, from int64, limit int) (list []agentkernel.Entry, lost, err error) {
	found := &salvage{}
	list, err = r.reads.entries(ctx, pid, from, limit, found)
	return list, found.err, err
}

func (r *reads) processLeft(ctx context.Context, pid agentkernel.PID) (rec agentkernel.ProcessRecord, lost, err error) {
	found := &salvage{}
	rec, err = r.process(ctx, pid, found)
	if found.err != nil {
		lost = ofProcess(pid, found.err)
	}
	return rec, lost, err
}

// Outline reads entries from seq on without what lies elsewhere; those that are queued yet have it.
func (s *Store) Outline(ctx context.Context, pid agentkernel.PID, from int64, limit int) ([]agentkernel.Entry, error) {
	return s.entries(ctx, pid, from, limit, &salvage{outline: true})
}

// Outline reads entries from seq on without their payloads.
func (r *Reader) Outline(ctx context.Context, pid agentkernel.PID, from int64, limit int) ([]agentkernel.Entry, error) {
	return r.reads.entries(ctx, pid, from, limit, &salvage{outline: true})
}
