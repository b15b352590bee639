package sqlite

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentkernel"
)

// undo takes away what the steps of the schema from the second on have added, so that the rows are those of the version before.
// The rows of a newer version must not need it: no journal in a row, nothing pruned.
func undo(step int) string {
	_, view, _ := strings.Cut(schema1, "CREATE VIEW journal")
	_, fifth, _ := strings.Cut(schema5, "CREATE VIEW journal")
	return map[int]string{
		9: "DROP TABLE parts; DROP VIEW journal; CREATE VIEW journal" + fifth,
		8: "DROP TABLE holds;",
		7: `DROP TABLE inbox; DROP INDEX processes_active; DROP INDEX processes_due; ALTER TABLE processes DROP COLUMN parked;
ALTER TABLE processes DROP COLUMN wake_at; ALTER TABLE processes DROP COLUMN waits_since; ALTER TABLE processes DROP COLUMN waits_for;`,
		6: "DROP TABLE keys;",
		5: "DROP VIEW journal; ALTER TABLE processes DROP COLUMN journal; CREATE VIEW journal" + view,
		4: "ALTER TABLE processes DROP COLUMN walls; DROP TABLE walls;",
		3: "CREATE INDEX processes_by_program ON processes(program);",
		2: `DROP INDEX processes_by_program; DROP TABLE pruned; DROP TABLE leftovers; DROP TRIGGER blobs_added; DROP TRIGGER blobs_removed; DROP TABLE totals;
DROP TRIGGER entries_args_deleted; DROP TRIGGER entries_data_deleted; DROP TRIGGER processes_result_deleted;
DROP TRIGGER programs_source_deleted; DROP TRIGGER programs_modules_deleted;`,
	}[step]
}

// makeOlder makes a closed database one of an older version, and compares it with what the steps up to that version make.
func makeOlder(t *testing.T, path string, version int) {
	t.Helper()
	for step := len(steps()); step > version; step-- {
		rawSQL(t, path, undo(step))
	}
	rawSQL(t, path, fmt.Sprintf("DELETE FROM migrations WHERE version > %d; PRAGMA user_version = %d", version, version))
	fresh := filepath.Join(t.TempDir(), "fresh.db")
	c, err := dial(fresh, map[string][]string{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if _, err := migrate(c, fresh, steps()[:version], time.Now); err != nil {
		t.Fatal(err)
	}
	if got, want := schemaText(t, path), schemaText(t, fresh); got != want {
		t.Fatalf("this is no database of version %d:\n%s\nwant\n%s", version, got, want)
	}
}

// Every version that was ever there is read without a kernel, and stays as it is.
func TestOlderVersionsAreRead(t *testing.T) {
	for version := 1; version < len(steps()); version++ {
		t.Run(fmt.Sprintf("version %d", version), func(t *testing.T) {
			cfg := testConfig(t.TempDir())
			s := mustOpen(t, cfg)
			pid := finishedProcess(t, s, "1")
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			makeOlder(t, cfg.Path, version)
			r := mustRead(t, cfg)
			if r.Info().Schema != version {
				t.Errorf("schema %d", r.Info().Schema)
			}
			p, err := r.Process(t.Context(), pid)
			if err != nil || p.State != agentkernel.StateExited || p.Spec.Program.Source == "" || p.Walls != nil {
				t.Errorf("%+v, %v", p, err)
			}
			if list, err := r.Processes(t.Context(), agentkernel.Filter{}); err != nil || len(list) != 1 {
				t.Errorf("%d processes, %v", len(list), err)
			}
			if list, err := r.Entries(t.Context(), pid, 1, 0); err != nil || len(list) != 2 {
				t.Errorf("%d entries, %v", len(list), err)
			}
			if u, err := r.Storage(t.Context()); err != nil || u.BlobFiles != 2 || u.Blobs < 2*BlobThreshold {
				t.Errorf("%+v, %v", u, err)
			}
			_, err = r.Process(t.Context(), 99)
			checkError(t, err, agentkernel.CodeNotFound, "no process 99")
			q := mustQuery(t, cfg)
			if got := text(t, q, "select state, (select count(*) from output) printed from processes"); !strings.HasPrefix(got, "state | printed\nexited | 1\n") {
				t.Errorf("sql: %q", got)
			}
			if now := versionOf(t, cfg.Path); now != int64(version) {
				t.Errorf("version %d after it was read", now)
			}
			s = mustOpen(t, cfg)
			if s.Info().Schema != len(steps()) {
				t.Errorf("schema %d after a kernel", s.Info().Schema)
			}
		})
	}
}
