package monty

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// blockingPipe is os.Pipe without the runtime's poller: a turn is answered in microseconds, and a thread
// that waits in read hears of it sooner than the poller does. Nothing needs a deadline here: whoever gives
// up kills the worker, which ends every read and write.
func blockingPipe() (r, w *os.File, err error) {
	var fds [2]int
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := syscall.Pipe(fds[:]); err != nil {
		return nil, nil, os.NewSyscallError("pipe", err)
	}
	syscall.CloseOnExec(fds[0])
	syscall.CloseOnExec(fds[1])
	return os.NewFile(uintptr(fds[0]), "|0"), os.NewFile(uintptr(fds[1]), "|1"), nil
}

// spinTime is how long readable asks again and again before it sleeps. A worker mostly answers within it, in several pieces:
// to be put to sleep and woken for each takes longer than all the worker does, above all on virtual processors.
const spinTime = 50 * time.Microsecond

// readable waits until a read from a descriptor would not wait, at most so long, in steps of a millisecond.
func readable(fd int, atMost time.Duration) bool {
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}} //nolint:gosec // a descriptor
	for until := time.Now().Add(min(atMost, spinTime)); time.Now().Before(until); yield() {
		if n, _ := unix.Poll(poll, 0); n > 0 {
			return true
		}
	}
	millis := max(0, (atMost + time.Millisecond - 1).Milliseconds())
	for {
		n, err := unix.Poll(poll, int(millis))
		if err != unix.EINTR { // a signal of the runtime: the time is not worth counting
			return n > 0
		}
	}
}
