package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"agentkernel"
	"agentkernel/internal/access"
	"agentkernel/internal/bytesize"
	"agentkernel/internal/datadir"
)

const (
	spaceFail = 50 << 20
	spaceWarn = 1 << 30
	logWarn   = 100 << 20
)

func checkHome(_ context.Context, o DoctorOptions) []Finding {
	st, err := os.Stat(o.Home)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		parent := existingParent(o.Home)
		if unix.Access(parent, unix.W_OK|unix.X_OK) != nil {
			return fail("choose another one with --home or "+datadir.EnvHome, "%s is not there, and %s cannot be written", o.Home, parent)
		}
		return ok("%s is not there yet; the first command makes it", o.Home)
	case err != nil:
		return fail("choose another one with --home or "+datadir.EnvHome, "%v", err)
	case !st.IsDir():
		return fail("choose another one with --home or "+datadir.EnvHome, "%s is not a directory", o.Home)
	case unix.Access(o.Home, unix.R_OK|unix.W_OK|unix.X_OK) != nil:
		return fail(cmp.Or(access.Hint(o.Home), "run as the user that owns it")+"; or choose another one with --home or "+datadir.EnvHome,
			"%s cannot be read and written by this user", o.Home)
	}
	if found := checkFiles(o); found != nil {
		return found
	}
	if st.Mode().Perm()&0o077 != 0 {
		if e := agentkernel.AsError(datadir.Shared(o.Home), agentkernel.CodeStorage, "datadir"); e != nil {
			return fail(e.Hint, "%s", e.Message())
		}
		return warn("chmod 700 "+o.Home, "%s is open to other users (mode %#o)", o.Home, st.Mode().Perm())
	}
	return ok("%s (mode %#o)", o.Home, st.Mode().Perm())
}

// checkFiles looks at what every kernel opens first; nil: nothing is wrong with it.
func checkFiles(o DoctorOptions) []Finding {
	dir := datadir.At(o.Home)
	denied := append(dir.Denied(), access.Denied(cmp.Or(o.Log, dir.Log()))...)
	if len(denied) > 0 {
		return fail(access.Hint(denied...), "%s cannot be read and written by this user", strings.Join(denied, ", "))
	}
	if e := agentkernel.AsError(dir.CheckKey(), agentkernel.CodeStorage, "datadir"); e != nil {
		return fail(e.Hint, "%s", e.Message())
	}
	return nil
}

// unreadable says that this user may not look into the data directory.
func unreadable(home string) bool {
	_, err := os.Stat(home)
	return errors.Is(err, fs.ErrPermission) || err == nil && unix.Access(home, unix.R_OK|unix.X_OK) != nil
}

func existingParent(path string) string {
	for {
		path = filepath.Dir(path)
		if _, err := os.Stat(path); err == nil || path == filepath.Dir(path) {
			return path
		}
	}
}

func checkSpace(_ context.Context, o DoctorOptions) []Finding {
	at := o.Home
	if _, err := os.Stat(at); err != nil {
		at = existingParent(at)
	}
	var st unix.Statfs_t
	if err := unix.Statfs(at, &st); err != nil {
		return warn("", "cannot tell how much room %s has: %v", at, err)
	}
	free := int64(st.Bavail) * int64(st.Bsize) //nolint:unconvert // other types on other systems
	fix := "make room, or choose another data directory with --home or " + datadir.EnvHome
	switch {
	case free < spaceFail:
		return fail(fix, "%s free at %s", bytesize.Rounded(free), at)
	case free < spaceWarn:
		return warn(fix, "%s free at %s", bytesize.Rounded(free), at)
	}
	return ok("%s free", bytesize.Rounded(free))
}

// checkLeftovers looks for what a dead kernel did not tidy up: records of child processes (workers, tool
// servers) that the next kernel kills before it answers anyone.
func checkLeftovers(_ context.Context, o DoctorOptions) []Finding {
	dir := datadir.At(o.Home)
	if _, held := dir.Holder(); held {
		return ok("none: a kernel is running and looks after them")
	}
	records, err := filepath.Glob(filepath.Join(dir.Run(), "*", "*.json"))
	if err != nil {
		return failed(Warn, err)
	}
	children := 0
	for _, r := range records {
		if filepath.Base(r) != "kernel.json" {
			children++
		}
	}
	if children > 0 {
		return warn("agentkernel recover", "a kernel that died recorded %s; the next kernel ends those that still run", count(children, "child process", "child processes"))
	}
	if n := unfinishedHomes(dir.Workspaces()); n > 0 {
		return warn("agentkernel prune --older 10000d", "a kernel that died was making files for %s; the next prune removes them, and this one forgets nothing", count(n, "process", "processes"))
	}
	return ok("none")
}

// homeRecord is the file that a process's home in workspaces/ gets last.
const homeRecord = "record.json"

// unfinishedHomes counts what a dead kernel was making for processes, or removing: a home that is finished has a record.
func unfinishedHomes(dir string) (n int) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	for _, e := range entries {
		if _, err := os.Lstat(filepath.Join(dir, e.Name(), homeRecord)); e.IsDir() && errors.Is(err, fs.ErrNotExist) {
			n++
		}
	}
	return n
}

func checkLog(_ context.Context, o DoctorOptions) []Finding {
	path := o.Log
	if path == "" {
		path = datadir.At(o.Home).Log()
	}
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ok("%s (no background kernel has written it yet)", path)
	case err != nil:
		return failed(Warn, err)
	case st.Size() > logWarn:
		return warn("rm "+path, "%s has %s", path, bytesize.Rounded(st.Size()))
	}
	return ok("%s (%s, last written %s)", path, bytesize.Rounded(st.Size()), st.ModTime().UTC().Format(time.RFC3339))
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
