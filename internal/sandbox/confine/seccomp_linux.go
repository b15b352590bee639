package confine

import (
	"maps"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// newestCall is the highest call number that the tables here know (both architectures count alike up there).
const newestCall = unix.SYS_RSEQ_SLICE_YIELD

// everyday are the calls that any program may make, whatever the arguments.
var everyday = []uint32{
	// files by descriptor and by path
	unix.SYS_READ, unix.SYS_WRITE, unix.SYS_CLOSE, unix.SYS_FSTAT, unix.SYS_LSEEK, unix.SYS_PREAD64, unix.SYS_PWRITE64,
	unix.SYS_READV, unix.SYS_WRITEV, unix.SYS_PREADV, unix.SYS_PWRITEV, unix.SYS_PREADV2, unix.SYS_PWRITEV2,
	unix.SYS_COPY_FILE_RANGE, unix.SYS_DUP, unix.SYS_DUP3, unix.SYS_FLOCK, unix.SYS_FSYNC, unix.SYS_FDATASYNC, unix.SYS_SYNC, unix.SYS_SYNCFS,
	unix.SYS_SYNC_FILE_RANGE, unix.SYS_TRUNCATE, unix.SYS_FTRUNCATE, unix.SYS_FADVISE64,
	unix.SYS_READAHEAD, unix.SYS_GETDENTS64, unix.SYS_GETCWD, unix.SYS_CHDIR, unix.SYS_FCHDIR, unix.SYS_UMASK,
	unix.SYS_NEWFSTATAT, unix.SYS_STATX, unix.SYS_STATFS, unix.SYS_FSTATFS, unix.SYS_FACCESSAT, unix.SYS_FACCESSAT2,
	unix.SYS_READLINKAT, unix.SYS_UNLINKAT, unix.SYS_RENAMEAT, unix.SYS_LINKAT, unix.SYS_SYMLINKAT,
	unix.SYS_UTIMENSAT, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT, unix.SYS_PIPE2, unix.SYS_CACHESTAT,
	unix.SYS_GETXATTR, unix.SYS_LGETXATTR, unix.SYS_FGETXATTR,
	unix.SYS_LISTXATTR, unix.SYS_LLISTXATTR, unix.SYS_FLISTXATTR, unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR,
	unix.SYS_FREMOVEXATTR,
	// waiting
	unix.SYS_PPOLL, unix.SYS_PSELECT6, unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT,
	unix.SYS_EPOLL_PWAIT2, unix.SYS_EVENTFD2, unix.SYS_SIGNALFD4, unix.SYS_TIMERFD_CREATE, unix.SYS_TIMERFD_SETTIME,
	unix.SYS_TIMERFD_GETTIME,
	// memory
	unix.SYS_BRK, unix.SYS_MUNMAP, unix.SYS_MPROTECT, unix.SYS_MREMAP, unix.SYS_MSYNC, unix.SYS_MINCORE,
	unix.SYS_MADVISE, unix.SYS_MLOCK, unix.SYS_MLOCK2, unix.SYS_MUNLOCK, unix.SYS_MLOCKALL, unix.SYS_MUNLOCKALL,
	unix.SYS_PKEY_ALLOC, unix.SYS_PKEY_FREE, unix.SYS_PKEY_MPROTECT, unix.SYS_GET_MEMPOLICY, unix.SYS_MEMBARRIER,
	unix.SYS_MSEAL, unix.SYS_MAP_SHADOW_STACK,
	// processes and threads of its own
	unix.SYS_EXECVE, unix.SYS_EXECVEAT, unix.SYS_EXIT, unix.SYS_EXIT_GROUP, unix.SYS_WAIT4, unix.SYS_WAITID,
	unix.SYS_SET_TID_ADDRESS, unix.SYS_SET_ROBUST_LIST, unix.SYS_GET_ROBUST_LIST, unix.SYS_RSEQ, unix.SYS_RSEQ_SLICE_YIELD,
	unix.SYS_FUTEX, unix.SYS_FUTEX_WAITV, unix.SYS_FUTEX_WAKE, unix.SYS_FUTEX_WAIT, unix.SYS_FUTEX_REQUEUE,
	unix.SYS_GETPID, unix.SYS_GETPPID, unix.SYS_GETTID, unix.SYS_GETPGID, unix.SYS_SETPGID, unix.SYS_GETSID, unix.SYS_SETSID,
	unix.SYS_PIDFD_OPEN, unix.SYS_PIDFD_SEND_SIGNAL, unix.SYS_SCHED_YIELD, unix.SYS_SCHED_GETAFFINITY,
	unix.SYS_SCHED_SETAFFINITY, unix.SYS_SCHED_GETPARAM, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_GETSCHEDULER,
	unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_GETATTR, unix.SYS_SCHED_SETATTR, unix.SYS_SCHED_GET_PRIORITY_MAX,
	unix.SYS_SCHED_GET_PRIORITY_MIN, unix.SYS_SCHED_RR_GET_INTERVAL, unix.SYS_GETPRIORITY, unix.SYS_SETPRIORITY,
	unix.SYS_IOPRIO_GET, unix.SYS_GETRLIMIT, unix.SYS_GETRUSAGE,
	unix.SYS_TIMES, unix.SYS_GETCPU, unix.SYS_SYSINFO, unix.SYS_UNAME, unix.SYS_GETRANDOM, unix.SYS_RESTART_SYSCALL,
	// who it is; with no capabilities none of these can change more than it already has
	unix.SYS_GETUID, unix.SYS_GETEUID, unix.SYS_GETGID, unix.SYS_GETEGID, unix.SYS_GETRESUID, unix.SYS_GETRESGID,
	unix.SYS_GETGROUPS, unix.SYS_SETUID, unix.SYS_SETGID, unix.SYS_SETREUID, unix.SYS_SETREGID, unix.SYS_SETRESUID,
	unix.SYS_SETRESGID, unix.SYS_SETFSUID, unix.SYS_SETFSGID, unix.SYS_SETGROUPS, unix.SYS_CAPGET, unix.SYS_CAPSET,
	// signals, which end at the walls of the pid namespace
	unix.SYS_KILL, unix.SYS_TKILL, unix.SYS_TGKILL, unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN,
	unix.SYS_RT_SIGPENDING, unix.SYS_RT_SIGTIMEDWAIT, unix.SYS_RT_SIGQUEUEINFO, unix.SYS_RT_TGSIGQUEUEINFO,
	unix.SYS_RT_SIGSUSPEND, unix.SYS_SIGALTSTACK,
	// clocks, read only
	unix.SYS_CLOCK_GETTIME, unix.SYS_CLOCK_GETRES, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_NANOSLEEP, unix.SYS_GETTIMEOFDAY,
	unix.SYS_GETITIMER, unix.SYS_SETITIMER, unix.SYS_TIMER_CREATE, unix.SYS_TIMER_SETTIME, unix.SYS_TIMER_GETTIME,
	unix.SYS_TIMER_GETOVERRUN, unix.SYS_TIMER_DELETE,
	// sockets that were inherited or come from socketpair; there is no socket, bind, listen, accept or connect
	unix.SYS_SENDTO, unix.SYS_RECVFROM, unix.SYS_SENDMSG, unix.SYS_RECVMSG, unix.SYS_SENDMMSG, unix.SYS_RECVMMSG,
	unix.SYS_SHUTDOWN, unix.SYS_GETSOCKNAME, unix.SYS_GETPEERNAME, unix.SYS_GETSOCKOPT,
}

// unaccounted are calls that take memory which no process is seen to have. They are allowed where a memory
// cgroup counts it.
var unaccounted = []uint32{
	unix.SYS_MEMFD_CREATE, unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMDT, unix.SYS_SHMCTL,
	unix.SYS_SEMGET, unix.SYS_SEMOP, unix.SYS_SEMCTL, unix.SYS_SEMTIMEDOP,
	unix.SYS_MSGGET, unix.SYS_MSGSND, unix.SYS_MSGRCV, unix.SYS_MSGCTL,
}

// pinning are calls that put pages of a file into a pipe or socket, where they stay when the file is gone: one byte there
// can hold two megabytes that nothing counts. Where no memory cgroup does they answer EINVAL, as for files that cannot
// do it, and programs copy instead.
var pinning = []uint32{unix.SYS_SPLICE, unix.SYS_TEE, unix.SYS_SENDFILE}

// generic are those of the calls above that only ProfileGeneric has.
var generic = []uint32{
	unix.SYS_SEMGET, unix.SYS_SEMOP, unix.SYS_SEMCTL, unix.SYS_SEMTIMEDOP,
	unix.SYS_MSGGET, unix.SYS_MSGSND, unix.SYS_MSGRCV, unix.SYS_MSGCTL,
}

// bareCalls are those of a program of one thread that was given its descriptors: its loader's, those of memory, of
// clocks, and of signals to itself. Files can be opened, but there are none beside the runtime's.
var bareCalls = []uint32{
	unix.SYS_READ, unix.SYS_WRITE, unix.SYS_READV, unix.SYS_WRITEV, unix.SYS_PREAD64, unix.SYS_LSEEK, unix.SYS_CLOSE,
	unix.SYS_FSTAT, unix.SYS_NEWFSTATAT, unix.SYS_STATX, unix.SYS_PPOLL, unix.SYS_READLINKAT, unix.SYS_FACCESSAT, unix.SYS_GETCWD,
	unix.SYS_BRK, unix.SYS_MUNMAP, unix.SYS_MPROTECT, unix.SYS_MREMAP, unix.SYS_MADVISE,
	unix.SYS_EXECVE, unix.SYS_EXIT, unix.SYS_EXIT_GROUP, unix.SYS_SET_TID_ADDRESS, unix.SYS_SET_ROBUST_LIST, unix.SYS_RSEQ,
	unix.SYS_FUTEX, unix.SYS_GETPID, unix.SYS_GETTID, unix.SYS_GETUID, unix.SYS_GETEUID, unix.SYS_GETGID, unix.SYS_GETEGID,
	unix.SYS_SCHED_YIELD, unix.SYS_SCHED_GETAFFINITY, unix.SYS_GETRUSAGE, unix.SYS_SYSINFO, unix.SYS_UNAME,
	unix.SYS_GETRANDOM, unix.SYS_RESTART_SYSCALL, unix.SYS_TGKILL, unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK,
	unix.SYS_RT_SIGRETURN, unix.SYS_SIGALTSTACK, unix.SYS_CLOCK_GETTIME, unix.SYS_CLOCK_GETRES, unix.SYS_CLOCK_NANOSLEEP,
	unix.SYS_NANOSLEEP, unix.SYS_GETTIMEOFDAY,
}

// bareChecked are calls that a bare program may make with some arguments.
var bareChecked = []uint32{unix.SYS_OPENAT, unix.SYS_MMAP, unix.SYS_FCNTL, unix.SYS_PRLIMIT64}

// bareCount is how many calls a bare program may make.
var bareCount = len(bareCalls) + len(bareLegacy) + len(bareChecked)

// building are the calls that the steps of a Child's plan make, before its own filter takes them away again:
// only a zygote has them.
var building = []uint32{
	unix.SYS_UNSHARE, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE, unix.SYS_MOUNT_SETATTR,
	unix.SYS_SETHOSTNAME, unix.SYS_SECCOMP, unix.SYS_LANDLOCK_CREATE_RULESET, unix.SYS_LANDLOCK_ADD_RULE,
	unix.SYS_LANDLOCK_RESTRICT_SELF, unix.SYS_PRCTL, unix.SYS_CLONE,
}

// impossible are calls that answer as on a system that lacks them, since programs then do without. Of clone3 and openat2 the libraries use the
// older call, which can be checked: the flags of these lie in memory, where a filter cannot look. (glibc takes EPERM from
// clone3 as final.) inotify would tell what is done to a shown folder of the host, and use up what the host's user may
// have of it. Extended attributes take room on the host's disk that no size shows, and apply does not take them over.
var impossible = map[uint32]uint32{
	unix.SYS_CLONE3: refuse(unix.ENOSYS), unix.SYS_OPENAT2: refuse(unix.ENOSYS),
	unix.SYS_SETXATTR: refuse(unix.EOPNOTSUPP), unix.SYS_LSETXATTR: refuse(unix.EOPNOTSUPP), unix.SYS_FSETXATTR: refuse(unix.EOPNOTSUPP),
	unix.SYS_INOTIFY_INIT1: refuse(unix.ENOSYS), unix.SYS_INOTIFY_ADD_WATCH: refuse(unix.ENOSYS), unix.SYS_INOTIFY_RM_WATCH: refuse(unix.ENOSYS),
}

// filters keeps what was compiled: there are few, and each takes 0.1 ms.
type filters struct {
	mu   sync.Mutex
	done map[filterKey][]byte
}

type filterKey struct {
	kind    Kind
	profile Profile
	counted bool
}

func (f *filters) get(kind Kind, profile Profile, memoryCounted bool) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := filterKey{kind, profile, memoryCounted}
	if f.done[key] == nil {
		if f.done == nil {
			f.done = map[filterKey][]byte{}
		}
		f.done[key] = filterFor(kind, profile, memoryCounted)
	}
	return f.done[key]
}

