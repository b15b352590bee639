// Package quickexit is for test binaries that start themselves again: as kernels to be killed, as servers, as the
// command `kernel` in sandboxes. A process that is built with the race detector waits for a second before it exits, in
// case goroutines that nobody waited for have a race yet. The test binary itself goes on doing so; that the hundreds of
// processes below it do makes the tests slow and finds nothing.
//
// It must never be imported outside tests.
package quickexit

import (
	"os"
	"path/filepath"
	"syscall"

	"agentkernel/guest/command"
)

const (
	variable = "GORACE" // what the race detector reads when a process starts
	value    = "atexit_sleep_ms=0"
)

// Main belongs at the very beginning of TestMain. What a developer has set stays.
func Main() {
	if !raced || os.Getenv(variable) != "" {
		return
	}
	_ = os.Setenv(variable, value) // a good name
	if filepath.Base(os.Args[0]) == command.Name && os.Getenv(command.DoorVariable) != "" {
		// Nothing of the host's environment gets into a sandbox. If this fails, the command is slow.
		_ = syscall.Exec("/proc/self/exe", os.Args, os.Environ()) //nolint:gosec // itself
	}
}
