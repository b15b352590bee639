//go:build !linux

package confine

import (
	"context"
	"os"
	"runtime"
	"syscall"

	"agentkernel"
)

// notHere is the answer to everything on this system.
func notHere() *agentkernel.Error {
	return agentkernel.Errorf(agentkernel.CodeUnavailable, op, "programs cannot be confined on %s: the walls are Linux's", runtime.GOOS).
		WithHint("run the kernel on Linux, or in a Linux virtual machine or container")
}

// Main does nothing: there is no spawner here.
func Main() {}

// SystemRuntime is empty here.
func SystemRuntime() []Mount { return nil }

// RuntimeOf always fails here.
func RuntimeOf(string) ([]Mount, error) { return nil, notHere() }

// RemoveScratch removes a directory.
func RemoveScratch(dir string) error { return os.RemoveAll(dir) }

// Machine is what this computer allows: nothing.
type Machine struct {
	Problem *agentkernel.Error // why
}

// Look says that there are no sandboxes here.
func Look() *Machine { return &Machine{Problem: notHere()} }

// Spawner cannot be used here; each call says so.
type Spawner struct{}

// NewSpawner makes a Spawner that can do nothing.
func NewSpawner(SpawnerConfig) (*Spawner, error) { return &Spawner{}, nil }

// Machine is what this computer allows.
func (*Spawner) Machine() *Machine { return Look() }

// Prepare always fails here.
func (*Spawner) Prepare(Config) (*Cell, error) { return nil, notHere() }

// Trees always fails here.
func (*Spawner) Trees(context.Context, *Plan) ([]*os.File, error) { return nil, notHere() }

// Start always fails here.
func (*Spawner) Start(context.Context, *Cell, []*os.File) (*Process, error) { return nil, notHere() }

// Probe says that there are no sandboxes here.
func (*Spawner) Probe(context.Context) Report { return Report{Problem: notHere()} }

// Close does nothing.
func (*Spawner) Close() error { return nil }

// Cell is never made here.
type Cell struct {
	Plan     *Plan
	Identity Identity
	Config   Config
}

// Child always fails here.
func (*Cell) Child(Config) (*Cell, error) { return nil, notHere() }

// Adopt always fails here.
func (*Cell) Adopt(*os.File) (*Process, error) { return nil, notHere() }

// Close does nothing.
func (*Cell) Close() error { return nil }

// Process is never made here.
type Process struct{ done chan struct{} }

// PID is 0 here.
func (*Process) PID() int { return 0 }

// ProgramPID is 0 here.
func (*Process) ProgramPID() int { return 0 }

// Walls is empty here.
func (*Process) Walls() []Wall { return nil }

// Done is never closed here.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait always fails here.
func (*Process) Wait(context.Context) (Exit, error) { return Exit{}, notHere() }

// Kill does nothing.
func (*Process) Kill() {}

// Held is nothing here.
func (*Process) Held(int64) int64 { return 0 }

// Pause always fails here.
func (*Process) Pause() error { return notHere() }

// Resume always fails here.
func (*Process) Resume() error { return notHere() }

// Signal always fails here.
func (*Process) Signal(syscall.Signal) error { return notHere() }

// Explain always answers the same here.
func (*Plan) Explain(bool, int, syscall.Errno) *agentkernel.Error { return notHere() }
