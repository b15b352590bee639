package kernel

import (
	"cmp"
	"context"

	"agentkernel"
	"agentkernel/internal/kernel/budget"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/kernel/reserve"
	"agentkernel/internal/sys"
)

// accounts shows the accounts of processes; see budget.Source.
func accounts(of []*process, fn func(agentkernel.PID, *history.Account)) {
	for _, p := range of {
		if p != nil {
			p.mu.Lock()
			fn(p.pid, &p.standing.Account)
			p.mu.Unlock()
		}
	}
}

// deferOverBudget deals with a call for which too little is left of a budget: later makes it when its process is resumed. False: the
// program is handed the error.
func (k *Kernel) deferOverBudget(p *process, f *inflight, err error, later func()) bool {
	if !budget.Refused(err) {
		return false
	}
	p.mu.Lock()
	gone := p.gone(f)
	if !gone {
		f.later = later
		p.inflight.Add(f)
	}
	p.mu.Unlock()
	switch {
	case gone:
	case k.table.ledger.Await(err, func() { k.external.Go(func() { k.tryAgain(p, f, err) }) }):
	case p.spec.OnBudget == agentkernel.BudgetKill:
		k.killFor(p, agentkernel.AsError(err, agentkernel.CodeLimit, f.op))
	case budget.Final(err), p.spec.OnBudget == agentkernel.BudgetRaise:
		p.mu.Lock()
		defer p.mu.Unlock()
		mine := f.later != nil // else somebody makes it
		f.later = nil
		return !mine
	default:
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.state.Terminal() && p.inflight.Find(f.id) == f {
			k.pause(p, 0, history.Short(budget.ShortageOf(err)))
			if k.table.ledger.Raised(err) { // whoever did so may not have seen the pause
				k.resume(p)
			}
		}
	}
	return true
}

// tryAgain makes a call that was refused, and has waited until others give back what they hold.
func (k *Kernel) tryAgain(p *process, f *inflight, refused error) {
	defer k.table.ledger.Tried(refused)
	p.mu.Lock()
	later, gone := f.later, p.state.Terminal() || p.inflight.Find(f.id) != f
	f.later = nil
	p.mu.Unlock()
	if later != nil && !gone {
		later()
	}
}

// streamEnded settles what the call of a stream has kept: who needs that may have to have it before the program reads on.
func (k *Kernel) streamEnded(pid agentkernel.PID, s sys.Settlement) {
	p := k.lookup(pid)
	if p == nil || len(k.books(p)) == 0 || !k.external.Enter() {
		return
	}
	defer k.external.Leave()
	p.mu.Lock()
	defer p.mu.Unlock()
	if list := reserve.Early(p.standing.Account.Amounts, s); len(list) > 0 && k.ctx.Err() == nil && !p.state.Terminal() {
		k.appendBatch(p, agentkernel.Batch{Entries: list})
	}
}

// warn puts before a process what its ledger has to say of its budget. What cannot be told now is due again.
func (k *Kernel) warn(pid agentkernel.PID) {
	p, err := k.acquire(k.ctx, pid)
	if p == nil || err != nil {
		return
	}
	defer k.unpin(p)
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

// AddBudget raises the budget of a process, and lets those go on that were paused for it. An unfinished one is taken up.
func (k *Kernel) AddBudget(ctx context.Context, pid agentkernel.PID, more agentkernel.Budget) (s agentkernel.BudgetState, err error) {
	p := k.carried(ctx, pid)
	if p == nil { // it is taken up, if so much can be added
		rec, err := history.Unended(ctx, k.store, "budget", pid)
		if err == nil {
			_, err = budget.Raising(pid, &rec.Spec, more)
		}
		if err == nil {
			list, failed := k.Recover(ctx, pid)
			err = cmp.Or(failed, history.Left(list, pid))
		}
		if p = k.carried(ctx, pid); p == nil || err != nil {
			k.unpin(p)
			return s, cmp.Or(err, error(history.RunByNone("budget", pid)))
		}
	}
	defer k.unpin(p)
	raising, err := budget.Raising(pid, &p.spec.Spec, more)
	if err != nil {
		return s, err
	}
	p.mu.Lock()
	if p.state.Terminal() { // a moment ago: the table has it yet
		defer p.mu.Unlock()
		return s, history.HasEnded("budget", pid, p.state)
	}
	k.append(p, raising)
	k.table.ledger.Raise(pid, more.Amounts())
	p.mu.Unlock()
	k.resumeIf(append(k.table.below(pid), p), func(p *process) bool { return p.whyPaused().For(pid) })
	return k.States.Budget(ctx, pid)
}

// Allow replaces the allowances, and lets those go on that were paused for one that is larger now.
func (k *Kernel) Allow(all agentkernel.Allowances) {
	k.table.ledger.Allow(all)
	k.resumeIf(k.table.All(), func(p *process) bool { return k.table.ledger.Outdated(p.spec.Namespace, p.whyPaused().Short) })
}
