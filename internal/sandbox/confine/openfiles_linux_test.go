package confine

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// looksMore waits until a watchdog has looked so often again.
func (r *running) looksMore(t *testing.T, n int64) {
	t.Helper()
	last := r.dog.looks.Load() + n
	until(t, "more looks of the watchdog", func() bool {
		select {
		case <-r.Done():
			return true
		default:
			return r.dog.looks.Load() >= last
		}
	})
}

// mustLive fails if a sandbox has ended.
func (r *running) mustLive(t *testing.T, what string) {
	t.Helper()
	select {
	case <-r.Done():
		e, err := r.Wait(t.Context())
		t.Errorf("%s ended by %s, %v\n%s", what, e, err, r.err)
	default:
	}
}

// TestZombiesHoldNothing has a process end that nobody waits for: an ordinary user may not look into it any more.
func TestZombiesHoldNothing(t *testing.T) {
	bothUsers(t, func(t *testing.T) {
		r := launchWhole(t, newSpawner(t, func(c *SpawnerConfig) { c.NoCgroups = true }), pythonConfig(t, `
import fcntl, os, signal
if os.fork() == 0:
    fd = os.open("/tmp/locked", os.O_CREAT | os.O_RDWR)
    for i in range(100): fcntl.lockf(fd, fcntl.LOCK_EX, 1, 2 * i)
    print("up", flush=True)
signal.pause()
`))
		r.out.await(t, "up")
		l := newFilesLook(r.cell.Config, 0, true, 10_000)
		all := seeAll(treeOf(r.PID()))
		if n := l.of(all); n.locks != 100 {
			t.Fatalf("%d locks", n.locks)
		}
		child := all[len(all)-1].pid
		if err := unix.Kill(child, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		until(t, "it ends, and is not waited for", func() bool {
			all = seeAll(treeOf(r.PID()))
			return isZombie(all[len(all)-1].status) && all[len(all)-1].pid == child
		})
		if n := l.of(all); n.locks != 0 {
			t.Errorf("%d locks of a process that has ended", n.locks)
		}
	})
}

// TestInheritedFilesCountOnce has workers inherit an open directory whose list is large, in a file descriptor and in a socket, and
// files that are locked.
func TestInheritedFilesCountOnce(t *testing.T) {
	test := func(t *testing.T) {
		cfg := pythonConfig(t, `
import fcntl, os, signal, socket
os.chdir("/workspace")
for i in range(3000): os.close(os.open("n%06d" % i + "x" * 240, os.O_CREAT | os.O_WRONLY))
names = os.scandir(); next(names)
a, b = socket.socketpair()
socket.send_fds(a, [b"x"], [os.open("/usr", os.O_RDONLY)])
one = os.open("/tmp/one", os.O_CREAT | os.O_RDWR)
for i in range(150): fcntl.lockf(one, fcntl.LOCK_EX, 1, (150 - i) * 2)
for i in range(30): os.dup(one)
for i in range(120): fcntl.flock(os.open("/tmp/f%d" % i, os.O_CREAT | os.O_RDWR), fcntl.LOCK_EX)
for i in range(45):
    if not os.fork(): break
else: print("up", flush=True)
signal.pause()`)
		cfg.Limits = Limits{Memory: 96 << 20, Pids: 60}
		dir := publicDir(t)
		for _, name := range []string{"work", "scratch"} {
			if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		cfg.Workspace = &Workspace{Source: filepath.Join(dir, "work"), Access: Overlay, Scratch: filepath.Join(dir, "scratch")}
		r := launchWhole(t, newSpawner(t, func(c *SpawnerConfig) { c.NoCgroups = true }), cfg)
		r.out.await(t, "up")
		r.looksMore(t, 3)
		r.mustLive(t, "a program whose workers inherit what it has open")
	}
	bothUsers(t, test)
}

// TestSharedFilesCountOnce has workers inherit an epoll that waits for much, and processes share a table of descriptors with locked files.
func TestSharedFilesCountOnce(t *testing.T) {
	bothUsers(t, func(t *testing.T) {
		s := newSpawner(t, func(c *SpawnerConfig) { c.NoCgroups = true })
		s.watches = newShares(10_000, unbounded)
		cfg := pythonConfig(t, fmt.Sprintf(`
import ctypes, fcntl, os, select, signal
one, other = select.epoll(), select.epoll()
for i in range(6):
    r, w = os.pipe()
    for fd in range(300, 800): os.dup2(r, fd); (one if i %% 2 else other).register(fd, 0)
os.closerange(300, 800)
for i in range(30): os.dup(one.fileno())
file = os.open("/tmp/one", os.O_CREAT | os.O_RDWR)
for i in range(1500): fcntl.lockf(file, fcntl.LOCK_EX, 1, (1500 - i) * 2)
for i in range(12):
    if not os.fork(): signal.pause()
for i in range(4):
    if not ctypes.CDLL(None).syscall(%d, 0x400 | 17, 0, 0, 0, 0): signal.pause() # CLONE_FILES | SIGCHLD
print("up", flush=True)
signal.pause()`, unix.SYS_CLONE))
		cfg.Limits = Limits{Memory: 256 << 20, Pids: 60, OpenFiles: 1024}
		r := launchWhole(t, s, cfg)
		r.out.await(t, "up")
		r.looksMore(t, 3)
		r.mustLive(t, "a program whose processes share what it has open")
		l := newFilesLook(r.cell.Config, 0, true, 10_000)
		if n := l.of(seeAll(treeOf(r.PID()))); n.watches != 3000 || n.locks != 1500 {
			t.Errorf("it has %d watches and %d locks", n.watches, n.locks)
		}
	})
}

// TestFilesOfProcCountLittle has a program keep some open.
func TestFilesOfProcCountLittle(t *testing.T) {
	bothUsers(t, func(t *testing.T) {
		cfg := pythonConfig(t, `
import os, signal
keep = [open("/proc/self/" + name, "rb") for name in ("status", "stat", "maps", "mountinfo", "fdinfo/0", "cgroup") for i in range(4)]
for f in keep: f.read(1)
for i in range(20):
    if not os.fork(): break
else: print("up", flush=True)
signal.pause()`)
		cfg.Limits = Limits{Memory: 128 << 20, Pids: 60}
		r := launchWhole(t, newSpawner(t, func(c *SpawnerConfig) { c.NoCgroups = true }), cfg)
		r.out.await(t, "up")
		r.looksMore(t, 3)
		r.mustLive(t, "a program that reads /proc")
	})
}

// TestSandboxesShareLocks starts some that together hold more locks than all may.
func TestSandboxesShareLocks(t *testing.T) {
	s := newSpawner(t)
	s.locks = newShares(1000, 1000)
	hoard := func(n int) *running {
		return launchWhole(t, s, pythonConfig(t, fmt.Sprintf(`
import fcntl, os, signal
null = os.open("/dev/null", os.O_RDWR)
for i in range(%d): fcntl.lockf(null, fcntl.LOCK_SH, 1, i * 2)
print("up", flush=True)
signal.pause()`, n)))
	}
	list := []*running{hoard(300), hoard(300)}
	for _, r := range list {
		r.out.await(t, "up")
		r.looksMore(t, 2)
	}
	if e := hoard(600).finish(t); e.Limit != Locks {
		t.Errorf("the one with the most ended by %s", e)
	}
	for _, r := range list {
		r.mustLive(t, "one with less")
	}
}

// TestUnreadableFilesCountAsBefore has reads fail at each step of a look.
func TestUnreadableFilesCountAsBefore(t *testing.T) {
	py, err := python()
	if err != nil {
		t.Fatal(err)
	}
	const locks = 100
	cmd := exec.Command(py.Executable, "-I", "-S", "-c", fmt.Sprintf(`
import fcntl, os, signal, sys
fd = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR)
for i in range(%d): fcntl.lockf(fd, fcntl.LOCK_EX, 1, i * 2)
print("up", flush=True)
signal.pause()`, locks), filepath.Join(t.TempDir(), "f"))
	out, w := collect(t)
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	w.Close()
	out.await(t, "up")
	l := newFilesLook(Config{}.withDefaults(), 0, true, MostWatches)
	all := seeAll([]int{cmd.Process.Pid})
	if n := l.of(all).locks; n != locks {
		t.Fatalf("it holds %d locks, not %d", n, locks)
	}
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	var first unix.Stat_t
	free := uint64(0)
	for unix.Fstat(int(free), &first) == nil {
		free++
	}
	failed := 0
	for n := range uint64(5) {
		few := before
		few.Cur = free + n
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
			t.Fatal(err)
		}
		got := l.of(all).locks
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
			t.Fatal(err)
		}
		if !l.known {
			failed++
		}
		if got != locks {
			t.Errorf("with %d descriptors left for the look it sees %d locks", n, got)
		}
	}
	if failed < 3 {
		t.Errorf("%d of the looks failed", failed)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if n := l.of(all).locks; n != 0 {
		t.Errorf("after its end it holds %d locks", n)
	}
}

// TestLooksAtDescriptorsAreBounded has a look stop where there are too many, and the next one wait.
func TestLooksAtDescriptorsAreBounded(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH); err != nil {
		t.Fatal(err)
	}
	l := newFilesLook(Config{}.withDefaults(), 0, true, MostWatches)
	l.most.descriptors = 1 << 20
	all := seeAll([]int{os.Getpid()})
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, used := time.Now(), threadTime()
	for threadTime()-used < 20*time.Millisecond { // as many looks as can be measured
		before, used = time.Now(), threadTime()
		for range 200 {
			all = append(all, all[0])
		}
		l.of(all)
		l.last = nil
	}
	used = threadTime() - used
	if rest := l.rest.Sub(before); rest < watchShare*used*9/10 {
		t.Errorf("after a look that used %s it rests for %s", used, rest)
	}
	all = all[:1]
	if got := l.of(all); got.locks < 1 || got.descriptors < 4 {
		t.Errorf("%+v", got)
	}
	l.rest = time.Now().Add(time.Hour)
	if l.due() {
		t.Error("it does not rest")
	}
	l.most.descriptors = 3
	if got := l.of(all); got.locks > 0 || got.descriptors < 4 {
		t.Errorf("beyond the bound it sees %+v", got)
	}
}

