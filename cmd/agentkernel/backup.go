package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/console"
	"agentkernel/embedded"
	"agentkernel/internal/datadir"
	"agentkernel/internal/shellword"
)

type backupCmd struct {
	File     string `arg:"" help:"Where to write it; - is standard output. With --check: the backup to look at."`
	Force    bool   `help:"Replace a file that is there."`
	NoVerify bool   `help:"Do not read the backup again once it is written."`
	Check    bool   `help:"Write nothing: say whether FILE is a backup that could be restored."`
}

func (backupCmd) Help() string {
	return `Writes everything that the data directory holds into one file, also while processes run: they do not wait for it, and
everything that was acknowledged before is in it. The file holds all that programs and tools ever said, and the key
of the directory; it has mode 0600. Tools files and their keys are not in it. docs/housekeeping.md describes it.

` + examples("agentkernel backup nightly.akb --force", "agentkernel backup --check nightly.akb", "agentkernel backup - | ssh elsewhere 'cat > kernel.akb'",
		"agentkernel backup nightly.akb --json | jq .bytes")
}

// backedUp is what backup --json prints.
type backedUp struct {
	File     string `json:"file"`
	Bytes    int64  `json:"bytes"`
	SHA256   string `json:"sha256,omitempty"` // of the file
	Verified bool   `json:"verified"`
	*embedded.BackupInfo
}

func (c *backupCmd) Run(a *app) error {
	switch {
	case c.File == "":
		return agentkernel.Errorf(agentkernel.CodeInvalid, "backup", "the name of the file is empty").WithHint("agentkernel backup FILE, or - for standard output")
	case c.Check:
		return c.check(a)
	case c.File == "-" && a.outTTY:
		return agentkernel.Errorf(agentkernel.CodeInvalid, "backup", "a backup is not for a terminal").WithHint("agentkernel backup FILE")
	case c.File == "-" && a.cli.JSON:
		return agentkernel.Errorf(agentkernel.CodeInvalid, "backup", "standard output cannot be the backup and JSON at once").
			WithHint("name the file: agentkernel backup FILE --json")
	case c.File == "-":
		return a.takeBackup(&tally{w: a.out})
	}
	if _, err := os.Lstat(c.File); err == nil && !c.Force {
		return agentkernel.Errorf(agentkernel.CodeConflict, "backup", "%s is there already", c.File).
			WithHint("name another file, or replace it: agentkernel backup %s --force", shellword.File(c.File))
	}
	done, err := c.write(a)
	if err != nil {
		return err
	}
	if a.cli.JSON {
		return a.printJSON(done)
	}
	if done.BackupInfo == nil {
		a.con.Note("%s · %s · not read again", c.File, console.Bytes(done.Bytes))
	} else {
		a.con.Note("%s · %s · %s · checked", c.File, console.Bytes(done.Bytes), contentsText(*done.BackupInfo))
	}
	return nil
}

func contentsText(i embedded.BackupInfo) string {
	return fmt.Sprintf("%d processes, %d of them unfinished", i.Processes, i.Unfinished)
}

// write makes the file under another name, which it has until it is complete and was checked.
func (c *backupCmd) write(a *app) (done backedUp, err error) {
	partial := c.File + ".partial"
	f, err := openPartial(partial)
	if err != nil {
		return done, err
	}
	defer func() {
		err = errors.Join(err, f.Close())
		if err != nil {
			_ = os.Remove(partial) // the first error says what happened
		}
	}()
	to := &tally{w: f, h: sha256.New()}
	if err := a.takeBackup(to); err != nil {
		return done, err
	}
	if err := f.Sync(); err != nil {
		return done, notWritten(c.File, err)
	}
	done = backedUp{File: c.File, Bytes: to.n.Load(), SHA256: hex.EncodeToString(to.h.Sum(nil))}
	if !c.NoVerify {
		info, err := a.checkBackup(f, filepath.Dir(c.File))
		if err != nil {
			return done, err
		}
		done.Verified, done.BackupInfo = true, &info
	}
	if err := os.Rename(partial, c.File); err != nil {
		return done, notWritten(c.File, err)
	}
	if dir, err := os.Open(filepath.Dir(c.File)); err == nil {
		err = errors.Join(dir.Sync(), dir.Close())
		if err != nil {
			return done, notWritten(c.File, err)
		}
	}
	return done, nil
}

// openPartial opens the file that is to become a backup, empty and ours alone; what a killed command left is replaced. Of one that it makes the
// owner does not matter: a network may give its files to nobody.
func openPartial(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	made := err == nil
	if errors.Is(err, fs.ErrExist) {
		f, err = os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW, 0)
	}
	if err != nil {
		if dir := filepath.Dir(path); isMissing(dir) {
			return nil, agentkernel.Errorf(agentkernel.CodeInvalid, "backup", "%s cannot be written: there is no directory %s", strings.TrimSuffix(path, ".partial"), dir).
				WithHint("make it, or name a file in one that is there")
		}
		return nil, notWritten(path, err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, errors.Join(beingWritten(path), f.Close())
	}
	if err == nil && !made {
		err = onlyOurs(f)
	}
	if err == nil && !leadsTo(path, f) { // another command has made a backup of it, or has given it up, before it was locked
		return nil, errors.Join(beingWritten(path), f.Close())
	}
	if err == nil {
		err = errors.Join(f.Chmod(0o600), f.Truncate(0))
	}
	if err != nil {
		err = errors.Join(notWritten(path, err), f.Close())
		if made {
			_ = os.Remove(path) // the first error says what happened
		}
		return nil, err
	}
	return f, nil
}

