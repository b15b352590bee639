package confine

import (
	"time"

	"golang.org/x/sys/unix"
)

// attack is one thing that a hostile program tries. Its program is testdata/prelude.py and then these lines; what
// it prints, joined by spaces, must match want from end to end.
type attack struct {
	name, program, want string
	wall                string // what stops it, for docs/security.md
	change              func(*Config)
	ends                func(Exit) bool // how the program must end; nil: with status 0
	wholeOnly           bool            // says nothing about a zygote's child that others do not say
	amd64               bool
	uncounted           bool // where a cgroup counts the memory it is allowed
}

func exited(code int) func(Exit) bool {
	return func(e Exit) bool {
		return e.Limit == "" && (!e.Known || e.Status.Exited() && e.Status.ExitStatus() == code)
	}
}

func limited(name string) func(Exit) bool { return func(e Exit) bool { return e.Limit == name } }

func signalled(sigs ...unix.Signal) func(Exit) bool {
	return func(e Exit) bool {
		if !e.Known {
			return true
		}
		for _, s := range sigs {
			if e.Status.Signaled() && e.Status.Signal() == s {
				return true
			}
		}
		return false
	}
}

// reading is about what a program can learn.
var reading = []attack{
	{name: "read /etc/shadow", wall: "own root", want: "ENOENT ENOENT ENOENT",
		program: `
for p in ["/etc/shadow", "/etc/sudoers", "/root/.ssh/id_rsa"]: attempt(read, p)`},
	{name: "read a secret of the host by path", wall: "own root", want: "ENOENT ENOENT ENOENT",
		program: `
attempt(read, P["secret"]); attempt(read, "/proc/1/root" + P["secret"]); attempt(read, "/proc/self/root/../../.." + P["secret"])`},
	{name: "the root holds the runtime and nothing else", wall: "own root", want: "nothing",
		program: `
known = {"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "etc", "dev", "proc", "sys", "tmp", "workspace", "volumes",
         ".lower", ".upper", ".zero", "nix", "gnu"} | set(P["roots"])
devices = {"null", "full", "random", "urandom", "zero", "fd", "stdin", "stdout", "stderr", "shm"}
say(*(set(os.listdir("/")) - known or set(os.listdir("/dev")) - devices or ["nothing"]))`},
	{name: "read the host's environment through /proc", wall: "pid namespace, own /proc", want: "found 0",
		program: `
found, marker = 0, "".join(P["marker"])
for pid in [d for d in os.listdir("/proc") if d.isdigit()]:
    try: found += marker.encode() in read("/proc/%s/environ" % pid, 1 << 20)
    except OSError: pass
say("found", found + (marker in repr(os.environ)))`},
	{name: "read memory, files and links of pid 1", wall: "dumpable, Landlock, seccomp", wholeOnly: true, want: "(EACCES |ENOENT |EPERM ){7}",
		program: `
for f in ["mem", "environ", "maps", "fd/0", "root", "cwd"]:
    attempt(os.stat if f in ("root", "cwd") else read, "/proc/1/" + f)
raw("process_vm_readv", 1, buf, 1, buf, 1, 0)
say("")`},
	{name: "read another process's memory", wall: "pid namespace, seccomp", want: "ENOENT ENOENT EPERM EPERM EPERM",
		program: `
pid = P["sibling"]
attempt(read, "/proc/%d/mem" % pid); attempt(read, "/proc/%d/maps" % pid)
iov = (ctypes.c_ulong * 2)(ctypes.addressof(buf), 8)
raw("process_vm_readv", pid, iov, 1, iov, 1, 0); raw("process_vm_writev", os.getpid(), iov, 1, iov, 1, 0); raw("pidfd_getfd", 0, 0, 0)`},
	{name: "find the data directory", wall: "mask over the mount", want: `ENOENT empty \[\] (EROFS|EACCES) found 0`, change: overlayWorkspace,
		program: `
attempt(os.listdir, P["data"])
inside = "/workspace/" + P["data_rel"]
say("empty", os.listdir(inside)); attempt(write, inside + "/x", flags=os.O_CREAT | os.O_WRONLY)
say("found", sum("token" in f for _, _, f in os.walk("/workspace")))`},
	{name: "read kernel memory and secrets", wall: "own /proc, own /dev, own root", change: fullProc,
		want: "(ENOENT|EACCES|EPERM|nothing)( (ENOENT|EACCES|EPERM|nothing)){12}",
		program: `
for f in ["/proc/kcore", "/proc/kallsyms", "/proc/keys", "/proc/kmsg", "/proc/timer_list", "/proc/cmdline", "/proc/config.gz",
          "/dev/mem", "/dev/kmsg", "/dev/port", "/sys/kernel/notes", "/sys/firmware/dmi/tables/DMI"]:
    try: say("BREACH " + f if read(f) else "nothing")
    except OSError as e: say(errno.errorcode[e.errno])
raw("syslog", 3, buf, 4096)`},
	{name: "open files by handle", wall: "seccomp", want: "EPERM EPERM",
		program: `raw("name_to_handle_at", -100, b"/", buf, buf, 0); raw("open_by_handle_at", 0, buf, 0)`},
	{name: "leave the root", wall: "own root, seccomp", want: "EPERM EPERM same same",
		program: `
raw("chroot", b"/tmp"); raw("pivot_root", b"/", b"/tmp")
for p in ["/..", "/proc/self/root/../.."]: say("same" if os.stat(p)[:2] == os.stat("/")[:2] else "BREACH")`},
	{name: "inherited descriptors", wall: "descriptors closed", want: "0 1 2",
		program: `
for fd in range(0, 2000):
    try: os.fstat(fd)
    except OSError: continue
    say(fd)`, wholeOnly: true},
	{name: "read through the zygote's descriptors", wall: "descriptors closed", want: `\[\]`,
		program: `
def there(fd):
    try: return bool(os.fstat(fd))
    except OSError: return False
say([fd for fd in range(3, 2000) if there(fd)])`},
}

