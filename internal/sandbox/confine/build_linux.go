package confine

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"agentkernel/internal/mounts"
)

// The walls, as errors and `inspect` name them.
const (
	wallUser     = "user namespace"
	wallRoot     = "own root"
	wallProc     = "own /proc"
	wallTmp      = "own /tmp"
	wallFiles    = "workspace"
	wallHost     = "host name"
	wallCaps     = "no capabilities"
	wallNoNew    = "no new privileges"
	wallLimits   = "limits"
	wallLandlock = "landlock"
	wallSeccomp  = "seccomp"
)

// builder writes the steps of a plan.
type builder struct {
	cfg   Config
	plan  *Plan
	steps *[]Step // Plan.Setup, then Plan.Seal
	wall  string  // what the next steps build
	made  map[string]bool

	mounted mounts.Table // nil: not read yet
}

func newBuilder(cfg Config) *builder {
	p := &Plan{Version: PlanVersion, Arch: runtime.GOARCH, Program: cfg.Program}
	made := map[string]bool{}
	if cfg.Kind == Child { // the zygote's root has them
		for _, dir := range []string{TmpDir, WorkspaceDir, VolumesDir, lowerDir, upperDir} {
			made[dir] = true
		}
	}
	return &builder{cfg: cfg, plan: p, steps: &p.Setup, made: made}
}

// do adds a step.
func (b *builder) do(call string, nr uintptr, args ...Arg) *Step {
	*b.steps = append(*b.steps, Step{Call: call, Nr: uint64(nr), Args: args, Wall: b.wall})
	return &(*b.steps)[len(*b.steps)-1]
}

// at is a place inside as the step must name it. A Child stands in its root already; for the others the root
// under construction is the working directory.
func (b *builder) at(path string) Arg {
	switch {
	case b.cfg.Kind == Child:
		return Str(path)
	case path == "/":
		return Str(".")
	}
	return Str(strings.TrimPrefix(path, "/"))
}

var cwd = Num(unix.AT_FDCWD)

func (b *builder) mount(source, target Arg, fstype string, flags uintptr, data string) {
	b.do("mount", unix.SYS_MOUNT, source, target, Str(fstype), Num(flags), Str(data))
}

// mkdir makes a directory in the root under construction, and those above it, once.
func (b *builder) mkdir(path string) {
	if path == "/" || b.made[path] {
		return
	}
	b.mkdir(filepath.Dir(path))
	b.made[path] = true
	b.do("mkdirat", unix.SYS_MKDIRAT, cwd, b.at(path), Num(0o755))
}

// write makes a file in the root under construction.
func (b *builder) write(path string, data []byte) {
	b.mkdir(filepath.Dir(path))
	b.made[path] = true
	file := b.save("file")
	b.do("openat", unix.SYS_OPENAT, cwd, b.at(path), Num(unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC), Num(0o444)).Save = file
	if len(data) > 0 {
		b.do("write", unix.SYS_WRITE, Saved(file), Bytes(data), Num(len(data)))
	}
	b.do("close", unix.SYS_CLOSE, Saved(file))
}

// save names a result. Results are used at once, so one name for each kind is enough.
func (b *builder) save(kind string) string { return kind }

func (b *builder) symlink(to, path string) {
	b.mkdir(filepath.Dir(path))
	b.made[path] = true
	b.do("symlinkat", unix.SYS_SYMLINKAT, Str(to), cwd, b.at(path))
}

// tree plans a piece of the host and attaches it to a place that is there.
func (b *builder) tree(t Tree, path string) {
	b.plan.Trees = append(b.plan.Trees, t)
	b.do("move_mount", unix.SYS_MOVE_MOUNT, FD(t.Name), Str(""), cwd, b.at(path), Num(unix.MOVE_MOUNT_F_EMPTY_PATH))
}

// treeName is unique in the plan.
func (b *builder) treeName(kind string) string { return fmt.Sprintf("%s.%d", kind, len(b.plan.Trees)) }

// device shows one device of the host.
func (b *builder) device(name, path string) {
	if !b.made[path] {
		b.write(path, nil)
	}
	b.tree(Tree{Name: b.treeName("dev"), Source: "/dev/" + name, Device: true, NoExec: true}, path)
}

