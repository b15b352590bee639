package confine

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

func memoryHidden(e Exit) bool { return e.Limit == "memory" || e.Limit == HiddenMemory }

func memoryOr(code int) func(Exit) bool {
	return func(e Exit) bool { return e.Limit == "memory" || exited(code)(e) }
}

// tooManyWatches is the end of a sandbox that would leave its user's other programs nothing to wait by; root's sandboxes are
// users of their own.
func tooManyWatches(e Exit) bool {
	return e.Limit == Watches || os.Geteuid() == 0 && e.Limit == "memory"
}

// chainOfForks makes an address space of many pieces, each of which every fork adds a link to.
const chainOfForks = `
import signal
n = 3000
p = libc.mmap(None, n * 4096, 3, 0x22, -1, 0)
ctypes.memset(p, 1, n * 4096)
for i in range(0, n, 2): libc.mprotect(p + i * 4096, 4096, 1)
`

// longFdinfo opens a file of /proc that has a line for each of 25,000 watches, and reads of it a byte.
const longFdinfo = `
import select
watching = select.epoll()
for i in range(50):
    r, w = os.pipe()
    for fd in range(300, 800): os.dup2(r, fd); watching.register(fd, 0)
os.closerange(300, 800)
def long():
    fd = os.open("/proc/self/fdinfo/%d" % watching.fileno(), os.O_RDONLY)
    os.read(fd, 1)
    return fd
`

