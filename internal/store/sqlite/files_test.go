package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	sqlite3 "modernc.org/sqlite/lib"

	"agentkernel"
	"agentkernel/internal/store/sqlite/binding"
)

// TestTooFewOpenFiles: SQLite says that it is unable to open a file and not why, and the system's own word names none of its limits.
func TestTooFewOpenFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kernel.db")
	c, cause := dial(filepath.Join(path, "no", "folder"), map[string][]string{})
	if cause == nil {
		c.close()
		t.Fatal("a database was opened in a folder that is not there")
	}
	if e, ok := errors.AsType[*binding.Error](cause); !ok || e.Code&0xff != sqlite3.SQLITE_CANTOPEN {
		t.Fatalf("%v is no error of this kind", cause)
	}
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	few := was
	few.Cur = 200
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was) })
	checkError(t, explain(path, cause), agentkernel.CodeStorage, "too few open files", "ulimit -n 4096")
	checkError(t, explain(path, &os.PathError{Op: "open", Path: path, Err: syscall.ENFILE}), agentkernel.CodeStorage, "too few open files", "ulimit -n 4096")
	checkError(t, explain(path, &os.PathError{Op: "open", Path: path, Err: syscall.EMFILE}), agentkernel.CodeStorage, "too few open files", "ulimit -n 4096")
}
