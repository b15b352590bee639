package confine

import (
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The runtime's own hooks around fork, as package syscall uses them. The runtime keeps them for such use
// ("hall of shame" in runtime/proc.go).

//go:linkname beforeFork syscall.runtime_BeforeFork
func beforeFork()

//go:linkname afterFork syscall.runtime_AfterFork
func afterFork()

//go:linkname afterForkInChild syscall.runtime_AfterForkInChild
func afterForkInChild()

// rawVfork clones with flags; the caller waits until the child has called execve or ended. Both use the same
// memory meanwhile, stack included, so whoever calls must be able to live with locals that the child changed.
//
//go:noescape
func rawVfork(flags uintptr) (pid, errno uintptr)

// maxSaved bounds how many results the steps of one plan keep.
const maxSaved = 24

// rawCall is a Step as the child needs it: numbers and addresses, no Go types that could allocate.
type rawCall struct {
	nr    uintptr
	args  [6]uintptr
	saved [6]uint8 // index+1 into launch.results; 0: args counts
	save  uint8    // index+1; 0: not kept
	ok    [3]uintptr
}

// What a child was doing when it failed.
const (
	stageSync uint32 = iota + 1
	stageSetup
	stageFork
	stagePlace
	stageSeal
	stageExec
)

// report is what a failed child writes into its report pipe.
type report struct {
	Stage uint32 `json:"stage"`
	Index uint32 `json:"index"`
	Errno uint32 `json:"errno"`
}

const reportSize = int(unsafe.Sizeof(report{}))

// launch is a plan made ready for a child that can neither allocate nor call Go functions that might.
type launch struct {
	flags       uintptr
	setup, seal []rawCall
	results     [maxSaved]uintptr
	gaps        [][2]uintptr // ranges of descriptors that the child closes at once: all but its own
	sync        uintptr      // the child waits here until it was mapped and put into its cgroups
	report      uintptr      // close-on-exec; an end of file without a report means that the program runs
	control     uintptr      // orders for the init; end of file means that the spawner is gone
	status      uintptr      // the init writes how the program ended
	files       []uintptr    // the program's descriptors 0, 1, 2, ...
	dups        []uintptr    // scratch, as long as files
	path        *byte
	argv, envp  **byte
	failed      report
	buf         [160]byte // scratch for signal sets, polls, reads, statusSize
	keep        []any     // what the addresses above point to
}

// try makes a call whose failure does not matter.
//
//go:nosplit
//go:norace
func try(nr, a, b, c, d uintptr) {
	_, _, _ = syscall.RawSyscall6(nr, a, b, c, d, 0, 0)
}

// fork clones the child. Nothing but the child itself may run on the child's side: no allocation, no stack
// growth, no locks. Hence nosplit and raw system calls all the way down. The calling thread must stay locked:
// the parent-death signal is tied to it.
//
//go:noinline
//go:norace
//go:nocheckptr
func (l *launch) fork() (pid int, errno syscall.Errno) {
	beforeFork()
	r, _, e := syscall.RawSyscall6(unix.SYS_CLONE, l.flags|uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if e != 0 || r != 0 {
		afterFork()
		runtime.KeepAlive(l)
		return int(r), e
	}
	afterForkInChild()
	l.child()
	return 0, 0 // never
}

// child is the child's life before its program, or as an init.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (l *launch) child() {
	for i := range l.gaps {
		try(unix.SYS_CLOSE_RANGE, l.gaps[i][0], l.gaps[i][1], 0, 0)
	}
	if n, _, e := syscall.RawSyscall6(unix.SYS_READ, l.sync, uintptr(unsafe.Pointer(&l.buf)), 1, 0, 0, 0); n != 1 {
		l.die(stageSync, 0, e)
	}
	l.resetSignals()
	l.run(stageSetup, l.setup)
	// Init and the program share their memory until exec, which begins a new one that is dumpable again. Set here, there is
	// no moment at which the program runs and init can be looked into.
	try(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 0, 0, 0)
	pid, failed := rawVfork(unix.CLONE_VM | unix.CLONE_VFORK | uintptr(syscall.SIGCHLD))
	if failed != 0 {
		l.die(stageFork, 0, syscall.Errno(failed))
	}
	if pid != 0 {
		l.asInit(pid)
	}
	l.place()
	l.run(stageSeal, l.seal)
	_, _, e := syscall.RawSyscall6(unix.SYS_EXECVE, uintptr(unsafe.Pointer(l.path)), uintptr(unsafe.Pointer(l.argv)), uintptr(unsafe.Pointer(l.envp)), 0, 0, 0)
	l.die(stageExec, 0, e)
}

// die reports and ends the process.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (l *launch) die(stage, index uint32, e syscall.Errno) {
	l.failed = report{stage, index, uint32(e)} //nolint:gosec // an errno is small
	try(unix.SYS_WRITE, l.report, uintptr(unsafe.Pointer(&l.failed)), uintptr(reportSize), 0)
	for {
		try(unix.SYS_EXIT_GROUP, 127, 0, 0, 0)
	}
}

// run makes the calls in order.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (l *launch) run(stage uint32, calls []rawCall) {
	for i := range calls {
		c := &calls[i]
		var a [6]uintptr
		for j := range a {
			a[j] = c.args[j]
			if c.saved[j] != 0 {
				a[j] = l.results[c.saved[j]-1]
			}
		}
		r, _, e := syscall.RawSyscall6(c.nr, a[0], a[1], a[2], a[3], a[4], a[5])
		if e != 0 && (uintptr(e) != c.ok[0] && uintptr(e) != c.ok[1] && uintptr(e) != c.ok[2]) {
			l.die(stage, uint32(i), e) //nolint:gosec // a short list
		}
		if c.save != 0 {
			l.results[c.save-1] = r
		}
	}
}

// resetSignals gives every signal its default action: what the kernel's parent ignored is not the program's
// business. Package runtime has reset only what it had handlers for.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (l *launch) resetSignals() {
	for i := range l.buf {
		l.buf[i] = 0
	}
	for sig := uintptr(1); sig <= 64; sig++ {
		try(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&l.buf)), 0, 8)
	}
	try(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&l.buf)), 0, 8)
}

// place puts the program's descriptors at 0, 1, 2, ... and has every other one closed by exec.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (l *launch) place() {
	floor := uintptr(len(l.files)) + 1
	r, _, e := syscall.RawSyscall6(unix.SYS_FCNTL, l.report, unix.F_DUPFD_CLOEXEC, floor, 0, 0, 0)
	if e != 0 {
		l.die(stagePlace, 0, e)
	}
	l.report = r
	for i := range l.files {
		r, _, e := syscall.RawSyscall6(unix.SYS_FCNTL, l.files[i], unix.F_DUPFD_CLOEXEC, floor, 0, 0, 0)
		if e != 0 {
			l.die(stagePlace, uint32(i), e) //nolint:gosec // a short list
		}
		l.dups[i] = r
	}
	for i := range l.dups {
		if _, _, e := syscall.RawSyscall6(unix.SYS_DUP3, l.dups[i], uintptr(i), 0, 0, 0, 0); e != 0 {
			l.die(stagePlace, uint32(i), e) //nolint:gosec // a short list
		}
	}
	if _, _, e := syscall.RawSyscall6(unix.SYS_CLOSE_RANGE, uintptr(len(l.files)), uintptr(^uint32(0)), unix.CLOSE_RANGE_CLOEXEC, 0, 0, 0); e != 0 {
		l.die(stagePlace, 0, e)
	}
}
