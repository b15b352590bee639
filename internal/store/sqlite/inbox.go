package sqlite

import (
	"context"

	"agentkernel"
)

const insertPost = "INSERT INTO inbox(pid, sender, seq, n, kind, priority, at, data) VALUES (?,?,?,?,?,?,?,?)"

const deletePost = "DELETE FROM inbox WHERE pid = ? AND sender = ? AND seq = ? AND n = ?"

// writePosts puts what a batch sends into inboxes, and takes out what it took.
func (w *writer) writePosts(pid agentkernel.PID, b *agentkernel.Batch) error {
	for i := range b.Posts {
		p := &b.Posts[i]
		data, err := w.payload(p.Data, BlobThreshold)
		if err != nil {
			return err
		}
		err = w.c.exec(insertPost, int64(p.To), int64(p.From), p.Seq, int64(p.N), p.Kind, int64(p.Priority), p.At.UnixMicro(), data)
		if err != nil {
			return err
		}
		w.posted, w.mailed = true, true
	}
	for _, id := range b.Took {
		if err := w.c.exec(deletePost, int64(pid), int64(id.From), id.Seq, int64(id.N)); err != nil {
			return err
		}
	}
	return nil
}

// mayHavePosts says whether there is anything in the table.
func (w *writer) mayHavePosts() error {
	_, found, err := w.c.one("SELECT 1 FROM inbox LIMIT 1")
	w.posted = found
	return err
}

// emptyInbox throws away what a process has not taken.
func (w *writer) emptyInbox(pid agentkernel.PID) error {
	if !w.posted {
		return nil
	}
	gone, err := w.c.change("DELETE FROM inbox WHERE pid = ?", int64(pid))
	w.sweep = w.sweep || w.filed && gone > 0
	return err
}

const selectInbox = "SELECT sender, seq, n, kind, priority, at, data FROM inbox WHERE pid = ? ORDER BY priority, at, sender, seq, n"

// Inbox reads what a process has been sent and has not taken.
func (s *Store) Inbox(ctx context.Context, pid agentkernel.PID) (found []agentkernel.Post, err error) {
	if err := s.flushMail(ctx, pid); err != nil {
		return nil, err
	}
	err = s.reads.do(ctx, func(c *conn) error {
		found = nil
		return c.query(func(v row) error {
			p := agentkernel.Post{PostID: agentkernel.PostID{From: agentkernel.PID(v.int(0)), Seq: v.int(1), N: int(v.int(2))}, To: pid,
				Kind: v.text(3), Priority: int(v.int(4)), At: microTime(v.int(5))}
			var err error
			p.Data, err = s.reads.payload(ctx, v[6], nil)
			found = append(found, p)
			return err
		}, selectInbox, int64(pid))
	})
	return found, err
}

const countInbox = "SELECT count(*) FROM inbox WHERE pid = ? AND kind = ?"

// Waiting counts what of a kind a process has been sent and has not taken.
func (s *Store) Waiting(ctx context.Context, pid agentkernel.PID, kind string) (n int, err error) {
	if err := s.flushMail(ctx, pid); err != nil {
		return 0, err
	}
	err = s.reads.do(ctx, func(c *conn) error {
		return c.query(func(v row) error {
			n = int(v.int(0))
			return nil
		}, countInbox, int64(pid), kind)
	})
	return n, err
}

// flushMail waits until what was put into a process's inbox, and taken out, is durable: reads see nothing else.
func (s *Store) flushMail(ctx context.Context, pid agentkernel.PID) error {
	if pos := s.queue.mailed(pid); pos > 0 {
		return s.queue.flush(ctx, pos)
	}
	return nil
}

const selectPosted = "SELECT DISTINCT i.pid FROM inbox i JOIN processes p ON p.pid = i.pid WHERE p.state = 'unfinished' ORDER BY i.pid"

// Posted lists the unfinished processes that have something in their inboxes.
func (s *Store) Posted(ctx context.Context) (found []agentkernel.PID, err error) {
	if err := s.flushAll(ctx); err != nil {
		return nil, err
	}
	err = s.reads.do(ctx, func(c *conn) error {
		found = nil
		return c.query(func(v row) error {
			found = append(found, agentkernel.PID(v.int(0)))
			return ctx.Err()
		}, selectPosted)
	})
	return found, err
}

// mailed is the position of the last batch that put something into a process's inbox, or took something out, if that is not
// durable; 0: there is none.
func (q *queue) mailed(pid agentkernel.PID) agentkernel.Position {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.mail[pid]
}

// noteMail keeps in mind whose inboxes a batch changes; q.mu is held.
func (q *queue) noteMail(p *pending) {
	for i := range p.batch.Posts {
		q.mail[p.batch.Posts[i].To] = p.pos
	}
	if len(p.batch.Took) > 0 {
		q.mail[p.pid] = p.pos
	}
}

// dropMail forgets what a batch has changed that is durable now; q.mu is held.
func (q *queue) dropMail(p *pending) {
	drop := func(pid agentkernel.PID) {
		if q.mail[pid] <= p.pos {
			delete(q.mail, pid)
		}
	}
	for i := range p.batch.Posts {
		drop(p.batch.Posts[i].To)
	}
	if len(p.batch.Took) > 0 {
		drop(p.pid)
	}
}
