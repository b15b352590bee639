package workspace

import (
	"errors"
	"io"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"agentkernel"
)

// writer puts items of one plan into its folder. A file is written beside its place under a name of its own, and takes
// its place in one step. No call follows a link: directories are opened one by one, below the folder.
type writer struct {
	*plan
	temp  string
	mtime int64 // of the file that was applied last
}

// errChanged is a place that changed between the look at everything and the writing of it.
var errChanged = errors.New("it has changed at this moment")

// failed is the error of an Apply that stopped in the middle.
func (w *writer) failed(it *item, n, all int, err error) error {
	code := agentkernel.CodeStorage
	switch {
	case errors.Is(err, errChanged), errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ENOTEMPTY), errors.Is(err, unix.EXDEV):
		code = agentkernel.CodeConflict
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM), errors.Is(err, unix.EROFS):
		code = agentkernel.CodeDenied
	}
	return agentkernel.Errorf(code, op, "%s: %s cannot be written: %w; %d of %d changes are in the folder", w.f.Path, shown(it.path), err, n, all).
		WithHint("mend that and apply again: what is in place already is left alone")
}

// apply puts one item in place. why: it is not applied, for this reason.
func (w *writer) apply(it *item) (why string, err error) {
	w.mtime = 0
	parent, err := w.parentFor(it)
	if err != nil || parent.File == nil {
		return "", err
	}
	defer parent.Close()
	name := path.Base(it.path)
	st, err := parent.stat(name)
	if err != nil {
		return "", err
	}
	if !w.force && w.differs(it, st) != "" {
		return "", errChanged
	}
	if it.kind == agentkernel.FileDeleted {
		return "", w.remove(parent, name, st)
	}
	if st != nil && w.inPlace(it, st) {
		w.mtime = st.Mtim.Nano()
		return "", nil
	}
	if err := w.clear(parent, name, it, st); err != nil {
		return "", err
	}
	switch it.typ {
	case agentkernel.TypeDir:
		return "", w.mkdir(parent, name, it)
	case agentkernel.TypeSymlink:
		return w.link(parent, name, it)
	}
	return "", w.file(parent, name, it, st)
}

// parentFor opens the directory for an item, and makes it where that was forced. No directory: there is nothing to
// remove.
func (w *writer) parentFor(it *item) (dir, error) {
	parent, _, err := w.root.parent(it.path)
	if err == nil {
		return parent, nil
	}
	if it.kind == agentkernel.FileDeleted && (errors.Is(err, unix.ENOENT) || w.force) {
		return dir{}, nil
	}
	if !w.force {
		return dir{}, err
	}
	if err := w.mkdirs(path.Dir(it.path)); err != nil {
		return dir{}, err
	}
	parent, _, err = w.root.parent(it.path)
	return parent, err
}

// mkdirs makes p and what is missing above it; what is no directory makes room.
func (w *writer) mkdirs(p string) error {
	if p == "." {
		return nil
	}
	if err := w.mkdirs(path.Dir(p)); err != nil {
		return err
	}
	parent, name, err := w.root.parent(p)
	if err != nil {
		return err
	}
	defer parent.Close()
	st, err := parent.stat(name)
	if err != nil || st != nil && typeOf(st.Mode) == agentkernel.TypeDir {
		return err
	}
	if st != nil {
		if err := unix.Unlinkat(parent.fd(), name, 0); err != nil {
			return err
		}
	}
	return w.mkdir(parent, name, &item{path: p, typ: agentkernel.TypeDir, mode: 0o755})
}

// remove takes away what is there. A directory into which somebody has put something stays, where that was forced.
func (w *writer) remove(parent dir, name string, st *unix.Stat_t) error {
	if st == nil {
		return nil
	}
	if typeOf(st.Mode) != agentkernel.TypeDir {
		return unix.Unlinkat(parent.fd(), name, 0)
	}
	err := unix.Unlinkat(parent.fd(), name, unix.AT_REMOVEDIR)
	if w.force && errors.Is(err, unix.ENOTEMPTY) {
		return nil
	}
	return err
}

// clear makes room for an item of another type.
func (w *writer) clear(parent dir, name string, it *item, st *unix.Stat_t) error {
	isDir := st != nil && typeOf(st.Mode) == agentkernel.TypeDir
	switch {
	case isDir && it.typ != agentkernel.TypeDir:
		return unix.Unlinkat(parent.fd(), name, unix.AT_REMOVEDIR)
	case st != nil && !isDir && it.typ == agentkernel.TypeDir:
		return unix.Unlinkat(parent.fd(), name, 0)
	}
	return nil
}

