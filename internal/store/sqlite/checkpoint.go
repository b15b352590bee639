package sqlite

import (
	"errors"
	"log/slog"
	"net/url"
	"sync"
	"sync/atomic"
)

// Checkpoints move what is in the log into the database file, so that the log can begin again. SQLite makes them in the commit that
// brings the log to a certain size, and whoever waits for that commit waits for thousands of writes and a sync more. Here another
// connection makes them beside the commits; only where it does not keep up, a commit does. Source: https://sqlite.org/wal.html#ckpt.
const (
	// checkpointAfter is how many pages more than at the last time begin a checkpoint; SQLite's own measure.
	checkpointAfter = 1000
	// checkpointNow is how many pages the log may have: a commit that finds more moves them itself. Only then, or while nobody
	// writes, does the log begin again.
	checkpointNow = 4000
)

// checkpoints makes them. Its methods are safe for concurrent use.
type checkpoints struct {
	path string
	log  *slog.Logger
	wake chan struct{} // capacity 1
	done chan struct{} // closed when the goroutine has ended; nil: there was none

	moved atomic.Int64 // pages of the log that are in the database file
	own   atomic.Int64 // how many a commit had to make: for tests

	mu     sync.Mutex // held during a checkpoint, whoever makes it: two at once fail
	c      *conn
	failed bool
}

func newCheckpoints(path string, log *slog.Logger) *checkpoints {
	return &checkpoints{path: path, log: log, wake: make(chan struct{}, 1)}
}

// committed hears of each commit; pages is how many the log has. Only the writer calls it.
func (k *checkpoints) committed(w *conn, pages int64) {
	moved := k.moved.Load()
	if pages < moved { // the log has begun again
		moved = 0
		k.moved.Store(0)
	}
	switch {
	case pages >= checkpointNow:
		k.own.Add(1)
		k.with(w)
	case pages-moved >= checkpointAfter:
		if k.done == nil {
			k.done = make(chan struct{})
			go k.run()
		}
		select {
		case k.wake <- struct{}{}:
		default: // it has been told already
		}
	}
}

func (k *checkpoints) run() {
	defer close(k.done)
	for range k.wake {
		k.mu.Lock()
		if err := k.make(); err != nil && !k.failed {
			k.failed = true
			k.log.Warn("the log cannot be moved into the database beside the commits; they do it themselves", "error", err)
		}
		k.mu.Unlock()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.c != nil {
		_ = k.c.close() // all that it did is done
	}
}

// make makes one on a connection of its own; k.mu is held.
func (k *checkpoints) make() (err error) {
	if k.c == nil {
		if k.c, err = dial(k.path, url.Values{"mode": {"rw"}}, "busy_timeout = 0", "synchronous = FULL", "fullfsync = 1"); err != nil {
			return err
		}
	}
	_, err = k.on(k.c)
	return err
}

// with makes one on a connection, and says whether nothing is left in the log that is not in the database file. It is no fault of a
// commit if that cannot be done.
func (k *checkpoints) with(c *conn) (all bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	all, err := k.on(c)
	return all && err == nil
}

// on makes one; k.mu is held. What readers keep from being moved is left to the next.
func (k *checkpoints) on(c *conn) (all bool, err error) {
	r, found, err := c.one("PRAGMA wal_checkpoint(PASSIVE)")
	if err != nil || !found {
		return false, errors.Join(err, errNoAnswer)
	}
	if moved := r.int(2); moved >= 0 {
		k.moved.Store(moved)
	}
	return r.int(0) == 0 && r.int(1) == r.int(2), nil
}

var errNoAnswer = errors.New("a checkpoint gave no answer")

// close ends them. The writer must not commit any more.
func (k *checkpoints) close() {
	close(k.wake)
	if k.done != nil {
		<-k.done
	}
}
