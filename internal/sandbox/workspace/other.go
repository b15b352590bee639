//go:build !linux

package workspace

import (
	"context"

	"agentkernel"
)

// Store refuses everything: only Linux has the walls behind which a program may see a folder.
type Store struct{}

// New gives a store that refuses.
func New(Config) *Store { return &Store{} }

func refused() error {
	return agentkernel.Errorf(agentkernel.CodeUnsupported, op, "workspaces need Linux")
}

// Create refuses.
func (*Store) Create(agentkernel.PID, *agentkernel.Spec) error { return refused() }

// Stdin refuses.
func (*Store) Stdin(agentkernel.PID) (string, error) { return "", refused() }

// Begin refuses.
func (*Store) Begin(agentkernel.PID) ([]agentkernel.Mount, error) { return nil, refused() }

// Drift refuses.
func (*Store) Drift(agentkernel.PID) ([]string, error) { return nil, refused() }

// Used refuses.
func (*Store) Used(agentkernel.PID) (changes, beside int64, err error) { return 0, 0, refused() }

// Changes refuses.
func (*Store) Changes(agentkernel.PID) (agentkernel.Changes, error) {
	return agentkernel.Changes{}, refused()
}

// Apply refuses.
func (*Store) Apply(context.Context, agentkernel.PID, agentkernel.ApplyOptions) (agentkernel.Applied, error) {
	return agentkernel.Applied{}, refused()
}

// Discard refuses.
func (*Store) Discard(context.Context, agentkernel.PID) error { return refused() }

// Import refuses.
func (*Store) Import(agentkernel.PID, []agentkernel.RecordedFile) error { return refused() }

// Imported says that nothing was.
func (*Store) Imported(agentkernel.PID) bool { return false }

func (*Store) names() ([]string, error) { return nil, nil }

func (*Store) holds(agentkernel.PID) bool { return false }

// RemoveStray has nothing to remove.
func (*Store) RemoveStray(agentkernel.PID) error { return nil }

// SweepRemoved has nothing to remove.
func (*Store) SweepRemoved() error { return nil }

// Remove has nothing to remove.
func (*Store) Remove(agentkernel.PID) error { return nil }

// Open refuses.
func (*Store) Open(agentkernel.PID, agentkernel.FileName) (agentkernel.File, error) {
	return agentkernel.File{}, refused()
}
