package confine

import (
	"encoding/binary"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// judge runs a filter as the kernel would, over the few instructions that are used.
func judge(t *testing.T, filter []byte, arch, nr uint32, args ...uint64) uint32 {
	t.Helper()
	data := make([]byte, 64)
	binary.LittleEndian.PutUint32(data[0:], nr)
	binary.LittleEndian.PutUint32(data[4:], arch)
	for i, a := range args {
		binary.LittleEndian.PutUint64(data[16+8*i:], a)
	}
	var acc uint32
	for pc := 0; pc < len(filter)/bpfSize; pc++ {
		in := filter[pc*bpfSize:]
		code, k := binary.NativeEndian.Uint16(in), binary.NativeEndian.Uint32(in[4:])
		jump := func(yes bool) {
			if yes {
				pc += int(in[2])
			} else {
				pc += int(in[3])
			}
		}
		switch code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			acc = binary.LittleEndian.Uint32(data[k:])
		case unix.BPF_ALU | unix.BPF_AND | unix.BPF_K:
			acc &= k
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			jump(acc == k)
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			jump(acc >= k)
		case unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K:
			jump(acc&k != 0)
		case unix.BPF_JMP | unix.BPF_JA:
			pc += int(k)
		case unix.BPF_RET | unix.BPF_K:
			return k
		default:
			t.Fatalf("instruction %d has code %#x", pc, code)
		}
	}
	t.Fatal("the filter has no end")
	return 0
}

func TestFilterDecidesEveryCall(t *testing.T) {
	argued := checks(true)
	for _, profile := range []Profile{ProfilePython, ProfileNode, ProfileGeneric} {
		for _, counted := range []bool{true, false} {
			filter := filterFor(Whole, profile, counted)
			allowed := slices.Concat(everyday, legacyCalls)
			if counted {
				allowed = slices.Concat(allowed, unaccounted, pinning)
			}
			if profile != ProfileGeneric {
				allowed = slices.DeleteFunc(allowed, func(nr uint32) bool { return slices.Contains(generic, nr) })
			}
			for nr := range uint32(newestCall + 200) {
				if _, depends := argued[nr]; depends {
					continue
				}
				want := refuse(unix.EPERM)
				switch {
				case slices.Contains(allowed, nr):
					want = allow
				case impossible[nr] != 0:
					want = impossible[nr]
				case nr > newestCall:
					want = refuse(unix.ENOSYS)
				case slices.Contains(pinning, nr):
					want = refuse(unix.EINVAL)
				}
				if got := judge(t, filter, auditArch, nr); got != want {
					t.Fatalf("%s: call %d: %#x, want %#x", profile, nr, got, want)
				}
			}
			if got := judge(t, filter, auditArch^1, unix.SYS_READ); got != kill {
				t.Errorf("another architecture: %#x", got)
			}
			if len(filter)/bpfSize > 4096 {
				t.Errorf("%d instructions", len(filter)/bpfSize)
			}
		}
	}
}