// bombs try to take more than was given. All run with the limits of tight.
var bombs = []attack{
	{name: "fork bomb", wall: "process limit", want: "EAGAIN at most 40",
		program: `
import signal
n = 0
while True:
    try: pid = os.fork()
    except OSError as e:
        say(errno.errorcode[e.errno]); break
    if pid == 0:
        signal.pause(); os._exit(0)
    n += 1
say("at most 40" if n <= 40 else "BREACH %d" % n)
os._exit(0)`},
	{name: "fork bomb that forks from every branch", wall: "process limit, pid namespace", want: "(done)?",
		ends: memoryOr(0),
		program: `
import signal
end = time.monotonic() + 1
first = os.getpid()
while time.monotonic() < end:
    try: os.fork()
    except OSError: pass
if os.getpid() == first: say("done")
else: signal.pause()
os._exit(0)`},
	{name: "thread bomb", wall: "process limit", want: "RuntimeError at most 40",
		program: `
import threading
stop, n = threading.Event(), 0
try:
    while True:
        threading.Thread(target=stop.wait, daemon=True).start(); n += 1
except RuntimeError as e: say(type(e).__name__)
say("at most 40" if n <= 40 else "BREACH %d" % n)
os._exit(0)`},
	{name: "memory bomb", wall: "memory limit", want: "", ends: limited("memory"),
		program: `
a = []
while True: a.append(bytearray(1 << 20))`},
	{name: "memory bomb over many processes", wall: "memory limit", want: "", ends: limited("memory"),
		program: `
import signal
for i in range(30):
    if os.fork() == 0:
        a = bytearray(b"x" * (8 << 20)); signal.pause()
signal.pause()`},
	{name: "shared memory bomb", wall: "memory limit, else seccomp", want: "(EPERM)?", ends: memoryOr(0),
		program: `
import mmap
a = []
try:
    while True:
        m = mmap.mmap(-1, 4 << 20); m.write(b"x" * (4 << 20)); a.append(m)
except OSError as e: say(errno.errorcode[e.errno] if not a else "BREACH")`},
	{name: "memory that no process has", wall: "memory limit, else seccomp", want: "(EPERM|refused)?", ends: memoryOr(0),
		program: `
import fcntl
fds = []
try:
    while True:
        fd = os.memfd_create("x"); fds.append(fd)
        os.write(fd, b"x" * (1 << 20))
except OSError as e: say(errno.errorcode[e.errno] if not fds else "BREACH")`},
	{name: "shared memory that no process has mapped", wall: "memory limit, else seccomp", want: "(EPERM)?", ends: memoryOr(0),
		program: `
for i in range(64):
    p = libc.mmap(None, 4 << 20, 3, 0x21, -1, 0)
    if p == ctypes.c_void_p(-1).value:
        say(errno.errorcode[ctypes.get_errno()]); os._exit(0)
    ctypes.memset(p, 1, 4 << 20)
    libc.munmap(p + 4096, (4 << 20) - 4096)
say("BREACH")`},
	{name: "shared memory by a device", wall: "memory limit, else Landlock", want: "(EACCES|ENOENT)?", ends: memoryOr(0),
		program: `
try: fd = os.open("/dev/zero", os.O_RDWR)
except OSError as e: say(errno.errorcode[e.errno]); os._exit(0)
for i in range(64):
    p = libc.mmap(None, 4 << 20, 3, 1, fd, 0)
    ctypes.memset(p, 1, 4 << 20)
    libc.munmap(p + 4096, (4 << 20) - 4096)
say("BREACH")`},
	{name: "page tables", wall: "memory limit", want: "", ends: limited("memory"),
		program: `
while True:
    p = libc.mmap(None, 1 << 30, 1, 0x4022, -1, 0)
    if p == ctypes.c_void_p(-1).value: time.sleep(3600)
    for o in range(0, 1 << 30, 2 << 20): ctypes.c_char.from_address(p + o).value`},
	{name: "pieces of address spaces", wall: "memory limit", want: "", ends: limited("memory"),
		program: `
import signal
n = 64000
p = libc.mmap(None, n * 4096, 0, 0x4022, -1, 0)
for i in range(1, n, 2): libc.mprotect(p + i * 4096, 4096, 1)
for i in range(30):
    if os.fork() == 0: signal.pause()
signal.pause()`},
	{name: "pieces of address spaces in a chain of forks", wall: "memory limit", want: "", ends: limited("memory"), change: func(c *Config) { c.Limits.Memory = 96 << 20 },
		program: chainOfForks + `
for i in range(32):
    if os.fork(): signal.pause()
signal.pause()`},
	{name: "pieces of address spaces in a chain of orphans", wall: "memory limit", want: "", ends: limited("memory"), change: func(c *Config) { c.Limits.Memory = 96 << 20 },
		program: chainOfForks + `
first = os.getpid()
signal.signal(signal.SIGCHLD, signal.SIG_IGN) # it may be the one that reaps
for i in range(28):
    if os.fork() == 0: continue
    if os.fork() == 0 or os.getpid() == first: signal.pause()
    os._exit(0)
signal.pause()`},
	{name: "memory of a thread that outlives the first", wall: "memory limit", want: "", ends: limited("memory"),
		program: `
import threading
def hoard():
    while read("/proc/self/stat").rpartition(b")")[2].split()[0] != b"Z": pass
    p = libc.mmap(None, 1 << 30, 3, 0x4022, -1, 0)
    ctypes.memset(p, 1, 1 << 30)
    libc._exit(1)
threading.Thread(target=hoard).start()
sys_("exit", 0)`},
	{name: "buffers of sockets", wall: "memory limit", want: "", ends: limited("memory"),
		program: `
import signal
keep = []
def fill(*, one=b"x" * 65536):
    for a in socket.socketpair():
        keep.append(a)
        a.setblocking(False)
        try:
            while True: a.send(one)
        except BlockingIOError: pass
for i in range(30):
    if os.fork() == 0:
        try:
            while True: fill()
        except OSError: signal.pause()
signal.pause()`},
	{name: "buffers of a process that cannot be looked into", wall: "memory limit", want: "", ends: memoryHidden,
		change: func(c *Config) { c.Limits.FileSize = 64 << 20 },
		program: `
import shutil
copy = here() + "/unreadable"
shutil.copyfile(sys.executable, copy); os.chmod(copy, 0o111)
os.execve(copy, ["python3", "-S", "-c", """
import os, signal, socket
keep = []
for i in range(5): os.fork()
try:
    while True:
        for a in socket.socketpair():
            keep.append(a); a.setblocking(False)
            try:
                while True: a.send(b"x" * 65536)
            except BlockingIOError: pass
except OSError: signal.pause()
"""], {"PYTHONHOME": sys.base_prefix})`},
	{name: "larger buffers of sockets and pipes", wall: "memory limit, else seccomp", want: "(ENOPROTOOPT EPERM|ok)",
		program: `
import fcntl
a, b = socket.socketpair()
r, w = os.pipe()
try: a.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20); fcntl.fcntl(w, 1031, 1 << 20); say("ok")
except OSError as e:
    say(errno.errorcode[e.errno]); attempt(fcntl.fcntl, w, 1031, 1 << 20)`},
	{name: "buffers of sockets in flight", wall: "memory limit, RLIMIT_NOFILE", want: "ETOOMANYREFS|", ends: memoryOr(0),
		program: `
import array
a, b = socket.socketpair()
try:
    for i in range(2000):
        c, d = socket.socketpair()
        for s in (c, d):
            s.setblocking(False)
            try:
                while True: s.send(b"x" * 65536)
            except BlockingIOError: pass
        a.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [c.fileno(), d.fileno()]))])
        c.close(); d.close()
    say("BREACH")
except OSError as e: say(errno.errorcode[e.errno])`},
	{name: "buffers of pipes", wall: "memory limit", want: "", ends: limited("memory"), change: func(c *Config) { c.Limits.Memory, c.Limits.OpenFiles = 32<<20, 1024 },
		program: `
keep = []
try:
    while True:
        r, w = os.pipe(); keep.append(r)
        os.set_blocking(w, False)
        try:
            while True: os.write(w, b"x" * 4096)
        except BlockingIOError: os.close(w)
except OSError: time.sleep(3600)`},
	{name: "buffers of pipes with a name", wall: "memory limit", want: "", ends: limited("memory"), change: func(c *Config) {
		c.Limits.Memory, c.Limits.OpenFiles, c.TmpInodes = 32<<20, 1024, 1200
	},
		program: `
keep = []
for i in range(1000):
    os.mkfifo("/tmp/p%d" % i)
    keep.append(os.open("/tmp/p%d" % i, os.O_RDWR | os.O_NONBLOCK))
    try:
        while True: os.write(keep[-1], b"x" * 4096)
    except BlockingIOError: pass
time.sleep(60)
say("BREACH")`},
	{name: "pages that pipes keep once they were read", wall: "memory limit", want: "", ends: limited("memory"), change: func(c *Config) { c.Limits.Memory, c.Limits.OpenFiles = 64<<20, 1024 },
		program: `
ready, told = os.pipe()
for _ in range(12):
    if not os.fork():
        keep = []
        try:
            while True:
                r, w = os.pipe(); keep.append((r, w))
                os.write(w, b"x" * 4096); os.write(w, b"x" * 4096); os.read(r, 8192)
        except OSError: os.write(told, b"x"); time.sleep(3600)
left = 12
while left: left -= len(os.read(ready, left))
time.sleep(60)
say("BREACH")`},
	{name: "lists of the names in open directories", wall: "memory limit, by watchdog", want: "", ends: limited("memory"), change: func(c *Config) {
		overlayWorkspace(c)
		c.Limits.Memory, c.Limits.OpenFiles = 64<<20, 1024
	},
		program: `
for i in range(3000): os.close(os.open("n%06d" % i + "x" * 240, os.O_CREAT | os.O_WRONLY))
keep = []
for i in range(900): # each list has 1.5 MB
    keep.append(os.open(".", os.O_RDONLY | os.O_DIRECTORY)); os.listdir(keep[-1])
    os.close(os.open("z", os.O_CREAT | os.O_WRONLY)); os.unlink("z")
say("BREACH")`},
	{name: "lists of names that many processes read alike", wall: "memory limit, by watchdog", want: "", ends: limited("memory"), change: overlayWorkspace,
		program: `
for i in range(3000): os.close(os.open("n%06d" % i + "x" * 240, os.O_CREAT | os.O_WRONLY))
def hoard(): # 3 MB, at the same numbers, and the same places in them
    keep = [os.open(".", os.O_RDONLY | os.O_DIRECTORY) for i in range(2)]
    for fd in keep: os.listdir(fd)
    return keep
keep = hoard()
for _ in range(30):
    if os.fork(): continue
    for fd in keep: os.close(fd)
    keep = hoard()
    break
time.sleep(60)
say("BREACH")`},
	{name: "lists of directories on their way between sockets", wall: "memory limit, by watchdog", want: "", ends: limited("memory"), change: func(c *Config) {
		overlayWorkspace(c)
		c.Limits.Memory, c.Limits.OpenFiles = 64<<20, 1024
	},
		program: `
for i in range(3000): os.close(os.open("n%06d" % i + "x" * 240, os.O_CREAT | os.O_WRONLY))
keep = []
for i in range(900):
    if i % 100 == 0: keep.append(socket.socketpair())
    d = os.open(".", os.O_RDONLY | os.O_DIRECTORY); os.listdir(d)
    socket.send_fds(keep[-1][0], [b"x"], [d]); os.close(d)
    os.close(os.open("z", os.O_CREAT | os.O_WRONLY)); os.unlink("z")
say("BREACH")`},
	{name: "directories that are being read", wall: "memory limit, by watchdog", want: "", ends: limited("memory"), change: func(c *Config) { c.Limits.Memory, c.Limits.OpenFiles = 96<<20, 1024 },
		program: `
ready, told = os.pipe()
for _ in range(8):
    if not os.fork():
        keep = []
        try:
            while True:
                keep.append(os.scandir("/usr/lib")); next(keep[-1])
        except OSError: os.write(told, b"x"); time.sleep(3600)
left = 8
while left: left -= len(os.read(ready, left))
time.sleep(60)
say("BREACH")`},
	{name: "locks of files", wall: "limit of locks, by watchdog", want: "", ends: limited(Locks),
		program: `
import fcntl
fds = [os.open("/tmp/l%d" % i, os.O_CREAT | os.O_RDWR) for i in range(50)]
for j in range(100):
    for fd in fds: fcntl.lockf(fd, fcntl.LOCK_EX, 1, (100 - j) * 2)
time.sleep(60)
say("BREACH")`},
	{name: "locks of what others use", wall: "limit of locks, by watchdog", want: "", ends: limited(Locks),
		program: `
import fcntl, select
null = os.open("/dev/null", os.O_RDWR)
library = os.open(sys.executable, os.O_RDONLY)
folder = os.open("/usr", os.O_RDONLY)
keep = select.epoll()
for fd in (null, library, folder, keep.fileno(), os.pipe()[0]): # 5,000, of which each kind is needed
    for i in range(1000): fcntl.lockf(fd, fcntl.LOCK_SH, 1, (1000 - i) * 2)
time.sleep(60)
say("BREACH")`},
	{name: "locks of many processes", wall: "limit of locks, by watchdog", want: "", ends: limited(Locks),
		program: `
import fcntl
null = os.open("/dev/null", os.O_RDWR)
for _ in range(30):
    if not os.fork():
        for i in range(200): fcntl.lockf(null, fcntl.LOCK_SH, 1, (200 - i) * 2)
        break
time.sleep(60)
say("BREACH")`},
	{name: "locks of files that are mapped alone", wall: "seccomp", want: "EINVAL", program: `
import fcntl
try: fcntl.fcntl(os.open("/tmp/l", os.O_CREAT | os.O_RDWR), 37, struct.pack("hhqqi", fcntl.F_WRLCK, 0, 0, 1, 0)); say("BREACH")
except OSError as e: say(errno.errorcode[e.errno])`},
	{name: "pages of a file that is gone, in a pipe or socket", wall: "memory limit, else seccomp", want: "EINVAL EINVAL EINVAL", uncounted: true,
		program: `
fd = os.open(here() + "/f", os.O_CREAT | os.O_RDWR)
a, b = socket.socketpair()
r, w = os.pipe()
os.write(fd, b"x" * 65536)
for call in (lambda: os.splice(fd, w, 1, offset_src=0), lambda: os.sendfile(w, fd, 0, 1), lambda: os.sendfile(a.fileno(), fd, 0, 1)): attempt(call)`},
	{name: "epolls that wait for ever more", wall: "limit of watches, memory limit", want: "", ends: tooManyWatches,
		change: func(c *Config) { c.Limits.Memory, c.Limits.OpenFiles = 128<<20, 1024 },
		program: `
import select, signal
os.fork(); os.fork()
fds = [os.dup(0) for i in range(400)]
r, w = os.pipe()
for fd in fds: os.dup2(r, fd)
keep = []
try:
    while True:
        e = select.epoll(); keep.append(e)
        for fd in fds: e.register(fd)
except OSError as e:
    if e.errno == errno.ENOSPC: say("BREACH")
signal.pause()`},
	{name: "texts of procfs that files keep", wall: "memory limit", want: "", ends: limited("memory"),
		change: func(c *Config) { c.Limits.Memory, c.Limits.OpenFiles = 96<<20, 1024 }, program: longFdinfo + `
os.fork()
for i in range(100): long() # each keeps 2 to 4 MiB
time.sleep(60)
say("BREACH")`},
	{name: "texts of procfs in files on their way between sockets", wall: "memory limit", want: "", ends: limited("memory"),
		change: func(c *Config) { c.Limits.Memory, c.Limits.OpenFiles = 96<<20, 1024 }, program: longFdinfo + `
first = long()
keep = []
for i in range(200): # fewer than would do if each was a full socket
    if i % 100 == 0: keep.append(socket.socketpair())
    fd = long(); socket.send_fds(keep[-1][0], [b"x"], [fd]); os.close(fd)
time.sleep(60)
say("BREACH")`},
	{name: "messages and semaphores of System V", wall: "memory limit, else seccomp", wholeOnly: true, change: func(c *Config) { c.Profile = ProfileGeneric },
		want: "EPERM EPERM", uncounted: true, program: `
raw("msgget", 0, 0o1600); raw("semget", 0, 32000, 0o1600)`},
	{name: "fill /tmp", wall: "/tmp's size", want: "ENOSPC at most 4", change: func(c *Config) { c.Limits.FileSize = 1 << 30 },
		program: `
n = 0
with open("/tmp/big", "wb", buffering=0) as f:
    try:
        while True: f.write(b"x" * (1 << 20)); n += 1
    except OSError as e: say(errno.errorcode[e.errno])
say("at most 4" if n <= 4 else "BREACH %d" % n)`},
	{name: "fill /tmp with files", wall: "/tmp's inodes", want: "ENOSPC at most 100",
		program: `
n = 0
try:
    while True: open("/tmp/f%d" % n, "w").close(); n += 1
except OSError as e: say(errno.errorcode[e.errno])
say("at most 100" if n <= 100 else "BREACH %d" % n)`},
	{name: "write into the root and /dev", wall: "own root (read-only)", want: "EROFS EROFS EROFS EROFS",
		program: `
for p in ("/x", "/etc/x", "/dev/x", "/usr/x"): attempt(write, p, flags=os.O_CREAT | os.O_WRONLY)`},
	{name: "descriptors of many processes", wall: "limit of descriptors, by watchdog", want: "", ends: limited(Descriptors),
		change: func(c *Config) { c.Limits.Memory, c.Limits.OpenFiles, c.Limits.Pids = 1<<30, 1024, 80 },
		program: `
for _ in range(60):
    if not os.fork(): break
try:
    while True: os.dup(0)
except OSError: time.sleep(60)
say("BREACH")`},
	{name: "descriptor bomb", wall: "RLIMIT_NOFILE", want: "EMFILE at most 64",
		program: `
n = 0
try:
    while True: os.dup(0); n += 1
except OSError as e: say(errno.errorcode[e.errno])
say("at most 64" if n <= 64 else "BREACH %d" % n)`},
	{name: "raise one's own limits", wall: "hard limits, no capabilities", want: "(ValueError|EPERM)( (ValueError|EPERM)){2} same",
		program: `
import resource
for r in (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC, resource.RLIMIT_FSIZE):
    try: resource.setrlimit(r, (1 << 30, 1 << 30)); say("BREACH", r)
    except ValueError: say("ValueError")
    except OSError as e: say(errno.errorcode[e.errno])
resource.setrlimit(resource.RLIMIT_CORE, (1 << 30, 1 << 30))
say("same" if resource.getrlimit(resource.RLIMIT_CORE) == (1, 1) else "BREACH")`},
	{name: "sparse file", wall: "RLIMIT_FSIZE", want: "EFBIG EFBIG EFBIG small",
		program: `
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
fd = os.open("/workspace/sparse", os.O_CREAT | os.O_RDWR)
attempt(os.ftruncate, fd, 1 << 50); attempt(os.pwrite, fd, b"x", 1 << 40); attempt(os.posix_fallocate, fd, 0, 1 << 40)
say("small" if os.fstat(fd).st_size <= 1 << 20 else "BREACH")`},
	{name: "promise room on a disk", wall: "seccomp", want: "ENOTSUP ENOTSUP EFBIG 0",
		program: `
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
fd = os.open(here() + "/f", os.O_CREAT | os.O_RDWR)
raw("fallocate", fd, 0, 0, 1 << 19); raw("fallocate", fd, 1, 0, 1 << 30); attempt(os.posix_fallocate, fd, 1 << 20, 1 << 20)
say(os.fstat(fd).st_blocks)`},
	{name: "fill a disk with attributes", wall: "seccomp", want: "ENOTSUP ENOTSUP ENOTSUP (ENOSYS|EPERM) 0", change: overlayWorkspace,
		program: `
os.chdir(here())
fd = os.open("f", os.O_CREAT | os.O_RDWR)
attempt(os.setxattr, "f", "user.a", b"x" * 3000); attempt(os.setxattr, fd, "user.a", b"x" * 3000)
attempt(os.setxattr, "f", "user.a", b"x", follow_symlinks=False); raw("setxattrat", -100, b"f", 0, b"user.a", 0, 0)
say(len(os.listxattr(fd)))`},
	{name: "big file on the host", wall: "RLIMIT_FSIZE", want: "", ends: signalled(unix.SIGXFSZ), wholeOnly: true,
		program: `
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
with open("/workspace/big", "wb", buffering=0) as f:
    while True: f.write(b"x" * 65536)`},
	{name: "lock memory", wall: "RLIMIT_MEMLOCK", want: "(ENOMEM|EPERM)",
		program: `
m = ctypes.create_string_buffer(8 << 20)
raw("mlock", m, 8 << 20)`},
	{name: "real-time priority", wall: "RLIMIT_RTPRIO, RLIMIT_NICE", want: "EPERM (EPERM|EACCES)",
		program: `
attempt(os.sched_setscheduler, 0, os.SCHED_FIFO, os.sched_param(50)); attempt(os.setpriority, os.PRIO_PROCESS, 0, -10)`},
	{name: "timers and queued signals without end", wall: "RLIMIT_SIGPENDING", want: "EAGAIN at most 1024",
		program: `
n, timer = 0, (ctypes.c_int * 1)()
try:
    while n < 100000: sys_("timer_create", 1, 0, timer); n += 1
except OSError as e: say(errno.errorcode[e.errno])
say("at most 1024" if n <= 1024 else "BREACH %d" % n)`},
	{name: "endless loop", wall: "CPU time limit", want: "", ends: limited("cpu time"), change: shortCPU, program: `
while True: pass`},
	{name: "endless loop in many processes", wall: "CPU time limit, by watchdog", want: "", ends: limited("cpu time"), change: shortCPU, program: `
for i in range(3): os.fork()
while True: pass`},
	{name: "endless loop in processes that nobody waits for", wall: "CPU time limit, by watchdog", want: "", ends: limited("cpu time"),
		change: func(c *Config) { c.Limits.CPUTime = 2 * time.Second },
		program: `
import signal
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while True:
    for i in range(4):
        if os.fork() == 0:
            while time.process_time() < 0.2: pass
            os._exit(0)
    try: os.wait()
    except OSError: pass`},
	{name: "core dump", wall: "RLIMIT_CORE", want: "", ends: signalled(unix.SIGSEGV, unix.SIGABRT), wholeOnly: true,
		program: `
os.chdir("/workspace")
ctypes.string_at(8)`},
	{name: "have the host handle a core dump", wall: "seccomp, RLIMIT_CORE", want: "0 0 1 1( 1 1){5} EPERM", program: `
import resource
core, none = resource.RLIMIT_CORE, (ctypes.c_ulong * 2)(0, 0)
say(libc.setrlimit(core, none), libc.prlimit(0, core, none, None))
say(*resource.getrlimit(core))
for set in (lambda: sys_("prlimit64", 0, core, none, 0), lambda: sys_("setrlimit", core, none),
            lambda: resource.setrlimit(core, (0, 0)), lambda: os.system("ulimit -c 0")):
    set(); say(*resource.getrlimit(core))
if os.fork() == 0:
    sys_("prlimit64", os.getppid(), core, none, 0); os._exit(0)
os.wait()
say(*resource.getrlimit(core))
attempt(resource.prlimit, 0, core, (0, 0))`},
}