// network is every way out that is not the syscall channel.
var network = []attack{
	{name: "make sockets of every family", wall: "seccomp", want: "EPERM",
		program: `
for family in range(46):
    for kind in (1, 2, 3, 5):
        try: sys_("socket", family, kind, 0); say("BREACH", family, kind)
        except OSError as e:
            if e.errno != errno.EPERM: say("BREACH", family, e)
attempt(socket.socket)`},
	{name: "connect to the host's loopback", wall: "seccomp, network namespace", want: "EPERM EPERM EPERM",
		program: `
attempt(socket.create_connection, ("127.0.0.1", P["port"]), 3)
a, b = socket.socketpair()
addr = struct.pack("=H", 2) + struct.pack("!H", P["port"]) + bytes([127, 0, 0, 1]) + bytes(8)
raw("connect", a.fileno(), addr, 16); raw("bind", a.fileno(), addr, 16)`},
	{name: "connect to the metadata address", wall: "seccomp, network namespace", want: "EPERM EPERM",
		program: `
attempt(socket.create_connection, ("169.254.169.254", 80), 3); attempt(socket.create_connection, ("fd00:ec2::254", 80), 3)`},
	{name: "connect to abstract sockets", wall: "seccomp, network namespace, Landlock", want: "EPERM EPERM",
		program: `
a, b = socket.socketpair()
name = b"\0" + P["abstract"].encode()
attempt(a.connect, name)
def pair(): return socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
attempt(pair)`},
	{name: "reach a host's socket in the workspace", wall: "seccomp", want: "there EPERM EPERM (ENOTCONN|EISCONN|EOPNOTSUPP|EPIPE)",
		program: `
import stat
say("there" if stat.S_ISSOCK(os.stat("/workspace/host.sock").st_mode) else "BREACH")
a, b = socket.socketpair()
attempt(a.connect, "/workspace/host.sock"); attempt(a.bind, "/workspace/mine.sock")
attempt(a.sendto, b"x", "/workspace/host.sock")`},
	{name: "send by a datagram or packet pair", wall: "seccomp", want: "EPERM EPERM no delivery",
		program: `
for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW):
    def pair(): return socket.socketpair(socket.AF_UNIX, kind)
    attempt(pair)
a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
try: a.sendto(b"leak", b"\0" + P["abstract_dgram"].encode())
except OSError: pass
b.settimeout(1)
say("no delivery" if b.recv(9) == b"leak" else "BREACH")`}, // the address is ignored: the peer gets it
	{name: "listen", wall: "seccomp", want: "EPERM EPERM EPERM",
		program: `
a, b = socket.socketpair()
attempt(a.listen); raw("accept4", a.fileno(), 0, 0, 0); attempt(socket.create_server, ("127.0.0.1", 0))`},
	{name: "network devices", wall: "network namespace", want: `\['lo'\]|none`, change: fullProc,
		program: `
try: say([l.split(":")[0].strip() for l in read("/proc/net/dev").decode().splitlines()[2:]])
except OSError: say("none")`},
}

