package workspace

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"agentkernel"
)

// dir is an open directory.
type dir struct {
	*os.File
	// ours says that it is of a layer, whose directories and files are opened whatever bits the program gave them.
	ours bool
	// mounts says that what is mounted below it counts as its own.
	mounts bool
	// unlisted is told of each directory that a walk cannot look into, though others may be able to, or may soon: one of
	// which the walker has no right to list the names, or to look at what has them. nil: it is passed over.
	unlisted func(p string) error
	// shut is a mode that it gets back when it is closed: it was opened up to be looked at.
	shut *uint32
}

// Close closes the directory and leaves it as it was found.
func (d dir) Close() error {
	if d.shut != nil {
		_ = unix.Fchmod(d.fd(), *d.shut) // it may have gone
	}
	return d.File.Close()
}

func (d dir) fd() int { return int(d.Fd()) }

// openRoot opens a directory of the host. No part of the path may be a symbolic link.
func openRoot(p string, ours bool) (dir, error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, p, &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS})
	if err != nil {
		return dir{}, &os.PathError{Op: "open", Path: p, Err: err}
	}
	return dir{File: os.NewFile(uintptr(fd), p), ours: ours}, nil
}

// How a path below a directory is opened: every part of it below that directory, on its file system, and no link.
const beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV

// below opens a path below d, "." for d itself. In a layer it gets through directories that are shut.
func (d dir) below(p string, flags uint64) (*os.File, error) {
	f, err := d.open(p, flags)
	switch {
	case !errors.Is(err, unix.EACCES):
		return f, err
	case !d.ours:
		return nil, &os.PathError{Op: "open", Path: d.refuses(p), Err: unix.EACCES}
	}
	if err := d.unlockAbove(p); err != nil {
		return nil, err
	}
	return d.open(p, flags)
}

// refuses is the directory, or file, because of whose rights p cannot be opened: p itself, or the first on the way to it
// that lets nobody through.
func (d dir) refuses(p string) string {
	for i := range p {
		if p[i] != '/' {
			continue
		}
		at, err := d.open(p[:i], unix.O_PATH)
		if errors.Is(err, unix.EACCES) {
			return path.Dir(p[:i])
		}
		if err == nil {
			_ = at.Close()
		}
	}
	if at, err := d.open(p, unix.O_PATH); err == nil {
		_ = at.Close()
		return p
	}
	return path.Dir(p)
}

func (d dir) open(p string, flags uint64) (*os.File, error) {
	if len(p) >= unix.PathMax { // what the system takes no path to has one from further down
		if i := strings.LastIndexByte(p[:unix.PathMax], '/'); i > 0 {
			at, err := d.open(p[:i], unix.O_PATH|unix.O_DIRECTORY)
			if err != nil {
				return nil, err
			}
			defer at.Close()
			return d.as(at).open(p[i+1:], flags)
		}
	}
	resolve := uint64(beneath)
	if d.mounts {
		resolve &^= unix.RESOLVE_NO_XDEV
	}
	fd, err := retry(func() (int, error) {
		return unix.Openat2(d.fd(), p, &unix.OpenHow{Flags: flags | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: resolve})
	})
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: p, Err: err}
	}
	return os.NewFile(uintptr(fd), p), nil
}

// retry does again what openat2 gave up because a directory was moved at the same moment, but not for ever.
func retry(open func() (int, error)) (fd int, err error) {
	for range 100 {
		if fd, err = open(); !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
	return fd, err
}

// parent opens the directory in which p lies, and gives p's last name.
func (d dir) parent(p string) (dir, string, error) { return d.above(p, unix.O_RDONLY) }

// named is parent for those who only look at the name: outside of layers, nobody needs to be able to list the directory.
func (d dir) named(p string) (dir, string, error) {
	if d.ours {
		return d.parent(p)
	}
	return d.above(p, unix.O_PATH)
}

func (d dir) above(p string, flags uint64) (dir, string, error) {
	f, err := d.below(path.Dir(p), flags|unix.O_DIRECTORY)
	return d.as(f), path.Base(p), err
}

// as is a directory below d, or d anew, that is looked at as d is.
func (d dir) as(f *os.File) dir {
	d.File, d.shut = f, nil
	return d
}

// stat looks at one name in d and follows no link; nil: there is none.
func (d dir) stat(name string) (*unix.Stat_t, error) {
	var st unix.Stat_t
	err := unix.Fstatat(d.fd(), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil, nil
	case errors.Is(err, unix.EACCES): // it is the directory that refuses
		return nil, &os.PathError{Op: "search", Path: d.Name(), Err: err}
	case err != nil:
		return nil, &os.PathError{Op: "stat", Path: name, Err: err}
	}
	return &st, nil
}

// look is stat for a path below d; nil also where a part of the path is missing or no directory.
func (d dir) look(p string) (*unix.Stat_t, error) {
	parent, name, err := d.named(p)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EXDEV) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer parent.Close()
	return parent.stat(name)
}

