package kernel

import "agentkernel"

// maxLosses is how often in a row a process begins again whose sandbox was killed, without coming any further: its program
// may be what draws the kill (a kernel of the operating system that is out of memory takes the largest process).
const maxLosses = 3

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
	if p.losses == nil || p.standing.Seq > p.losses.at {
		p.losses = &losses{}
	}
	p.losses.times++
	p.losses.at = p.standing.Seq
	times := p.losses.times
	if times > maxLosses {
		p.losses = nil // a session goes on without the piece
		p.mu.Unlock()
		k.sandboxFailed(p, agentkernel.Errorf(why.Code, why.Op, "%s (it began again %d times, and each time it came no further)", why.Message(), maxLosses).
			WithHint("look for what kills it (memory, a watchdog: dmesg says)"))
		return
	}
	p.mu.Unlock()
	k.cfg.Logger.Warn("the sandbox of a process was lost; it begins again", "pid", p.pid, "why", why.Message(), "times", times)
	k.beginAgain(p)
}

// sandboxFailed ends a process whose sandbox is dead: for the kernel's own reason if it had one. If the
// kernel is stopping, the process is left unfinished.
func (k *Kernel) sandboxFailed(p *process, err error) {
	p.mu.Lock()
	cause := p.cause()
	p.mu.Unlock()
	switch {
	case cause != nil:
		k.finish(p, endingFor(cause))
	case k.ctx.Err() != nil || k.table.Closed() && p.contextEnded():
		p.mu.Lock()
		p.release()
		p.mu.Unlock()
	case k.abortCell(p, agentkernel.AsError(err, agentkernel.CodeCrashed, "sandbox")):
	default:
		k.finish(p, endingFor(agentkernel.AsError(err, agentkernel.CodeCrashed, "sandbox")))
	}
}
