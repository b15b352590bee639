package kernel

import (
	"context"

	"agentkernel"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/kernel/unresolved"
)

// pauseForDecision keeps a call of unknown outcome open and pauses its process until a human decides; p.mu is held.
func (k *Kernel) pauseForDecision(p *process, f *inflight, why *agentkernel.Error) {
	f.cancel = nil
	k.arrest(p, history.Pause{Note: unresolved.Note(p.pid, f.id, f.label)})
	k.appendBatch(p, agentkernel.Batch{Process: p.record(),
		Entries: []agentkernel.Entry{{Kind: agentkernel.EntryPaused, Call: f.id, Err: why, Note: p.pausing.Note}}})
	k.startClock(p)
	if !p.computing() {
		k.announce(p)
	}
}

// reconsider decides what becomes of a write of an earlier life that has an intent and no result.
func (k *Kernel) reconsider(p *process, f *inflight) {
	p.mu.Lock()
	again, asked := p.standing.Unresolved.Repeats(f.id), p.standing.Unresolved.Asks(f.id)
	p.mu.Unlock()
	switch {
	case again:
		k.retry(p, f)
	case !asked: // else it is held already
		k.complete(p, f, outcome{}, unresolved.Unknown(f.op, f.brief(), nil))
	}
}

// retry makes a call once more that a human allowed to be made again. Nothing says that it is before it is its turn.
func (k *Kernel) retry(p *process, f *inflight) {
	p.mu.Lock()
	f.again = true
	p.mu.Unlock()
	k.readmit(p, f)
}

// Resolve decides about a write whose outcome nobody knows.
func (k *Kernel) Resolve(ctx context.Context, pid agentkernel.PID, call int64, r agentkernel.Resolution) error {
	if err := r.Validate(); err != nil {
		return err
	}
	if err := k.table.Refuses(); err != nil {
		return err
	}
	p := k.carried(ctx, pid)
	defer func() { k.unpin(p) }()
	absent := p == nil
	if absent {
		var err error
		if p, err = k.takeUpUnresolved(ctx, pid, call); err != nil {
			return err
		}
	}
	p.mu.Lock()
	f, decided := k.decide(p, call, r)
	p.mu.Unlock()
	if absent {
		k.launch(p)
	}
	if !decided {
		return unresolved.Why(ctx, k.store, pid, call, k.label)
	}
	if f != nil {
		k.retry(p, f)
	}
	return k.flush(ctx, p)
}

// takeUpUnresolved takes up a process that no kernel carries, so that one of its calls can be decided. A
// process about which there is nothing to decide is left alone.
func (k *Kernel) takeUpUnresolved(ctx context.Context, pid agentkernel.PID, call int64) (*process, error) {
	rec, err := k.store.Process(ctx, pid)
	if err != nil {
		return nil, err
	}
	entries, err := k.store.Entries(ctx, pid, 1, 0)
	if err != nil {
		return nil, err
	}
	if !unresolved.Open(&rec, entries, call) {
		return nil, unresolved.Why(ctx, k.store, pid, call, k.label)
	}
	p, _, err := k.adopt(ctx, rec.PID, false)
	if err == nil && p == nil { // somebody else took it up meanwhile, or it could not be
		if p, err = k.acquire(ctx, pid); p == nil && err == nil {
			err = unresolved.Why(ctx, k.store, pid, call, k.label)
		}
	}
	if err == nil {
		_, _ = k.Recover(ctx, pid) // what is below it; whatever cannot be taken up ends by itself
	}
	return p, err
}

// decide journals a decision and does what follows from it; p.mu is held. f is a call that is to be made
// again now. Not decided: there is nothing to decide about the call.
func (k *Kernel) decide(p *process, call int64, r agentkernel.Resolution) (f *inflight, decided bool) {
	if p.state.Terminal() {
		return nil, false
	}
	if !p.standing.Unresolved.Asks(call) && !p.openInReplay(call) {
		return nil, false
	}
	f = p.inflight.Find(call)
	p.standing.Unresolved.Drop(call)
	p.run.origin.Decided(call, r.Decision)
	batch := unresolved.Entries(call, r, p.standing.Account.Amounts.Returned(call))
	goesOn := k.unpause(p, &batch)
	k.appendBatch(p, agentkernel.Batch{Entries: batch, Process: p.record()})
	if r.Decision != agentkernel.DecisionRetry {
		k.handOver(p, batch[1])
		f = nil
	}
	if goesOn {
		k.startClock(p)
		k.announce(p)
		k.wake(p)
	}
	return f, true
}

// unpause lets the process go on if nothing is left to decide, else it says what is; p.mu is held.
func (k *Kernel) unpause(p *process, batch *[]agentkernel.Entry) bool {
	if next := p.standing.Unresolved.First(); next != 0 {
		if p.paused() {
			k.arrest(p, history.Pause{Note: unresolved.Note(p.pid, next, k.labelOf(p, next))})
		}
		return false
	}
	if p.paused() && p.pausing.Under != nil { // that one ends by hand
		p.pausing = p.pausing.Under
	}
	if !p.paused() || p.pausing.ByHand {
		return false
	}
	k.setFree(p)
	*batch = append(*batch, agentkernel.Entry{Kind: agentkernel.EntryResumed})
	return true
}

// handOver delivers a result that did not come from the call itself; p.mu is held and it is in the journal.
func (k *Kernel) handOver(p *process, result agentkernel.Entry) {
	if f := p.inflight.Find(result.Call); f != nil {
		p.inflight.Remove(f.id)
		k.deliver(p, f, arrival{agentkernel.Reply{ID: f.id, Result: result.Data, Err: result.Err}, result.Seq})
		return
	}
	if r := p.run.replay; r != nil { // the program has not come to the call yet
		r.Results[result.Call] = result
		if r.Calls[result.Call].Async {
			r.Order = append(r.Order, result.Call)
		}
	}
}

// leaveUnknown hands the program OutcomeUnknown for all that nobody decided; p.mu is held.
func (k *Kernel) leaveUnknown(p *process) {
	for call := p.standing.Unresolved.First(); call != 0; call = p.standing.Unresolved.First() {
		e := []agentkernel.Entry{{Kind: agentkernel.EntryResult, Call: call, Err: p.standing.Unresolved.Asked[call].Why}}
		p.standing.Unresolved.Drop(call)
		k.appendBatch(p, agentkernel.Batch{Entries: e})
		k.handOver(p, e[0])
	}
}

// openInReplay says that the call is an open write that the program has not repeated yet, and whose outcome is for a human to decide; p.mu is held.
func (p *process) openInReplay(call int64) bool {
	if p.run.replay == nil || p.spec.OnUnknown != agentkernel.UnknownPause {
		return false
	}
	e, ok := p.run.replay.Calls[call]
	_, answered := p.run.replay.Results[call]
	return ok && !e.Done && !answered && e.Effect == agentkernel.EffectWrite && !p.standing.Account.Amounts.Unsent(call)
}

// labelOf names a call that is under way, or that the program has still to repeat; p.mu is held.
func (k *Kernel) labelOf(p *process, call int64) string {
	if f := p.inflight.Find(call); f != nil {
		return f.label
	}
	if p.run.replay != nil {
		if e, ok := p.run.replay.Calls[call]; ok {
			return k.label(&e)
		}
	}
	return "?"
}