// subdir opens the directory name in d, also one of a layer that its owner has shut against himself: until it is
// closed it is open to him.
func (d dir) subdir(name string) (dir, error) {
	f, err := d.open(name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err == nil || !d.ours || !errors.Is(err, unix.EACCES) {
		return searchable(d.as(f), err)
	}
	at, err := d.open(name, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return dir{}, err
	}
	defer at.Close()
	mode, err := unlock(at, 0o700)
	if err != nil {
		return dir{}, err
	}
	f, err = d.open(name, unix.O_RDONLY|unix.O_DIRECTORY)
	sub := d.as(f)
	sub.shut = &mode
	return sub, err
}

// searchable opens up a directory of a layer that can be read but whose names cannot be looked at; of others it says so.
func searchable(sub dir, err error) (dir, error) {
	if err != nil || os.Geteuid() == 0 {
		return sub, err
	}
	if !sub.ours {
		if err := sub.may(unix.X_OK); err != nil {
			return dir{}, errors.Join(err, sub.File.Close())
		}
		return sub, nil
	}
	var st unix.Stat_t
	if err := unix.Fstat(sub.fd(), &st); err != nil {
		return sub, errors.Join(os.NewSyscallError("fstat", err), sub.File.Close())
	}
	if st.Mode&0o100 != 0 {
		return sub, nil
	}
	mode := st.Mode & 0o7777
	sub.shut = &mode
	return sub, os.NewSyscallError("fchmod", unix.Fchmod(sub.fd(), mode|0o700))
}

// unlock gives the owner of what at, an O_PATH descriptor, stands for these bits, and gives the mode from before.
func unlock(at *os.File, bits uint32) (mode uint32, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(at.Fd()), &st); err != nil {
		return 0, os.NewSyscallError("fstat", err)
	}
	mode = st.Mode & 0o7777
	return mode, os.NewSyscallError("chmod", unix.Chmod(itself(at), mode|bits))
}

func itself(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }

// unlockAbove opens up the directories on the way to p for good. It is for layers of processes that have ended.
func (d dir) unlockAbove(p string) error {
	for i, c := range p {
		if c != '/' {
			continue
		}
		at, err := d.open(p[:i], unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			return err
		}
		_, err = unlock(at, 0o700)
		_ = at.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// file opens the regular file p below d for reading, also one that its owner may not read.
func (d dir) file(p string) (*os.File, *unix.Stat_t, error) {
	f, err := d.below(p, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if d.ours && errors.Is(err, unix.EACCES) {
		f, err = d.unreadable(p)
	}
	if err != nil {
		return nil, nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, nil, errors.Join(os.NewSyscallError("fstat", err), f.Close())
	}
	if typeOf(st.Mode) != agentkernel.TypeFile {
		_ = f.Close()
		return nil, nil, invalid("%s is not a file", agentkernel.PathText(p))
	}
	return f, &st, nil
}

// unreadable opens a file that its owner may not read; its mode is as before afterwards.
func (d dir) unreadable(p string) (*os.File, error) {
	at, err := d.below(p, unix.O_PATH)
	if err != nil {
		return nil, err
	}
	defer at.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(at.Fd()), &st); err != nil || typeOf(st.Mode) != agentkernel.TypeFile {
		return nil, errors.Join(err, unix.EACCES)
	}
	mode, err := unlock(at, 0o400)
	if err != nil {
		return nil, err
	}
	fd, err := unix.Open(itself(at), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err := errors.Join(err, unix.Chmod(itself(at), mode)); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), p), nil
}

// link reads the symbolic link name in d.
func (d dir) link(name string) (string, error) {
	b := make([]byte, unix.PathMax+1)
	n, err := unix.Readlinkat(d.fd(), name, b)
	if err != nil {
		return "", &os.PathError{Op: "readlink", Path: name, Err: err}
	}
	return string(b[:n]), nil
}

// visitor is told of each name below a directory, the directory before what is in it. into says whether to go on in a directory.
type visitor func(in dir, p string, st *unix.Stat_t) (into bool, err error)

var errTooDeep = fmt.Errorf("directories are nested deeper than %d", maxDepth)

// walk visits everything below d. What vanishes meanwhile is passed over.
func (d dir) walk(visit visitor) error { return d.walkFrom("", 0, visit) }

const namesAtOnce = 512

func (d dir) walkFrom(at string, depth int, visit visitor) error {
	if depth > maxDepth {
		return errTooDeep
	}
	for {
		names, err := d.Readdirnames(namesAtOnce)
		for _, name := range names {
			st, err := d.stat(name)
			if errors.Is(err, unix.EACCES) {
				return &os.PathError{Op: "search", Path: at, Err: unix.EACCES}
			}
			if err != nil {
				return err
			}
			if st == nil {
				continue
			}
			p := path.Join(at, name)
			into, err := visit(d, p, st)
			if err != nil {
				return err
			}
			if !into || typeOf(st.Mode) != agentkernel.TypeDir {
				continue
			}
			if err := d.descend(name, p, depth, visit); err != nil {
				return err
			}
		}
		if len(names) == 0 {
			if err == nil || errors.Is(err, io.EOF) || errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}
	}
}

func (d dir) descend(name, p string, depth int, visit visitor) error {
	return d.into(name, p, func(sub dir) error { return sub.walkFrom(p, depth+1, visit) })
}

// into does something in the directory name in d, of the path p, if it can be looked into.
func (d dir) into(name, p string, do func(dir) error) error {
	sub, err := d.subdir(name)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP): // it has gone, or is something else by now
		return nil
	case errors.Is(err, unix.EXDEV): // another file system, which programs do not see either
		return nil
	case d.unlisted != nil && (errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM)):
		return d.unlisted(p)
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return nil
	case err != nil:
		return err
	}
	defer sub.Close()
	return do(sub)
}

func typeOf(mode uint32) agentkernel.FileType {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return agentkernel.TypeFile
	case unix.S_IFDIR:
		return agentkernel.TypeDir
	case unix.S_IFLNK:
		return agentkernel.TypeSymlink
	}
	return agentkernel.TypeOther
}
