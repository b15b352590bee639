package kernel

import (
	"agentkernel"
	"agentkernel/internal/kernel/ends"
)

// lostBox deals with a sandbox that was killed from outside: its process begins again, if it can be repeated, and ends as
// crashed if that does not help.
func (k *Kernel) lostBox(p *process, why *agentkernel.Error) {
	if !p.replayable() {
		k.sandboxFailed(p, why)
		return
	}
	p.mu.Lock()
	if p.state != agentkernel.StateRunning || p.runEnded() {
		p.mu.Unlock()
		k.sandboxFailed(p, why)
		return
	}
	p.losses = p.losses.Another(p.standing.Seq)
	times := p.losses.Times
	if final := p.losses.TooMany(why); final != nil {
		p.losses = nil // a session goes on without the cell
		p.mu.Unlock()
		k.sandboxFailed(p, final)
		return
	}
	p.mu.Unlock()
	k.cfg.Logger.Warn("the sandbox of a process was lost; it begins again", "pid", p.pid, "why", why.Message(), "times", times)
	k.beginAgain(p)
}

// leaves says whether the kernel is ending and leaves a process to the next one: what fails then is no outcome of the program's.
func (k *Kernel) leaves(p *process) bool {
	return k.ctx.Err() != nil || k.table.Closed() && p.contextEnded()
}

// sandboxFailed ends a process whose sandbox is dead: for the kernel's own reason if it had one. If the
// kernel is stopping, the process is left unfinished.
func (k *Kernel) sandboxFailed(p *process, err error) {
	p.mu.Lock()
	cause := p.cause()
	p.mu.Unlock()
	switch {
	case cause != nil:
		k.finish(p, ends.For(cause))
	case k.leaves(p):
		p.mu.Lock()
		p.release()
		p.mu.Unlock()
	case k.abortCell(p, agentkernel.AsError(err, agentkernel.CodeCrashed, "sandbox")):
	default:
		k.finish(p, ends.For(agentkernel.AsError(err, agentkernel.CodeCrashed, "sandbox")))
	}
}
