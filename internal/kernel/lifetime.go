package kernel

import (
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/kernel/inbox"
	"agentkernel/internal/kernel/limits"
)

// startClock arms the one timer of what ends a process by the clock, anew if something has changed: the wall limit, which stands still
// while it is paused, and its deadline and the end of the grace time of a stop, which do not; p.mu is held.
func (k *Kernel) startClock(p *process) {
	p.wall.Stop()
	p.wall = nil
	if p.state.Terminal() {
		return
	}
	if at := p.endsAt(k.cfg.Now()); !at.IsZero() {
		p.wall = k.timers.At(at, func() { k.clockReached(p) })
	}
}

// begins is for a process that was just put into the table, before it runs: whoever changes the holds after this finds it there;
// p.mu is held.
func (k *Kernel) begins(p *process) {
	k.inOrder(k.heed(p))
	k.startClock(p)
}

// endsAt is when the clock ends a process first, or asks it to end; zero: never; p.mu is held.
func (p *process) endsAt(now time.Time) time.Time {
	at, _ := p.standing.Account.Stops(p.spec.Deadline, now)
	if wall := time.Duration(p.spec.InForce.Wall); wall > 0 && !p.paused() {
		if end := now.Add(wall - p.standing.Pauses.Lived(p.created, now)); at.IsZero() || end.Before(at) {
			at = end
		}
	}
	return at
}

// clockReached ends a process whose time is over, or asks it to end. Those whose deadlines are due are asked in their order.
func (k *Kernel) clockReached(p *process) {
	p.mu.Lock()
	now := k.cfg.Now()
	lived, wall, because := p.standing.Pauses.Lived(p.created, now), time.Duration(p.spec.InForce.Wall), p.standing.Account.Deadline
	at, ask := p.standing.Account.Stops(p.spec.Deadline, now)
	due, old := !at.IsZero() && !now.Before(at), wall > 0 && !p.paused() && lived >= wall
	if !due && !old {
		k.startClock(p)
	}
	p.mu.Unlock()
	switch {
	case due && !ask:
		k.external.Go(func() { k.killFor(p, inbox.Stopped(because, false)) })
	case old:
		k.external.Go(func() { k.killFor(p, limits.Wall(&p.spec.InForce, lived, p.pid)) })
	case due:
		k.askToStop(p, history.SignalData{By: now.Add(time.Duration(agentkernel.DefaultGrace)).Truncate(time.Microsecond), Deadline: p.spec.Deadline})
	}
}
