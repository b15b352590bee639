// Package datadir knows where a kernel keeps its files, that nobody else can read them, and that only one
// kernel at a time uses them. It must never read or write what the files hold, except the lock and the key,
// and it never deletes anything.
package datadir

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"agentkernel"
	"agentkernel/internal/access"
)

// EnvHome names the environment variable that names the data directory.
const EnvHome = "AGENTKERNEL_HOME"

// Op is the operation of this package's errors.
const Op = "data directory"

const op = Op

// The files of a data directory, all below its path.
const (
	databaseFile = "kernel.db"
	blobsDir     = "blobs"
	socketFile   = "kernel.sock"
	logFile      = "kernel.log"
	enginesDir   = "engines"
	// environmentsDir holds environments of packages.
	environmentsDir = "environments"
	// hostDir holds tools files of programs that serve functions of theirs: the SDKs write them.
	hostDir       = "host"
	pricesDir     = "prices"
	runDir        = "run"
	toolsDir      = "tools"
	workspacesDir = "workspaces"
	keyFile       = "key"
	lockFile      = "kernel.lock"
	trustFile     = "trust.json"
)

// Resolve finds the data directory's path without touching it: explicit if it is not empty, else
// $AGENTKERNEL_HOME, else $XDG_STATE_HOME/agentkernel, else ~/.local/state/agentkernel, on macOS too. The
// result is absolute. CodeInvalid if none of them can be found.
func Resolve(explicit string) (string, error) {
	path := explicit
	if path == "" {
		path = os.Getenv(EnvHome)
	}
	if path == "" {
		// A relative XDG_STATE_HOME is to be ignored (XDG Base Directory Specification 0.8).
		if state := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(state) {
			return filepath.Join(state, "agentkernel"), nil
		}
		path = "~/.local/state/agentkernel"
	}
	// Configuration files and unit files do not expand ~; a directory called "~" is never what was meant.
	if rest, ok := strings.CutPrefix(path+"/", "~/"); ok {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", agentkernel.Errorf(agentkernel.CodeInvalid, op, "there is no home directory: %w", err).
				WithHint("set %s to a directory of your own", EnvHome)
		}
		path = filepath.Join(home, rest)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", agentkernel.Errorf(agentkernel.CodeInvalid, op, "%q has no absolute path: %w", path, err).
			WithHint("set %s to an absolute path", EnvHome)
	}
	return abs, nil
}

// Dir is a data directory that is there, is ours alone and can be written.
type Dir struct {
	path     string
	socket   string
	warnings []string
}

// Open creates the directory (mode 0700) or checks the one that is there. A directory that others could
// read is tightened if it is one of ours, and refused if it might serve another purpose. Errors:
// CodeInvalid (not a directory), CodeDenied (someone else's, not writable, open to others), CodeStorage
// (read-only or full file system); each says what to do.
func Open(path string) (*Dir, error) {
	d := &Dir{path: path}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(path, 0o700); err != nil {
			return nil, openError(path, "cannot be created", err)
		}
		info, err = os.Stat(path)
	}
	if err != nil {
		return nil, openError(path, "cannot be read", err)
	}
	if err := d.check(info); err != nil {
		return nil, err
	}
	if d.socket, err = socketPath(path); err != nil {
		return nil, err
	}
	return d, nil
}

// OpenToRead is Open for who only reads: the file system may be one that nobody can write.
func OpenToRead(path string) (*Dir, error) {
	d, err := Open(path)
	if !errors.Is(err, unix.EROFS) {
		return d, err
	}
	d = &Dir{path: path}
	if d.socket, err = socketPath(path); err != nil {
		return nil, err
	}
	return d, nil
}

func (d *Dir) check(info fs.FileInfo) error {
	if !info.IsDir() {
		return agentkernel.Errorf(agentkernel.CodeInvalid, op, "%s is a file, not a directory", d.path).
			WithHint("choose another path with --home or %s, or move the file away", EnvHome)
	}
	if uid, ok := owner(info); ok && uid != os.Geteuid() {
		return agentkernel.Errorf(agentkernel.CodeDenied, op, "%s belongs to user %d, and this is user %d", d.path, uid, os.Geteuid()).
			WithHint("run as the user that owns it, or choose another directory with --home or %s", EnvHome)
	}
	if info.Mode().Perm()&0o077 != 0 {
		if err := d.tighten(info); err != nil {
			return err
		}
	}
	if err := unix.Access(d.path, unix.W_OK|unix.X_OK); err != nil {
		return openError(d.path, "cannot be written", err)
	}
	return nil
}

// tighten closes the directory to others. It leaves a directory alone that is shared by its mode, or holds files but
// none of ours: `--home /tmp` must not lock everybody out of /tmp.
func (d *Dir) tighten(info fs.FileInfo) error {
	mode := info.Mode().Perm()
	if err := d.mayTighten(info); err != nil {
		return err
	}
	if err := os.Chmod(d.path, 0o700); err != nil {
		return openError(d.path, "is open to other users and cannot be closed", err)
	}
	d.warnings = append(d.warnings, fmt.Sprintf("%s was open to other users (mode %#o); it is 0700 now", d.path, mode))
	return nil
}

