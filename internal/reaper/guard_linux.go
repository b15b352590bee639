package reaper

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"agentkernel/internal/inherited"
)

const canGuard = true

// Main makes this process a guard if it was started as one, and does not return then; it does nothing in any other process.
// Call it first of all in main, and in TestMain.
func Main() {
	mainCalled.Store(true)
	if len(os.Args) < guardArguments || os.Args[1] != Argument {
		return
	}
	control, err := strconv.Atoi(os.Args[2])
	if err != nil || control < 3 {
		return
	}
	guard(control, os.Args[3], os.Args[4:])
}

// guardArguments is how many a guard has at least: its own name, Argument, the descriptor of its control pipe, the path of
// the command, and the name that the command has for itself.
const guardArguments = 5

// wrap turns cmd into a guard that starts it. The control pipe comes behind the files that the command inherits.
func wrap(cmd *exec.Cmd, control *os.File) {
	fd := strconv.Itoa(3 + len(cmd.ExtraFiles))
	argv := cmd.Args
	if len(argv) == 0 {
		argv = []string{cmd.Path}
	}
	cmd.ExtraFiles = append(cmd.ExtraFiles[:len(cmd.ExtraFiles):len(cmd.ExtraFiles)], control)
	cmd.Args = append([]string{"agentkernel", Argument, fd, cmd.Path}, argv...)
	cmd.Path = thisFile
}

// unexecutable is the status of a command that could not be started, as a shell has it.
const unexecutable = 126

// guard starts a command in its own group and waits for it, and for what is left to it. It ends as the command did, when
// nothing is below it any more. What it is told to do is in one place: the end of its control pipe, which the kernel
// holds and never writes to.
func guard(control int, path string, argv []string) {
	inherited.CloseFrom(control + 1) // what the kernel's process had open for others
	runtime.LockOSThread()           // the parent-death signal of the command is tied to the thread that starts it
	unix.CloseOnExec(control)
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	catchSignals()
	files := make([]uintptr, control)
	for i := range files {
		files[i] = uintptr(i)
	}
	pid, err := syscall.ForkExec(path, argv, &syscall.ProcAttr{Env: syscall.Environ(), Files: files,
		Sys: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}})
	if err != nil {
		_, _ = os.Stderr.WriteString("cannot be started: " + (&os.PathError{Op: "exec", Path: path, Err: err}).Error() + "\n")
		exitAs(unexecutable << 8)
	}
	letGo(control)
	kill := make(chan struct{})
	go func() {
		var b [1]byte
		for {
			if n, err := unix.Read(control, b[:]); n == 0 || err != nil && !errors.Is(err, unix.EINTR) {
				close(kill)
				return
			}
		}
	}()
	exitAs(guarded(pid, kill))
}

// catchSignals keeps signals to the group, which are for the command, from ending or stopping the guard. They are caught and not ignored,
// and what is ignored already stays so: a command inherits what is ignored.
func catchSignals() {
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGPIPE,
		syscall.SIGALRM, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU} {
		if !signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
}

// letGo closes what belongs to the command: pipes of which the guard had an end would not end with it.
func letGo(control int) {
	for fd := 3; fd < control; fd++ {
		_ = unix.Close(fd)
	}
	if null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0); err == nil {
		for fd := range 3 {
			_ = unix.Dup3(null, fd, 0)
		}
		_ = unix.Close(null)
	} else {
		for fd := range 3 {
			_ = unix.Close(fd)
		}
	}
}

// guarded waits until nothing is below this process, and kills all of it once the command has ended or the kernel has. It
// returns how the command ended.
func guarded(command int, kill <-chan struct{}) (status syscall.WaitStatus) {
	ended, none := make(chan syscall.WaitStatus, 1), make(chan struct{})
	go func() {
		defer close(none)
		for {
			var ws syscall.WaitStatus
			switch pid, err := syscall.Wait4(-1, &ws, 0, nil); {
			case errors.Is(err, syscall.EINTR):
			case err != nil:
				return // ECHILD
			case pid == command:
				ended <- ws
			}
		}
	}()
	select {
	case status = <-ended:
	case <-kill:
	}
	for pause := time.Millisecond; ; pause = min(2*pause, maxGuardPause) {
		killBelow()
		select {
		case <-none:
			select {
			case status = <-ended:
			default:
			}
			return status
		case <-time.After(pause):
		}
	}
}

// maxGuardPause is the longest time between two looks at what will not end.
const maxGuardPause = 250 * time.Millisecond

// killBelow sends SIGKILL to all that is below this process now.
func killBelow() {
	all, err := list(0)
	if err != nil {
		return
	}
	below := map[int]bool{os.Getpid(): true}
	addDescendants(all, below, nil)
	for _, p := range all {
		if below[p.pid] && p.pid != os.Getpid() && !p.dead {
			sendKill(p)
		}
	}
}

// sendKill kills exactly the process p, not one that has its number now.
func sendKill(p proc) {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err == nil {
		defer func() { _ = unix.Close(fd) }()
	}
	if now, ok := look(p.pid); !ok || now.start != p.start {
		return
	}
	if err != nil || errors.Is(unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0), unix.ENOSYS) {
		_ = syscall.Kill(p.pid, syscall.SIGKILL)
	}
}

// exitAs ends this process as another has ended: with its status, or by its signal, without a core file of its own. It leaves
// without the runtime, which under the race detector would wait for a second.
func exitAs(ws syscall.WaitStatus) {
	if ws.Signaled() {
		_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1, Max: 1})
		var fromTheSystem [64]byte // a struct sigaction of zeros: what the signal does by itself
		_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(ws.Signal()), uintptr(unsafe.Pointer(&fromTheSystem)), 0, 8, 0, 0)
		_ = unix.Tgkill(os.Getpid(), unix.Gettid(), ws.Signal())
	}
	for {
		code := ws.ExitStatus()
		if ws.Signaled() {
			code = 128 + int(ws.Signal())
		}
		_, _, _ = unix.RawSyscall(unix.SYS_EXIT_GROUP, uintptr(code), 0, 0)
	}
}
