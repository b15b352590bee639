package embedded

import (
	"strings"
	"testing"

	"agentkernel"
	"agentkernel/internal/backup"
	"agentkernel/internal/datadir"
)

// A backup for which there is no room is refused before a byte of it is unpacked.
func TestRestoreLooksForRoomFirst(t *testing.T) {
	u := &unpacked{dir: datadir.At(t.TempDir())}
	err := u.Begin(&backup.Manifest{Files: []backup.File{{Name: backup.DatabaseName, Size: 1 << 60}}})
	if agentkernel.CodeOf(err) != agentkernel.CodeStorage || !strings.Contains(err.Error(), "MiB free") {
		t.Errorf("an exabyte: %v", err)
	}
	if err := u.Begin(&backup.Manifest{Files: []backup.File{{Name: backup.DatabaseName, Size: 1 << 10}}}); err != nil {
		t.Errorf("a kilobyte: %v", err)
	}
}
