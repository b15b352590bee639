package main

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"agentkernel"
)

// awaitInput waits until a pipe has something to say, or has ended.
func awaitInput(in *os.File, patience time.Duration) error {
	fds := []unix.PollFd{{Fd: int32(in.Fd()), Events: unix.POLLIN}} //nolint:gosec // a descriptor
	for end := time.Now().Add(patience); ; {
		n, err := unix.Poll(fds, int(time.Until(end).Milliseconds()))
		switch {
		case errors.Is(err, unix.EINTR) && time.Now().Before(end):
		case n > 0:
			return nil
		default:
			return agentkernel.Errorf(agentkernel.CodeInvalid, "stdin", "the program reads standard input, which is a pipe on which nothing came within %s", patience).
				WithHint("--stdin - waits for as long as it takes; < /dev/null gives the program none")
		}
	}
}