// mayTighten says why a directory that is open to others is not closed.
func (d *Dir) mayTighten(info fs.FileInfo) error {
	var why string
	switch {
	case info.Mode()&fs.ModeSticky != 0:
		why = "is shared with other users (sticky)"
	case !d.recognisable():
		why = "is open to other users and holds files that are not the kernel's"
	default:
		return nil
	}
	return agentkernel.Errorf(agentkernel.CodeDenied, op, "%s (mode %#o) %s", d.path, info.Mode().Perm(), why).
		WithHint("name a directory of its own, such as %s", filepath.Join(d.path, "agentkernel"))
}

// Shared says why Open would refuse a directory that is there and open to other users; nil: it would close it.
func Shared(path string) error {
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm()&0o077 == 0 {
		return err
	}
	return (&Dir{path: path}).mayTighten(info)
}

// recognisable says whether the directory is empty or holds something of a kernel's.
func (d *Dir) recognisable() bool {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return false
	}
	for _, e := range entries {
		switch name := e.Name(); {
		case strings.HasPrefix(name, "kernel."), name == keyFile, strings.HasPrefix(name, keyFile+"."):
			return true
		case name == enginesDir && len(entries) == 1: // whoever has no Node makes it, before any kernel has run
			return true
		}
	}
	return len(entries) == 0
}

// Warnings are things that Open mended, for the log.
func (d *Dir) Warnings() []string { return d.warnings }

// Path is the directory itself.
func (d *Dir) Path() string { return d.path }

// Database is the file of the SQLite store.
func (d *Dir) Database() string { return d.file(databaseFile) }

// Denied are the files of a kernel that are there, and that this user may not read and write: no program can start.
func (d *Dir) Denied() []string {
	db := d.Database()
	return access.Denied(db, db+"-wal", db+"-shm", d.file(lockFile), d.file(keyFile))
}

// Begun says whether there is a database, or something that belongs to one that was removed.
func (d *Dir) Begun() bool {
	if exists(d.Database()) {
		return true
	}
	for _, beside := range []string{"-wal", "-mark"} {
		if info, err := os.Stat(d.Database() + beside); err == nil && info.Size() > 0 {
			return true
		}
	}
	return false
}

// Blobs is the directory of large payloads; it may not exist yet.
func (d *Dir) Blobs() string { return d.file(blobsDir) }

// Prices is the directory of the table of prices that was installed, and of the one before it.
func (d *Dir) Prices() string { return d.file(pricesDir) }

// Socket is where the kernel listens. Within the directory if its path is short enough for a socket
// address, else in a directory of this user below /tmp; the same for every caller.
func (d *Dir) Socket() string { return d.socket }

// Log is the file that a background kernel writes its log to.
func (d *Dir) Log() string { return d.file(logFile) }

// Engines is where `setup` installs engines; it may not exist yet.
func (d *Dir) Engines() string { return d.file(enginesDir) }

// Environments is where environments of packages are kept (package packages).
func (d *Dir) Environments() string { return d.file(environmentsDir) }

// Trust is where the user's acceptance of tools files is kept; it may not exist yet.
func (d *Dir) Trust() string { return d.file(trustFile) }

// Run is where the reaper records child processes; it may not exist yet.
func (d *Dir) Run() string { return d.file(runDir) }

// Workspaces is where what processes have changed in folders waits to be applied. A backup leaves it out.
func (d *Dir) Workspaces() string { return d.file(workspacesDir) }

// Tools is where what was learned of tool servers is kept.
func (d *Dir) Tools() string { return d.file(toolsDir) }

func (d *Dir) file(name string) string { return filepath.Join(d.path, name) }

func owner(info fs.FileInfo) (uid int, ok bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(st.Uid), true
}

// elsewhere is what to do where a data directory cannot be.
const elsewhere = "set " + EnvHome + ", or --home, to a directory that can be written"

// openError turns what the file system said into an error with a code and a way out.
func openError(path, what string, err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok && pe.Path == path { // it is named once
		err = pe.Err
	}
	e := agentkernel.Errorf(agentkernel.CodeStorage, op, "%s %s: %w", path, what, err)
	switch {
	case errors.Is(err, syscall.EROFS):
		return e.WithHint("the file system is read-only; " + elsewhere)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return e.WithHint("the disk is full; make room, or " + elsewhere)
	case errors.Is(err, syscall.ENOTDIR):
		e.Code = agentkernel.CodeInvalid
		return e.WithHint("a part of the path is a file; " + elsewhere)
	case errors.Is(err, fs.ErrPermission):
		e.Code = agentkernel.CodeDenied
		there := path
		for there != filepath.Dir(there) && !exists(there) {
			there = filepath.Dir(there)
		}
		mend := cmp.Or(access.Hint(there), "run as the user that owns "+there)
		return e.WithHint("%s; or %s", elsewhere, mend)
	}
	return e.WithHint(elsewhere)
}
