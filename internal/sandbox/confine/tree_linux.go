package confine

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"agentkernel"
)

// openTree makes the detached mount that t describes. The path is walked once, no part of it may be a symbolic
// link, and what was found there is what is mounted.
func (s *server) openTree(t Tree) (int, error) {
	at, err := unix.Openat2(unix.AT_FDCWD, t.Source, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS})
	if err != nil {
		if errors.Is(err, unix.ELOOP) {
			return -1, invalid("%s has become a symbolic link", t.Source)
		}
		return -1, missing("sandbox", t.Source, err)
	}
	defer func() { _ = unix.Close(at) }()
	fd, err := unix.OpenTree(at, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE)
	if err != nil {
		return -1, agentkernel.Errorf(agentkernel.CodeUnavailable, op, "%s cannot be mounted in a sandbox: open_tree: %w", t.Source, err).
			WithHint("root without the capability CAP_SYS_ADMIN, as in most containers, cannot: run the kernel as an ordinary user")
	}
	if err := s.dress(fd, t); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// dress puts flags and owner on a tree.
func (s *server) dress(fd int, t Tree) error {
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID}
	if t.ReadOnly {
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	if t.NoExec {
		attr.Attr_set |= unix.MOUNT_ATTR_NOEXEC
	}
	if !t.Device {
		attr.Attr_set |= unix.MOUNT_ATTR_NODEV
	}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
		return agentkernel.Errorf(agentkernel.CodeUnavailable, op, "%s cannot be mounted in a sandbox: mount_setattr: %w", t.Source, err)
	}
	if t.Owner == nil {
		return nil
	}
	ns, err := s.translation(*t.Owner)
	if err != nil {
		return err
	}
	attr = unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(ns)} //nolint:gosec // a descriptor
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		return agentkernel.Errorf(agentkernel.CodeUnavailable, op, "%s: its file system cannot show files under another owner, "+
			"which a sandbox of user root needs: mount_setattr: %w", t.Source, err).
			WithHint("run the kernel as an ordinary user, or use a directory on ext4, xfs or btrfs")
	}
	return nil
}

// maxTranslations bounds the user namespaces that are kept for owners.
const maxTranslations = 256

// translation is a user namespace with just this translation, for idmapped mounts. Nothing runs in it.
func (s *server) translation(o Owner) (int, error) {
	if fd, ok := s.owners[o]; ok {
		return fd, nil
	}
	if len(s.owners) >= maxTranslations {
		for old, fd := range s.owners {
			_ = unix.Close(fd)
			delete(s.owners, old)
		}
	}
	fd, err := s.emptyNamespace(&Maps{UID: []IDMap{{o.HostUID, o.ShownUID, 1}}, GID: []IDMap{{o.HostGID, o.ShownGID, 1}}})
	if err != nil {
		return -1, agentkernel.Errorf(agentkernel.CodeUnavailable, op, "no user namespace for files of user %d: %w", o.HostUID, err)
	}
	s.owners[o] = fd
	return fd, nil
}

// emptyNamespace makes a user namespace by way of a child that waits, and is never let go.
func (s *server) emptyNamespace(maps *Maps) (int, error) {
	var wait [2]int
	if err := unix.Pipe2(wait[:], unix.O_CLOEXEC); err != nil {
		return -1, err
	}
	defer func() { _ = unix.Close(wait[1]) }() // the child reads the end of file and exits
	l := &launch{flags: unix.CLONE_NEWUSER, sync: uintptr(wait[0]), gaps: gaps(descriptors{sync: wait[0]})}
	l.report = l.sync
	pid, errno := l.fork()
	_ = unix.Close(wait[0])
	if errno != 0 {
		return -1, errno
	}
	if err := maps.write(pid); err != nil {
		return -1, err
	}
	fd, err := unix.Open(fmt.Sprintf("/proc/%d/ns/user", pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	return fd, ofProcess(err)
}

// write writes the maps of process pid, which was just made in a new user namespace.
func (m *Maps) write(pid int) error {
	dir := fmt.Sprintf("/proc/%d/", pid)
	if err := os.WriteFile(dir+"uid_map", idMaps(m.UID), 0); err != nil {
		return ofProcess(err)
	}
	if m.DenySetgroups {
		if err := os.WriteFile(dir+"setgroups", []byte("deny"), 0); err != nil {
			return ofProcess(err)
		}
	}
	return ofProcess(os.WriteFile(dir+"gid_map", idMaps(m.GID), 0))
}

// ofProcess is unborn for the error of a file of a process: one that is not there means that the process has gone.
func ofProcess(err error) error {
	if errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("%w: %w", errUnborn, err)
	}
	return unborn(err)
}

func idMaps(list []IDMap) []byte {
	var b []byte
	for _, m := range list {
		b = fmt.Appendf(b, "%d %d %d\n", m.Inside, m.Outside, m.Count)
	}
	return b
}