func (w *writer) mkdir(parent dir, name string, it *item) error {
	if err := unix.Mkdirat(parent.fd(), name, 0o700); err != nil {
		return err
	}
	d, err := parent.below(name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer d.Close()
	return dress(d, parent, nil, permissions(it.mode, nil, agentkernel.TypeDir))
}

// link makes a symbolic link if, as things are now, it leads nowhere outside.
func (w *writer) link(parent dir, name string, it *item) (why string, err error) {
	if err := unix.Symlinkat(it.target, parent.fd(), w.temp); errors.Is(err, unix.EEXIST) {
		if err := unix.Unlinkat(parent.fd(), w.temp, 0); err != nil { // an Apply that was cut off
			return "", err
		}
		err = unix.Symlinkat(it.target, parent.fd(), w.temp)
		if err != nil {
			return "", err
		}
	} else if err != nil {
		return "", err
	}
	drop := func() { _ = unix.Unlinkat(parent.fd(), w.temp, 0) }
	fd, err := retry(func() (int, error) {
		return unix.Openat2(w.root.fd(), path.Join(path.Dir(it.path), w.temp), &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC,
			Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS})
	})
	if err == nil {
		_ = unix.Close(fd)
	} else if !errors.Is(err, unix.ENOENT) { // a link to nothing is one
		drop()
		return "a symbolic link that leaves the folder", nil
	}
	if err := unix.Renameat(parent.fd(), w.temp, parent.fd(), name); err != nil {
		drop()
		return "", err
	}
	return "", nil
}

// file copies a file beside its place and moves it there.
func (w *writer) file(parent dir, name string, it *item, st *unix.Stat_t) (err error) {
	src, _, err := w.top.file(it.path)
	if err != nil {
		return err
	}
	defer src.Close()
	f, err := w.create(parent)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = unix.Unlinkat(parent.fd(), w.temp, 0)
		}
	}()
	_, err = io.Copy(f, src) // the system copies: nothing passes through our memory
	if err == nil {
		err = dress(f, parent, st, permissions(it.mode, it.before, agentkernel.TypeFile))
	}
	var now unix.Stat_t
	if err == nil {
		err = unix.Fstat(int(f.Fd()), &now)
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	w.mtime = now.Mtim.Nano()
	return unix.Renameat(parent.fd(), w.temp, parent.fd(), name)
}

// create makes the file beside its place; one that an earlier Apply has left goes.
func (w *writer) create(parent dir) (*os.File, error) {
	for again := false; ; again = true {
		fd, err := unix.Openat(parent.fd(), w.temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		if err == nil {
			return os.NewFile(uintptr(fd), w.temp), nil
		}
		if again || !errors.Is(err, unix.EEXIST) {
			return nil, err
		}
		if err := unix.Unlinkat(parent.fd(), w.temp, 0); err != nil {
			return nil, err
		}
	}
}

// dress gives a new file owner and permissions: the owner of what it replaces (was), else that of its directory, as far
// as we may choose.
func dress(f *os.File, parent dir, was *unix.Stat_t, perm uint32) error {
	if os.Geteuid() == 0 {
		var uid, gid uint32
		if was != nil {
			uid, gid = was.Uid, was.Gid
		} else {
			var st unix.Stat_t
			if err := unix.Fstat(parent.fd(), &st); err != nil {
				return err
			}
			uid, gid = st.Uid, st.Gid
		}
		if err := unix.Fchown(int(f.Fd()), int(uid), int(gid)); err != nil {
			return err
		}
	}
	return unix.Fchmod(int(f.Fd()), perm)
}

// permissions are those that a file gets in the folder: never setuid, setgid or sticky, writable for others only where
// the file was before, and never shut against its owner.
func permissions(mode uint32, before *mark, t agentkernel.FileType) uint32 {
	wide := uint32(0)
	if before != nil && typeOf(before.mode) == t {
		wide = before.mode & 0o022
	}
	perm := mode & 0o777 &^ (0o022 &^ wide)
	if t == agentkernel.TypeDir {
		return perm | 0o700
	}
	return perm | 0o600
}
