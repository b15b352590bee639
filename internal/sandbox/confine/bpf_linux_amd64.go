package confine

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_X86_64

// legacyCalls are the calls that only this architecture has, and a program may make. Numbers of the x32 ABI
// are beyond newestCall: ENOSYS.
var legacyCalls = []uint32{
	unix.SYS_ACCESS, unix.SYS_ALARM, unix.SYS_ARCH_PRCTL, unix.SYS_CHOWN, unix.SYS_DUP2, unix.SYS_EPOLL_CREATE,
	unix.SYS_EPOLL_WAIT, unix.SYS_EVENTFD, unix.SYS_FORK, unix.SYS_FUTIMESAT, unix.SYS_GETDENTS, unix.SYS_GETPGRP,
	unix.SYS_LCHOWN, unix.SYS_LINK, unix.SYS_LSTAT, unix.SYS_PAUSE, unix.SYS_PIPE,
	unix.SYS_POLL, unix.SYS_READLINK, unix.SYS_RENAME, unix.SYS_RMDIR, unix.SYS_SELECT, unix.SYS_SIGNALFD,
	unix.SYS_STAT, unix.SYS_SYMLINK, unix.SYS_TIME, unix.SYS_UNLINK, unix.SYS_UTIME, unix.SYS_UTIMES, unix.SYS_VFORK,
}

// bareLegacy are those that the loader and the library of a bare program make.
var bareLegacy = []uint32{unix.SYS_ACCESS, unix.SYS_ARCH_PRCTL, unix.SYS_POLL, unix.SYS_READLINK, unix.SYS_STAT, unix.SYS_TIME}

// legacyChecks are those of them whose arguments matter.
func legacyChecks() map[uint32]check {
	return map[uint32]check{
		unix.SYS_OPEN:  openCheck(1, 2),
		unix.SYS_CREAT: modeCheck(1),
		unix.SYS_MKDIR: modeCheck(1),
		unix.SYS_CHMOD: modeCheck(1),
		unix.SYS_MKNOD: nodeCheck(1),
	}
}
