package kernel

import (
	"fmt"
	"slices"

	"agentkernel"
)

// stateCreated is where a process stands between its first journal entry and the ready queue. It is
// never seen from outside.
const stateCreated agentkernel.State = "created"

// transitions is the run-state machine; the package comment draws it and TestStateMachine compares both.
var transitions = map[agentkernel.State][]agentkernel.State{
	stateCreated:             {agentkernel.StateReady},
	agentkernel.StateReady:   {agentkernel.StateRunning, agentkernel.StateKilled, agentkernel.StateFailed},
	agentkernel.StateRunning: {agentkernel.StateWaiting, agentkernel.StateExited, agentkernel.StateFailed, agentkernel.StateKilled},
	agentkernel.StateWaiting: {agentkernel.StateReady, agentkernel.StateExited, agentkernel.StateFailed, agentkernel.StateKilled},
}

// to moves a process to another state; p.mu is held. A transition that the table does not have is a
// defect of the kernel, and going on would corrupt the process.
func (p *process) to(next agentkernel.State) {
	if !slices.Contains(transitions[p.state], next) {
		panic(fmt.Sprintf("kernel: pid %d: no transition from %s to %s", p.pid, p.state, next))
	}
	p.state = next
}
