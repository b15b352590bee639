package kernel

import (
	"context"

	"agentkernel"
	"agentkernel/internal/kernel/budget"
	"agentkernel/internal/kernel/history"
)

// budgets are the processes with a budget that binds p.
func (p *process) budgets() []agentkernel.PID { return budget.Nodes(p.pid, &p.spec.Spec) }

// accounts shows the accounts of a process and of all below it that are in memory; see budget.Source.
func (k *Kernel) accounts(pid agentkernel.PID, fn func(agentkernel.PID, *history.Account)) {
	for _, p := range append(k.table.below(pid), k.lookup(pid)) {
		if p != nil {
			p.mu.Lock()
			fn(p.pid, &p.standing.Account)
			p.mu.Unlock()
		}
	}
}

// overBudget deals with a call for which too little is left of a budget: later makes it when its process is resumed. False: the
// program is handed the error.
func (k *Kernel) overBudget(p *process, f *inflight, err error, later func()) bool {
	if !budget.Refused(err) || p.spec.OnBudget == agentkernel.BudgetRaise {
		return false
	}
	p.mu.Lock()
	gone := p.state.Terminal() || f.dropped || f.intended() && p.inflight.Find(f.id) != f
	if !gone {
		f.later = later
		p.inflight.Add(f)
	}
	p.mu.Unlock()
	switch {
	case gone:
	case k.table.ledger.Await(err, func() { k.external.Go(func() { k.tryAgain(p, f) }) }):
	case p.spec.OnBudget == agentkernel.BudgetKill:
		k.killFor(p, agentkernel.AsError(err, agentkernel.CodeLimit, f.op))
	default:
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.state.Terminal() && p.inflight.Find(f.id) == f {
			k.pause(p, 0, budget.PauseNote(err))
			if k.table.ledger.Raised(err) { // whoever did so may not have seen the pause
				k.resume(p)
			}
		}
	}
	return true
}

// tryAgain makes a call that has waited until others give back what they hold.
func (k *Kernel) tryAgain(p *process, f *inflight) {
	p.mu.Lock()
	later := f.later
	f.later = nil
	gone := p.state.Terminal() || p.inflight.Find(f.id) != f
	p.mu.Unlock()
	if later != nil && !gone {
		later()
	}
}

// warn puts before a process what its ledger has to say of its budget. What cannot be told now is due again.
func (k *Kernel) warn(pid agentkernel.PID) {
	p, err := k.acquire(k.ctx, pid)
	if p == nil || err != nil {
		return
	}
	defer k.release(p)
	end, err := k.table.senders.Enter(k.ctx, k.store, pid)
	if err != nil {
		return // its program takes none
	}
	defer end()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state.Terminal() {
		return
	}
	for _, b := range k.table.ledger.Warnings(pid) {
		k.appendBatch(p, b)
		if ev, ok := history.Event(&b.Entries[0]); ok {
			k.publish(p, ev)
		}
	}
}

// Budget says what has become of the budget of a process.
func (k *Kernel) Budget(ctx context.Context, pid agentkernel.PID) (agentkernel.BudgetState, error) {
	return k.table.ledger.State(ctx, pid)
}

// AddBudget raises the budget of a process, and lets those go on that were paused for it.
func (k *Kernel) AddBudget(ctx context.Context, pid agentkernel.PID, more agentkernel.Budget) (s agentkernel.BudgetState, err error) {
	p := k.carried(ctx, pid)
	if p == nil {
		return s, history.NotCarried(ctx, k.store, "budget", pid)
	}
	defer k.release(p)
	raising, err := budget.Raising(pid, p.spec.Budget, more)
	if err != nil {
		return s, err
	}
	p.mu.Lock()
	if p.state.Terminal() { // a moment ago: the table has it yet
		defer p.mu.Unlock()
		return s, hasEnded("budget", pid, p.state)
	}
	k.append(p, raising)
	k.table.ledger.Raise(pid, more.Amounts())
	p.mu.Unlock()
	for _, q := range append(k.table.below(pid), p) {
		q.mu.Lock()
		if budget.Paused(q.pauseNote()) {
			k.resume(q)
		}
		q.mu.Unlock()
	}
	if s, err = k.Budget(ctx, pid); err != nil {
		return s, err
	}
	return s, k.settled(ctx)
}
