package confine

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"agentkernel"
)

// Process is a sandbox with a process in it. Safe for concurrent use.
type Process struct {
	cell    *Cell
	pid     int
	pidfd   *os.File
	control *os.File // nil if adopted
	dog     *watchdog
	tmp     tmpWatch
	free    int64         // on the disk of its changes, in bytes, when it began
	done    chan struct{} // closed when everything in the sandbox is dead and cleaned away
	exit    Exit          // valid after done
	mu      sync.Mutex    // of control, pauses, and the order of kill and cleaning
	over    bool
	owed    int // answers of the init that were not read
}

// newProcess takes the descriptors over; control and status are -1 if the process was adopted.
func newProcess(c *Cell, pid, pidfd, control, status int) *Process {
	p := &Process{cell: c, pid: pid, free: freeSpace(c.Config.scratch()), tmp: tmpWatch{fd: -1}, done: make(chan struct{})}
	file := func(fd int, name string) *os.File {
		if fd < 0 {
			return nil
		}
		_ = unix.SetNonblock(fd, true)
		return os.NewFile(uintptr(fd), name) //nolint:gosec // a descriptor
	}
	p.pidfd, p.control = file(pidfd, "pidfd"), file(control, "control")
	if p.control != nil { // its program runs, so all its mounts are there
		p.tmp.open(pid)
	}
	p.dog = watch(p)
	go p.reap(file(status, "status"))
	return p
}

// reap waits for the end of all, and cleans up.
func (p *Process) reap(status *os.File) {
	if status != nil {
		p.exit = readExit(status)
		p.tmp.open(p.pid) // a short program has ended before there was time to
		p.letGo()
	}
	awaitEnd(p.pidfd)
	p.dog.stop()
	p.exit.Limit = p.dog.limit()
	p.exit.Usage.Memory = max(p.dog.peak(), p.exit.Usage.Memory)
	p.exit.Usage.RefusedPids = p.cell.group.refusedPids()
	p.exit.Usage.PidsFull, p.exit.Usage.TmpFull = p.dog.crowded.Load(), p.tmp.close()
	p.mu.Lock()
	p.over = true
	_ = p.pidfd.Close()
	if p.control != nil {
		_ = p.control.Close()
	}
	p.mu.Unlock()
	_ = p.cell.ended(p.exit) // what cannot be removed is removed by the next kernel
	close(p.done)
	p.cell.spawner.alive.Done()
}

// letGo lets an init end whose program has ended.
func (p *Process) letGo() {
	raw, err := p.control.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { err = unix.Shutdown(int(fd), unix.SHUT_WR) }) //nolint:gosec // a descriptor
	}
	if err != nil {
		p.Kill()
	}
}

// readExit reads what the init says about its program.
func readExit(f *os.File) Exit {
	defer func() { _ = f.Close() }()
	b := make([]byte, statusSize)
	if _, err := io.ReadFull(f, b); err != nil {
		return Exit{}
	}
	n := binary.NativeEndian
	usage := b[statusUsage:]
	at := func(i int) int64 { return int64(n.Uint64(usage[8*i:])) } //nolint:gosec // small
	return Exit{
		Known: true, Status: syscall.WaitStatus(n.Uint32(b)),
		Usage: Usage{CPU: time.Duration((at(0)+at(2))*1e9 + (at(1)+at(3))*1e3), Memory: at(4) << 10},
	}
}

// awaitEnd waits until a pidfd is readable: its process has ended, and its namespace with it.
func awaitEnd(pidfd *os.File) {
	raw, err := pidfd.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Read(func(fd uintptr) bool {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0) //nolint:gosec // a descriptor
		return n > 0 || (err != nil && !errors.Is(err, unix.EINTR))
	})
}

// PID is the number of the sandbox's first process on this machine.
func (p *Process) PID() int { return p.pid }

// ProgramPID is the number of the program itself on this machine; 0 if it has ended.
func (p *Process) ProgramPID() int {
	if p.control == nil {
		return p.pid // adopted: there is no init before it
	}
	if children := treeOf(p.pid); len(children) > 1 {
		return children[1]
	}
	return 0
}

// Walls says what is in force.
func (p *Process) Walls() []Wall { return p.cell.Plan.Walls }

// Done is closed when every process of the sandbox has ended and its cgroups are given back.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits for that and says how the program ended. The error is ctx's.
func (p *Process) Wait(ctx context.Context) (Exit, error) {
	select {
	case <-p.done:
		return p.exit, nil
	case <-ctx.Done():
		return Exit{}, context.Cause(ctx)
	}
}

// Kill ends every process of the sandbox. It does not wait.
func (p *Process) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return
	}
	raw, err := p.pidfd.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { _ = unix.PidfdSendSignal(int(fd), unix.SIGKILL, nil, 0) })
}

// controlPatience bounds how long a pause may take. It takes less than a millisecond; but a machine may be busy, and
// what is stopped late is better than what is said not to stop.
const controlPatience = 10 * time.Second

// treePatience bounds how long processes that wake one another are run after. Whoever pauses waits for it.
const treePatience = time.Second

// Pause stops every process of the sandbox, and returns when they have stopped: by its cgroup of version 2, without
// the program noticing, or else by SIGSTOP.
func (p *Process) Pause() error { return p.suspend(true) }

// Resume undoes Pause.
func (p *Process) Resume() error { return p.suspend(false) }

func (p *Process) suspend(stop bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return agentkernel.Errorf(agentkernel.CodeConflict, op, "the sandbox has ended")
	}
	var err error
	switch {
	case p.cell.group.counted.Freezer && p.cell.group.v2[ctlFreezer]:
		// Not that of version 1: what it holds cannot even be killed, and would outlive a kernel that dies meanwhile.
		err = p.cell.group.freeze(stop, controlPatience)
	case p.control != nil:
		err = p.order(map[bool]byte{true: orderStop, false: orderContinue}[stop], 0)
	case stop:
		err = stopTree(p.pid, treePatience)
	default:
		err = signalTree(p.pid, unix.SIGCONT)
	}
	if err != nil {
		return agentkernel.Errorf(agentkernel.CodeUnavailable, op, "the sandbox cannot be stopped or continued: %w", err)
	}
	return nil
}

// Signal sends a signal to the program itself, not to what it has started.
func (p *Process) Signal(sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return agentkernel.Errorf(agentkernel.CodeConflict, op, "the sandbox has ended")
	}
	var err error
	if p.control != nil {
		err = p.order(orderSignal, byte(sig))
	} else {
		err = unix.Kill(p.pid, sig)
	}
	if err != nil {
		return agentkernel.Errorf(agentkernel.CodeUnavailable, op, "the program cannot be signalled: %w", err)
	}
	return nil
}

// order has the init do something and waits for its word. p.mu is held.
func (p *Process) order(what, arg byte) error {
	_ = p.control.SetDeadline(time.Now().Add(controlPatience))
	if _, err := p.control.Write([]byte{what, arg}); err != nil {
		return err
	}
	for p.owed++; p.owed > 0; p.owed-- { // answers to orders that were given up come first
		var b [2]byte
		if n, err := p.control.Read(b[:]); err != nil || n == 0 {
			return errors.Join(err, errors.New("its init does not answer"))
		}
	}
	return nil
}

// cutLine finds the line of text that begins with prefix.
func cutLine(text, prefix string) (line, after string, ok bool) {
	for line := range strings.SplitSeq(text, "\n") {
		if after, ok := strings.CutPrefix(line, prefix); ok {
			return line, strings.TrimSpace(after), true
		}
	}
	return "", "", false
}
