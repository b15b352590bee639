package sqlite

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentkernel"
)

// oldDatabase makes a database of schema version 1 with something in it.
func oldDatabase(t *testing.T, cfg Config) {
	t.Helper()
	c, err := dial(cfg.Path, map[string][]string{}, "journal_mode = WAL")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrate(c, cfg.Path, steps()[:1], time.Now); err != nil {
		t.Fatal(err)
	}
	if err := c.script("INSERT INTO meta VALUES ('store_uuid', 'old'), ('big', hex(zeroblob(200000)))"); err != nil {
		t.Fatal(err)
	}
	if err := c.close(); err != nil {
		t.Fatal(err)
	}
}

func versionOf(t *testing.T, path string) int64 {
	t.Helper()
	return count(t, path, "PRAGMA user_version")
}

func TestADatabaseIsCopiedBeforeItIsMigrated(t *testing.T) {
	var log bytes.Buffer
	cfg := testConfig(t.TempDir())
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	oldDatabase(t, cfg)
	ancient := CopyPath(cfg.Path, 0)
	if err := os.WriteFile(ancient, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, cfg)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(cfg.Path + ".*"); len(left) != 1 { // the pattern is right
		t.Errorf("left beside the database: %q", left)
	}
	backup := CopyPath(cfg.Path, 1)
	if versionOf(t, cfg.Path) != int64(len(steps())) || versionOf(t, backup) != 1 {
		t.Errorf("the database has version %d, its copy %d", versionOf(t, cfg.Path), versionOf(t, backup))
	}
	if n := count(t, backup, "SELECT length(value) FROM meta WHERE key = 'big'"); n != 400_000 {
		t.Errorf("the copy holds %d characters", n)
	}
	if info, err := os.Stat(backup); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the copy has mode %v, %v", info.Mode(), err)
	}
	if !strings.Contains(log.String(), backup) {
		t.Errorf("the log does not name the copy: %s", log.String())
	}
	before, err := os.Stat(backup)
	if err != nil {
		t.Fatal(err)
	}
	if err := mustOpen(t, cfg).Close(); err != nil {
		t.Fatal(err)
	}
	if after, err := os.Stat(backup); err != nil || !os.SameFile(before, after) {
		t.Errorf("a database that is up to date was copied again: %v", err)
	}
}

// TestNoMigrationWithoutACopy: whatever keeps the copy from being made keeps the database as it was.
func TestNoMigrationWithoutACopy(t *testing.T) {
	cfg := testConfig(t.TempDir())
	oldDatabase(t, cfg)
	before, err := os.ReadFile(cfg.Path)
	if err != nil {
		t.Fatal(err)
	}
	inTheWay := CopyPath(cfg.Path, 1) + ".partial"
	if err := os.Mkdir(inTheWay, 0o700); err != nil {
		t.Fatal(err)
	}
	_, err = Open(t.Context(), cfg)
	checkError(t, err, agentkernel.CodeStorage, "schema version 1", "could not be copied", "nothing was changed", cfg.Path)
	if after, err := os.ReadFile(cfg.Path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the database was changed: %v", err)
	}
	if err := os.Remove(inTheWay); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(inTheWay, []byte("half a copy of a command that was killed"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := mustOpen(t, cfg).Close(); err != nil {
		t.Fatal(err)
	}
	if versionOf(t, CopyPath(cfg.Path, 1)) != 1 {
		t.Error("the copy is not what it should be")
	}
}
