package sqlite

import (
	"context"
	"fmt"
	"os"

	"agentkernel"
	"agentkernel/internal/store/blob"
)

// Bounds of one step of housekeeping: some milliseconds on a disk of our days, during which nobody else can commit.
const (
	sweepRows  = 500     // entries or keys of working sets
	sweepBytes = 1 << 20 // of payloads in them
	sweepBlobs = 32      // files
	shrinkStep = 256     // pages of 4 KiB that are moved to the front
	strayStep  = 256     // files that are looked up at once

)

var _ agentkernel.Pruner = (*Store)(nil)

// Sweep removes in one step some of what nobody names any more.
func (s *Store) Sweep(ctx context.Context) (r agentkernel.Removed, more bool, err error) {
	if err := ctx.Err(); err != nil {
		return r, false, agentkernel.AsError(err, agentkernel.CodeCanceled, "store")
	}
	err = s.work(func(w *writer) (err error) {
		r, more, err = w.sweepStep(s.queue)
		return err
	})
	return r, more, err
}

// sweepStep removes rows of forgotten processes, and when there are none, files.
func (w *writer) sweepStep(q *queue) (r agentkernel.Removed, more bool, err error) {
	err = w.transaction(q, func() (err error) {
		r.Entries, more, err = w.sweepLeftovers()
		return err
	})
	if err != nil || more {
		return r, more, err
	}
	r.Blobs, r.BlobBytes, more, err = w.sweepBlobs(q)
	return r, more, err
}

// sweepLeftovers deletes rows of forgotten processes, as many as one step may.
func (w *writer) sweepLeftovers() (entries int64, more bool, err error) {
	room := bounds{sweepRows, sweepBytes}
	for room.left() {
		pid, err := w.c.int("SELECT pid FROM leftovers LIMIT 1")
		if err != nil || pid == 0 {
			return entries, false, err
		}
		n, err := w.sweepEntries(pid, &room)
		entries += n
		if err == nil && room.left() {
			err = w.sweepParts(pid, &room)
		}
		if err == nil && room.left() {
			err = w.sweepState(pid, &room)
		}
		if err == nil && room.left() {
			err = w.c.exec("DELETE FROM leftovers WHERE pid = ?", pid)
		}
		if err != nil {
			return entries, false, err
		}
	}
	return entries, true, nil
}

// bounds is what a step may still do. Whoever stops because of it leaves it at nothing.
type bounds struct{ rows, bytes int64 }

func (b *bounds) left() bool { return b.rows > 0 && b.bytes > 0 }

func (b *bounds) take(bytes int64) {
	b.rows--
	b.bytes -= bytes
}

func (w *writer) sweepEntries(pid int64, room *bounds) (n int64, err error) {
	var last int64
	err = w.c.query(func(r row) error {
		if room.left() {
			last = r.int(0)
			room.take(r.int(1))
			n++
		}
		return nil
	}, `SELECT seq, coalesce(octet_length(args), 0) + coalesce(octet_length(data), 0) FROM entries WHERE pid = ? ORDER BY seq LIMIT ?`, pid, room.rows)
	if err != nil || n == 0 {
		return 0, err
	}
	return n, w.c.exec("DELETE FROM entries WHERE pid = ? AND seq <= ?", pid, last)
}

// sweepParts deletes the text of a process, when none of its entries is left.
func (w *writer) sweepParts(pid int64, room *bounds) error {
	last, n := int64(0), 0
	err := w.c.query(func(r row) error {
		if room.left() {
			last = r.int(0)
			room.take(r.int(1))
			n++
		}
		return nil
	}, "SELECT start, octet_length(text) FROM parts WHERE pid = ? ORDER BY start LIMIT ?", pid, room.rows)
	if err != nil || n == 0 {
		return err
	}
	return w.c.exec("DELETE FROM parts WHERE pid = ? AND start <= ?", pid, last)
}

func (w *writer) sweepState(pid int64, room *bounds) error {
	var keys []string
	err := w.c.query(func(r row) error {
		if room.left() {
			keys = append(keys, r.text(0))
			room.take(r.int(1))
		}
		return nil
	}, "SELECT key, octet_length(value) FROM state WHERE pid = ? LIMIT ?", pid, room.rows)
	for _, key := range keys {
		if err == nil {
			err = w.c.exec("DELETE FROM state WHERE pid = ? AND key = ?", pid, key)
		}
	}
	return err
}

