package sqlite

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	sqlite3 "modernc.org/sqlite/lib"

	"agentkernel"
	"agentkernel/internal/access"
	"agentkernel/internal/shellword"
	"agentkernel/internal/store/sqlite/binding"
)

// explain turns an error of SQLite or the operating system into one that says what was wrong with the
// database at path and what to do. Errors of the contract pass through.
func explain(path string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*agentkernel.Error](err); ok {
		return err
	}
	switch resultCode(err) {
	case sqlite3.SQLITE_ERROR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		if what := headerDamage(path); what != "" {
			return errDoesNotFit(path, what)
		}
	}
	dir := filepath.Dir(path)
	switch primary := resultCode(err); {
	case (primary == sqlite3.SQLITE_CANTOPEN || primary == sqlite3.SQLITE_IOERR) && gone(dir):
		return agentkernel.Errorf(agentkernel.CodeStorage, "store", "the database %s is gone: its directory was moved or removed while a kernel ran in it", path).
			WithHint("put %s back; or end the kernel that ran in it, os process %d, and name the directory where it is now: --home DIR", dir, os.Getpid())
	case primary == sqlite3.SQLITE_FULL, errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return diskFull(dir)
	case primary == sqlite3.SQLITE_CORRUPT:
		return agentkernel.Errorf(agentkernel.CodeCorrupt, "store", "the database %s is damaged: %w", path, err).
			WithHint("restore a backup: agentkernel restore FILE --force; without one move it away to begin anew; `sqlite3 %s .recover` saves what can be read", shellword.File(path))
	case primary == sqlite3.SQLITE_NOTADB:
		return notOurs(path, "it is not an SQLite database")
	case primary == sqlite3.SQLITE_BUSY, primary == sqlite3.SQLITE_LOCKED:
		return agentkernel.Errorf(agentkernel.CodeStorage, "store", "another program keeps the database %s locked: %w", path, err).
			WithHint("close SQL shells that have an open transaction on it")
	case primary == sqlite3.SQLITE_READONLY, errors.Is(err, syscall.EROFS):
		return agentkernel.Errorf(agentkernel.CodeStorage, "store", "%s cannot be written: %w", dir, err).
			WithHint("make the file system writable, or choose another data directory with AGENTKERNEL_HOME")
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), primary == sqlite3.SQLITE_CANTOPEN && fewFiles():
		return agentkernel.Errorf(agentkernel.CodeStorage, "store", "the database %s cannot be opened: this process may have too few open files", path).
			WithHint("allow more, as by ulimit -n 4096, and try again")
	case errors.Is(err, fs.ErrPermission), primary == sqlite3.SQLITE_PERM, primary == sqlite3.SQLITE_AUTH:
		return agentkernel.Errorf(agentkernel.CodeDenied, "store", "no permission to open the database %s: %w", path, err).
			WithHint("%s", cmp.Or(access.Hint(path, path+"-wal", path+"-shm", dir), "look who owns "+dir))
	case errors.Is(err, fs.ErrNotExist):
		return agentkernel.Errorf(agentkernel.CodeNotFound, "store", "there is no database at %s", path).
			WithHint("nothing has run with this data directory yet; set AGENTKERNEL_HOME if yours is elsewhere")
	case primary == sqlite3.SQLITE_IOERR:
		return agentkernel.Errorf(agentkernel.CodeStorage, "store", "the disk that holds %s failed: %w", dir, err).
			WithHint("look into the system log; then: agentkernel recover")
	default:
		return agentkernel.Errorf(agentkernel.CodeStorage, "store", "the database %s: %w", path, err)
	}
}

func gone(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// fewFiles says whether this process may have so few open files, or has so many, that SQLite, which does not say why it cannot open one, may lack them.
func fewFiles() bool {
	const enough = 256 // as macOS has it
	f, err := os.Open(os.DevNull)
	if err != nil {
		return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
	}
	_ = f.Close()
	var l syscall.Rlimit
	return syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) == nil && l.Cur < enough
}

// diskFull says it in no words but its own: those of SQLite speak of the database, which may be small.
func diskFull(dir string) error {
	return agentkernel.Errorf(agentkernel.CodeStorage, "store", "the disk that holds %s is full", dir).
		WithHint("free space, then: agentkernel recover")
}

func notOurs(path, why string) error {
	return agentkernel.Errorf(agentkernel.CodeCorrupt, "store", "%s is not a database of AgentKernel, or its beginning is damaged: %s", path, why).
		WithHint("if it was one, restore a backup: agentkernel restore FILE --force; else move the file away, or choose another data directory with AGENTKERNEL_HOME")
}

// resultCode is SQLite's primary result code, 0 for an error that is not SQLite's.
func resultCode(err error) int {
	if e, ok := errors.AsType[*binding.Error](err); ok {
		return e.Code & 0xff
	}
	return 0
}

// failed makes the error that a store answers for ever after a commit went wrong: always CodeStorage,
// because nothing more is written whatever the cause was.
func failed(path string, cause error) *agentkernel.Error {
	e := agentkernel.AsError(explain(path, cause), agentkernel.CodeStorage, "store")
	if e.Code == agentkernel.CodeStorage {
		return e
	}
	return &agentkernel.Error{Code: agentkernel.CodeStorage, Op: "store", Err: e, Hint: e.Hint}
}

// probe finds out, before SQLite does with fewer words, why a database file cannot be opened, and makes
// an absent one readable by its owner only (SQLite gives -wal and -shm the same mode).
func probe(path string, create bool) error {
	flags := os.O_RDONLY
	if create {
		flags = os.O_RDWR | os.O_CREATE
	}
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return agentkernel.Errorf(agentkernel.CodeInvalid, "store", "%s is a directory; the database is a file", path)
	default: // opening it says why it cannot be
		if what := vanished(path); what != "" { // SQLite writes to a database before it writes its log, and would throw the log away
			if err := errLogAlone(path, what); err != nil {
				return err
			}
		}
	}
	f, err := os.OpenFile(path, flags, 0o600)
	switch {
	case err == nil:
		return f.Close()
	case create && errors.Is(err, fs.ErrNotExist):
		return agentkernel.Errorf(agentkernel.CodeStorage, "store", "the data directory %s does not exist", filepath.Dir(path)).
			WithHint("mkdir -m 700 -p %s", filepath.Dir(path))
	}
	return explain(path, err)
}
