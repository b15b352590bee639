package confine

import (
	"maps"

	"golang.org/x/sys/unix"
)

const (
	newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
		unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET
	setID        = unix.S_ISUID | unix.S_ISGID
	prSetVMA     = unix.PR_SET_VMA
	queryPersona = 0xffffffff
)

// checks are the calls whose arguments decide. counted says that a cgroup counts the memory.
func checks(counted bool) map[uint32]check {
	m := map[uint32]check{
		// Threads share their descriptors and their directory, so that what a process holds can be seen at one place.
		unix.SYS_CLONE: both(without(0, newNamespaces, unix.EPERM),
			noneOf(0, unix.CLONE_THREAD|unix.CLONE_FILES|unix.CLONE_FS, unix.EPERM,
				unix.CLONE_THREAD, unix.CLONE_THREAD|unix.CLONE_FILES, unix.CLONE_THREAD|unix.CLONE_FS)),
		unix.SYS_CLOSE_RANGE: without(2, unix.CLOSE_RANGE_UNSHARE, unix.EPERM),
		// A pair of streams only: datagram sockets can send to any address, also to sockets outside that
		// are in the file system.
		unix.SYS_SOCKETPAIR: both(oneOf(0, anyBit, unix.EPERM, unix.AF_UNIX),
			oneOf(1, 0xf, unix.EPERM, unix.SOCK_STREAM, unix.SOCK_SEQPACKET)),
		unix.SYS_SETSOCKOPT: optionCheck(counted),
		// No terminal is there: what asks for one hears the same as without a filter.
		unix.SYS_IOCTL: oneOf(1, anyBit, unix.ENOTTY, ioctls...),
		unix.SYS_FCNTL: fcntlCheck(counted),
		unix.SYS_MMAP:  mapCheck(counted),
		// Files get room as they are written: to promise gigabytes takes no time, and could fill a disk between two looks.
		unix.SYS_FALLOCATE: oneOf(1, anyBit, unix.EOPNOTSUPP, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE),
		// A whiteout would hide a file of the layer below.
		unix.SYS_RENAMEAT2: without(4, unix.RENAME_WHITEOUT, unix.EINVAL),
		unix.SYS_PRCTL: both(dumpableCheck(), oneOf(0, anyBit, unix.EPERM, unix.PR_SET_NAME, unix.PR_GET_NAME, unix.PR_SET_PDEATHSIG, unix.PR_GET_PDEATHSIG,
			unix.PR_GET_DUMPABLE, unix.PR_SET_DUMPABLE, unix.PR_GET_KEEPCAPS, unix.PR_CAPBSET_READ, unix.PR_GET_NO_NEW_PRIVS,
			unix.PR_SET_NO_NEW_PRIVS, unix.PR_GET_SECCOMP, unix.PR_GET_SECUREBITS, unix.PR_SET_TIMERSLACK,
			unix.PR_GET_TIMERSLACK, unix.PR_SET_CHILD_SUBREAPER, unix.PR_GET_CHILD_SUBREAPER, unix.PR_SET_THP_DISABLE,
			unix.PR_GET_THP_DISABLE, unix.PR_GET_TID_ADDRESS, unix.PR_CAP_AMBIENT, prSetVMA, unix.PR_GET_AUXV)),
		unix.SYS_SETRLIMIT: coreCheck(0), unix.SYS_PRLIMIT64: coreOfCheck(),
		unix.SYS_PERSONALITY: oneOf(0, anyBit, unix.EPERM, 0, queryPersona),
		unix.SYS_OPENAT:      openCheck(2, 3),
		unix.SYS_MKDIRAT:     modeCheck(2),
		unix.SYS_FCHMOD:      modeCheck(1),
		unix.SYS_FCHMODAT:    modeCheck(2),
		unix.SYS_FCHMODAT2:   modeCheck(2),
		unix.SYS_MKNODAT:     nodeCheck(2),
	}
	if counted { // pages of hugetlbfs are no cgroup's
		m[unix.SYS_MEMFD_CREATE] = without(1, unix.MFD_HUGETLB, unix.EINVAL)
		m[unix.SYS_SHMGET] = without(2, shmHugeTLB, unix.EINVAL)
	}
	maps.Copy(m, legacyChecks())
	return m
}

// shmHugeTLB is SHM_HUGETLB of linux/shm.h.
const shmHugeTLB = 0o4000

// ioctls are what interpreters, shells and git ask of pipes, sockets and files. What changes a file system, clones
// files, or belongs to a terminal or device is not here.
var ioctls = []uint32{
	fioCLEX, fioNCLEX, fioNBIO, unix.TIOCINQ, unix.TIOCOUTQ, sioCATMARK, unix.TCGETS, unix.TIOCGWINSZ,
	unix.TIOCGPGRP, unix.TIOCSPGRP,
}

// Of asm-generic/ioctls.h and sockios.h, the same on both architectures.
const (
	fioNCLEX   = 0x5450
	fioCLEX    = 0x5451
	fioNBIO    = 0x5421
	sioCATMARK = 0x8905
)

