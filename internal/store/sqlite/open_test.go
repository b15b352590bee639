package sqlite

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentkernel"
)

func testConfig(dir string) Config {
	return Config{Path: filepath.Join(dir, "journal.db"), Blobs: filepath.Join(dir, "blobs"), Key: bytes.Repeat([]byte("k"), keySize)}
}

func mustOpen(t *testing.T, cfg Config) *Store {
	t.Helper()
	s, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// rawSQL changes a database behind the store's back.
// newPID reserves a PID. This store always has one.
func newPID(s agentkernel.Store) agentkernel.PID {
	pid, err := s.NewPID(context.Background())
	if err != nil {
		panic(err)
	}
	return pid
}

func rawSQL(t *testing.T, path string, script string) {
	t.Helper()
	c, err := dial(path, map[string][]string{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if err := c.script(script); err != nil {
		t.Fatal(err)
	}
}

// checkError wants a code and words that the message or the hint has.
func checkError(t *testing.T, err error, code agentkernel.Code, words ...string) {
	t.Helper()
	if agentkernel.CodeOf(err) != code {
		t.Fatalf("%v has code %q, want %q", err, agentkernel.CodeOf(err), code)
	}
	text := err.Error() + " " + agentkernel.AsError(err, "", "").Hint
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%q does not say %q", text, w)
		}
	}
}

func TestWhatCannotBeOpened(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	database := func(name, script string) string {
		path := filepath.Join(dir, name)
		rawSQL(t, path, script)
		return path
	}
	good := testConfig(t.TempDir())
	if err := mustOpen(t, good).Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(good.Path)
	if err != nil {
		t.Fatal(err)
	}
	holed := bytes.Clone(whole)
	for i := 100; i < len(holed); i++ { // the header stays
		holed[i] = 0xa5
	}
	newer := bytes.Clone(whole)
	newer[60+3] = 99 // user_version in the header
	negative, unversioned, foreign := bytes.Clone(whole), bytes.Clone(whole), bytes.Clone(whole)
	copy(negative[60:], "\xff\xff\xff\xff")
	copy(unversioned[60:], "\x00\x00\x00\x00")
	copy(foreign[68:], "\xff\xff\xff\xff") // application_id
	headless := append(bytes.Repeat([]byte{0xa5}, 100), whole[100:]...)
	for _, test := range []struct {
		name  string
		path  string
		code  agentkernel.Code
		words []string
	}{
		{"directory", dir, agentkernel.CodeInvalid, []string{"directory", dir}},
		{"no data directory", filepath.Join(dir, "none", "x.db"), agentkernel.CodeStorage, []string{"does not exist", "mkdir"}},
		{"text", file("text.db", bytes.Repeat([]byte("not a database\n"), 100)), agentkernel.CodeCorrupt, []string{"not an SQLite database", "AGENTKERNEL_HOME"}},
		{"another program's", database("other.db", "CREATE TABLE users(id)"), agentkernel.CodeCorrupt, []string{"another program"}},
		{"another application's", database("app.db", "PRAGMA application_id = 7"), agentkernel.CodeCorrupt, []string{"another program"}},
		{"newer", file("newer.db", newer), agentkernel.CodeVersion, []string{"version 99", fmt.Sprintf("up to %d", len(steps())), "newer agentkernel"}},
		{"damaged", file("damaged.db", holed), agentkernel.CodeCorrupt, []string{"damaged", "backup"}},
		{"without its header", file("headless.db", headless), agentkernel.CodeCorrupt, []string{"damaged", "restore a backup", "move the file away", "not an SQLite database"}},
		{"with a negative version", file("negative.db", negative), agentkernel.CodeCorrupt, []string{"damaged", "no schema version", "backup"}},
		{"without its version", file("unversioned.db", unversioned), agentkernel.CodeCorrupt, []string{"damaged", "no schema version", "backup"}},
		{"with another application's number", file("foreign.db", foreign), agentkernel.CodeCorrupt, []string{"damaged", "another program", "restore"}},
		{"cut off", file("cut.db", whole[:len(whole)/2]), agentkernel.CodeCorrupt, []string{"damaged", "backup"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := testConfig(dir)
			cfg.Path = test.path
			_, err := Open(context.Background(), cfg)
			checkError(t, err, test.code, test.words...)
		})
	}
	_, err = OpenReader(context.Background(), testConfig(filepath.Join(dir, "none")))
	checkError(t, err, agentkernel.CodeNotFound, "no database", "AGENTKERNEL_HOME")
}

// A database that was emptied is no new one: SQLite would throw away the log beside it, and all would begin anew.
func TestAnEmptiedDatabase(t *testing.T) {
	cfg := testConfig(t.TempDir())
	if err := mustOpen(t, cfg).Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(cfg.Path, 0); err != nil {
		t.Fatal(err)
	}
	_, err := OpenReader(t.Context(), cfg)
	checkError(t, err, agentkernel.CodeVersion, "is empty", "restore")
	if err := os.WriteFile(cfg.Path+"-wal", []byte("what was committed"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = OpenReader(t.Context(), cfg)
	checkError(t, err, agentkernel.CodeCorrupt, "was emptied", "restore")
	_, err = Open(t.Context(), cfg)
	checkError(t, err, agentkernel.CodeCorrupt, "was emptied", "restore")
	if log, err := os.ReadFile(cfg.Path + "-wal"); err != nil || string(log) != "what was committed" {
		t.Errorf("the log: %q, %v", log, err)
	}
}

func TestConfigIsChecked(t *testing.T) {
	good := testConfig(t.TempDir())
	for name, change := range map[string]func(*Config){
		"no path":   func(c *Config) { c.Path = "" },
		"no blobs":  func(c *Config) { c.Blobs = "" },
		"no key":    func(c *Config) { c.Key = nil },
		"short key": func(c *Config) { c.Key = []byte("secret") },
	} {
		cfg := good
		change(&cfg)
		_, err := Open(t.Context(), cfg)
		checkError(t, err, agentkernel.CodeInvalid)
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error shows the key", name)
		}
	}
}

func TestTheDatabaseIsPrivate(t *testing.T) {
	cfg := testConfig(t.TempDir())
	mustOpen(t, cfg)
	for _, suffix := range []string{"", "-wal", "-shm"} {
		info, err := os.Stat(cfg.Path + suffix)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v, error %v; want 0600", suffix, info.Mode(), err)
		}
	}
}

func TestMigrationsAreAppliedInOrderAndOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.db")
	now := func() time.Time { return time.UnixMicro(1_790_000_000_000_000) }
	c, err := dial(path, map[string][]string{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	history := []step{
		{"one", "CREATE TABLE a(x); INSERT INTO a VALUES ('kept')"},
		{"two", "ALTER TABLE a ADD COLUMN y DEFAULT 'new'; CREATE INDEX i ON a(y)"},
		{"broken", "CREATE TABLE b(x); INSERT INTO nowhere VALUES (1)"},
	}
	for _, known := range []int{1, 2, 2} {
		if v, err := migrate(c, path, history[:known], now); err != nil || v != known {
			t.Fatalf("version %d, error %v; want %d", v, err, known)
		}
	}
	version, err := migrate(c, path, history, now)
	checkError(t, err, agentkernel.CodeStorage, "step 3", "broken")
	if version != 2 {
		t.Fatalf("version %d after the broken step, want 2", version)
	}
	_, err = migrate(c, path, history[:1], now) // an older program
	checkError(t, err, agentkernel.CodeVersion, "version 2", "up to 1")

	history[2] = step{"mended", "UPDATE a SET x = 'changed'"}
	if _, err := migrate(c, path, history, now); err != nil {
		t.Fatal(err)
	}
	r, _, err := c.one("SELECT x, y, (SELECT group_concat(version || name || at) FROM migrations), (SELECT count(*) FROM sqlite_schema WHERE name = 'b') FROM a")
	if err != nil {
		t.Fatal(err)
	}
	if r.text(0) != "changed" || r.text(1) != "new" || r.int(3) != 0 ||
		r.text(2) != "1one1790000000000000,2two1790000000000000,3mended1790000000000000" {
		t.Fatalf("the database holds %v", r)
	}
}

// TestKilledBeforeItHadBegun: a kernel that dies between the tables and the identity leaves a database in which nothing is lost.
func TestKilledBeforeItHadBegun(t *testing.T) {
	cfg := testConfig(t.TempDir())
	s := mustOpen(t, cfg)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	rawSQL(t, cfg.Path, "DELETE FROM meta WHERE key = 'store_uuid'")
	_, err := OpenReader(t.Context(), cfg)
	checkError(t, err, agentkernel.CodeVersion, "has nothing in it", "nothing is lost", "agentkernel recover")
	s = mustOpen(t, cfg) // and the next one goes on with it
	pid := newPID(s)
	if err := appendFlush(s, agentkernel.Batch{Process: exampleRow(pid), Entries: note(pid, 1, 10).Entries}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	rawSQL(t, cfg.Path, "DELETE FROM meta WHERE key = 'store_uuid'")
	_, err = OpenReader(t.Context(), cfg)
	checkError(t, err, agentkernel.CodeCorrupt, "no store_uuid")
}
