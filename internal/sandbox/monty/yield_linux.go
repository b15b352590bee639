package monty

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// yield offers the processor to whoever else could use it: a worker that has to share it gets on.
func yield() { _, _, _ = syscall.Syscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }
