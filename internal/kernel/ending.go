package kernel

import (
	"agentkernel"
	"agentkernel/internal/kernel/ends"
	"agentkernel/internal/kernel/history"
)

// checkedEnding turns an end of the program that leaves part of the journal unrepeated into a divergence; p.mu is held.
func (p *process) checkedEnding(e ends.Ending) ends.Ending {
	if p.run.replay == nil || !history.Repeatable(e.Err) || e.State == agentkernel.StateKilled || e.Err != nil && e.Err.Code == agentkernel.CodeDiverged {
		return e
	}
	if unrepeated := p.run.replay.EndsBefore(e.Err); unrepeated != nil {
		return ends.For(unrepeated)
	}
	return e
}

// movedEnding adds to an error that ends a process what it had moved for, if that is something else; p.mu is held.
func (p *process) movedEnding(e ends.Ending) ends.Ending {
	if p.run.moved == nil || e.Err == nil || e.State != agentkernel.StateFailed {
		return e
	}
	e.Err = p.run.moved.Ending(e.Err, p.run.backend.Name, p.pid)
	return e
}

// lastWords is said at the end of a process that never went beyond its origin; p.mu is held.
func (p *process) lastWords() []agentkernel.Entry {
	if p.run.origin.Live() {
		return nil
	}
	return []agentkernel.Entry{{Kind: agentkernel.EntryPast, Note: p.run.origin.NoneLive(p.run.calls, p.spec.Past.Again)}}
}
