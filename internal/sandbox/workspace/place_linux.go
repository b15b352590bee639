package workspace

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"agentkernel"
)

// writer puts the changes of one layer into its folder. No call follows a link: directories are opened one by one, below
// the folder.
type writer struct {
	*layer
	h      *home
	f      *folder
	items  []item
	force  bool
	temp   string            // how the names begin of what is not in its place yet
	trees  map[string]string // new directories, and where they are until they are put in place
	staged []staged
	step   func(string) // Store.step
}

// staged is one change that is ready to be put in place.
type staged struct {
	item *item
	temp string // its name beside its place; "": nothing is to be moved there
	mark mark   // what stat(2) says of it
}

// mtime is that of a file; of all else 0.
func (s *staged) mtime() int64 {
	if typeOf(s.mark.mode) != agentkernel.TypeFile {
		return 0
	}
	return s.mark.mtime
}

func newWriter(a *applying, l *layer, f *folder) *writer {
	return &writer{layer: l, h: a.h, f: f, force: a.o.Force, temp: a.h.temp(), trees: map[string]string{}, step: a.s.step}
}

// errChanged is a place that changed between the look at everything and the writing of it.
var errChanged = errors.New("it has changed at this moment")

// failed is the error of an Apply that stopped at an item.
func (w *writer) failed(it *item, progress string, err error) error {
	code := agentkernel.CodeStorage
	switch {
	case errors.Is(err, errChanged), errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ENOTEMPTY), errors.Is(err, unix.EEXIST),
		errors.Is(err, unix.EXDEV), errors.Is(err, unix.ENOENT):
		code = agentkernel.CodeConflict
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM), errors.Is(err, unix.EROFS):
		code = agentkernel.CodeDenied
	}
	return agentkernel.Errorf(code, op, "%s: %s cannot be written: %w; %s", w.f.Path, agentkernel.PathText(it.path), err, progress).
		WithHint("fix that and apply again")
}

func (w *writer) progress(n int) string {
	return fmt.Sprintf("%d of %d changes are in the folder", n, len(w.staged))
}

// stage makes one item ready. What lies in a new directory is made in it, and comes with it.
func (w *writer) stage(it *item) error {
	s := staged{item: it}
	dirPath, within := w.trees[path.Dir(it.path)]
	if !within {
		dirPath = path.Dir(it.path)
	}
	f, err := w.root.below(dirPath, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil && it.kind == agentkernel.FileDeleted && (errors.Is(err, unix.ENOENT) || w.force || w.finishing) {
		w.staged = append(w.staged, s)
		return nil // it has gone with its directory
	}
	if err != nil {
		return err
	}
	parent := dir{File: f}
	defer parent.Close()
	name := path.Base(it.path)
	if !within {
		st, err := parent.stat(name)
		if err != nil {
			return err
		}
		if !w.force && w.differs(it, st) != "" {
			return errChanged
		}
		if it.kind == agentkernel.FileDeleted {
			w.staged = append(w.staged, s)
			return parent.writable()
		}
		if st != nil && w.inPlace(it, st) {
			w.staged = append(w.staged, s)
			return nil
		}
		s.temp = fmt.Sprintf("%s-%d.tmp", w.temp, len(w.staged))
		name = s.temp
	}
	if err := w.put(parent, dirPath, name, it); err != nil {
		return err
	}
	st, err := parent.stat(name)
	if err != nil || st == nil {
		return errors.Join(err, errChanged)
	}
	s.mark = markOf(st)
	w.staged = append(w.staged, s)
	return nil
}

// put makes what an item is under a name.
func (w *writer) put(parent dir, parentPath, name string, it *item) error {
	switch it.typ {
	case agentkernel.TypeDir:
		w.trees[it.path] = path.Join(parentPath, name)
		return w.mkdir(parent, name, it)
	case agentkernel.TypeSymlink:
		return w.link(parent, path.Join(parentPath, name), it)
	}
	return w.file(parent, name, it)
}

// writable says whether names in a directory may be changed.
func (d dir) writable() error { return d.may(unix.W_OK | unix.X_OK) }

// may says whether the kernel has these rights in a directory.
func (d dir) may(rights uint32) error { return unix.Faccessat(d.fd(), ".", rights, unix.AT_EACCESS) }

// commit puts one item in place.
func (w *writer) commit(s *staged) error {
	it := s.item
	if _, within := w.trees[path.Dir(it.path)]; within {
		return nil
	}
	parent, name, err := w.root.parent(it.path)
	if err != nil && it.kind == agentkernel.FileDeleted && (errors.Is(err, unix.ENOENT) || w.force || w.finishing) {
		return nil
	}
	if err != nil {
		return err
	}
	defer parent.Close()
	st, err := parent.stat(name)
	if err != nil {
		return err
	}
	if !w.force && w.differs(it, st) != "" {
		return errChanged
	}
	if it.kind == agentkernel.FileDeleted {
		return w.remove(parent, name, st)
	}
	if s.temp != "" {
		if err := w.move(parent, s.temp, name, it, st); err != nil {
			return err
		}
	}
	if st, err = parent.stat(name); err != nil || st == nil {
		return errors.Join(err, errChanged)
	}
	s.mark = markOf(st)
	return nil
}

// move renames what is ready to its name. What is there of another type makes room; a directory replaces nothing.
func (w *writer) move(parent dir, temp, name string, it *item, st *unix.Stat_t) error {
	isDir := st != nil && typeOf(st.Mode) == agentkernel.TypeDir
	switch {
	case isDir && it.typ != agentkernel.TypeDir:
		if err := unix.Unlinkat(parent.fd(), name, unix.AT_REMOVEDIR); err != nil {
			return err
		}
	case st != nil && !isDir && it.typ == agentkernel.TypeDir:
		if err := unix.Unlinkat(parent.fd(), name, 0); err != nil {
			return err
		}
	}
	if st != nil && typeOf(st.Mode) != it.typ {
		w.step("commit") // there is nothing at this place now
	}
	return unix.Renameat(parent.fd(), temp, parent.fd(), name)
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

// link makes a symbolic link at p, which is as deep in the folder as its place. What choose has found is true as long as
// the folder is what it was then: so the system is asked once more.
func (w *writer) link(parent dir, p string, it *item) error {
	if err := unix.Symlinkat(it.target, parent.fd(), path.Base(p)); err != nil {
		return err
	}
	fd, err := retry(func() (int, error) {
		return unix.Openat2(w.root.fd(), p, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS})
	})
	switch {
	case err == nil:
		_ = unix.Close(fd)
	case errors.Is(err, unix.EXDEV), errors.Is(err, unix.EAGAIN):
		return errChanged
	}
	return nil
}

// file copies a file of the layer.
func (w *writer) file(parent dir, name string, it *item) error {
	src, _, err := w.top.file(it.path)
	if err != nil {
		return err
	}
	defer src.Close()
	fd, err := unix.Openat(parent.fd(), name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	_, err = io.Copy(f, src) // the system copies: nothing passes through our memory
	if err == nil {
		var was *unix.Stat_t
		if was, err = w.root.look(it.path); err == nil {
			err = dress(f, parent, was, permissions(it.mode, it.before, agentkernel.TypeFile))
		}
	}
	return errors.Join(err, f.Close())
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