func TestFilterLooksAtArguments(t *testing.T) {
	filter := filterFor(Whole, ProfilePython, true)
	no, notty := refuse(unix.EPERM), refuse(unix.ENOTTY)
	for _, tc := range []struct {
		name string
		nr   uint32
		args []uint64
		want uint32
	}{
		{"fork", unix.SYS_CLONE, []uint64{uint64(unix.SIGCHLD)}, allow},
		{"thread", unix.SYS_CLONE, []uint64{0x3d0f00}, allow},
		{"clone NEWUSER", unix.SYS_CLONE, []uint64{unix.CLONE_NEWUSER}, no},
		{"clone NEWCGROUP among others", unix.SYS_CLONE, []uint64{unix.CLONE_NEWCGROUP | 0x3d0f00}, no},
		{"stream pair", unix.SYS_SOCKETPAIR, []uint64{unix.AF_UNIX, unix.SOCK_STREAM | unix.SOCK_CLOEXEC}, allow},
		{"packet pair", unix.SYS_SOCKETPAIR, []uint64{unix.AF_UNIX, unix.SOCK_SEQPACKET}, allow},
		{"datagram pair", unix.SYS_SOCKETPAIR, []uint64{unix.AF_UNIX, unix.SOCK_DGRAM | unix.SOCK_NONBLOCK}, no},
		{"pair of another family", unix.SYS_SOCKETPAIR, []uint64{unix.AF_TIPC, unix.SOCK_STREAM}, no},
		{"thread with descriptors of its own", unix.SYS_CLONE, []uint64{0x3d0f00 &^ unix.CLONE_FILES}, no},
		{"thread with a directory of its own", unix.SYS_CLONE, []uint64{0x3d0f00 &^ unix.CLONE_FS}, no},
		{"thread with both", unix.SYS_CLONE, []uint64{0x3d0f00 &^ (unix.CLONE_FS | unix.CLONE_FILES)}, no},
		{"process that shares memory, as posix_spawn", unix.SYS_CLONE, []uint64{unix.CLONE_VM | unix.CLONE_VFORK | uint64(unix.SIGCHLD)}, allow},
		{"close all", unix.SYS_CLOSE_RANGE, []uint64{3, 0xffffffff, unix.CLOSE_RANGE_CLOEXEC}, allow},
		{"close all in a table of one's own", unix.SYS_CLOSE_RANGE, []uint64{3, 0xffffffff, unix.CLOSE_RANGE_UNSHARE}, no},
		{"TIOCSTI", unix.SYS_IOCTL, []uint64{0, unix.TIOCSTI}, notty},
		{"TIOCSTI with high bits, which the kernel ignores", unix.SYS_IOCTL, []uint64{0, 1<<32 | unix.TIOCSTI}, notty},
		{"TIOCLINUX", unix.SYS_IOCTL, []uint64{0, unix.TIOCLINUX}, notty},
		{"TIOCSCTTY", unix.SYS_IOCTL, []uint64{0, unix.TIOCSCTTY}, notty},
		{"FS_IOC_SETFLAGS", unix.SYS_IOCTL, []uint64{0, unix.FS_IOC_SETFLAGS}, notty},
		{"FICLONE", unix.SYS_IOCTL, []uint64{0, unix.FICLONE}, notty},
		{"an ioctl without a name", unix.SYS_IOCTL, []uint64{0, 0xdeadbeef}, notty},
		{"FIONREAD", unix.SYS_IOCTL, []uint64{0, unix.TIOCINQ}, allow},
		{"FIOCLEX with high bits", unix.SYS_IOCTL, []uint64{0, 1<<32 | fioCLEX}, allow},
		{"lock a file", unix.SYS_FCNTL, []uint64{0, unix.F_SETLKW}, allow},
		{"lock of an open file description", unix.SYS_FCNTL, []uint64{0, ofdSetLock}, refuse(unix.EINVAL)},
		{"lease", unix.SYS_FCNTL, []uint64{0, unix.F_SETLEASE}, no},
		{"lease with high bits", unix.SYS_FCNTL, []uint64{0, 1<<32 | unix.F_SETLEASE}, no},
		{"dnotify", unix.SYS_FCNTL, []uint64{0, unix.F_NOTIFY}, no},
		{"memory of one's own", unix.SYS_MMAP, []uint64{0, 1, 3, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS}, allow},
		{"a file's memory", unix.SYS_MMAP, []uint64{0, 1, 3, unix.MAP_SHARED}, allow},
		{"huge pages", unix.SYS_MMAP, []uint64{0, 1, 3, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_HUGETLB}, refuse(unix.ENOMEM)},
		{"huge pages as a file", unix.SYS_MEMFD_CREATE, []uint64{0, unix.MFD_HUGETLB}, refuse(unix.EINVAL)},
		{"huge pages of System V", unix.SYS_SHMGET, []uint64{0, 0, shmHugeTLB}, refuse(unix.EINVAL)},
		{"SO_RCVTIMEO", unix.SYS_SETSOCKOPT, []uint64{0, unix.SOL_SOCKET, unix.SO_RCVTIMEO}, allow},
		{"SO_ATTACH_FILTER", unix.SYS_SETSOCKOPT, []uint64{0, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER}, refuse(unix.ENOPROTOOPT)},
		{"an option of another level", unix.SYS_SETSOCKOPT, []uint64{0, unix.SOL_TCP, unix.SO_RCVTIMEO}, refuse(unix.ENOPROTOOPT)},
		{"allocate", unix.SYS_FALLOCATE, []uint64{0, 0}, refuse(unix.EOPNOTSUPP)},
		{"allocate behind the end", unix.SYS_FALLOCATE, []uint64{0, unix.FALLOC_FL_KEEP_SIZE}, refuse(unix.EOPNOTSUPP)},
		{"punch a hole", unix.SYS_FALLOCATE, []uint64{0, unix.FALLOC_FL_KEEP_SIZE | unix.FALLOC_FL_PUNCH_HOLE}, allow},
		{"rename", unix.SYS_RENAMEAT2, []uint64{0, 0, 0, 0, unix.RENAME_NOREPLACE}, allow},
		{"rename and leave a whiteout", unix.SYS_RENAMEAT2, []uint64{0, 0, 0, 0, unix.RENAME_WHITEOUT | unix.RENAME_NOREPLACE}, refuse(unix.EINVAL)},
		{"PR_SET_NAME", unix.SYS_PRCTL, []uint64{unix.PR_SET_NAME}, allow},
		{"PR_GET_AUXV", unix.SYS_PRCTL, []uint64{unix.PR_GET_AUXV}, allow},
		{"PR_SET_MM", unix.SYS_PRCTL, []uint64{unix.PR_SET_MM}, no},
		{"PR_SET_SECCOMP", unix.SYS_PRCTL, []uint64{unix.PR_SET_SECCOMP}, no},
		{"query personality", unix.SYS_PERSONALITY, []uint64{0xffffffff}, allow},
		{"READ_IMPLIES_EXEC", unix.SYS_PERSONALITY, []uint64{0x400000}, no},
		{"read the limit of core files", unix.SYS_PRLIMIT64, []uint64{0, unix.RLIMIT_CORE, 0, 1}, allow},
		{"set the limit of core files", unix.SYS_PRLIMIT64, []uint64{0, unix.RLIMIT_CORE, 1}, pretended},
		{"set it, at a far address", unix.SYS_PRLIMIT64, []uint64{0, unix.RLIMIT_CORE, 1 << 32}, pretended},
		{"set it, with high bits that the kernel ignores", unix.SYS_PRLIMIT64, []uint64{0, 1<<32 | unix.RLIMIT_CORE, 1}, pretended},
		{"set it, and read the old one", unix.SYS_PRLIMIT64, []uint64{0, unix.RLIMIT_CORE, 1, 1}, no},
		{"set it, and read the old one to a far address", unix.SYS_PRLIMIT64, []uint64{0, unix.RLIMIT_CORE, 1, 1 << 32}, no},
		{"set another limit", unix.SYS_PRLIMIT64, []uint64{0, unix.RLIMIT_NOFILE, 1, 1}, allow},
		{"set the limit of core files in the old way", unix.SYS_SETRLIMIT, []uint64{unix.RLIMIT_CORE, 1}, pretended},
		{"the same, with high bits", unix.SYS_SETRLIMIT, []uint64{1<<32 | unix.RLIMIT_CORE, 1}, pretended},
		{"another limit in the old way", unix.SYS_SETRLIMIT, []uint64{unix.RLIMIT_STACK, 1}, allow},
		{"open to read", unix.SYS_OPENAT, []uint64{0, 0, unix.O_RDONLY, 0o4755}, allow},
		{"create", unix.SYS_OPENAT, []uint64{0, 0, unix.O_CREAT | unix.O_WRONLY, 0o755}, allow},
		{"create setuid", unix.SYS_OPENAT, []uint64{0, 0, unix.O_CREAT, 0o4755}, no},
		{"create setgid without a name", unix.SYS_OPENAT, []uint64{0, 0, unix.O_TMPFILE | unix.O_RDWR, 0o2755}, no},
		{"open a directory", unix.SYS_OPENAT, []uint64{0, 0, unix.O_DIRECTORY, 0o4755}, allow},
		{"chmod", unix.SYS_FCHMODAT, []uint64{0, 0, 0o1777}, allow},
		{"chmod setuid", unix.SYS_FCHMODAT, []uint64{0, 0, 0o4755}, no},
		{"fchmod setgid", unix.SYS_FCHMOD, []uint64{0, 0o2755}, no},
		{"fchmodat2 setuid", unix.SYS_FCHMODAT2, []uint64{0, 0, 0o4755}, no},
		{"mkdir setgid", unix.SYS_MKDIRAT, []uint64{0, 0, 0o2755}, no},
		{"mkfifo", unix.SYS_MKNODAT, []uint64{0, 0, unix.S_IFIFO | 0o644}, allow},
		{"regular file by mknod", unix.SYS_MKNODAT, []uint64{0, 0, 0o644}, allow},
		{"character device", unix.SYS_MKNODAT, []uint64{0, 0, unix.S_IFCHR | 0o644}, no},
		{"block device", unix.SYS_MKNODAT, []uint64{0, 0, unix.S_IFBLK | 0o644}, no},
		{"socket file", unix.SYS_MKNODAT, []uint64{0, 0, unix.S_IFSOCK | 0o644}, no},
		{"setuid by mknod", unix.SYS_MKNODAT, []uint64{0, 0, unix.S_IFREG | 0o4755}, no},
	} {
		if got := judge(t, filter, auditArch, tc.nr, tc.args...); got != tc.want {
			t.Errorf("%s: %#x, want %#x", tc.name, got, tc.want)
		}
	}
}

