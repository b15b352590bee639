package datadir

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"agentkernel"
)

// Holder says who holds a data directory. It is information for messages; who acts on it asks HeldBy.
type Holder struct {
	OSPID   int       `json:"os_pid"`
	Version string    `json:"version"`
	Mode    string    `json:"mode"` // "serve", "background" or "embedded"; ModeRestore and others are no kernels
	Started time.Time `json:"started"`
}

const (
	// ModeRestore is the mode of a Holder that puts a backup in place.
	ModeRestore = "restore"
	// ModeBackup is that of one that reads the directory for a backup, which nobody can ask for anything.
	ModeBackup = "backup"
)

// Lock is the right to run a kernel on a data directory. It ends with Unlock or with the process, however
// that dies: the operating system holds it (flock).
type Lock struct {
	file   *os.File
	holder Holder
	before agentkernel.KernelLife
	beat   chan struct{} // closed to end the goroutine of Beat; nil: there is none
	ended  chan struct{} // closed when it has ended
}

const (
	// lockPoll is how often somebody who waits looks: often enough that a command does not feel it.
	lockPoll = 5 * time.Millisecond
	// lingering is how long a lock without a living holder is waited for. A kernel that was killed while it
	// started a program leaves a child that shares its descriptors until that program begins, and so its lock:
	// microseconds, but on a busy machine as long as the child is not scheduled.
	// A backup is waited for as long: of most directories it takes less.
	lingering = 10 * time.Second
)

// Lock takes the directory for this process and writes info for others to read. CodeConflict names the
// holder if there is one.
func (d *Dir) Lock(info Holder) (*Lock, error) { return d.lock(info, lingering) }

func (d *Dir) lock(info Holder, patience time.Duration) (*Lock, error) {
	for begin := time.Now(); ; {
		lock, err := d.tryLock(info)
		switch {
		case errors.Is(err, errReplaced):
			continue
		case agentkernel.CodeOf(err) != agentkernel.CodeConflict:
			return lock, err
		}
		if h, alive := d.Holder(); alive && h.Mode != ModeBackup || time.Since(begin) >= patience {
			return nil, err
		}
		time.Sleep(lockPoll)
	}
}

// LockWait is Lock, but waits for a kernel that is about to end, until ctx does; then CodeConflict.
func (d *Dir) LockWait(ctx context.Context, info Holder) (*Lock, error) {
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for {
		lock, err := d.lock(info, 0)
		if err == nil || agentkernel.CodeOf(err) != agentkernel.CodeConflict {
			return lock, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-tick.C:
		}
	}
}

// errReplaced: the file was deleted between opening and locking it, so the lock is on nothing.
var errReplaced = errors.New("lock file replaced")

func (d *Dir) tryLock(info Holder) (*Lock, error) {
	path := d.file(lockFile)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, openError(path, "cannot be opened", err)
	}
	if err := flock(f, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		defer func() { _ = f.Close() }()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, d.held(info.Mode)
		}
		return nil, openError(path, "cannot be locked", err)
	}
	mine, err1 := f.Stat()
	there, err2 := os.Stat(path)
	if err1 != nil || err2 != nil || !os.SameFile(mine, there) {
		_ = f.Close()
		return nil, errReplaced
	}
	if info.Mode != ModeRestore {
		if err := d.brokenOff(); err != nil {
			_ = f.Close()
			return nil, err
		}
	}
	before := lifeOf(f)
	if err := writeHolder(f, info); err != nil {
		_ = f.Close()
		return nil, openError(path, "cannot be written", err)
	}
	return &Lock{file: f, holder: info, before: before}, nil
}

