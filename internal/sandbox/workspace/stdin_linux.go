package workspace

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"agentkernel"
	"agentkernel/internal/mounts"
)

// stdinFile is the copy of what a process reads as its standard input.
const stdinFile = "stdin"

// input is what stat(2) says of that copy. A program that runs as the kernel's user could change the mode of the file
// that it has open, and then its bytes; it cannot undo the change of ctime.
type input struct {
	Size  int64  `json:"size"`
	Ino   uint64 `json:"ino"`
	Ctime int64  `json:"ctime"`
}

// keepStdin copies the standard input of a process that is about to be created, durably. The system copies from file to
// file, or shares the blocks: the bytes do not pass through this program.
func (s *Store) keepStdin(h *home, spec *agentkernel.Spec) (err error) {
	if spec.Stdin == "" {
		return nil
	}
	from := spec.Stdin
	if spec.Past != nil {
		if from, err = s.Stdin(spec.Past.PID); err != nil {
			return err
		}
	}
	// A pipe or a device that nobody feeds would keep the kernel here.
	src, err := os.OpenFile(from, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return noStdin(spec.Stdin, err)
	}
	defer src.Close()
	info, err := src.Stat()
	switch limit := spec.Limits.WithDefaults(agentkernel.DefaultLimits()).Disk; {
	case err != nil:
		return noStdin(spec.Stdin, err)
	case !info.Mode().IsRegular():
		return invalid("the standard input %s is not a file", spec.Stdin).WithHint("name a file; `--stdin -` reads a pipe to its end")
	case info.Size() > limit:
		return agentkernel.LimitErrorf("disk", "the standard input has %d bytes; the limit is %d", info.Size(), limit).
			WithHint("--disk SIZE allows more")
	}
	if spec.Past == nil {
		if err := s.foreign(src, info, spec.Stdin); err != nil {
			return err
		}
	}
	dst, err := os.OpenFile(h.path(stdinFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o400)
	if err != nil {
		return storage(err)
	}
	n, err := io.Copy(dst, io.LimitReader(src, info.Size()))
	if err == nil && n != info.Size() {
		err = io.ErrUnexpectedEOF
	}
	if err = errors.Join(err, dst.Sync(), dst.Close()); err != nil {
		return storage(err)
	}
	st, err := h.stat(stdinFile)
	if err != nil || st == nil {
		return storage(errors.Join(err, unix.ENOENT))
	}
	h.rec.Stdin = &input{Size: st.Size, Ino: st.Ino, Ctime: st.Ctim.Nano()}
	return nil
}

// Spool begins the names of files without a place in which a command gathers what comes through a pipe. They are made in
// the data directory, where there is room and nobody else looks, and unlinked before anything is written.
const Spool = ".stdin-"

// foreign refuses a file of the data directory, by whatever name it was opened: a program is shown its input, and no
// program is shown database, key or the input of another.
func (s *Store) foreign(f *os.File, info fs.FileInfo, name string) error {
	own, err := filepath.EvalSymlinks(s.cfg.Apart)
	if err != nil {
		return storage(err)
	}
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
	if err != nil {
		return storage(err)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Nlink == 0 && filepath.Dir(path) == own && strings.HasPrefix(filepath.Base(path), Spool) {
		return nil
	}
	table, err := mounts.Read()
	if err != nil {
		return storage(err)
	}
	inside, _ := table.Overlap(path, own)
	inside = inside || strings.HasPrefix(path, own+"/")
	entries, err := os.ReadDir(own)
	if err != nil {
		return storage(err)
	}
	for _, e := range entries { // a hard link has another path
		if other, err := e.Info(); err == nil && os.SameFile(info, other) {
			inside = true
		}
	}
	if inside {
		return invalid("the standard input %s lies in the kernel's data directory %s", name, own).WithHint("choose another file")
	}
	return nil
}

func noStdin(name string, err error) error {
	if pe, ok := errors.AsType[*os.PathError](err); ok {
		err = pe.Err
	}
	code := agentkernel.CodeDenied
	if errors.Is(err, unix.ENOENT) {
		code = agentkernel.CodeNotFound
	}
	return agentkernel.Errorf(code, op, "the standard input %s cannot be read: %w", name, err)
}

// Stdin is the path of what a process reads as its standard input. CodeConflict: it is not what it was any more.
func (s *Store) Stdin(pid agentkernel.PID) (string, error) {
	gone := agentkernel.Errorf(agentkernel.CodeNotFound, op, "the standard input of process %d is not in this data directory any more", pid).
		WithPID(pid).WithHint("backups and recordings leave it out; run the program again with its input")
	h, err := s.open(pid)
	if agentkernel.CodeOf(err) == agentkernel.CodeInvalid {
		return "", gone
	}
	if err != nil {
		return "", err
	}
	defer h.Close()
	st, err := h.stat(stdinFile)
	switch {
	case err != nil:
		return "", storage(err)
	case st == nil || h.rec.Stdin == nil:
		return "", gone
	case *h.rec.Stdin != input{Size: st.Size, Ino: st.Ino, Ctime: st.Ctim.Nano()}:
		return "", conflict("the standard input of process %d was changed since the process was created", pid).WithPID(pid)
	}
	return h.path(stdinFile), nil
}
