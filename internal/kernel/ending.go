package kernel

import (
	"encoding/json"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/kernel/limits"
)

// ending is how a process ends.
type ending struct {
	state    agentkernel.State
	exitCode int
	result   json.RawMessage
	err      *agentkernel.Error
	underWay []string  // writes, where there is no error to name them
	left     []string  // files that went with the sandbox
	at       time.Time // set when it has happened
}

// endingFor says how an error ends a process: a limit or a signal kills it, anything else is a failure.
func endingFor(err *agentkernel.Error) ending {
	if err == nil {
		err = agentkernel.Errorf(agentkernel.CodeInternal, "sandbox", "the program failed without an error")
	}
	e := ending{state: agentkernel.StateFailed, exitCode: limits.ExitCode(err), err: err}
	if err.Code == agentkernel.CodeLimit || err.Code == agentkernel.CodeKilled {
		e.state = agentkernel.StateKilled
	}
	return e
}

// checkedEnding turns an end of the program that leaves part of the journal unrepeated into a divergence; p.mu is held.
func (p *process) checkedEnding(e ending) ending {
	if p.run.replay == nil || !history.Repeatable(e.err) || e.state == agentkernel.StateKilled || e.err != nil && e.err.Code == agentkernel.CodeDiverged {
		return e
	}
	if unrepeated := p.run.replay.EndsBefore(e.err); unrepeated != nil {
		return endingFor(unrepeated)
	}
	return e
}

// movedEnding adds to an error that ends a process what it had moved for, if that is something else; p.mu is held.
func (p *process) movedEnding(e ending) ending {
	if p.run.moved == nil || e.err == nil || e.state != agentkernel.StateFailed {
		return e
	}
	e.err = p.run.moved.Ending(e.err, p.run.backend.Name, p.pid)
	return e
}

// lastWords is said at the end of a process that never went beyond its origin; p.mu is held.
func (p *process) lastWords() []agentkernel.Entry {
	if p.run.origin.Live() {
		return nil
	}
	return []agentkernel.Entry{{Kind: agentkernel.EntryPast, Note: p.run.origin.NoneLive(p.run.calls)}}
}
