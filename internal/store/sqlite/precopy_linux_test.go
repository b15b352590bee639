package sqlite

import (
	"os"
	"testing"

	"agentkernel"
)

// TestNoMigrationOnAFullDisk: there is room for one database, and not for two.
func TestNoMigrationOnAFullDisk(t *testing.T) {
	cfg := testConfig(mount(t, "size=900k"))
	oldDatabase(t, cfg)
	_, err := Open(t.Context(), cfg)
	checkError(t, err, agentkernel.CodeStorage, "could not be copied", "make room")
	if v := versionOf(t, cfg.Path); v != 1 {
		t.Errorf("the database has version %d", v)
	}
	if _, err := os.Stat(CopyPath(cfg.Path, 1) + ".partial"); !os.IsNotExist(err) {
		t.Errorf("half a copy is left: %v", err)
	}
}