// Where no cgroup counts memory, calls are refused by which it would be at no process.
func TestFilterWithoutAMemoryCgroup(t *testing.T) {
	filter := filterFor(Whole, ProfileGeneric, false)
	for _, tc := range []struct {
		name string
		nr   uint32
		args []uint64
		want uint32
	}{
		{"shared memory", unix.SYS_MMAP, []uint64{0, 1, 3, unix.MAP_SHARED | unix.MAP_ANONYMOUS}, refuse(unix.EPERM)},
		{"shared memory, validated", unix.SYS_MMAP, []uint64{0, 1, 3, unix.MAP_SHARED_VALIDATE | unix.MAP_ANONYMOUS}, refuse(unix.EPERM)},
		{"a file's memory", unix.SYS_MMAP, []uint64{0, 1, 3, unix.MAP_SHARED}, allow},
		{"memory of one's own", unix.SYS_MMAP, []uint64{0, 1, 3, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS}, allow},
		{"larger buffers", unix.SYS_SETSOCKOPT, []uint64{0, unix.SOL_SOCKET, unix.SO_SNDBUF}, refuse(unix.ENOPROTOOPT)},
		{"a larger pipe", unix.SYS_FCNTL, []uint64{0, unix.F_SETPIPE_SZ}, refuse(unix.EPERM)},
		{"splice", unix.SYS_SPLICE, nil, refuse(unix.EINVAL)},
		{"sendfile", unix.SYS_SENDFILE, nil, refuse(unix.EINVAL)},
		{"semaphores", unix.SYS_SEMGET, nil, refuse(unix.EPERM)},
		{"message queues", unix.SYS_MSGGET, nil, refuse(unix.EPERM)},
	} {
		if got := judge(t, filter, auditArch, tc.nr, tc.args...); got != tc.want {
			t.Errorf("%s: %#x, want %#x", tc.name, got, tc.want)
		}
	}
}

