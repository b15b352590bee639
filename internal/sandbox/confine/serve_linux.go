package confine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"agentkernel"
	"agentkernel/internal/inherited"
)

// What the second argument says.
const (
	roleOuter = "outer" // for an ordinary user: starts the spawner in a user namespace of its own and waits
	roleSpawn = "spawn"
	roleTrue  = "true" // ends at once: what Probe runs behind the walls
)

// Main turns the process into what its arguments ask and does not return then; it does nothing in any other
// process. Call it first of all in main, and in TestMain.
func Main() {
	mainCalled.Store(true)
	if len(os.Args) < 3 || os.Args[1] != Argument {
		return
	}
	switch os.Args[2] {
	case roleTrue:
		os.Exit(0)
	case roleOuter:
		inherited.CloseFrom(spawnerFD + 1) // what the kernel's process had open for others
		os.Exit(outer())
	case roleSpawn:
		inherited.CloseFrom(spawnerFD + 1)
		os.Exit(serve(os.NewFile(spawnerFD, "kernel")))
	}
	os.Exit(2)
}

// mainCalled says that this executable can be the spawner: another program that has a kernel in it would, if it
// were started again, do whatever it does, and start itself again.
var mainCalled atomic.Bool

// spawnerFD is the spawner's end of the socket.
const spawnerFD = 3

// outer gives an ordinary user's spawner what root's has: a user namespace in which it may open mounts and
// map its own user, over the machine's mounts. (unshare cannot do it in a process with threads, and the
// kernel itself is too big to be cloned.)
func outer() int {
	runtime.LockOSThread() // the parent-death signal is the thread's
	leaveToUser()
	uid, gid := os.Getuid(), os.Getgid()
	cmd := exec.Command("/proc/self/exe", Argument, roleSpawn)
	cmd.Stderr = os.Stderr
	cmd.ExtraFiles = []*os.File{os.NewFile(spawnerFD, "kernel")}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}},
		AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SETUID, unix.CAP_SETGID},
		Pdeathsig:   unix.SIGKILL,
	}
	err := cmd.Start()
	if err == nil {
		_ = cmd.ExtraFiles[0].Close()
		_ = cmd.Wait()
		return cmd.ProcessState.ExitCode()
	}
	w, wireErr := newWire(cmd.ExtraFiles[0])
	if wireErr != nil {
		return 1
	}
	_ = w.send(refusal(0, forbidden(err)), nil)
	return 1
}

// leaveToUser lowers the limits that Linux counts for each user. A user namespace remembers those of whoever makes it, and
// nobody in it or below can bring the user beyond them (inc_rlimit_get_ucounts in kernel/ucount.c): however many sandboxes
// there are, something is left for the user's other programs. Only the soft limits are lowered, since each sandbox may have
// any up to the hard ones.
func leaveToUser() {
	for _, l := range []struct {
		resource int
		most     uint64 // that is left; else half
	}{{unix.RLIMIT_NPROC, 1024}, {unix.RLIMIT_SIGPENDING, 8192}} {
		var now unix.Rlimit
		if err := unix.Getrlimit(l.resource, &now); err != nil || now.Cur == unix.RLIM_INFINITY {
			continue
		}
		now.Cur -= min(now.Cur/2, l.most)
		_ = unix.Setrlimit(l.resource, &now) // a spawner without it is as good as one whose user has no limit
	}
}

// How gladly Linux kills a process for memory, and the file that says it; whoever has 1000 goes first, whatever it has.
const (
	scoreFile    = "oom_score_adj"
	spawnerScore = 900
	sandboxScore = 1000
)

// server is the spawner: it opens trees, clones, and reaps. It keeps nothing of a sandbox.
type server struct {
	wire   *wire
	owners map[Owner]int
}

func serve(socket *os.File) int {
	runtime.LockOSThread() // all children are cloned by this thread, and die with it
	debug.SetGCPercent(100)
	// When the machine, or a cgroup that the kernel is in, runs out of memory, a sandbox is to go first, however much the kernel has, then
	// this process, with which all sandboxes end: children have what it has until they are let go.
	if own, err := readInt("/proc/self/" + scoreFile); err == nil && own < spawnerScore {
		_ = writeFile("/proc/self/"+scoreFile, strconv.Itoa(spawnerScore))
	}
	w, err := newWire(socket)
	if err != nil {
		return 1
	}
	_ = socket.Close()
	go reapChildren()
	debug.FreeOSMemory() // of what the packages of the whole executable have made and left
	s := &server{wire: w, owners: map[Owner]int{}}
	if err := w.send(answer{}, nil); err != nil { // ready
		return 1
	}
	for {
		var r request
		fds, err := w.receive(&r)
		if err != nil {
			if errors.Is(err, io.EOF) {
				return 0
			}
			return 1
		}
		s.handle(r, fds)
	}
}

// reapChildren waits for inits that have ended. The kernel learns of it by their pidfds.
func reapChildren() {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGCHLD)
	for range ended {
		for {
			if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); pid <= 0 && !errors.Is(err, unix.EINTR) {
				break
			}
		}
	}
}

func (s *server) handle(r request, fds []int) {
	defer closeAll(fds)
	if r.Plan != nil {
		s.start(r, fds)
		return
	}
	opened, err := s.openTrees(r.Trees)
	defer closeAll(opened)
	_ = s.wire.send(refusal(r.ID, err), opened)
}