// fcntlCheck allows descriptors, flags and locks. A lease would hold up whoever opens the file on the host, and F_NOTIFY
// tell what is done there. Locks of open file descriptions outlive the descriptor, in a mapping of the file, and could not be counted:
// programs that want them use those of processes where Linux does not know the command. A pipe of another size is for those whose memory is counted.
func fcntlCheck(counted bool) check {
	commands := []uint32{
		unix.F_DUPFD, unix.F_DUPFD_CLOEXEC, unix.F_GETFD, unix.F_SETFD, unix.F_GETFL, unix.F_SETFL, unix.F_GETLK, unix.F_SETLK, unix.F_SETLKW,
		unix.F_GETPIPE_SZ, unix.F_ADD_SEALS, unix.F_GET_SEALS, unix.F_DUPFD_QUERY,
	}
	if counted {
		commands = append(commands, unix.F_SETPIPE_SZ)
	}
	known := oneOf(1, anyBit, unix.EPERM, commands...)
	return both(noneOf(1, anyBit, unix.EINVAL, ofdGetLock, ofdSetLock, ofdSetLockWait), known)
}

// Of asm-generic/fcntl.h: F_OFD_GETLK and its kin.
const (
	ofdGetLock     = 36
	ofdSetLock     = 37
	ofdSetLockWait = 38
)

// optionCheck allows what programs set on a pair of streams: no filters, which take memory for each socket, and no larger
// buffers where nothing counts them.
func optionCheck(counted bool) check {
	options := []uint32{
		unix.SO_REUSEADDR, unix.SO_KEEPALIVE, unix.SO_LINGER, unix.SO_PASSCRED, unix.SO_RCVLOWAT,
		unix.SO_RCVTIMEO, unix.SO_SNDTIMEO, unix.SO_RCVTIMEO_NEW, unix.SO_SNDTIMEO_NEW,
	}
	if counted {
		options = append(options, unix.SO_SNDBUF, unix.SO_RCVBUF)
	}
	return both(oneOf(1, anyBit, unix.ENOPROTOOPT, unix.SOL_SOCKET), oneOf(2, anyBit, unix.ENOPROTOOPT, options...))
}

// mapCheck refuses memory that no process is seen to have: the machine's huge pages, and, where no cgroup counts it, shared
// memory without a file. A page of that can be left while no process has it mapped.
func mapCheck(counted bool) check {
	huge := without(3, unix.MAP_HUGETLB, unix.ENOMEM)
	if counted {
		return huge
	}
	const shared = unix.MAP_SHARED | unix.MAP_ANONYMOUS // also that of MAP_SHARED_VALIDATE
	return both(huge, noneOf(3, shared, unix.EPERM, shared))
}

// dumpableCheck refuses to make a process one that cannot be looked into: an ordinary user's kernel could count neither
// what Linux keeps for it nor the files that it holds.
func dumpableCheck() check {
	var p program
	p = append(p, low(0))
	p.unless(unix.BPF_JEQ, unix.PR_SET_DUMPABLE, 3)
	p = append(p, low(1))
	p.when(unix.BPF_JEQ, 1, 1)
	p.ret(refuse(unix.EPERM))
	return check(p)
}

// pretended is a call that is not made and seems to succeed.
const pretended = unix.SECCOMP_RET_ERRNO

// coreCheck leaves the limit of core files as the plan has set it. With 0 in place of 1 the system would hand a core to a
// handler on the host. Shells and libraries do set 0 ("ulimit -c 0"), and have what they want: there is no core.
func coreCheck(resource uint32) check {
	p := program{low(resource)}
	p.unless(unix.BPF_JEQ, unix.RLIMIT_CORE, 1)
	p.ret(pretended)
	return check(p)
}

// coreOfCheck is coreCheck for prlimit64, which sets a limit only if its third argument, an address, is not null. One that is
// to tell the old limit as well is refused: nobody would write it there.
func coreOfCheck() check {
	p := program{low(1)}
	p.unless(unix.BPF_JEQ, unix.RLIMIT_CORE, 10)
	p = append(p, low(2))
	p.unless(unix.BPF_JEQ, 0, 2)
	p = append(p, high(2))
	p.when(unix.BPF_JEQ, 0, 6)
	p = append(p, low(3))
	p.unless(unix.BPF_JEQ, 0, 3)
	p = append(p, high(3))
	p.unless(unix.BPF_JEQ, 0, 1)
	p.ret(pretended)
	p.ret(refuse(unix.EPERM))
	return check(p)
}

// modeCheck refuses setuid and setgid bits: a workspace is the host's, where they would count.
func modeCheck(arg uint32) check { return without(arg, setID, unix.EPERM) }

// openCheck is modeCheck for a call whose mode counts only when its flags say that it creates a file.
func openCheck(flags, mode uint32) check {
	var p program
	p = append(p, low(flags))
	p.unless(unix.BPF_JSET, unix.O_CREAT|unix.O_TMPFILE&^unix.O_DIRECTORY, 3)
	p = append(p, low(mode))
	p.unless(unix.BPF_JSET, setID, 1)
	p.ret(refuse(unix.EPERM))
	return check(p)
}

// nodeCheck allows files and pipes: no devices, and no sockets or whiteouts of an overlay.
func nodeCheck(mode uint32) check {
	return both(modeCheck(mode), noneOf(mode, unix.S_IFMT, unix.EPERM, unix.S_IFCHR, unix.S_IFBLK, unix.S_IFSOCK))
}