// lives are about outliving, hiding, and reaching others.
var lives = []attack{
	{name: "daemonise and outlive", wall: "pid namespace", want: "done",
		program: `
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.chdir("/"); time.sleep(0.05)
        while True:
            try:
                with open("/workspace/alive", "a") as f: f.write("x")
            except OSError: pass
            time.sleep(0.01)
    os._exit(0)
os.wait()
say("done")
os._exit(0)`},
	{name: "see other processes", wall: "pid namespace", want: "only mine",
		program: `
others = [d for d in os.listdir("/proc") if d.isdigit() and int(d) not in (1, os.getpid(), os.getppid())]
say("only mine" if not others else "BREACH %s" % others)`},
	{name: "kill siblings and the kernel", wall: "pid namespace", want: "ESRCH ESRCH ESRCH",
		program: `
for pid in (P["sibling"], P["kernel"], P["sibling"] + 1): attempt(os.kill, pid, 9)`},
	{name: "kill the init", wall: "pid namespace, Landlock", wholeOnly: true, want: "tried alive",
		program: `
for sig in range(1, 65):
    try: os.kill(1, sig)
    except OSError: pass
say("tried", "alive")`},
	{name: "signal storm", wall: "pid namespace, RLIMIT_SIGPENDING", want: "done",
		program: `
import signal
for s in range(1, 65):
    try: signal.signal(s, signal.SIG_IGN)
    except (OSError, ValueError): pass
for i in range(20000):
    try: os.kill(-1 if i % 2 else 0, (i % 31) + 1 if (i % 31) + 1 not in (9, 19) else 40)
    except OSError: pass
say("done")`},
	{name: "talk to siblings by System V and POSIX memory", wall: "ipc namespace, own /tmp", want: "(EPERM|ENOENT|ENOSYS) ENOENT EPERM",
		program: `
raw("shmget", 0x5ec4e7, 4096, 0o600); attempt(read, "/dev/shm/sibling"); raw("mq_open", b"q", 66, 0o600, 0)`},
	{name: "ignore SIGTERM", wall: "SIGKILL to pid 1", want: "done", program: `
import signal
for s in range(1, 65):
    try: signal.signal(s, signal.SIG_IGN)
    except (OSError, ValueError): pass
say("done")`},
	{name: "drop the parent-death signal", wall: "pid namespace", want: "done", program: `
raw_ok = sys_("prctl", 1, 0, 0, 0, 0)
say("done")`},
	{name: "have the kernel killed in its place when memory runs out", wall: "OOM score", want: "1000 (EROFS|EACCES|EPERM)", program: `
say(open("/proc/self/oom_score_adj").read().strip()); attempt(write, "/proc/self/oom_score_adj", b"0")`},
}