func beingWritten(path string) error {
	return agentkernel.Errorf(agentkernel.CodeConflict, "backup", "another command is writing %s", path)
}

// leadsTo says whether the path is still that of the open file.
func leadsTo(path string, f *os.File) bool {
	is, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(path)
	return err == nil && os.SameFile(is, named)
}

// foreign says whether a file has another owner than this process. Tests say so of all.
var foreign = func(st *unix.Stat_t) bool { return int64(st.Uid) != int64(os.Geteuid()) }

// onlyOurs refuses a file that somebody else has made: he can open it, whatever its mode will be, and root can change that. Nor may another
// name lead to it.
func onlyOurs(f *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || foreign(&st) || st.Nlink != 1 {
		return errors.New("a file of another user, or one with another name, is there; remove it")
	}
	return nil
}

func isMissing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}

func notWritten(path string, err error) error {
	if e, ok := errors.AsType[*os.LinkError](err); ok {
		err = e.Err
	}
	return agentkernel.Errorf(writeCode(err), "backup", "%s cannot be written: %w", path, unwrapPath(err)).
		WithHint("name a file in a directory that you may write to, on a disk with room")
}

// tally counts what goes through it.
type tally struct {
	w io.Writer
	h hash.Hash // nil: none
	n atomic.Int64
}

func (t *tally) Write(p []byte) (int, error) {
	n, err := t.w.Write(p)
	t.n.Add(int64(n))
	if t.h != nil {
		t.h.Write(p[:n])
	}
	if err != nil {
		err = agentkernel.Errorf(writeCode(err), "backup", "the backup cannot be written: %w", unwrapPath(err)).
			WithHint("make room, or name a file on another disk")
	}
	return n, err
}

// takeBackup has the kernel that runs write its backup; without one the data directory is read.
func (a *app) takeBackup(to *tally) error {
	home, err := a.home()
	if err != nil {
		return err
	}
	if _, err := os.Stat(home); errors.Is(err, fs.ErrNotExist) {
		return errNothingYet(home)
	}
	dir, err := a.dataDir()
	if err != nil {
		return err
	}
	take := func(ctx context.Context) error { return alone(embedded.Backup(ctx, home, version, to)) }
	if !a.cli.Embedded {
		read := take
		take = func(ctx context.Context) error {
			for begun := time.Now(); ; {
				k, err := a.dial(ctx, dir.Socket())
				if err == nil {
					err = k.Backup(ctx, to)
					_ = k.Close() // it was only read from
					return err
				}
				if !notThere(err) {
					return err
				}
				err = read(ctx)
				if agentkernel.CodeOf(err) != agentkernel.CodeUnavailable || to.n.Load() > 0 || time.Since(begun) > readPatience {
					return err
				}
				select { // a kernel that holds the directory is about to listen, or to end
				case <-ctx.Done():
					return err
				case <-time.After(dialPause):
				}
			}
		}
	}
	return a.withStatus(a.ctx, func() string { return "backing up · " + console.Bytes(to.n.Load()) }, take)
}

// alone is the error of a command that must have the directory to itself: a kernel that holds it is an absence.
func alone(err error) error {
	if agentkernel.CodeOf(err) != agentkernel.CodeConflict || asError(err).Op != datadir.Op {
		return err
	}
	held := *asError(err)
	held.Code = agentkernel.CodeUnavailable
	return &held
}

// checkBackup reads a whole backup under a progress line.
func (a *app) checkBackup(f io.ReadSeeker, temp string) (info embedded.BackupInfo, err error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return info, agentkernel.Errorf(agentkernel.CodeStorage, "backup", "the backup cannot be read again: %w", err)
	}
	read := &countedReader{r: f}
	err = a.withStatus(a.ctx, func() string { return "checking · " + console.Bytes(read.n.Load()) }, func(ctx context.Context) error {
		info, err = embedded.CheckBackup(ctx, read, temp)
		return err
	})
	return info, err
}

// countedReader counts what was read.
type countedReader struct {
	r io.Reader
	n atomic.Int64
}

func (c *countedReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n.Add(int64(n))
	return n, err
}

func (c *backupCmd) check(a *app) error {
	f, err := os.Open(c.File)
	if err != nil {
		return fileError(c.File, err)
	}
	defer func() { _ = f.Close() }() // it was only read from
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "backup", "%s is no file", c.File)
	}
	info, err := a.checkBackup(f, os.TempDir())
	if err != nil {
		return err
	}
	if a.cli.JSON {
		return a.printJSON(backedUp{File: c.File, Bytes: st.Size(), Verified: true, BackupInfo: &info})
	}
	a.con.Out(fmt.Sprintf("%s is sound: %s, as of %s, by agentkernel %s\n", c.File, contentsText(info),
		info.Created.Local().Format("2006-01-02 15:04:05"), info.Version))
	return a.outputError()
}
