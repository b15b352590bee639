package kernel

import (
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/limits"
)

// startClock arms the one timer of what ends a process by the clock, anew if something has changed: the wall limit, which stands still
// while it is paused, and the end of the grace time of a stop, which does not; p.mu is held.
func (k *Kernel) startClock(p *process) {
	p.wall.Stop()
	p.wall = nil
	if p.state.Terminal() {
		return
	}
	if at := p.endsAt(k.cfg.Now()); !at.IsZero() {
		p.wall = k.timers.At(at, func() { k.external.Go(func() { k.clockReached(p) }) })
	}
}

// begins is for a process that was just put into the table, before it runs: whoever changes the holds after this finds it there;
// p.mu is held.
func (k *Kernel) begins(p *process) {
	k.inOrder(k.heed(p))
	k.startClock(p)
}

// endsAt is when the clock ends a process first; zero: never; p.mu is held.
func (p *process) endsAt(now time.Time) time.Time {
	at := p.standing.Account.StopBy
	if wall := time.Duration(p.spec.InForce.Wall); wall > 0 && !p.paused() {
		if end := now.Add(wall - p.lived(now)); at.IsZero() || end.Before(at) {
			at = end
		}
	}
	return at
}

// clockReached ends a process whose time is over.
func (k *Kernel) clockReached(p *process) {
	p.mu.Lock()
	now := k.cfg.Now()
	lived, wall, by := p.lived(now), time.Duration(p.spec.InForce.Wall), p.standing.Account.StopBy
	stopped, old := !by.IsZero() && !now.Before(by), wall > 0 && !p.paused() && lived >= wall
	if !stopped && !old {
		k.startClock(p)
	}
	p.mu.Unlock()
	switch {
	case stopped:
		k.killFor(p, agentkernel.Errorf(agentkernel.CodeKilled, "stop", "it was asked to stop, and had not ended when its grace time was over"))
	case old:
		k.killFor(p, limits.Wall(&p.spec.InForce, lived, p.pid))
	}
}

// lived is the time since the creation of a process, pauses left out; p.mu is held.
func (p *process) lived(now time.Time) time.Duration {
	if p.paused() {
		now = p.standing.Pauses.At
	}
	return now.Sub(p.created) - p.standing.Pauses.Ended
}
