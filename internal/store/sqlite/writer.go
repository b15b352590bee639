package sqlite

import (
	"encoding/json"
	"log/slog"
	"sync/atomic"

	"agentkernel"
	"agentkernel/internal/store/blob"
)

// writer has the one connection that writes. Its methods are for whoever has claimed it; see lead.go.
type writer struct {
	path  string
	c     *conn
	blobs blob.Store
	seal  *sealer
	log   *slog.Logger

	programs programIndex
	changes  changes
	filed    bool         // the table blobs may have rows
	sweep    bool         // some blob may have lost its last reference
	holds    atomic.Int32 // backups that read blobs: see backup.go

	commits atomic.Int64
}

// commit writes a group as one transaction. Large payloads are durable before it begins. After an error
// the writer must not be used again.
func (w *writer) commit(group []pending) error {
	w.changes.collect(group)
	for _, ch := range w.changes.list {
		if err := w.findProgram(ch); err != nil {
			return err
		}
	}
	if err := w.putBlobs(group); err != nil {
		return err
	}
	if err := w.c.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	if err := w.write(group); err != nil {
		_ = w.c.script("ROLLBACK") // the first error says what happened
		return err
	}
	if err := w.c.exec("COMMIT"); err != nil {
		_ = w.c.script("ROLLBACK")
		return err
	}
	w.commits.Add(1)
	return nil
}

func (w *writer) write(group []pending) error {
	for i := range group {
		for j := range group[i].batch.Entries {
			if err := w.writeEntry(&group[i].batch.Entries[j]); err != nil {
				return err
			}
		}
	}
	for _, ch := range w.changes.list {
		if ch.process != nil {
			if err := w.writeProcess(ch); err != nil {
				return err
			}
		}
		if err := w.writeState(ch.pid, ch.state); err != nil {
			return err
		}
		if ch.image != nil {
			if err := w.writeImage(ch.image); err != nil {
				return err
			}
		}
	}
	return nil
}

// processChange is what one group changes of one process: only the newest of each thing, because the
// group becomes visible as a whole.
type processChange struct {
	pid     agentkernel.PID
	process *agentkernel.ProcessRecord
	sum     programSum // of process's program
	program int64      // id of its row, 0 if there is none yet
	image   *agentkernel.Image
	state   map[string]json.RawMessage // empty value: delete
}

// changes collects the processChanges of a group in order of first appearance.
type changes struct {
	list  []*processChange
	index map[agentkernel.PID]*processChange
}

func (c *changes) collect(group []pending) {
	if c.index == nil {
		c.index = map[agentkernel.PID]*processChange{}
	}
	clear(c.list)
	clear(c.index)
	c.list = c.list[:0]
	for i := range group {
		b := &group[i].batch
		if b.Process == nil && b.Image == nil && len(b.State) == 0 {
			continue
		}
		ch, ok := c.index[group[i].pid]
		if !ok {
			ch = &processChange{pid: group[i].pid}
			c.index[ch.pid] = ch
			c.list = append(c.list, ch)
		}
		if b.Process != nil {
			ch.process = b.Process
		}
		if b.Image != nil {
			ch.image = b.Image
		}
		for k, v := range b.State {
			if ch.state == nil {
				ch.state = map[string]json.RawMessage{}
			}
			ch.state[k] = v
		}
	}
}
