package tool

import (
	"os/exec"
	"syscall"
)

// Launcher starts server processes and kills them with everything that they started. The kernel passes its
// reaper, which also records them, so that none outlives a kernel that was killed.
type Launcher interface {
	// Start starts cmd in a process group of its own.
	Start(cmd *exec.Cmd) error
	// Kill kills cmd's process group. It is safe after cmd has ended; the caller waits for cmd.
	Kill(cmd *exec.Cmd)
}

// Groups is the plain Launcher: process groups, and no memory of them.
type Groups struct{}

// Start starts cmd as the leader of a new process group.
func (Groups) Start(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	return cmd.Start()
}

// Kill sends SIGKILL to the group.
func (Groups) Kill(cmd *exec.Cmd) {
	if cmd.Process != nil && cmd.Process.Pid > 1 {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // ESRCH: already gone
	}
}