// TestUnreadableDirectoryIsLargest has a directory whose names cannot be counted lie in a socket.
func TestUnreadableDirectoryIsLargest(t *testing.T) {
	l := newDirLists(Config{})
	n := l.unread(&unix.Stat_t{Size: 1 << 20})
	if n != 1<<20*unreadableBytes || l.largest != n {
		t.Errorf("it counts %d bytes, and one of its kind %d", n, l.largest)
	}
}

// TestOldSumsDoNotKill has a program read into its memory what lay in pipes at the last look.
func TestOldSumsDoNotKill(t *testing.T) {
	bothUsers(t, func(t *testing.T) {
		cfg := pythonConfig(t, `
import os, signal
pipes = [os.pipe() for i in range(640)]
for r, w in pipes: os.write(w, b"x" * 65536)
def drain(*_):
    global kept
    kept = [os.read(r, 65536) for r, w in pipes]
    print("drained", flush=True)
signal.signal(signal.SIGUSR1, drain)
print("up", flush=True)
while True: signal.pause()`)
		cfg.Limits = Limits{Memory: 80 << 20, OpenFiles: 2048}
		r := launchWhole(t, newSpawner(t, func(c *SpawnerConfig) { c.NoCgroups = true }), cfg)
		r.out.await(t, "up")
		r.dog.once.Do(func() { close(r.dog.ended) })
		r.dog.done.Wait()
		w := &watchdog{process: r.Process, load: load{most: cfg.Limits.Memory}, files: newFilesLook(r.cell.Config, r.PID(), false, MostWatches)}
		if limit := w.look(); limit != "" || w.files.sum.buffers < 40<<20 {
			t.Fatalf("full pipes: %q, %d bytes", limit, w.files.sum.buffers)
		}
		w.files.rest = time.Now().Add(time.Hour)
		if err := r.Signal(unix.SIGUSR1); err != nil {
			t.Fatal(err)
		}
		r.out.await(t, "drained")
		if limit := w.look(); limit != "" || !w.again || w.looks.Load() != 2 {
			t.Errorf("empty pipes: %q after %d looks", limit, w.looks.Load())
		}
		w.load.looks = 1
		for pid, s := range w.load.spaces {
			s.pieces = 1 << 20
			w.load.spaces[pid] = s
		}
		if limit := w.look(); limit != "" {
			t.Errorf("pieces of address spaces that it has no more: %q", limit)
		}
	})
}

