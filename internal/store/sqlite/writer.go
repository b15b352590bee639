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
	mark  *logMark

	open bool // a transaction was begun: see Stage

	programs programIndex
	specs    specTexts
	walls    wallsIndex
	texts    texts
	taken    map[int64]bool // programs that processes were written with while strays are looked for; nil: nobody looks
	changes  changes
	filed    bool         // the table blobs may have rows
	posted   bool         // the table inbox may have rows
	mailed   bool         // the group that is being written has posts
	sweep    bool         // some blob may have lost its last reference
	holds    atomic.Int32 // backups that read blobs: see backup.go

	commits atomic.Int64
}

// commit writes a group as one transaction, which may have begun. Large payloads are durable before it ends. After an
// error the writer must not be used again.
func (w *writer) commit(group []pending) error {
	if err := w.changes.collect(group); err != nil {
		return w.rollback(err)
	}
	for _, ch := range w.changes.list {
		if err := w.findProgram(ch); err != nil {
			return w.rollback(err)
		}
	}
	if err := w.placeTexts(group); err != nil {
		return w.rollback(err)
	}
	if err := w.putBlobs(group); err != nil {
		return w.rollback(err)
	}
	if err := w.begin(); err != nil {
		return err
	}
	if err := w.write(group); err != nil {
		return w.rollback(err)
	}
	if err := w.c.exec("COMMIT"); err != nil {
		return w.rollback(err)
	}
	w.open = false
	w.mark.committed(group)
	w.commits.Add(1)
	return nil
}

func (w *writer) begin() error {
	if w.open {
		return nil
	}
	if err := w.c.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	w.open = true
	return nil
}

// rollback gives up what was begun, because of err, which says what happened.
func (w *writer) rollback(err error) error {
	if w.open {
		_ = w.c.script("ROLLBACK") // the first error says what happened
		w.open = false
	}
	return err
}

func (w *writer) write(group []pending) error {
	w.mailed = false
	for i := range group {
		if k := group[i].batch.Key; k != nil {
			if err := w.c.exec(insertKey, k.Namespace, k.Name, int64(group[i].pid)); err != nil {
				return err
			}
		}
		if err := w.writePosts(group[i].pid, &group[i].batch); err != nil {
			return err
		}
		if w.changes.short(i) {
			continue
		}
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
			if ch.process.State.Terminal() && (w.mailed || len(ch.whole) == 0) { // what began in this group has no older post
				if err := w.emptyInbox(ch.pid); err != nil {
					return err
				}
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
	whole   []*agentkernel.Batch       // all there is of its journal, if that begins here
	journal string                     // what of it goes into the row: see shortJournal
}

// changes collects the processChanges of a group in order of first appearance.
type changes struct {
	list  []*processChange
	index map[agentkernel.PID]*processChange
	of    []*processChange // by place in the group; nil: the batch has nothing but entries
}

// short says whether the entries of the group's i-th batch are in the row of their process.
func (c *changes) short(i int) bool { return c.of[i] != nil && c.of[i].journal != "" }

func (c *changes) collect(group []pending) error {
	if c.index == nil {
		c.index = map[agentkernel.PID]*processChange{}
	}
	clear(c.list)
	clear(c.index)
	clear(c.of)
	c.list, c.of = c.list[:0], c.of[:0]
	for i := range group {
		b := &group[i].batch
		begins := len(b.Entries) > 0 && b.Entries[0].Seq == 1
		ch, ok := c.index[group[i].pid]
		if !ok && (begins || b.Process != nil || b.Image != nil || len(b.State) > 0) {
			ch = &processChange{pid: group[i].pid}
			c.index[ch.pid] = ch
			c.list = append(c.list, ch)
		}
		c.of = append(c.of, ch)
		if ch == nil {
			continue
		}
		if begins || len(ch.whole) > 0 {
			ch.whole = append(ch.whole, b)
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
	for _, ch := range c.list {
		if ch.process == nil || !ch.process.State.Terminal() {
			continue
		}
		var err error
		if ch.journal, err = shortJournal(ch.whole); err != nil {
			return err
		}
	}
	return nil
}
