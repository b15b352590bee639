//go:build linux || darwin

package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// lineWaits waits a while for something to read at a terminal. A command in the background finds nothing: to read there would stop it.
func lineWaits(fd int, most time.Duration) bool {
	var set unix.FdSet
	set.Set(fd)
	tv := unix.NsecToTimeval(int64(most))
	if n, err := unix.Select(fd+1, &set, nil, nil, &tv); err != nil || n < 1 {
		return false
	}
	group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	if err == unix.ENOTTY { // it is not the terminal of this session, which stops nobody
		return true
	}
	if err == nil && group == unix.Getpgrp() {
		return true
	}
	time.Sleep(most)
	return false
}
