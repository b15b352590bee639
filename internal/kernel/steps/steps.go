// Package steps is the table of the life of a process: from which state each step leads where, and who owns the process, which
// is to drive its sandbox, take it away or replace it, before and after. It takes no step by itself, and knows no process.
package steps

import (
	"fmt"
	"slices"
	"strings"

	"agentkernel"
)

// Created is where a process stands between its first journal entry and the ready queue. It is never seen from outside.
const Created agentkernel.State = "created"

// ownership is what a step means for the owner of a process.
type ownership string

const (
	unowned  ownership = "unowned"  // before and after
	takes    ownership = "takes"    // the caller owns the process from then on
	keeps    ownership = "keeps"    // the caller owns it, before and after
	releases ownership = "releases" // the caller owned it
	ends     ownership = "ends"     // whoever owned it does not any more
)

// Step is a row of the run-state machine.
type Step struct {
	name  string
	from  []agentkernel.State
	to    agentkernel.State // "": where it is
	owner ownership
}

const (
	ready   = agentkernel.StateReady
	running = agentkernel.StateRunning
	waiting = agentkernel.StateWaiting
)

// The run-state machine. The comment of package kernel has it as a table, and a test compares both.
var (
	Begin   = &Step{"begin", []agentkernel.State{Created}, ready, unowned}
	Wake    = &Step{"wake", []agentkernel.State{waiting}, ready, unowned}
	Hold    = &Step{"hold", []agentkernel.State{ready}, waiting, unowned}
	Drive   = &Step{"drive", []agentkernel.State{ready}, running, takes}
	Reserve = &Step{"reserve", []agentkernel.State{ready, waiting}, "", takes}
	Proceed = &Step{"proceed", []agentkernel.State{waiting}, running, keeps}
	Wait    = &Step{"wait", []agentkernel.State{running}, waiting, releases}
	Yield   = &Step{"yield", []agentkernel.State{running}, ready, releases}
	Rewind  = &Step{"rewind", []agentkernel.State{running}, waiting, keeps}
	Release = &Step{"release", []agentkernel.State{ready, running, waiting}, "", releases}
	Exit    = &Step{"exit", []agentkernel.State{running, waiting}, agentkernel.StateExited, ends}
	Fail    = &Step{"fail", []agentkernel.State{ready, running, waiting}, agentkernel.StateFailed, ends}
	Kill    = &Step{"kill", []agentkernel.State{ready, running, waiting}, agentkernel.StateKilled, ends}
)

// All are the steps.
func All() []*Step {
	return []*Step{Begin, Wake, Hold, Drive, Reserve, Proceed, Wait, Yield, Rewind, Release, Exit, Fail, Kill}
}

// String is the step as a line of the table.
func (s *Step) String() string {
	line := s.name
	for _, from := range s.from {
		line += " " + string(from)
	}
	return strings.Join(strings.Fields(line+" -> "+string(s.to)+" "+string(s.owner)), " ")
}

// Take says where a process in a state stands after the step, and whether it is owned. A step that the table does not have is an
// error, and a defect of whoever takes it.
func (s *Step) Take(from agentkernel.State, owned bool) (to agentkernel.State, owns bool, err error) {
	if !s.possible(from, owned) {
		return from, owned, fmt.Errorf("cannot %s: it is %s, owned: %t", s.name, from, owned)
	}
	to = from
	if s.to != "" {
		to = s.to
	}
	return to, s.owner == takes || s.owner == keeps, nil
}

// possible says whether a process in a state may take the step.
func (s *Step) possible(from agentkernel.State, owned bool) bool {
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

// End is the step to a terminal state.
func End(to agentkernel.State) *Step {
	switch to {
	case agentkernel.StateExited:
		return Exit
	case agentkernel.StateKilled:
		return Kill
	}
	return Fail
}
