// Package inherited keeps the open files that a process was started with from the processes that it starts. A shell leaves
// more than the three standard ones: `9>lock` for flock, `5>&1`, `8<secret`. Go opens files close-on-exec, so that each
// without that mark was inherited.
//
// Whoever holds such a file keeps its lock, or the end of its pipe from being seen, and may read it: a kernel in the
// background and tool servers, which outlive the command, must not.
package inherited

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// firstOther is the first descriptor that is not a standard one.
const firstOther = 3

// Keep keeps what this process inherited for itself: it can use the files, and what it starts has none of them but those
// that it is given. It changes the whole process, and so is for a main function only.
func Keep() {
	if !markAll() {
		each(firstOther, unix.CloseOnExec)
	}
}

// CloseFrom closes what this process inherited from descriptor first on. It is for a process that was told which files are its own.
func CloseFrom(first int) { each(first, func(fd int) { _ = unix.Close(fd) }) }

// each finds what was inherited. Where the system does not show a process its files it finds nothing.
func each(first int, do func(fd int)) {
	dir, err := os.Open(folder)
	if err != nil {
		return
	}
	names, _ := dir.Readdirnames(-1) // what was read until it failed
	_ = dir.Close()
	for _, name := range names {
		fd, err := strconv.Atoi(name)
		if err != nil || fd < first {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			do(fd)
		}
	}
}
