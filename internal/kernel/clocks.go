package kernel

import (
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/budget"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/kernel/inbox"
	"agentkernel/internal/kernel/limits"
	"agentkernel/internal/kernel/timers"
)

// startClock arms the one timer of what ends a process by the clock, anew if something has changed: the wall limit, which stands still
// while it is paused, and its deadline and the end of the grace time of a stop, which do not; p.mu is held.
func (k *Kernel) startClock(p *process) {
	p.wall.Stop()
	p.wall = nil
	if p.state.Terminal() {
		return
	}
	until, _ := k.runsUntil(p)
	if at := timers.Sooner(p.endsAt(k.cfg.Now()), until); !at.IsZero() {
		p.wall = k.timers.At(at, func() { k.clockReached(p) })
	}
}

// runsUntil is how long a program may run that runs now, as budgets say; zero: for ever. The error says that it may not; p.mu is held.
func (k *Kernel) runsUntil(p *process) (until time.Time, err error) {
	if p.run.turning == 0 || p.standsStill() || p.spec.OnBudget == agentkernel.BudgetRaise || !k.table.ledger.Bounds(&p.spec.Spec, agentkernel.AmountTime) {
		return until, nil
	}
	return k.table.ledger.RunsUntil(k.books(p), k.table.ledger.Uncounted(&p.spec.Spec, p.ran(k.clock()), p.standing.Account.Amounts))
}

// enforceTime lets a program stand still, or ends it, that has run longer than budgets allow; p.mu is held. False: it has not.
func (k *Kernel) enforceTime(p *process) bool {
	_, err := k.runsUntil(p)
	switch {
	case err == nil:
	case p.spec.OnBudget == agentkernel.BudgetKill, budget.Final(err): // nobody could let it go on
		k.external.Go(func() { k.killFor(p, agentkernel.AsError(err, agentkernel.CodeLimit, "budget")) })
	default:
		k.pause(p, 0, history.Short(budget.ShortageOf(err)))
	}
	return err != nil
}

// begins is for a process that was just put into the table, before it runs: whoever changes the holds after this finds it there; p.mu is held.
func (k *Kernel) begins(p *process) {
	k.inOrder(k.heed(p))
	k.startClock(p)
	if short := p.whyPaused().Short; short != nil { // the budget may be another by now: no kernel carried the process meanwhile
		k.external.Go(func() {
			stale := k.table.ledger.Stale(k.ctx, p.spec.Namespace, short)
			k.resumeIf([]*process{p}, func(*process) bool { return stale && p.whyPaused().Short == short })
		})
	}
}

// endsAt is when the clock ends a process first, asks it to end, or lets it go on; zero: never; p.mu is held.
func (p *process) endsAt(now time.Time) time.Time {
	at, _ := p.standing.Account.Stops(p.spec.Deadline, now)
	at = timers.Sooner(at, p.whyPaused().Until()) // then there is enough for its call again
	if wall := time.Duration(p.spec.InForce.Wall); wall > 0 && !p.paused() {
		at = timers.Sooner(at, now.Add(wall-p.standing.Pauses.Lived(p.created, now)))
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
	if until := p.whyPaused().Until(); !until.IsZero() && !now.Before(until) {
		k.resume(p)
	} else if !k.enforceTime(p) && !due && !old {
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

// resumeIf lets those of processes go on whose budget may pay for the call now for which they are paused.
func (k *Kernel) resumeIf(of []*process, may func(*process) bool) {
	for _, p := range of {
		if p != nil {
			p.mu.Lock()
			if may(p) {
				k.resume(p)
			}
			p.mu.Unlock()
		}
	}
}