// filterFor compiles the filter of a plan.
func filterFor(kind Kind, profile Profile, memoryCounted bool) []byte {
	switch kind {
	case Child:
		return childFilter(memoryCounted)
	case Bare:
		return bareFilter()
	}
	memoryCounted = memoryCounted || kind == Zygote // its children's own filters say what they lack
	rules, refused := map[uint32]check{}, maps.Clone(impossible)
	add := func(list []uint32) {
		for _, nr := range list {
			rules[nr] = nil
		}
	}
	add(everyday)
	add(legacyCalls)
	maps.Copy(rules, checks(memoryCounted))
	if memoryCounted {
		add(pinning)
		for _, nr := range unaccounted {
			if _, checked := rules[nr]; !checked && (profile == ProfileGeneric || !slices.Contains(generic, nr)) {
				rules[nr] = nil
			}
		}
	} else {
		refuseAll(refused, pinning, unix.EINVAL)
	}
	if kind == Zygote {
		add(building)
	}
	return compileFilter(rules, refused, refuse(unix.EPERM))
}

func refuseAll(refused map[uint32]uint32, calls []uint32, e unix.Errno) {
	for _, nr := range calls {
		refused[nr] = refuse(e)
	}
}

// bareFilter is the filter of a program that computes and speaks.
func bareFilter() []byte {
	rules := map[uint32]check{}
	for _, list := range [][]uint32{bareCalls, bareLegacy} {
		for _, nr := range list {
			rules[nr] = nil
		}
	}
	for _, nr := range bareChecked {
		rules[nr] = checks(false)[nr]
	}
	return compileFilter(rules, impossible, refuse(unix.EPERM))
}

// childFilter takes away what the zygote's own filter, which a child inherits, leaves open. It is short, so
// that installing it is cheap.
func childFilter(memoryCounted bool) []byte {
	refused, rules := map[uint32]uint32{}, map[uint32]check{}
	refuseAll(refused, building, unix.EPERM)
	argued := checks(memoryCounted)
	check := []uint32{unix.SYS_CLONE, unix.SYS_PRCTL}
	if !memoryCounted {
		refuseAll(refused, unaccounted, unix.EPERM)
		refuseAll(refused, pinning, unix.EINVAL)
		check = append(check, unix.SYS_MMAP, unix.SYS_FCNTL, unix.SYS_SETSOCKOPT)
	}
	for _, nr := range check {
		delete(refused, nr)
		rules[nr] = argued[nr]
	}
	return compileFilter(rules, refused, allow)
}
