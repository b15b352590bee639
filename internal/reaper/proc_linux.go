package reaper

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// confine gives cmd its own group and, if it is to die so, has the system kill it when the starting thread ends. A guard is not: it
// notices the end, and has work then.
func confine(cmd *exec.Cmd, dies bool) {
	attr := syscall.SysProcAttr{}
	if cmd.SysProcAttr != nil {
		attr = *cmd.SysProcAttr
	}
	attr.Setpgid, attr.Pgid = true, 0
	if dies {
		attr.Pdeathsig = syscall.SIGKILL
	}
	cmd.SysProcAttr = &attr
}

// boot names the boot and the PID namespace; PIDs of another one mean nothing here.
func boot() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	ns, _ := os.Readlink("/proc/self/ns/pid")
	return strings.TrimSpace(string(id)) + " " + ns
}

// forks is how many processes and threads the system has made since it started (proc(5), /proc/stat).
func forks() (n int64, ok bool) {
	var buf [16 << 10]byte
	b, err := readProc("/proc/stat", buf[:])
	if err != nil {
		return 0, false
	}
	_, rest, ok := bytes.Cut(b, []byte("\nprocesses "))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	n, err = strconv.ParseInt(string(line), 10, 64)
	return n, ok && err == nil
}

// floor is the least PID that a process can have that was made after the process pid, which was made when
// the system had made at least `before` processes; 0 if that cannot be told. PIDs are given in rising
// order until they wrap around, which they cannot have done before enough of them were given.
func floor(pid int, before int64) int {
	now, ok := forks()
	b, err := os.ReadFile("/proc/sys/kernel/pid_max")
	if !ok || err != nil || before <= 0 {
		return 0
	}
	most, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil || int64(pid)+now-before >= most {
		return 0
	}
	return pid
}

// list reads all processes that can be seen and have at least this PID.
func list(floor int) ([]proc, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	names, err := dir.Readdirnames(-1)
	_ = dir.Close()
	if err != nil {
		return nil, err
	}
	procs := make([]proc, 0, len(names))
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && pid >= floor {
			if p, ok := look(pid); ok {
				procs = append(procs, p)
			}
		}
	}
	return procs, nil
}

// look reads one process; ok is false if there is none.
func look(pid int) (p proc, ok bool) {
	var buf [1024]byte
	b, err := readProc("/proc/"+strconv.Itoa(pid)+"/stat", buf[:])
	if err != nil {
		return proc{}, false
	}
	return parseStat(pid, b)
}

// parseStat reads /proc/<pid>/stat (proc(5)): "pid (command) state parent group session ... starttime ...";
// the command may hold anything, also brackets and spaces. The start time is field 22, in clock ticks.
func parseStat(pid int, b []byte) (p proc, ok bool) {
	end := bytes.LastIndexByte(b, ')')
	if end < 0 {
		return proc{}, false
	}
	f := strings.Fields(string(b[end+1:]))
	const state, parent, group, session, starttime = 0, 1, 2, 3, 19
	if len(f) <= starttime {
		return proc{}, false
	}
	var errs [4]error
	p = proc{pid: pid, dead: f[state] == "Z" || f[state] == "X"}
	p.parent, errs[0] = strconv.Atoi(f[parent])
	p.group, errs[1] = strconv.Atoi(f[group])
	p.session, errs[2] = strconv.Atoi(f[session])
	p.start, errs[3] = strconv.ParseInt(f[starttime], 10, 64)
	return p, errors.Join(errs[:]...) == nil
}

// marks reads the marks in a process's environment; none if it may not be read or was overwritten.
func marks(pid int) []string {
	var buf [16 << 10]byte
	b, err := readProc("/proc/"+strconv.Itoa(pid)+"/environ", buf[:])
	if err != nil || !bytes.Contains(b, []byte(EnvOwner+"=")) {
		return nil
	}
	return splitMarks(string(b))
}

// readProc reads a file below /proc with as few system calls as possible: hunts read hundreds.
func readProc(path string, buf []byte) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(fd) }()
	n := 0
	for {
		m, err := unix.Read(fd, buf[n:])
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || m == 0 {
			return buf[:n], err
		}
		if n += m; n == len(buf) {
			buf = append(buf, make([]byte, len(buf))...)
		}
	}
}

// killAndWait kills exactly the process p, not one that has its number now, and waits until it is gone.
func killAndWait(ctx context.Context, p proc) error {
	fd, err := unix.PidfdOpen(p.pid, 0)
	switch {
	case errors.Is(err, unix.ESRCH):
		return nil
	case err != nil: // a system without pidfd
		return killByNumber(ctx, p)
	}
	defer func() { _ = unix.Close(fd) }()
	// What the descriptor names cannot change any more; make sure that it is what we looked at.
	if now, ok := look(p.pid); !ok || now.start != p.start {
		return nil
	}
	switch err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); {
	case errors.Is(err, unix.ESRCH):
		return nil
	case errors.Is(err, unix.ENOSYS):
		return killByNumber(ctx, p)
	case err != nil:
		return err
	}
	return awaitFD(ctx, fd)
}

// awaitFD waits until the process behind a pidfd has ended; the descriptor becomes readable then.
func awaitFD(ctx context.Context, fd int) error {
	wait := time.Minute
	if end, ok := ctx.Deadline(); ok {
		wait = time.Until(end)
	}
	for end := time.Now().Add(wait); ; {
		left := time.Until(end)
		if left <= 0 {
			return errors.New("it is still there after SIGKILL")
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(left.Milliseconds())+1)
		if n > 0 {
			return nil
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func killByNumber(ctx context.Context, p proc) error {
	if now, ok := look(p.pid); !ok || now.start != p.start {
		return nil
	}
	if err := syscall.Kill(p.pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return awaitGone(ctx, p)
}
