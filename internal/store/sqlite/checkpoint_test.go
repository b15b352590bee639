package sqlite

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/internal/store/sqlite/wal"
)

// writePages commits groups of some 50 pages each until so many pages were written.
func writePages(t *testing.T, s *Store, next *int64, pages int, each func()) {
	t.Helper()
	for written := 0; written < pages; written += 50 {
		var pos agentkernel.Position
		for range 50 {
			*next++
			var err error
			if pos, err = s.Append(note(1, *next, 3000)); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Flush(t.Context(), pos); err != nil {
			t.Fatal(err)
		}
		each()
	}
}

// logBound is how large the log may become: what begins a checkpoint in a commit, and a group that is as large as there are here.
const logBound = (checkpointNow + 500) * 4120

func logSize(t *testing.T, s *Store) int64 {
	t.Helper()
	info, err := os.Stat(wal.Path(s.reads.cfg.Path))
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for until := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal(what)
		}
	}
}

// The log is moved beside the commits, and begins again when all of it has been.
func TestCheckpointsBesideCommits(t *testing.T) {
	s := mustOpen(t, testConfig(t.TempDir()))
	k, next := s.writer.checkpoints, int64(0)
	for range 3 {
		writePages(t, s, &next, checkpointAfter+200, func() {})
		eventually(t, "the log is not moved", func() bool { return k.moved.Load() >= checkpointAfter })
		if err := s.work(func(w *writer) error { k.with(w.c); return nil }); err != nil { // what came after it began
			t.Fatal(err)
		}
		writePages(t, s, &next, 50, func() {})
		if pages := s.writer.c.db.LogPages(); pages > 200 {
			t.Errorf("the log has %d pages and did not begin again", pages)
		}
	}
	if n := k.own.Load(); n > 0 {
		t.Errorf("%d commits moved the log themselves", n)
	}
}

// The log stays bounded while it is written to all the time, and where nobody moves it but the commits.
func TestLogIsBounded(t *testing.T) {
	for name, broken := range map[string]bool{"with checkpoints beside": false, "without": true} {
		t.Run(name, func(t *testing.T) {
			s := mustOpen(t, testConfig(t.TempDir()))
			k, next := s.writer.checkpoints, int64(0)
			if broken {
				k.path = filepath.Join(t.TempDir(), "is", "not", "there")
			}
			writePages(t, s, &next, 3*checkpointNow, func() {
				if n := logSize(t, s); n > logBound {
					t.Fatalf("the log has %d bytes", n)
				}
			})
			if n := k.own.Load(); broken && n < 2 {
				t.Errorf("%d commits moved the log", n)
			}
			failed := func() bool {
				k.mu.Lock()
				defer k.mu.Unlock()
				return k.failed
			}
			if broken {
				eventually(t, "nobody notices that there are no checkpoints beside the commits", failed)
			} else if failed() {
				t.Error("there are no checkpoints beside the commits")
			}
			if list, err := s.Entries(t.Context(), 1, next, 0); err != nil || len(list) != 1 {
				t.Errorf("the newest entry: %v, %v", list, err)
			}
		})
	}
}

// Who reads for long keeps the log from beginning again; when it is done, the log does.
func TestLogBehindReader(t *testing.T) {
	s := mustOpen(t, testConfig(t.TempDir()))
	next := int64(0)
	writePages(t, s, &next, 50, func() {})
	err := s.reads.do(context.Background(), func(c *conn) error {
		if err := c.script("BEGIN"); err != nil {
			return err
		}
		n, err := c.int("SELECT count(*) FROM entries")
		if err != nil {
			return err
		}
		writePages(t, s, &next, checkpointNow+1000, func() {})
		if again, err := c.int("SELECT count(*) FROM entries"); err != nil || again != n {
			t.Errorf("the reader sees %d entries, and then %d: %v", n, again, err)
		}
		return c.script("ROLLBACK")
	})
	if err != nil {
		t.Fatal(err)
	}
	writePages(t, s, &next, 150, func() {})
	if pages := s.writer.c.db.LogPages(); pages > checkpointNow {
		t.Errorf("the log has %d pages still", pages)
	}
}