// files are about the workspace.
var files = []attack{
	{name: "symbolic links out of the workspace", wall: "own root", want: "ENOENT ENOENT ENOENT",
		program: `
os.chdir(here())
os.symlink("/etc/shadow", "l1"); os.symlink(P["secret"], "l2"); os.symlink("../../../../../" + P["secret"], "l3")
for l in ("l1", "l2", "l3"): attempt(read, l)`},
	{name: "links planted by the host", wall: "own root", want: "ENOENT ENOENT",
		program: `
attempt(read, "/workspace/planted-link"); attempt(write, "/workspace/planted-link")`},
	{name: "hard links to files outside", wall: "own root", want: "(EXDEV|EPERM|EACCES) ENOENT (EXDEV|EPERM|EACCES)",
		program: `
attempt(os.link, "/etc/passwd", "/workspace/h1"); attempt(os.link, P["secret"], "/workspace/h2"); attempt(os.link, "/usr/bin/env", "/workspace/h3")`},
	{name: "dots out of the workspace", wall: "own root", want: "ENOENT same",
		program: `
attempt(read, "/workspace/../../../../../../" + P["secret"])
fd = os.open("/workspace", os.O_RDONLY)
for i in range(50): fd = os.open("..", os.O_RDONLY, dir_fd=fd)
say("same" if os.fstat(fd)[:2] == os.stat("/")[:2] else "BREACH")`},
	{name: "move the workspace's mount away", wall: "seccomp, own root", want: "(EBUSY|EROFS|EACCES|EXDEV) (EBUSY|EROFS|EACCES|EXDEV)",
		program: `
attempt(os.rename, "/workspace", "/tmp/w"); attempt(os.rmdir, "/workspace")`},
	{name: "devices planted by the host", wall: "nodev", want: "(EACCES|ENOENT|EPERM)", program: `attempt(read, "/workspace/planted-device")`},
	{name: "write a read-only workspace", wall: "read-only mount", want: "EROFS( EROFS){3} ENOTSUP hello", change: func(c *Config) { c.Workspace.Access = ReadOnly },
		program: `
attempt(write, "/workspace/hello"); attempt(write, "/workspace/new", flags=os.O_CREAT | os.O_WRONLY); attempt(os.unlink, "/workspace/hello")
attempt(os.chmod, "/workspace/hello", 0o600); attempt(os.setxattr, "/workspace/hello", "user.x", b"y")
say(read("/workspace/hello").decode())`},
	{name: "read what is hidden of a folder", wall: "nodev", want: "EACCES( EACCES){5} (EROFS|EPERM) (EROFS|EPERM|EBUSY) hello",
		change: func(c *Config) {
			c.Workspace.Access, c.Workspace.Hidden = ReadOnly, []string{"gone", "gone-dir/", "gone-dir/x", "other", "state/", "victim"}
		},
		program: `
attempt(read, "/workspace/victim"); attempt(read, "/proc/self/root/workspace/victim"); attempt(read, "/proc/self/cwd/../workspace/other")
fd = os.open("/workspace/other", os.O_PATH); attempt(read, f"/proc/self/fd/{fd}")
attempt(os.listdir, "/workspace/state"); attempt(read, "/workspace/state/agentkernel/token")
attempt(os.chmod, "/workspace/victim", 0o644); attempt(os.unlink, "/workspace/victim")
say(read("/workspace/hello").decode())`},
	{name: "write through an overlay", wall: "overlay", want: "hello changed", change: overlayWorkspace,
		program: `
say(read("/workspace/hello").decode())
with open("/workspace/hello", "w") as f: f.write("changed")
os.mkdir("/workspace/made"); os.unlink("/workspace/victim"); os.rename("/workspace/other", "/workspace/other2")
say(read("/workspace/hello").decode())`},
	{name: "hold up the host by a lease", wall: "seccomp", want: "EPERM EPERM", change: func(c *Config) { c.Workspace.Access = ReadOnly },
		program: `
import fcntl
fd = os.open("/workspace/hello", os.O_RDONLY)
attempt(fcntl.fcntl, fd, fcntl.F_SETLEASE, fcntl.F_RDLCK); attempt(fcntl.fcntl, fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)`},
	{name: "watch what the host does in a folder", wall: "seccomp", want: "ENOSYS ENOSYS EPERM EPERM", change: func(c *Config) { c.Workspace.Access = ReadOnly },
		program: `
import fcntl
raw("inotify_init1", 0); raw("inotify_add_watch", 0, b"/workspace", 0xfff); raw("fanotify_init", 0, 0)
attempt(fcntl.fcntl, os.open("/workspace", os.O_RDONLY), fcntl.F_NOTIFY, fcntl.DN_ACCESS | fcntl.DN_MULTISHOT)`},
	{name: "leave a whiteout", wall: "seccomp", want: "EINVAL EINVAL",
		program: `
os.chdir(here())
open("a", "w").close(); open("/tmp/a", "w").close()
raw("renameat2", -100, b"a", -100, b"b", 4); raw("renameat2", -100, b"/tmp/a", -100, b"/tmp/b", 4)`},
	{name: "work in a workspace as anybody would", wall: "idmapped mount", want: "hello 1000 1000 done",
		program: `
say(read("/workspace/hello").decode())
os.chdir(here())
with open("made", "w") as f: f.write("by the program")
st = os.stat("made")
say(st.st_uid, st.st_gid)
os.rename("made", "made2"); os.mkdir("dir"); os.chmod("made2", 0o640)
say("done")`},
}

func overlayWorkspace(c *Config) { c.Workspace.Access = Overlay }
