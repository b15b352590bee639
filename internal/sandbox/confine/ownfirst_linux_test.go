package confine

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"agentkernel"
)

// What an executor hands over is a process of a pid namespace below its own, whatever it says: not the kernel, not a
// process of the machine.
func TestOnlyASandboxsProcessIsAdopted(t *testing.T) {
	other := exec.CommandContext(t.Context(), "sleep", "60")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = other.Process.Kill(), other.Wait() }()
	for name, pid := range map[string]int{"itself": os.Getpid(), "a child": other.Process.Pid} {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := ownFirst(fd); agentkernel.CodeOf(err) != agentkernel.CodeDenied {
			t.Errorf("%s: %d %v", name, got, err)
		}
		_ = unix.Close(fd)
	}
	ended, err := unix.PidfdOpen(other.Process.Pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	_ = other.Process.Signal(syscall.SIGKILL)
	_ = other.Wait()
	if got, err := ownFirst(ended); agentkernel.CodeOf(err) != agentkernel.CodeCrashed {
		t.Errorf("one that has ended: %d %v", got, err)
	}
	_ = unix.Close(ended)
}