func (s *server) openTrees(trees []Tree) (fds []int, err error) {
	for _, t := range trees {
		fd, err := s.openTree(t)
		if err != nil {
			closeAll(fds)
			return nil, err
		}
		fds = append(fds, fd)
	}
	return fds, nil
}

// pipes are a start's descriptors, [0] the reader's and [1] the writer's end.
type pipes struct {
	sync, report, status, control [2]int
}

func (p *pipes) open() error {
	for _, q := range []*[2]int{&p.sync, &p.report, &p.status} {
		if err := unix.Pipe2(q[:], unix.O_CLOEXEC); err != nil {
			return err
		}
	}
	var err error
	p.control[0], p.control[1], err = socketPair(unix.SOCK_SEQPACKET)
	return err
}

func (p *pipes) close() {
	for _, q := range [][2]int{p.sync, p.report, p.status, p.control} {
		for _, fd := range q {
			if fd > 0 {
				_ = unix.Close(fd)
			}
		}
	}
}

// drop closes an end early.
func drop(fd *int) {
	_ = unix.Close(*fd)
	*fd = 0
}

// start clones a child for the plan and lets it go; what becomes of it is answered from another goroutine.
func (s *server) start(r request, files []int) {
	p := &pipes{}
	pid, pidfd, err := s.clone(r.Plan, files, p)
	if err != nil {
		p.close()
		_ = s.wire.send(refusal(r.ID, err), nil)
		return
	}
	go func() {
		defer p.close()
		defer func() { _ = unix.Close(pidfd) }()
		failed, err := awaitReport(&p.report[0])
		if failed != nil || err != nil {
			_ = unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0) // gone already: nothing to do
			a := refusal(r.ID, err)
			a.Failed = failed
			_ = s.wire.send(a, nil)
			return
		}
		_ = s.wire.send(answer{ID: r.ID, PID: pid}, []int{pidfd, p.control[1], p.status[0]})
	}()
}

func (s *server) clone(plan *Plan, files []int, p *pipes) (pid, pidfd int, err error) {
	if plan.Version != PlanVersion || plan.Arch != runtime.GOARCH {
		return 0, -1, agentkernel.Errorf(agentkernel.CodeVersion, op, "a plan of version %d for %s", plan.Version, plan.Arch)
	}
	if err := p.open(); err != nil {
		return 0, -1, err
	}
	opened, err := s.openTrees(plan.Trees)
	if err != nil {
		return 0, -1, err
	}
	defer closeAll(opened)
	d := descriptors{sync: p.sync[0], report: p.report[1], control: p.control[0], status: p.status[1], files: files, trees: map[string]int{}}
	for i, t := range plan.Trees {
		d.trees[t.Name] = opened[i]
	}
	l, err := newLaunch(plan, d)
	if err != nil {
		return 0, -1, agentkernel.Errorf(agentkernel.CodeInternal, op, "the plan cannot be carried out: %w", err)
	}
	pid, errno := l.fork()
	if errno != 0 {
		return 0, -1, forbidden(errno)
	}
	drop(&p.sync[0])
	drop(&p.report[1])
	drop(&p.status[1])
	drop(&p.control[0])
	// If something fails from here on, the child reads the end of file instead of its start, and exits.
	if pidfd, err = unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK); err != nil {
		return 0, -1, unborn(fmt.Errorf("pidfd_open: %w", err))
	}
	if err := release(plan, pid, p.sync[1]); err != nil {
		_ = unix.Close(pidfd)
		return 0, -1, err
	}
	drop(&p.sync[1])
	return pid, pidfd, nil
}

// release does what the plan asks of the parent and lets the child go.
func release(plan *Plan, pid, sync int) error {
	if plan.Maps != nil {
		if err := plan.Maps.write(pid); errors.Is(err, errUnborn) {
			return err
		} else if err != nil {
			return forbidden(err)
		}
	}
	if err := join(plan.Cgroups, pid); err != nil {
		return unborn(err)
	}
	_ = writeFile(fmt.Sprintf("/proc/%d/%s", pid, scoreFile), strconv.Itoa(sandboxScore)) // while it can be looked into; gone: the next line says so
	_, err := unix.Write(sync, []byte{1})
	return unborn(err)
}

// unborn marks an error that says that the child is not there any more.
func unborn(err error) error {
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EPIPE) {
		return fmt.Errorf("%w: %w", errUnborn, err)
	}
	return err
}

// join puts a process into cgroups. It must wait before it does anything, or what it starts is not counted.
func join(dirs []string, pid int) error {
	for _, dir := range dirs {
		if err := writeFile(filepath.Join(dir, "cgroup.procs"), strconv.Itoa(pid)); err != nil {
			return agentkernel.Errorf(agentkernel.CodeUnavailable, op, "the sandbox cannot be put into its cgroup: %w", err)
		}
	}
	return nil
}

// awaitReport reads what the child says until its program runs; nil is good news. It closes the pipe.
func awaitReport(fd *int) (*report, error) {
	_ = unix.SetNonblock(*fd, true)
	f := os.NewFile(uintptr(*fd), "report") //nolint:gosec // a descriptor
	*fd = 0
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(f)
	switch {
	case err != nil:
		return nil, err
	case len(b) == 0:
		return nil, nil
	case len(b) < reportSize:
		return nil, agentkernel.Errorf(agentkernel.CodeCrashed, op, "the sandbox ended while it was built")
	}
	n := binary.NativeEndian
	return &report{n.Uint32(b), n.Uint32(b[4:]), n.Uint32(b[8:])}, nil
}
