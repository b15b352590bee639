//go:build !linux

package process

import (
	"context"

	"agentkernel"
	"agentkernel/internal/sandbox/confine"
)

// Backend runs nothing on this system: there are no walls.
type Backend struct{ problem *agentkernel.Error }

var _ agentkernel.Backend = (*Backend)(nil)

// New prepares a backend that says why it cannot run here.
func New(cfg Config) (*Backend, error) {
	if _, err := cfg.withDefaults(); err != nil {
		return nil, err
	}
	return &Backend{problem: confine.Look().Problem}, nil
}

// Info says why nothing can run.
func (b *Backend) Info() agentkernel.BackendInfo {
	return agentkernel.BackendInfo{Name: "process", Languages: languages, Replayable: true, Isolation: agentkernel.IsolationProcess,
		Problem: b.problem.Message(), Fix: b.problem.Hint}
}

// Check refuses every program.
func (b *Backend) Check(agentkernel.Program) (agentkernel.Needs, error) {
	return agentkernel.Needs{}, b.problem
}

// Start refuses.
func (b *Backend) Start(context.Context, agentkernel.StartRequest) (agentkernel.Sandbox, error) {
	return nil, b.problem
}

// Main does nothing on this system.
func Main() {}

// OwnCommand is for systems with sandboxes.
func OwnCommand() string { return "" }

// Interpreter is what is known of a Python that programs may run in.
type Interpreter struct{ Executable, Version string }

// Trial is what Try found.
type Trial struct {
	Python Interpreter
	Walls  []confine.Wall
}

// Try refuses.
func (b *Backend) Try(context.Context) (Trial, error) { return Trial{}, b.problem }

// Close does nothing.
func (b *Backend) Close() error { return nil }
