package confine

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Orders that the init takes over its control socket; it answers each with the same byte when it is done.
const (
	orderStop     = 'S' // SIGSTOP to every process of the namespace, in one step
	orderContinue = 'C'
	orderSignal   = 'G' // the next byte is a signal for the program itself
)

// What the init writes when the program has ended: the wait status in 4 bytes, 4 of nothing, a struct rusage.
const (
	statusUsage = 8
	statusSize  = statusUsage + unsafe.Sizeof(syscall.Rusage{})
)

// asInit is pid 1 of the sandbox. It reaps what the program leaves behind, takes orders, and ends with the
// program or with the spawner, and everything in the namespace with it. It has no capabilities, and no
// descriptors but its own two. The program cannot look into it: it is not dumpable (see child) and outside the program's
// Landlock domain; signals from inside do not reach a pid 1.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (l *launch) asInit(program uintptr) {
	const signalFD = 2
	control, status := uintptr(0), uintptr(1)
	// control and status are above 2: launch.gaps would have closed them otherwise (see newLaunch).
	try(unix.SYS_DUP3, l.control, control, 0, 0)
	try(unix.SYS_DUP3, l.status, status, 0, 0)
	children := (*uint64)(unsafe.Pointer(&l.buf))
	*children = 1 << (uint(syscall.SIGCHLD) - 1)
	try(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(children)), 0, 8)
	fd, _, _ := syscall.RawSyscall6(unix.SYS_SIGNALFD4, ^uintptr(0), uintptr(unsafe.Pointer(children)), 8, unix.SFD_NONBLOCK, 0, 0)
	try(unix.SYS_DUP3, fd, signalFD, 0, 0)
	try(unix.SYS_CLOSE_RANGE, 3, uintptr(^uint32(0)), 0, 0)
	for {
		l.reap(program, status, control)
		polls := (*[2]unix.PollFd)(unsafe.Pointer(&l.buf))
		polls[0] = unix.PollFd{Fd: int32(control), Events: unix.POLLIN}
		polls[1] = unix.PollFd{Fd: signalFD, Events: unix.POLLIN}
		try(unix.SYS_PPOLL, uintptr(unsafe.Pointer(polls)), 2, 0, 0)
		ordered := polls[0].Revents != 0
		try(unix.SYS_READ, signalFD, uintptr(unsafe.Pointer(&l.buf)), uintptr(len(l.buf)), 0)
		if ordered {
			l.obey(program, control)
		}
	}
}

// reap waits for whatever has ended. When that is the program, its status goes out, and the namespace ends as soon as the
// other side has looked into it: that says a byte, or nothing more.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (l *launch) reap(program, status, control uintptr) {
	for {
		pid, _, e := syscall.RawSyscall6(unix.SYS_WAIT4, ^uintptr(0), uintptr(unsafe.Pointer(&l.buf)), unix.WNOHANG,
			uintptr(unsafe.Pointer(&l.buf[statusUsage])), 0, 0)
		if e != 0 || pid == 0 {
			return
		}
		if pid == program {
			try(unix.SYS_WRITE, status, uintptr(unsafe.Pointer(&l.buf)), statusSize, 0)
			try(unix.SYS_READ, control, uintptr(unsafe.Pointer(&l.buf)), 1, 0)
			l.exit()
		}
	}
}

// obey carries out one order.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (l *launch) obey(program, control uintptr) {
	n, _, _ := syscall.RawSyscall6(unix.SYS_READ, control, uintptr(unsafe.Pointer(&l.buf)), 2, 0, 0, 0)
	if n != 2 {
		l.exit() // the spawner is gone, or never speaks like this
	}
	const everyone = ^uintptr(0)
	switch l.buf[0] {
	case orderStop:
		try(unix.SYS_KILL, everyone, uintptr(syscall.SIGSTOP), 0, 0)
	case orderContinue:
		try(unix.SYS_KILL, everyone, uintptr(syscall.SIGCONT), 0, 0)
	case orderSignal:
		try(unix.SYS_KILL, program, uintptr(l.buf[1]), 0, 0)
	}
	try(unix.SYS_WRITE, control, uintptr(unsafe.Pointer(&l.buf)), 1, 0)
}

//go:nosplit
//go:norace
func (l *launch) exit() {
	for {
		try(unix.SYS_EXIT_GROUP, 0, 0, 0, 0)
	}
}
