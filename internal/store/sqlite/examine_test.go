package sqlite

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentkernel"
)

// TestExamine damages what a kernel that was killed leaves, in ways that opening it does not show.
func TestExamine(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, testConfig(dir))
	pid := newPID(s)
	seq := int64(0)
	write := func(sizes ...int) {
		for _, size := range sizes {
			seq++
			if err := appendFlush(s, note(pid, seq, size)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 40 {
		write(3000)
	}
	write(40_000, 50_000) // blobs
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, testConfig(dir)) // all that was is in the database, and what comes is in its log
	write(10)
	for name, c := range map[string]struct {
		damage    func(cfg Config) error
		database  bool
		bad, read int
	}{
		"nothing": {func(Config) error { return nil }, false, 0, 2},
		"its end is gone": {func(cfg Config) error {
			info, err := os.Stat(cfg.Path)
			if err != nil {
				return err
			}
			return os.Truncate(cfg.Path, info.Size()-4*4096)
		}, true, 0, 0},
		"half of it is gone": {func(cfg Config) error {
			info, err := os.Stat(cfg.Path)
			if err != nil {
				return err
			}
			return os.Truncate(cfg.Path, info.Size()/2/4096*4096)
		}, true, 0, 0},
		"a blob is gone": {func(cfg Config) error { return os.Remove(blobFile(t, cfg, 40_002)) }, false, 1, 2},
		"a blob has changed": {func(cfg Config) error {
			return os.WriteFile(blobFile(t, cfg, 50_002), []byte(strings.Repeat("y", 50_002)), 0o600)
		}, false, 1, 2},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := copyOf(t, dir)
			if err := c.damage(cfg); err != nil {
				t.Fatal(err)
			}
			before := files(t, filepath.Dir(cfg.Path))
			e, err := Examine(t.Context(), cfg)
			if err != nil || (e.Damage != nil) != c.database || e.Bad != c.bad || (e.BadBlob != nil) != (c.bad > 0) || e.Read != c.read {
				t.Errorf("%+v, %v", e, err)
			}
			if e.Damage != nil && (agentkernel.CodeOf(e.Damage) != agentkernel.CodeCorrupt || !strings.Contains(e.Damage.Hint, "agentkernel restore FILE --force")) {
				t.Errorf("damage: %v, %s", e.Damage, e.Damage.Hint)
			}
			if after := files(t, filepath.Dir(cfg.Path)); after[cfg.Path] != before[cfg.Path] || after[cfg.Path+"-wal"] != before[cfg.Path+"-wal"] {
				t.Error("it changed the database")
			}
		})
	}
}

// blobFile finds the blob of a size.
func blobFile(t *testing.T, cfg Config, size int) string {
	t.Helper()
	for path, content := range files(t, cfg.Blobs) {
		if len(content) == size {
			return path
		}
	}
	t.Fatalf("no blob has %d bytes", size)
	return ""
}