func flock(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

func writeHolder(f *os.File, info Holder) error {
	b, err := json.Marshal(info)
	if err != nil {
		return err
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err = f.WriteAt(append(b, '\n'), 0)
	return err
}

// held is the error for one who wants the directory for itself in this mode.
func (d *Dir) held(mode string) error {
	who, by := "another kernel uses", ""
	h, ok := d.Holder()
	if ok {
		by = fmt.Sprintf(": os process %d, version %s, mode %s, since %s", h.OSPID, h.Version, h.Mode, h.Started.Local().Format(time.DateTime))
	}
	passing := ok && (h.Mode == ModeBackup || h.Mode == ModeRestore)
	if passing {
		who = "another command uses"
	}
	e := agentkernel.Errorf(agentkernel.CodeConflict, op, "%s %s%s", who, d.path, by)
	switch {
	case passing:
		return e.WithHint("try again when that %s has ended; --home names another directory", h.Mode)
	case mode == ModeBackup:
		return e.WithHint("that kernel writes the backup itself as soon as it answers: try again; `agentkernel shutdown` ends it")
	case mode == ModeRestore:
		return e.WithHint("`agentkernel shutdown` ends it, and then: agentkernel restore FILE --force; --home names another directory")
	}
	return e.WithHint("commands without --embedded attach to it; `agentkernel shutdown` ends it; --home names another directory")
}

// SamePlace gives a function that says whether the lock file is still the one that is there now. Otherwise the directory was moved, removed
// or replaced: who holds it holds what others do not find.
func (d *Dir) SamePlace() func() bool {
	was, err := os.Stat(d.file(lockFile))
	if err != nil {
		return func() bool { return true }
	}
	return func() bool {
		is, err := os.Stat(d.file(lockFile))
		if err != nil {
			return !os.IsNotExist(err)
		}
		return os.SameFile(was, is)
	}
}

// Holder reads who holds the directory. ok is false if nobody does, as far as can be told without
// disturbing a kernel that takes the lock at this moment.
func (d *Dir) Holder() (h Holder, ok bool) {
	b, err := os.ReadFile(d.file(lockFile))
	if err != nil || json.Unmarshal(b, &h) != nil || h.OSPID <= 0 {
		return Holder{}, false
	}
	// A kernel that was killed leaves its line behind.
	if err := syscall.Kill(h.OSPID, 0); errors.Is(err, syscall.ESRCH) {
		return Holder{}, false
	}
	return h, true
}

// Held is Holder with a look at the lock itself: the number that a killed kernel has left may be another process's by now.
func (d *Dir) Held() (h Holder, ok bool) {
	if _, ok := d.Holder(); !ok {
		return Holder{}, false
	}
	f, err := os.Open(d.file(lockFile))
	if err != nil {
		return Holder{}, false
	}
	defer f.Close()
	// Shared and for a moment, so that two who look do not see one another.
	if err := flock(f, unix.LOCK_SH|unix.LOCK_NB); !errors.Is(err, syscall.EWOULDBLOCK) {
		return Holder{}, false
	}
	return d.Holder()
}

// HeldBy says whether this very process holds the directory, for those who are about to signal it: the number may be that of
// a process in another container. False where there is no /proc to see it in.
func (d *Dir) HeldBy(pid int) bool {
	lock, err := os.Stat(d.file(lockFile))
	if err != nil {
		return false
	}
	fds := filepath.Join("/proc", strconv.Itoa(pid), "fd")
	list, err := os.ReadDir(fds)
	if err != nil {
		return false
	}
	for _, fd := range list {
		name := filepath.Join(fds, fd.Name())
		if to, err := os.Readlink(name); err != nil || filepath.Base(to) != lockFile {
			continue
		}
		if open, err := os.Stat(name); err == nil && os.SameFile(lock, open) {
			h, held := d.Held() // others have the file open, too, while they wait for the lock
			return held && h.OSPID == pid
		}
	}
	return false
}

// lifeOf is what the file says of the kernel that held the lock before: when it began, and its last beat. Zero: nothing.
func lifeOf(f *os.File) (life agentkernel.KernelLife) {
	var h Holder
	b := make([]byte, 4<<10)
	n, _ := f.ReadAt(b, 0)
	info, err := f.Stat()
	if err != nil || json.Unmarshal(b[:n], &h) != nil || h.Started.IsZero() {
		return life
	}
	return agentkernel.KernelLife{Began: h.Started.UTC(), Seen: info.ModTime().UTC()}
}

// Before is the kernel that held the lock before.
func (l *Lock) Before() agentkernel.KernelLife { return l.before }

// LastLife is the kernel that holds the directory, or did last.
func (d *Dir) LastLife() agentkernel.KernelLife {
	f, err := os.Open(d.file(lockFile))
	if err != nil {
		return agentkernel.KernelLife{}
	}
	defer f.Close()
	return lifeOf(f)
}

// beatEvery is how often a kernel shows that it lives: so exactly it is known later when one died.
const beatEvery = time.Second

// Beat shows from now on in the time of the file that the kernel lives, until Unlock.
func (l *Lock) Beat() {
	l.beat, l.ended = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(l.ended)
		tick := time.NewTicker(beatEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				l.touch(time.Now())
			case <-l.beat:
				return
			}
		}
	}()
}

// touch sets the time of the file. Where it cannot be set, less is known of the death of this kernel.
func (l *Lock) touch(at time.Time) {
	t := unix.NsecToTimeval(at.UnixNano())
	_ = unix.Futimes(int(l.file.Fd()), []unix.Timeval{t, t})
}

// Unlock gives the directory free. The file stays: deleting it would let two kernels lock two files. It says when the last kernel began
// and ended, also if this lock was not a kernel's.
func (l *Lock) Unlock() error {
	life := l.before
	if l.beat != nil {
		close(l.beat)
		<-l.ended
		life = agentkernel.KernelLife{Began: l.holder.Started, Seen: time.Now()}
	}
	if life.Began.IsZero() {
		_ = l.file.Truncate(0)
	} else if err := writeHolder(l.file, Holder{Started: life.Began}); err == nil {
		l.touch(life.Seen)
	}
	return l.file.Close()
}