// system is about calls that only a kernel should get.
var system = []attack{
	{name: "ptrace", wall: "seccomp", want: "EPERM EPERM EPERM",
		program: `
raw("ptrace", 0, 0, 0, 0); raw("ptrace", 16, 1, 0, 0)
pid = os.fork()
if pid == 0:
    time.sleep(5); os._exit(0)
raw("ptrace", 16, pid, 0, 0); os.kill(pid, 9); os.wait()`},
	{name: "mount", wall: "seccomp, no capabilities", want: "EPERM( EPERM){8}",
		program: `
raw("mount", b"tmpfs", b"/tmp", b"tmpfs", 0, 0); raw("mount", b"", b"/", b"", 4128, 0); raw("umount2", b"/proc", 2)
raw("open_tree", -100, b"/", 1); raw("move_mount", -100, b"/tmp", -100, b"/usr", 0); raw("fsopen", b"tmpfs", 0)
raw("fsmount", 0, 0, 0); raw("mount_setattr", -100, b"/", 0, buf, 32); raw("fspick", -100, b"/", 0)`},
	{name: "unshare", wall: "seccomp", want: "EPERM( EPERM){7}",
		program: `
for flag in (0x10000000, 0x20000, 0x20000000, 0x40000000, 0x8000000, 0x4000000, 0x2000000, 0x80): raw("unshare", flag)`},
	{name: "clone into new namespaces", wall: "seccomp", want: "EPERM EPERM EPERM ENOSYS",
		program: `
for flag in (0x10000000, 0x20000000, 0x10000000 | 0x20000): raw("clone", flag | 17, 0, 0, 0, 0)
raw("clone3", buf, 88)`},
	{name: "setns", wall: "seccomp", want: "EPERM EPERM",
		program: `
fd = os.open("/proc/self/ns/mnt", os.O_RDONLY)
raw("setns", fd, 0); raw("setns", 0, 0x10000000)`},
	{name: "bpf", wall: "seccomp", want: "EPERM", program: `raw("bpf", 0, buf, 64)`},
	{name: "keyrings", wall: "seccomp", want: "EPERM EPERM EPERM",
		program: `raw("keyctl", 0, -4, 0); raw("add_key", b"user", b"x", b"y", 1, -4); raw("request_key", b"user", b"x", 0, -4)`},
	{name: "io_uring", wall: "seccomp", want: "EPERM EPERM EPERM",
		program: `raw("io_uring_setup", 8, buf); raw("io_uring_enter", 0, 0, 0, 0, 0); raw("io_uring_register", 0, 0, 0, 0)`},
	{name: "userfaultfd", wall: "seccomp, own /dev", want: "EPERM ENOENT", program: `raw("userfaultfd", 1); attempt(read, "/dev/userfaultfd")`},
	{name: "perf events", wall: "seccomp", want: "EPERM", program: `raw("perf_event_open", buf, 0, -1, -1, 0)`},
	{name: "kernel modules and another kernel", wall: "seccomp", want: "EPERM( EPERM){5}",
		program: `
raw("init_module", buf, 16, b""); raw("finit_module", 0, b"", 0); raw("delete_module", b"ext4", 0)
raw("kexec_load", 0, 0, 0, 0); raw("reboot", 0xfee1dead, 672274793, 0, 0); raw("swapon", b"/tmp/x", 0)`},
	{name: "clocks and names of the host", wall: "seccomp", want: "EPERM( EPERM){5}",
		program: `
raw("settimeofday", buf, 0); raw("clock_settime", 0, buf); raw("adjtimex", buf); raw("clock_adjtime", 0, buf)
raw("sethostname", b"x", 1); raw("acct", b"/tmp/x")`},
	{name: "ports and segments of the processor", wall: "seccomp", amd64: true, want: "EPERM EPERM EPERM",
		program: `raw("iopl", 3); raw("ioperm", 0, 16, 1); raw("modify_ldt", 0, buf, 16)`},
	{name: "calls of the 32 bit architecture", wall: "seccomp", amd64: true, wholeOnly: true, want: "",
		ends: signalled(unix.SIGSYS, unix.SIGSEGV), // a Linux without these calls has no gate to them at all
		program: `
import mmap
m = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=7)
m.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")  # mov eax, 20; int 0x80; ret
say(ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))())`},
	{name: "calls of the x32 architecture", wall: "seccomp", amd64: true, want: "ENOSYS ENOSYS", program: `raw(0x40000000 + 39); raw(0x40000000 + 1)`},
	{name: "calls that nobody knows yet", wall: "seccomp", want: "ENOSYS ENOSYS", program: `raw(500); raw(1000)`},
	{name: "write /proc/sys", wall: "own /proc (read-only), outer uid not 0", want: "tried [0-9]+ wrote 0", change: fullProc,
		program: `
tried = wrote = 0
for top in ("/proc/sys", "/proc/self", "/proc/sysrq-trigger", "/proc/irq", "/proc/fs"):
    for d, _, files in os.walk(top) if os.path.isdir(top) else [("/proc", [], ["sysrq-trigger"])]:
        for f in files:
            if d.startswith("/proc/self/") and ("/fd" in d or "/task" in d or "/map_files" in d): continue
            tried += 1
            try: os.close(os.open(d + "/" + f, os.O_WRONLY | os.O_NONBLOCK)); wrote += d + f != "/proc/sysrq-trigger"
            except OSError: pass
say("tried", tried, "wrote", wrote)`},
	{name: "write one's own id maps and OOM score", wall: "own /proc (read-only)", want: "(EROFS|EACCES|EPERM) (EROFS|EACCES) (EROFS|EACCES) (EROFS|EACCES|ENOENT)",
		program: `
for f in ("uid_map", "setgroups", "oom_score_adj", "attr/current"): attempt(write, "/proc/self/" + f, b"-1000")`},
	{name: "write what of one's own /proc one may write", wall: "own /proc (read-only)", want: "EROFS EROFS EROFS EROFS",
		program: `
for f in ("comm", "oom_score_adj", "coredump_filter", "task/%d/comm" % os.getpid()): attempt(write, "/proc/self/" + f, b"1000")`},
	{name: "write /sys and cgroups", wall: "own root", want: "(ENOENT|EROFS|EACCES)( (ENOENT|EROFS|EACCES)){4}",
		program: `
for p in ("/sys/power/state", "/sys/kernel/uevent_helper", "/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/memory/memory.limit_in_bytes",
          "/sys/devices/system/cpu/cpu1/online"): attempt(write, p, b"0")`},
	{name: "make devices", wall: "seccomp, no capabilities, nodev", want: "EPERM( EPERM){4}",
		program: `
for where in ("/tmp/d", "/workspace/d", "/dev/d"):
    attempt(os.mknod, where, 0o600 | 0o020000, os.makedev(1, 1))
attempt(os.mknod, "/workspace/w", 0o020000, 0); attempt(os.mknod, "/tmp/s", 0o140600, 0)`},
	{name: "become another user", wall: "user namespace, no capabilities", want: "(EINVAL|EPERM)( (EINVAL|EPERM)){4} uid 1000 1000",
		program: `
attempt(os.setuid, 0); attempt(os.setgid, 0); attempt(os.setgroups, [0]); attempt(os.setresuid, 0, 0, 0); attempt(os.chown, "/tmp", 0, 0)
say("uid", os.getuid(), os.geteuid())`},
	{name: "get capabilities", wall: "no capabilities", want: "EPERM EPERM EPERM 0{16} 0{16} 0{16} 0{16} 0{16} 1",
		program: `
hdr = struct.pack("=Ii", 0x20080522, 0)
raw("capset", hdr, b"\xff" * 24); raw("prctl", 47, 2, 21, 0, 0); raw("prctl", 28, 0, 0, 0, 0)
status = read("/proc/self/status").decode()
for l in status.splitlines():
    if l.startswith("Cap") or l.startswith("NoNewPrivs"): say(l.split()[1])`},
	{name: "run setuid programs", wall: "no new privileges, nosuid", wholeOnly: true, want: "1000",
		program: `
import subprocess
exe = "/workspace/setuid-id" if os.path.exists("/workspace/setuid-id") else "/usr/bin/id" # only root can plant one
say(subprocess.run([exe, "-u"], capture_output=True, text=True).stdout)`},
	{name: "leave setuid files on the host", wall: "seccomp", want: "EPERM( EPERM){5} ok",
		program: `
attempt(os.open, "/workspace/s1", os.O_CREAT | os.O_WRONLY, 0o4755); attempt(os.mkdir, "/workspace/s2", 0o2755)
open("/workspace/s3", "w").close()
attempt(os.chmod, "/workspace/s3", 0o4755)
fd = os.open("/workspace/s3", os.O_RDWR)
attempt(os.fchmod, fd, 0o2755)
raw("fchmodat", -100, b"/workspace/s3", 0o6755, 0); raw("fchmodat2", -100, b"/workspace/s3", 0o4755, 0)
os.chmod("/workspace/s3", 0o755)
say("ok")`},
	{name: "change personality and process settings", wall: "seccomp", want: "EPERM( EPERM){4}",
		program: `
raw("personality", 0x0400000); raw("personality", 8); raw("prctl", 35, 1, 0, 0, 0); raw("prctl", 22, 2, buf, 0, 0); raw("seccomp", 1, 0, buf)`},
	{name: "keep the kernel from looking at its processes", wall: "seccomp", want: "EPERM EPERM EPERM",
		program: `
sys_("prctl", 4, 1, 0, 0, 0)
for mode in (0, 2, 1 << 32): raw("prctl", 4, mode, 0, 0, 0)`},
	{name: "type into a terminal", wall: "seccomp", want: "ENOTTY ENOTTY",
		program: `
import fcntl
for request in (0x5412, 0x541C): attempt(fcntl.ioctl, 0, request, b"x")`},
	{name: "change a file system by ioctl", wall: "seccomp", want: "ENOTTY( ENOTTY){6}",
		program: `
import fcntl
os.chdir(here())
fd, other = os.open("a", os.O_CREAT | os.O_RDWR), os.open("b", os.O_CREAT | os.O_RDWR)
os.write(other, b"x" * 65536)
attempt(fcntl.ioctl, fd, 0x80086601, bytes(8))  # FS_IOC_GETFLAGS
attempt(fcntl.ioctl, fd, 0x40086602, struct.pack("=q", 0x80))  # FS_IOC_SETFLAGS: no access times
attempt(fcntl.ioctl, fd, 0x40049409, other)  # FICLONE
attempt(fcntl.ioctl, other, 0xC020660B, bytearray(32 + 56))  # FS_IOC_FIEMAP
attempt(fcntl.ioctl, fd, 0xC0185879, bytearray(24))  # FITRIM
attempt(fcntl.ioctl, fd, 0x40806685, bytearray(128))  # FS_IOC_ENABLE_VERITY
attempt(fcntl.ioctl, fd, 0xDEADBEEF, 0)`},
	{name: "attach filters to sockets", wall: "seccomp", want: "ENOPROTOOPT ENOPROTOOPT ENOPROTOOPT",
		program: `
a, b = socket.socketpair()
code = (ctypes.c_ulong * 1)(0x7fff0000_00000006)
attempt(a.setsockopt, 1, 26, struct.pack("@HxxxxxxP", 1, ctypes.addressof(code))); attempt(a.setsockopt, 1, 50, 0); attempt(a.setsockopt, 6, 1, 1)`},
	{name: "hide descriptors in a thread", wall: "seccomp", want: "EPERM EPERM",
		program: `
raw("close_range", 1000, 1000, 2); raw("clone", 0x3d0f00 & ~0x400, 0, 0, 0, 0)`},
	{name: "watch and steer the kernel by odd calls", wall: "seccomp", want: "EPERM( EPERM){7}",
		program: `
for name in ("fanotify_init", "quotactl", "kcmp", "vhangup", "lookup_dcookie", "mbind", "move_pages", "process_madvise"):
    raw(name, 0, 0, 0, 0, 0, 0)`},
	{name: "undo the walls of files", wall: "Landlock", want: "EPERM EPERM EPERM", program: `
raw("landlock_create_ruleset", buf, 8, 0); raw("landlock_add_rule", 0, 1, buf, 0); raw("landlock_restrict_self", 0, 0)`},
}

func fullProc(c *Config) { c.FullProc = true }

func tight(c *Config) {
	c.Limits = Limits{Memory: 64 << 20, Pids: 40, OpenFiles: 64, FileSize: 1 << 20}
	c.TmpBytes, c.TmpInodes = 4<<20, 100
}

func shortCPU(c *Config) { c.Limits.CPUTime = time.Second }
