package sqlite

import (
	"path/filepath"
	"strings"
	"testing"

	sqlite3 "modernc.org/sqlite/lib"

	"agentkernel"
	"agentkernel/internal/store/sqlite/binding"
)

// SQLite says of a database whose directory went that it cannot be opened, and no more.
func TestTheDirectoryWentAway(t *testing.T) {
	e := agentkernel.AsError(explain(filepath.Join(t.TempDir(), "gone", "kernel.db"), &binding.Error{Code: sqlite3.SQLITE_CANTOPEN}), "", "")
	if e.Code != agentkernel.CodeStorage || !strings.Contains(e.Message(), "moved or removed") || !strings.Contains(e.Hint, "--home DIR") {
		t.Errorf("%v; hint: %s", e, e.Hint)
	}
}
