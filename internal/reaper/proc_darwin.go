package reaper

import (
	"context"
	"errors"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// confine gives cmd its own group. macOS has no parent-death signal: the records find what is left.
func confine(cmd *exec.Cmd, _ bool) {
	attr := syscall.SysProcAttr{}
	if cmd.SysProcAttr != nil {
		attr = *cmd.SysProcAttr
	}
	attr.Setpgid, attr.Pgid = true, 0
	cmd.SysProcAttr = &attr
}

// boot names the boot; PIDs of another one mean nothing.
func boot() string {
	id, _ := unix.Sysctl("kern.bootsessionuuid")
	return id
}

func forks() (n int64, ok bool) { return 0, false }

// floor: PIDs say nothing about age here.
func floor(int, int64) int { return 0 }

func list(int) ([]proc, error) {
	kps, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil, err
	}
	procs := make([]proc, 0, len(kps))
	for i := range kps {
		procs = append(procs, fromKinfo(&kps[i]))
	}
	return procs, nil
}

func look(pid int) (p proc, ok bool) {
	kp, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(kp.Proc.P_pid) != pid {
		return proc{}, false
	}
	return fromKinfo(kp), true
}

// zombie is SZOMB of sys/proc.h.
const zombie = 5

func fromKinfo(kp *unix.KinfoProc) proc {
	p := proc{
		pid: int(kp.Proc.P_pid), parent: int(kp.Eproc.Ppid), group: int(kp.Eproc.Pgid),
		start: kp.Proc.P_starttime.Sec*1_000_000 + int64(kp.Proc.P_starttime.Usec),
		dead:  kp.Proc.P_stat == zombie,
	}
	p.session, _ = unix.Getsid(p.pid)
	return p
}

// marks: macOS shows the environment of other processes to nobody in a dependable way; groups and the
// tree of parents must do.
func marks(int) []string { return nil }

func killAndWait(ctx context.Context, p proc) error {
	if now, ok := look(p.pid); !ok || now.start != p.start {
		return nil
	}
	if err := syscall.Kill(p.pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return awaitGone(ctx, p)
}