// enter replaces the machine's root by the working directory.
func (b *builder) enter() {
	b.wall = wallRoot
	b.do("pivot_root", unix.SYS_PIVOT_ROOT, Str("."), Str("."))
	b.do("umount2", unix.SYS_UMOUNT2, Str("."), Num(unix.MNT_DETACH))
	b.do("chdir", unix.SYS_CHDIR, Str("/"))
	b.mount(Str(""), Str("/"), "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, "")
}

// staging mounts the new root somewhere and goes there.
func (b *builder) staging(dir string) {
	b.wall = wallRoot
	b.mount(Str(""), Str("/"), "", unix.MS_REC|unix.MS_PRIVATE, "")
	b.mount(Str("tmpfs"), Str(dir), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size=1m,nr_inodes=512")
	b.do("chdir", unix.SYS_CHDIR, Str(dir))
}

// proc mounts /proc for the pid namespace. It is read-only: nothing below /proc/sys, and none of the few
// files by which a process changes itself, can be written even where modes would allow it.
func (b *builder) proc() {
	b.wall = wallProc
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	switch {
	case b.cfg.Kind == Zygote:
		// Children write their id maps in it, and may mount their own only while this one is not covered.
		b.mount(Str("proc"), b.at("/proc"), "proc", flags, "")
	case b.cfg.FullProc:
		b.mount(Str("proc"), b.at("/proc"), "proc", flags|unix.MS_RDONLY, "hidepid=2")
		b.coverProc()
	default:
		b.mount(Str("proc"), b.at("/proc"), "proc", flags|unix.MS_RDONLY, "hidepid=2,subset=pid")
	}
}

// What a full /proc tells about the host and no program needs. Not every kernel has every one.
var (
	secretProcFiles = []string{"kcore", "keys", "key-users", "kallsyms", "modules", "interrupts", "softirqs", "timer_list",
		"sched_debug", "sysrq-trigger", "latency_stats", "config.gz", "cmdline", "iomem", "ioports", "kmsg"}
	secretProcDirs = []string{"acpi", "asound", "bus", "driver", "dynamic_debug", "fs", "irq", "scsi", "tty", "sysvipc"}
)

func (b *builder) coverProc() {
	for _, name := range secretProcDirs {
		b.do("mount", unix.SYS_MOUNT, Str("tmpfs"), b.at("/proc/"+name), Str("tmpfs"),
			Num(unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC|unix.MS_RDONLY), Str("size=4k,nr_inodes=2,mode=555")).OK = []int{int(unix.ENOENT)}
	}
	for _, name := range secretProcFiles {
		b.do("mount", unix.SYS_MOUNT, b.at("/dev/null"), b.at("/proc/"+name), Str(""), Num(unix.MS_BIND), Str("")).OK = []int{int(unix.ENOENT)}
	}
}

func (b *builder) tmp() {
	b.wall = wallTmp
	b.mount(Str("tmpfs"), b.at(TmpDir), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV,
		fmt.Sprintf("mode=1777,size=%d,nr_inodes=%d", b.cfg.TmpBytes, b.cfg.TmpInodes))
}

// mapOneself writes the id maps from inside, for a child of a zygote: its own user and group and no other.
func (b *builder) mapOneself() {
	b.wall = wallUser
	for _, m := range []struct{ file, text string }{
		{"setgroups", "deny"},
		{"uid_map", fmt.Sprintf("%d %d 1\n", InsideUID, InsideUID)},
		{"gid_map", fmt.Sprintf("%d %d 1\n", InsideGID, InsideGID)},
	} {
		b.do("openat", unix.SYS_OPENAT, cwd, Str("/proc/self/"+m.file), Num(unix.O_WRONLY|unix.O_CLOEXEC), Num(0)).Save = "file"
		b.do("write", unix.SYS_WRITE, Saved("file"), Bytes([]byte(m.text)), Num(len(m.text)))
		b.do("close", unix.SYS_CLOSE, Saved("file"))
	}
}

// identity becomes the inside user. Where the parent is root the process still has its outer uid 0, which the
// map does not have; from here on it does not.
func (b *builder) identity() {
	b.wall = wallUser
	b.do("setgroups", unix.SYS_SETGROUPS, Num(0), Num(0))
	b.do("setresgid", unix.SYS_SETRESGID, Num(InsideGID), Num(InsideGID), Num(InsideGID))
	b.do("setresuid", unix.SYS_SETRESUID, Num(InsideUID), Num(InsideUID), Num(InsideUID))
}

func (b *builder) dieWithParent() {
	b.do("prctl", unix.SYS_PRCTL, Num(unix.PR_SET_PDEATHSIG), Num(int(unix.SIGKILL)), Num(0), Num(0), Num(0))
}

// The securebits of linux/securebits.h: uid 0 means nothing, no ambient capabilities, all of it for good.
const securebits = 1<<0 | 1<<1 | 1<<2 | 1<<3 | 1<<5 | 1<<6 | 1<<7

// disarm takes every capability away, for good.
func (b *builder) disarm(lastCap int) {
	b.wall = wallCaps
	zero := Num(0)
	b.do("prctl", unix.SYS_PRCTL, Num(unix.PR_SET_SECUREBITS), Num(securebits), zero, zero, zero)
	b.do("prctl", unix.SYS_PRCTL, Num(unix.PR_CAP_AMBIENT), Num(unix.PR_CAP_AMBIENT_CLEAR_ALL), zero, zero, zero)
	for c := range lastCap + 1 {
		b.do("prctl", unix.SYS_PRCTL, Num(unix.PR_CAPBSET_DROP), Num(c), zero, zero, zero)
	}
	header := binary.NativeEndian.AppendUint32(nil, unix.LINUX_CAPABILITY_VERSION_3)
	header = binary.NativeEndian.AppendUint32(header, 0)
	b.do("capset", unix.SYS_CAPSET, Bytes(header), Bytes(make([]byte, 24)))
	b.wall = wallNoNew
	b.do("prctl", unix.SYS_PRCTL, Num(unix.PR_SET_NO_NEW_PRIVS), Num(1), zero, zero, zero)
}

func (b *builder) rlimit(resource int, soft, hard uint64) {
	v := binary.NativeEndian.AppendUint64(nil, soft)
	v = binary.NativeEndian.AppendUint64(v, hard)
	b.do("prlimit64", unix.SYS_PRLIMIT64, Num(0), Num(resource), Bytes(v), Num(0))
}

// roomiest is the least address space that a process may have where page tables are not counted: WebAssembly in Node.js
// reserves ten GiB for each memory.
const roomiest = 64 << 30

// zygoteFiles is how many files a zygote may have open. Linux counts the descriptors on their way between sockets for each
// user, and refuses to send more while they are more than whoever sends may have open: a zygote, which sends one for each
// child, must be able to while its children, with limits of their own, have as many on their way as they can.
const zygoteFiles = 64 << 10

func (b *builder) rlimits(m *Machine, counted Counted) {
	b.wall = wallLimits
	l := b.cfg.Limits
	same := func(resource int, n uint64) { b.rlimit(resource, n, n) }
	// No core files. 1 and not 0: with 0 the system would still hand a core to a handler on the host
	// (fs/coredump.c, "cprm.limit == 1").
	same(unix.RLIMIT_CORE, 1)
	if b.cfg.Kind != Zygote { // its children count as its own user's; each has its own limit
		processes := uint64(l.Pids)
		if b.cfg.Kind != Child {
			processes++ // the init
		}
		same(unix.RLIMIT_NPROC, processes)
		same(unix.RLIMIT_FSIZE, uint64(l.FileSize))
		if s := cpuSeconds(l.CPUTime); s > 0 {
			b.rlimit(unix.RLIMIT_CPU, s, s+1)
		}
	}
	switch {
	case b.cfg.Kind == Bare:
		same(unix.RLIMIT_AS, uint64(l.Memory))
	case b.cfg.Kind != Zygote && !counted.Memory: // a page of a page table, 4 KiB, is for 2 MiB
		same(unix.RLIMIT_AS, max(roomiest, uint64(l.Memory)<<9))
	}
	files := uint64(l.OpenFiles) //nolint:gosec // checked
	if b.cfg.Kind == Zygote {
		files = max(files, min(zygoteFiles, m.maxOpenFiles))
	}
	same(unix.RLIMIT_NOFILE, files)
	same(unix.RLIMIT_MEMLOCK, 1<<20)
	same(unix.RLIMIT_MSGQUEUE, 64<<10)
	same(unix.RLIMIT_SIGPENDING, 1024)
	same(unix.RLIMIT_NICE, 0)
	same(unix.RLIMIT_RTPRIO, 0)
	b.rlimit(unix.RLIMIT_STACK, 8<<20, 64<<20)
}

// seccomp must be the last step.
func (b *builder) seccomp(filter []byte) {
	b.wall = wallSeccomp
	b.do("seccomp", unix.SYS_SECCOMP, Num(unix.SECCOMP_SET_MODE_FILTER), Num(0), Filter(filter))
}
