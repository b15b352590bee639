package kernel

import (
	"slices"

	"agentkernel"
	"agentkernel/internal/kernel/advice"
	"agentkernel/internal/kernel/cells"
	"agentkernel/internal/kernel/eviction"
	"agentkernel/internal/kernel/room"
)

// What can be asked of a process without changing it.

// deliverable says whether the sandbox could run on now; p.mu is held.
func (p *process) deliverable() bool {
	if p.standsStill() || p.state.Terminal() || p.run.backend == nil {
		return false
	}
	switch p.run.need {
	case needStart, needGo:
		return true
	case needAny:
		return p.run.hasOutput || p.hasResult()
	}
	return p.run.reply != nil
}

// untaken is how many results of async calls wait for the program to take them; p.mu is held.
func (p *process) untaken() int {
	n := len(p.run.arrived)
	if p.run.replay != nil {
		for _, call := range p.run.replay.Order {
			if call <= p.run.calls { // others are of calls to which it has not come again
				n++
			}
		}
	}
	return n
}

func (p *process) hasResult() bool {
	return len(p.run.arrived) > 0 || p.run.replay != nil && len(p.run.replay.Order) > 0 || p.run.origin.Waits()
}

// replayable says whether the process can be repeated from its journal.
func (p *process) replayable() bool {
	return p.run.backend == nil || p.run.backend.RunsAgain(p.spec.Program.Language)
}

// eviction is p's; p.mu is held.
func (p *process) eviction() eviction.Rank {
	return eviction.Rank{Images: p.run.backend.Images, Ready: p.state == agentkernel.StateReady, LastRun: p.run.lastRun, PID: p.pid}
}

// evictable says whether the sandbox may be parked now; p.mu is held. A call that the journal does not have yet (its server
// starts, a human is asked) keeps it: an image stands behind the call, and after a crash there would be nothing to answer it.
func (p *process) evictable() bool {
	if slices.ContainsFunc(p.inflight, func(f *inflight) bool { return !f.intended() }) {
		return false
	}
	// One that was paused before it was told that its async call is under way stays: from its image it would issue the call again.
	idle := p.state == agentkernel.StateWaiting || p.state == agentkernel.StateReady
	waits := p.run.need == needReply || p.run.need == needAny
	return idle && waits && !p.owned && p.run.box != nil && !p.run.reemit && p.run.replay == nil && (p.run.backend.Images || p.betweenCells())
}

// betweenCells says whether the process is a session that could be repeated, and waits for its next cell. One with a
// folder keeps its sandbox: the folder may not be what it was when that is needed again. p.mu is held.
func (p *process) betweenCells() bool {
	return p.asksForCell() && p.replayable() && p.run.verifies == nil && !p.spec.HasFiles()
}

// asksForCell says whether the process is a session that waits for its next cell; p.mu is held.
func (p *process) asksForCell() bool {
	f := p.inflight.Find(p.run.current)
	return p.spec.Program.Session && p.run.need == needReply && f != nil && f.asksForCell() && f.intended()
}

// canAbort says whether a cell of the process can be aborted; p.mu is held.
func (p *process) canAbort() bool {
	return p.spec.Program.Session && p.replayable() && p.run.verifies == nil && p.run.origin == nil
}

// heldBytes is how many bytes the kernel keeps for calls of p that are under way or whose results nobody has taken yet; p.mu is held.
func (p *process) heldBytes() int64 {
	var n int64
	for _, f := range p.inflight {
		n += room.ArgsCopies * int64(len(f.args))
	}
	for i := range p.run.arrived {
		n += int64(len(p.run.arrived[i].Result))
	}
	return n
}

// atNext is the call at which a session waits for its next cell; p.mu is held. CodeConflict if it does not.
func (p *process) atNext() (*inflight, error) {
	switch f := p.run.current; {
	case p.state.Terminal():
		return nil, cells.Ended(p.pid, p.state)
	case p.halted != nil:
		return nil, p.halted.Halted("session").WithPID(p.pid)
	case p.paused():
		return nil, cells.Conflict(p.pid, "session %d is paused", p.pid).WithHint(advice.Resume, p.pid)
	default:
		// Before its timer runs it has not said how the last cell ended: whoever feeds the next would take that for his.
		if call := p.inflight.Find(f); call != nil && call.asksForCell() && call.timer != nil {
			return call, nil
		}
	}
	return nil, cells.Conflict(p.pid, "session %d is still busy with the last cell", p.pid).WithHint("wait for it, or use another session")
}
