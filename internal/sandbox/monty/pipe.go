package monty

import (
	"os"
	"syscall"
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