// A child has its zygote's filter too: the stricter verdict of the two counts.
func TestChildFilterEndsAsAWholeOne(t *testing.T) {
	zygote := filterFor(Zygote, ProfilePython, false)
	for _, counted := range []bool{true, false} {
		filter, child := filterFor(Whole, ProfilePython, counted), filterFor(Child, ProfilePython, counted)
		for nr := range uint32(newestCall + 10) {
			for _, args := range [][]uint64{
				nil, {unix.CLONE_NEWUSER, 0, 0o4755, 0o4755}, {unix.PR_SET_NAME, unix.TIOCSTI, unix.S_IFCHR}, {0, unix.F_SETPIPE_SZ},
				{0, unix.SOL_SOCKET, unix.SO_SNDBUF, unix.MAP_SHARED | unix.MAP_ANONYMOUS}, {0, unix.F_SETLEASE, unix.SO_ATTACH_FILTER, unix.MAP_HUGETLB},
				{0, unix.RLIMIT_CORE, 1, 0}, {unix.RLIMIT_CORE, unix.RLIMIT_CORE, 1, 1},
			} {
				want := judge(t, filter, auditArch, nr, args...)
				// Of two refusals the later filter's errno counts (seccomp(2)).
				got := judge(t, child, auditArch, nr, args...)
				if first := judge(t, zygote, auditArch, nr, args...); first&^0xffff < got&^0xffff {
					got = first
				}
				if got != want {
					t.Fatalf("counted %t, call %d %v: a child gets %#x, a whole sandbox %#x", counted, nr, args, got, want)
				}
			}
		}
	}
}
