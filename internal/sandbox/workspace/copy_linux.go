package workspace

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"agentkernel"
)

// File systems that cannot hold the upper part of an overlay (statfs(2), f_type).
var noUpper = map[int64]bool{
	unix.OVERLAYFS_SUPER_MAGIC: true, unix.NFS_SUPER_MAGIC: true, unix.FUSE_SUPER_MAGIC: true, unix.V9FS_MAGIC: true,
	unix.SMB_SUPER_MAGIC: true, unix.SMB2_SUPER_MAGIC: true, unix.CIFS_SUPER_MAGIC: true, unix.ECRYPTFS_SUPER_MAGIC: true,
}

// mustCopy says whether a layer in the store's directory has to be a copy of its folder.
func (s *Store) mustCopy() (bool, error) {
	if s.cfg.Copy {
		return true, nil
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(s.cfg.Dir, &fs); err != nil {
		return false, storage(os.NewSyscallError("statfs", err))
	}
	if noUpper[int64(fs.Type)] { //nolint:unconvert // its type differs between machines
		return true, nil
	}
	// Overlayfs marks directories with attributes.
	probe, err := os.MkdirTemp(s.cfg.Dir, "probe.")
	if err != nil {
		return false, storage(err)
	}
	defer func() { _ = os.Remove(probe) }()
	return unix.Setxattr(probe, opaqueAttr, []byte("y"), 0) != nil, nil
}

// copyFolder copies what a folder holds to a new directory: files, directories, and links as they are, but nothing of
// unlisted directories. Where the file system can share blocks it does. What the base has and the copy has not would be
// taken for something that the program has deleted, so it fails at a directory that cannot be looked through.
func copyFolder(root dir, to string, unlisted []string) error {
	if err := os.Mkdir(to, 0o700); err != nil {
		return storage(err)
	}
	dst, err := openRoot(to, true)
	if err != nil {
		return storage(err)
	}
	defer dst.Close()
	root.unlisted = func(p string) error {
		return unreadable("folder", root.Name(), &fs.PathError{Path: p, Err: unix.EACCES})
	}
	return root.walk(func(in dir, p string, st *unix.Stat_t) (bool, error) {
		switch typeOf(st.Mode) {
		case agentkernel.TypeDir:
			return !slices.Contains(unlisted, p+"/"), storage(os.Mkdir(path.Join(to, p), fs.FileMode(st.Mode&0o777|0o700)))
		case agentkernel.TypeSymlink:
			target, err := in.link(path.Base(p))
			if err != nil {
				return false, storage(err)
			}
			return false, storage(os.Symlink(target, path.Join(to, p)))
		case agentkernel.TypeFile:
			return false, copyFile(root, p, dst, st)
		}
		return false, nil // nobody can copy a pipe
	})
}

// copyFile copies one file with its times: they tell later whether it was changed.
func copyFile(root dir, p string, dst dir, st *unix.Stat_t) (err error) {
	src, _, err := root.file(p)
	if errors.Is(err, unix.ENOENT) {
		return nil // it has just gone
	}
	if err != nil {
		return unreadable("file", root.Name(), err)
	}
	defer src.Close()
	f, err := dst.below(p, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL)
	if err != nil {
		return storage(err)
	}
	_, err = io.Copy(f, src)
	err = errors.Join(err, unix.Fchmod(int(f.Fd()), st.Mode&0o777))
	times := []unix.Timespec{st.Atim, st.Mtim}
	err = errors.Join(err, unix.UtimesNanoAt(unix.AT_FDCWD, path.Join(dst.Name(), p), times, 0), f.Close())
	return storage(err)
}