// sweepBlobs deletes files that no column names any more: first the files, then their rows, so that a crash
// between the two leaves rows that lead here again. The claim keeps commits away: none can name one of them meanwhile.
func (w *writer) sweepBlobs(q *queue) (n, bytes int64, more bool, err error) {
	if w.holds.Load() > 0 { // a backup reads them; the next change sweeps again
		return 0, 0, false, nil
	}
	var unused []blob.Sum
	err = w.c.query(func(r row) error {
		sum, err := blob.ParseSum(r.blob(0))
		unused = append(unused, sum)
		bytes += r.int(1)
		return err
	}, fmt.Sprintf("SELECT sha256, size FROM blobs WHERE refs = 0 LIMIT %d", sweepBlobs))
	for _, sum := range unused {
		if err == nil {
			err = w.blobs.Delete(context.Background(), sum)
		}
	}
	if err != nil || len(unused) == 0 {
		return 0, 0, false, err
	}
	err = w.transaction(q, func() error {
		for _, sum := range unused {
			if err := w.c.exec("DELETE FROM blobs WHERE sha256 = ? AND refs = 0", sum[:]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, 0, false, err
	}
	return int64(len(unused)), bytes, len(unused) == sweepBlobs, nil
}

// removeUnusedBlobs is the sweep of files that commits ask for: w.sweep says whether there is more to do.
func (w *writer) removeUnusedBlobs(q *queue) {
	_, _, more, err := w.sweepBlobs(q)
	w.sweep = more
	if err == nil {
		_, w.filed, err = w.c.one("SELECT 1 FROM blobs LIMIT 1")
	}
	if err != nil { // the files stay until the next time: a waste of space, not a loss
		w.sweep, w.filed = false, true
		w.log.Warn("unused blobs could not be removed", "error", err)
	}
}

// SweepStrays looks at every file below Config.Blobs, which takes its time and holds nobody up, and removes those that
// the table blobs does not know.
func (s *Store) SweepStrays(ctx context.Context) (r agentkernel.Removed, err error) {
	var found []blob.Item
	clear := func() error {
		n, bytes, err := s.sweepStrays(ctx, found)
		r.Blobs += n
		r.BlobBytes += bytes
		found = found[:0]
		return err
	}
	err = s.writer.blobs.List(ctx, func(i blob.Item) error {
		if found = append(found, i); len(found) < strayStep {
			return nil
		}
		return clear()
	})
	if err == nil {
		err = clear()
	}
	return r, err
}

// sweepStrays removes those of the files that no row knows. A file that is being written for a commit is seen
// without its row, so each is looked up again where no commit can be under way.
func (s *Store) sweepStrays(ctx context.Context, found []blob.Item) (n, bytes int64, err error) {
	unknown := func(c *conn, i blob.Item) (bool, error) {
		if i.Partial != "" {
			return true, nil
		}
		_, known, err := c.one("SELECT 1 FROM blobs WHERE sha256 = ?", i.Sum[:])
		return !known, err
	}
	var suspects []blob.Item
	err = s.reads.do(ctx, func(c *conn) error {
		suspects = suspects[:0]
		for _, i := range found {
			stray, err := unknown(c, i)
			if err != nil {
				return err
			}
			if stray {
				suspects = append(suspects, i)
			}
		}
		return nil
	})
	for len(suspects) > 0 && err == nil {
		part := suspects[:min(sweepBlobs, len(suspects))]
		suspects = suspects[len(part):]
		err = s.work(func(w *writer) error {
			for _, i := range part {
				stray, err := unknown(w.c, i)
				if err == nil && stray {
					n, bytes, err = n+1, bytes+i.Size, w.blobs.Discard(ctx, i)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	return n, bytes, err
}

// Shrink gives free pages back to the file system. A database that was made before schema version 2 keeps its
// free pages, and fills them first.
func (s *Store) Shrink(ctx context.Context) (more bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, agentkernel.AsError(err, agentkernel.CodeCanceled, "store")
	}
	err = s.work(func(w *writer) error {
		before, err := w.c.int("PRAGMA freelist_count")
		if err != nil {
			return err
		}
		if before > 0 {
			if err := w.c.query(func(row) error { return nil }, fmt.Sprintf("PRAGMA incremental_vacuum(%d)", shrinkStep)); err != nil {
				return err
			}
		}
		after, err := w.c.int("PRAGMA freelist_count")
		if more = after > 0 && after < before; err != nil || more {
			return err
		}
		return w.checkpoint()
	})
	return more, err
}

// checkpoint brings the log into the database file, which then has its new size. Readers are not waited for: what
// they keep from being done, the next commits do.
func (w *writer) checkpoint() error {
	return w.c.query(func(row) error { return nil }, "PRAGMA wal_checkpoint(PASSIVE)")
}

// moved brings the log into the database file, and says whether nothing is left that is not in it.
func (w *writer) moved() bool {
	r, found, err := w.c.one("PRAGMA wal_checkpoint(PASSIVE)")
	return err == nil && found && r.int(0) == 0 && r.int(1) == r.int(2)
}

// Storage measures the store.
func (s *Store) Storage(ctx context.Context) (agentkernel.Storage, error) {
	return s.reads.storage(ctx)
}

// Storage measures the store as it is on the disk.
func (r *Reader) Storage(ctx context.Context) (agentkernel.Storage, error) {
	return r.reads.storage(ctx)
}

func (r *reads) storage(ctx context.Context) (u agentkernel.Storage, err error) {
	err = r.do(ctx, func(c *conn) error {
		v, _, err := c.one(`SELECT p.page_count * s.page_size, f.freelist_count * s.page_size, t.bytes, t.files
FROM pragma_page_count p, pragma_freelist_count f, pragma_page_size s, totals t WHERE t.name = 'blobs'`)
		if err == nil {
			u = agentkernel.Storage{Database: v.int(0), Unused: v.int(1), Blobs: v.int(2), BlobFiles: v.int(3)}
		}
		return err
	})
	if log, serr := os.Stat(r.cfg.Path + "-wal"); serr == nil {
		u.Log = log.Size()
	}
	return u, err
}
