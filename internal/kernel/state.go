package kernel

import (
	"fmt"
	"slices"

	"agentkernel"
)

// stateCreated is where a process stands between its first journal entry and the ready queue. It is
// never seen from outside.
const stateCreated agentkernel.State = "created"

// ownership is what a step means for process.owned.
type ownership string

const (
	unowned  ownership = "unowned"  // before and after
	takes    ownership = "takes"    // the caller owns the process from then on
	keeps    ownership = "keeps"    // the caller owns it, before and after
	releases ownership = "releases" // the caller owned it
	ends     ownership = "ends"     // whoever owned it does not any more
)

// step is a row of the run-state machine.
type step struct {
	name  string
	from  []agentkernel.State
	to    agentkernel.State // "": where it is
	owner ownership
}

// The run-state machine. The package comment has it as a table, and a test compares both.
var (
	stepBegin   = step{"begin", []agentkernel.State{stateCreated}, agentkernel.StateReady, unowned}
	stepWake    = step{"wake", []agentkernel.State{agentkernel.StateWaiting}, agentkernel.StateReady, unowned}
	stepHold    = step{"hold", []agentkernel.State{agentkernel.StateReady}, agentkernel.StateWaiting, unowned}
	stepDrive   = step{"drive", []agentkernel.State{agentkernel.StateReady}, agentkernel.StateRunning, takes}
	stepReserve = step{"reserve", []agentkernel.State{agentkernel.StateReady, agentkernel.StateWaiting}, "", takes}
	stepProceed = step{"proceed", []agentkernel.State{agentkernel.StateWaiting}, agentkernel.StateRunning, keeps}
	stepWait    = step{"wait", []agentkernel.State{agentkernel.StateRunning}, agentkernel.StateWaiting, releases}
	stepRewind  = step{"rewind", []agentkernel.State{agentkernel.StateRunning}, agentkernel.StateWaiting, keeps}
	stepRelease = step{"release", []agentkernel.State{agentkernel.StateReady, agentkernel.StateRunning, agentkernel.StateWaiting}, "", releases}
	stepExit    = step{"exit", []agentkernel.State{agentkernel.StateRunning, agentkernel.StateWaiting}, agentkernel.StateExited, ends}
	stepFail    = step{"fail", []agentkernel.State{agentkernel.StateReady, agentkernel.StateRunning, agentkernel.StateWaiting}, agentkernel.StateFailed, ends}
	stepKill    = step{"kill", []agentkernel.State{agentkernel.StateReady, agentkernel.StateRunning, agentkernel.StateWaiting}, agentkernel.StateKilled, ends}
)

// possible says whether a process in a state may take the step.
func (s *step) possible(from agentkernel.State, owned bool) bool {
	if !slices.Contains(s.from, from) {
		return false
	}
	switch s.owner {
	case unowned, takes:
		return !owned
	case keeps, releases:
		return owned
	}
	return true
}

// step moves a process to another state or another owner; p.mu is held. A step that the table does not have is a defect of
// the kernel, and to continue would corrupt the process.
func (p *process) step(s *step) {
	if !s.possible(p.state, p.owned) {
		panic(fmt.Sprintf("kernel: pid %d: cannot %s: it is %s, owned: %t", p.pid, s.name, p.state, p.owned))
	}
	if s.to != "" {
		p.state = s.to
	}
	p.owned = s.owner == takes || s.owner == keeps
}

// release ends the caller's ownership, unless the end of the process has done so; p.mu is held.
func (p *process) release() {
	if p.owned {
		p.step(&stepRelease)
	}
}

// endStep is the step to a terminal state.
func endStep(to agentkernel.State) *step {
	switch to {
	case agentkernel.StateExited:
		return &stepExit
	case agentkernel.StateKilled:
		return &stepKill
	}
	return &stepFail
}