// TestLooksSoonWhereMuchIsOpened has buffers and lists grow from one look to the next.
func TestLooksSoonWhereMuchIsOpened(t *testing.T) {
	l := newFilesLook(Config{Limits: Limits{Memory: 32 << 20}}.withDefaults(), 0, false, MostWatches)
	all := seeAll([]int{os.Getpid()})
	look := func(what string, want bool) {
		t.Helper()
		for range 2 {
			if l.of(all); l.grows != want {
				t.Errorf("%s: %t", what, l.grows)
			}
			want = false
		}
	}
	l.of(all)
	look("nothing new", false)
	for range 40 {
		var p [2]int
		if err := unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
			t.Fatal(err)
		}
		defer func() { _, _ = unix.Close(p[0]), unix.Close(p[1]) }()
		if _, err := unix.Write(p[1], make([]byte, 64<<10)); err != nil {
			t.Fatal(err)
		}
	}
	look("full pipes", true)
	for range 100 {
		f, err := os.Open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
	}
	look("open directories", true)
}

// TestWhatFliesIsForgotten has a file of fdinfo open for a while, and descriptors on their way between sockets.
func TestWhatFliesIsForgotten(t *testing.T) {
	l := newFilesLook(Config{}.withDefaults(), 0, false, MostWatches)
	all := seeAll([]int{os.Getpid()})
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = unix.Close(pair[0]), unix.Close(pair[1]) }()
	send := func() {
		t.Helper()
		if err := unix.Sendmsg(pair[0], []byte{0}, unix.UnixRights(0, 1), nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Open("/proc/self/fdinfo/0")
	if err != nil {
		t.Fatal(err)
	}
	l.of(all)
	l.lists.largest = 1 << 20
	none := l.of(all)
	send()
	info.Close()
	for range 3 * forgetAfter { // it may be on its way
		if n := l.of(all); n.buffers-none.buffers < infoBytes || n.lists-none.lists != 2<<20 {
			t.Fatalf("of two descriptors on their way %d bytes count, and %d of lists", n.buffers-none.buffers, n.lists-none.lists)
		}
	}
	oob := make([]byte, unix.CmsgSpace(8))
	if _, _, _, _, err := unix.Recvmsg(pair[1], make([]byte, 1), oob, unix.MSG_CMSG_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		t.Fatal(err)
	}
	fds, err := unix.ParseUnixRights(&msgs[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
	for range 2 * forgetAfter {
		none = l.of(all)
	}
	send()
	if n := l.of(all); n.buffers-none.buffers != 3*socketBytes || n.lists-none.lists != 2<<20 { // a list may be of a directory that cannot be read any more
		t.Errorf("later %d bytes count of them, and %d of lists", n.buffers-none.buffers, n.lists-none.lists)
	}
}

// TestDuplicatesAreNotReadAgain counts read(2), one of which returns some 80 lines.
func TestDuplicatesAreNotReadAgain(t *testing.T) {
	py, err := python()
	if err != nil {
		t.Fatal(err)
	}
	const locks, dups = 4000, 1000
	cmd := exec.Command(py.Executable, "-I", "-S", "-c", fmt.Sprintf(`
import fcntl, os, resource, signal, sys
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
fd = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR)
for i in range(%d): fcntl.lockf(fd, fcntl.LOCK_EX, 1, i * 2)
for i in range(%d): os.dup(fd)
print("up", flush=True)
signal.pause()`, locks, dups), filepath.Join(t.TempDir(), "f"))
	out, w := collect(t)
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	w.Close()
	out.await(t, "up")
	l := newFilesLook(Config{}.withDefaults(), 0, true, MostWatches)
	all := seeAll([]int{cmd.Process.Pid})
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	reads := func() int64 {
		t.Helper()
		b, err := os.ReadFile("/proc/thread-self/io")
		if err != nil {
			t.Skip("this Linux does not count system calls: ", err)
		}
		return number(string(b), "syscr")
	}
	before := reads()
	n := l.of(all)
	if did := reads() - before; did > locks/2 {
		t.Errorf("%d reads", did)
	}
	if n.locks != locks || n.descriptors < dups {
		t.Errorf("%+v", n)
	}
}

// TestFilesWhoseServerHasGone has one open that can never be looked at again, by which nothing else may count for ever.
func TestFilesWhoseServerHasGone(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may mount")
	}
	server, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skip("no file system in a program: ", err)
	}
	dir := t.TempDir()
	if err := unix.Mount("test", dir, "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", server)); err != nil {
		_ = unix.Close(server)
		t.Skip("no file system in a program: ", err)
	}
	gone, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
	_ = unix.Unmount(dir, unix.MNT_DETACH)
	_ = unix.Close(server)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(gone) }()
	var st unix.Stat_t
	if err := unix.Fstat(gone, &st); err == nil || hasGone(err) || shortageOf(err) != 0 {
		t.Fatalf("it can be looked at: %v", err)
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	l := newFilesLook(Config{}.withDefaults(), 0, true, MostWatches)
	all := seeAll([]int{os.Getpid()})
	before := l.of(all).locks
	for _, tc := range []struct {
		how  int
		want int64
	}{{unix.LOCK_SH, 1}, {unix.LOCK_UN, 0}} {
		if err := unix.Flock(int(f.Fd()), tc.how); err != nil {
			t.Fatal(err)
		}
		if n := l.of(all).locks - before; n != tc.want || !l.known {
			t.Errorf("%d locks, want %d; all was read: %t", n, tc.want, l.known)
		}
	}
}
