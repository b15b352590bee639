package main

import "golang.org/x/sys/unix"

// flushInput drops what was typed at a terminal and has not been read.
func flushInput(fd int) error { return unix.IoctlSetPointerInt(fd, unix.TIOCFLUSH, unix.TCIFLUSH) }
