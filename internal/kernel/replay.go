package kernel

import (
	"encoding/json"

	"agentkernel"
	"agentkernel/internal/kernel/ends"
	"agentkernel/internal/kernel/permit"
	"agentkernel/internal/kernel/replay"
)

// recorded looks a call up in the journal of an earlier life. nil, nil: the call is new.
func (k *Kernel) recorded(p *process, f *inflight, canonical json.RawMessage) (*agentkernel.Entry, *agentkernel.Error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run.replay == nil {
		return nil, nil
	}
	return p.run.replay.Take(replay.Issued{ID: f.id, Op: f.op, Async: f.async, Args: canonical,
		Cell: f.handler != nil && f.handler.cell, Moved: p.run.moved != nil})
}

// redo answers a call that the journal knows. False: the process has ended.
func (k *Kernel) redo(p *process, f *inflight, entry agentkernel.Entry) bool {
	f.effect, f.since, f.label, f.seq, f.origin = entry.Effect, entry.At, k.label(&entry), entry.Seq, entry.Origin
	if f.handler != nil && f.handler.exits {
		k.exit(p, f, nil, true)
		return false
	}
	p.mu.Lock()
	result, known := p.run.replay.Results[f.id]
	if entry.Done {
		result, known = entry, true
	}
	switch {
	case known && f.async: // delivered in the journal's order, at a wait
	case known:
		delete(p.run.replay.Results, f.id)
		p.run.reply, p.run.replySeq = &agentkernel.Reply{ID: f.id, Result: result.Data, Err: result.Err}, result.Seq
		p.began(f, result.Err)
		p.run.calls = max(p.run.calls, p.run.replay.Skips[f.id])
	case p.inflight.Find(f.id) != nil: // it was under way when the program moved, and still is
		known = true
		if err := p.arrivedAt(f); err != nil {
			p.mu.Unlock()
			k.finish(p, ends.For(err))
			return false
		}
	default:
		p.inflight.Add(f)
	}
	p.replayed()
	p.mu.Unlock()
	if !known {
		k.reissue(p, f)
	}
	return true
}

// reissue decides what becomes of a call whose intent is in the journal and whose result is not.
func (k *Kernel) reissue(p *process, f *inflight) {
	if p.run.verifies != nil || k.interruptedAgain(p, f) {
		return // nothing comes of a verification
	}
	k.observeAgain(p, f)
	if k.resumeOrigin(p, f) {
		return
	}
	p.mu.Lock()
	amounts := p.standing.Account.Amounts
	begins := amounts.Unsent(f.id) || f.effect == agentkernel.EffectPaid && amounts.MayBegin(f.id)
	p.mu.Unlock()
	switch {
	case f.handler == nil && f.effect.Repeatable():
		k.complete(p, f, outcome{}, permit.NotHere(f.op))
	case f.effect == agentkernel.EffectPure:
		k.beginLater(p, f)
	case f.effect.Repeatable() || begins:
		k.readmit(p, f)
	default:
		k.reconsider(p, f)
	}
}

// replayed drops the replay when nothing is left of it; p.mu is held.
func (p *process) replayed() {
	if p.run.replay != nil && p.run.replay.Empty() {
		p.run.replay = p.run.replay.Drop()
		p.inPlace()
		if v := p.run.verifies; v != nil && v.Cut && p.cause() == nil {
			p.endRun(v.Stop)
		}
	}
}
