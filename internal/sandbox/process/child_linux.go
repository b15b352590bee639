package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"agentkernel"
	"agentkernel/internal/sandbox/confine"
)

// child is one process that a zygote has forked, as the kernel holds it.
type child struct {
	*line
	z       *zygote
	cell    *confine.Cell    // nil: no walls
	process *confine.Process // nil: no walls
	ended   chan struct{}    // closed when the zygote has buried it, or is gone itself
	end     ending           // set before ended is closed

	mu    sync.Mutex
	pidfd int // -1 once it has ended
	cause error
}

// ending is how a child ended.
type ending struct {
	status syscall.WaitStatus
	lost   bool // the zygote went first: nobody knows
	cpu    time.Duration
	memory int64 // bytes that were resident at most
}

func (e ending) String() string {
	switch {
	case e.lost:
		return "its zygote ended"
	case e.status.Signaled():
		return fmt.Sprintf("signal %d (%s)", e.status.Signal(), unix.SignalName(e.status.Signal()))
	}
	return fmt.Sprintf("exit status %d", e.status.ExitStatus())
}

// born notes the process that was made for c. Nobody may want it any more.
func (c *child) born(pidfd int) {
	c.mu.Lock()
	c.pidfd = pidfd
	unwanted := c.cause != nil
	c.mu.Unlock()
	if unwanted {
		c.signal(unix.SIGKILL)
	}
}

// signal sends the child a signal; it does nothing if the child has ended.
func (c *child) signal(sig unix.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pidfd < 0 {
		return
	}
	if err := unix.PidfdSendSignal(c.pidfd, sig, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		c.z.cfg.Logger.Warn("a program cannot be signalled", "signal", unix.SignalName(sig), "err", err)
	}
}

var errStillborn = errors.New("it could not be taken over")

// adopt has the kernel's side of the walls look after the child, which still waits for its start.
func (c *child) adopt() (err error) {
	if c.cell == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pidfd < 0 {
		return errors.New("it has ended")
	}
	fd, err := unix.FcntlInt(uintptr(c.pidfd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	c.process, err = c.cell.Adopt(f)
	return errors.Join(err, f.Close())
}

// kill ends the child, and with it all that it started. The first cause given is kept. It does not wait.
func (c *child) kill(cause error) {
	c.mu.Lock()
	if c.cause == nil {
		c.cause = cause
	}
	c.mu.Unlock()
	c.signal(unix.SIGKILL)
	c.hangUp()
}

// suspend stops or continues every process of the program.
func (c *child) suspend(stop bool) error {
	if c.dead() {
		return nil
	}
	var err error
	switch {
	case c.process == nil && stop: // no walls: whoever wants that has one program
		c.signal(unix.SIGSTOP)
	case c.process == nil:
		c.signal(unix.SIGCONT)
	case stop:
		err = c.process.Pause()
	default:
		err = c.process.Resume()
	}
	if c.dead() {
		return nil // it had ended already
	}
	return err
}

func (c *child) killedFor() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause
}

// buried notes how the child ended.
func (c *child) buried(e ending) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pidfd >= 0 {
		_ = unix.Close(c.pidfd)
		c.pidfd = -1
		c.end = e
		close(c.ended)
	}
}

// dead says whether the child has ended.
func (c *child) dead() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// failed turns an error of the line into what really happened, and makes sure that the child is dead. io.EOF: it
// ended by itself, with an exit status.
func (c *child) failed(err error) error {
	protocol, hostile := errors.AsType[errProtocol](err)
	if e, ok := errors.AsType[*agentkernel.Error](err); ok {
		c.kill(err)
		return e
	}
	if errors.Is(err, errOutput) {
		c.kill(err)
		return err
	}
	if hostile || !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, unix.EPIPE) && !errors.Is(err, unix.ECONNRESET) {
		c.kill(err)
	}
	select {
	case <-c.ended:
	case <-time.After(exitWait): // it closed its channel and lives on, or Linux takes its time to clean up what a limit has ended
		c.kill(broke("it closed its channel"))
		<-c.ended
		if limit := c.limit(); limit != "" && !hostile {
			return errLimit(limit)
		}
	}
	if hostile {
		return agentkernel.Errorf(agentkernel.CodeCrashed, "process", "%w", protocol)
	}
	if cause := c.killedFor(); cause != nil && cause != err { //nolint:errorlint // identity is meant
		if p, ok := errors.AsType[errProtocol](cause); ok {
			return agentkernel.Errorf(agentkernel.CodeCrashed, "process", "%w", p)
		}
		return cause
	}
	if limit := c.limit(); limit != "" {
		return errLimit(limit)
	}
	if c.struck() {
		return agentkernel.Errorf(agentkernel.CodeCrashed, "process", "%w: %s", errLost, c.end)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return agentkernel.Errorf(agentkernel.CodeCrashed, "process", "the program's process ended in the middle of a message: %s", c.end)
	}
	if !c.end.lost && c.end.status.Exited() && c.received {
		return io.EOF
	}
	return agentkernel.Errorf(agentkernel.CodeCrashed, "process", "the program's process was ended: %s", c.end)
}

// limit is the limit of the walls that has ended c, which has ended; "" if none has.
func (c *child) limit() string {
	if c.process == nil || !c.end.status.Signaled() {
		return ""
	}
	exit, err := c.process.Wait(context.Background()) // it is known when all is cleaned up
	if err != nil {
		return ""
	}
	return exit.Limit
}

// errLost is the error of a child that something else than the kernel or a limit has ended.
var errLost = errors.New("the program's process was ended from outside")

// struck says whether c, which the kernel has not killed, went with its zygote, or by a signal with which no program crashes.
func (c *child) struck() bool {
	if c.end.lost {
		return !c.z.killedFor(errClosed)
	}
	return c.end.status.Signaled() && killedFromOutside(c.end.status.Signal())
}

// errLimit is a limit of the walls that ended a program: "memory", one of confine's own or "cpu time".
type errLimit string

func (e errLimit) Error() string { return "the " + string(e) + " limit ended it" }

// refused is the error of a child that could not build one of its walls.
func (c *child) refused(m *message) error {
	if c.cell != nil {
		return c.cell.Plan.Explain(m.List == "seal", m.Step, syscall.Errno(m.Errno))
	}
	return agentkernel.Errorf(agentkernel.CodeUnavailable, "process", "a wall could not be built: step %d of %s: %s",
		m.Step, m.List, unix.ErrnoName(syscall.Errno(m.Errno)))
}
