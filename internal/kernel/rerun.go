package kernel

import (
	"encoding/json"
	"fmt"

	"agentkernel"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/kernel/origin"
)

// answerFromOrigin answers a call from the origin of its process. False: it is to be made.
func (k *Kernel) answerFromOrigin(p *process, f *inflight, canonical json.RawMessage) bool {
	if p.run.origin == nil {
		return false
	}
	p.mu.Lock()
	c, why := p.run.origin.Match(f.op, canonical)
	if why != "" {
		k.goLive(p, f, why)
	}
	p.mu.Unlock()
	if c == nil {
		return false
	}
	k.takeOver(p, f, canonical, c)
	return true
}

// goLive notes the first difference; p.mu is held.
func (k *Kernel) goLive(p *process, f *inflight, why string) {
	p.run.origin.Leave()
	k.tellOrigin(p, f.id, fmt.Sprintf("%s; live from call %d: %s", p.run.origin.Answered(f.id-1), f.id, why))
}

// tellOrigin journals a sentence about the origin and shows it; p.mu is held. call is the first live one.
func (k *Kernel) tellOrigin(p *process, call int64, text string) {
	k.append(p, agentkernel.Entry{Kind: agentkernel.EntryPast, Call: call, Note: text})
	k.publish(p, agentkernel.Event{Kind: agentkernel.EventPast, Text: text})
}

// answerDone answers a call that the origin made beyond the first difference and that is not made again unless the Spec says so: a write,
// one that is idempotent, and one that is paid. False: it is to be made.
func (k *Kernel) answerDone(p *process, f *inflight, canonical json.RawMessage) bool {
	c := k.takeDone(p, f, canonical)
	if c == nil {
		return false
	}
	k.takeOver(p, f, canonical, c)
	return true
}

// takeDone takes such a call from the origin and says so; nil: it is to be made, in the place of one of the origin if f.origin says so. It may
// be called beside the program, which can move meanwhile.
func (k *Kernel) takeDone(p *process, f *inflight, canonical json.RawMessage) *origin.Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run.origin == nil || f.dropped || f.origin != nil {
		return nil
	}
	c, made := p.run.origin.TakeDone(f.op, f.effect, canonical, f.admission.Means(p.spec.Past.Again))
	if c == nil {
		return nil
	}
	if f.effect != agentkernel.EffectRead { // a part of a stream
		k.tellOrigin(p, 0, c.Taken(f.id, f.op, f.admission, made))
	}
	if made {
		f.origin, f.again = c.As(), f.effect == agentkernel.EffectWrite
		return nil
	}
	return c
}

// takeOver copies a call of the origin into the journal and hands its result to the program: an async one at a
// wait, in the order in which the origin received them.
func (k *Kernel) takeOver(p *process, f *inflight, canonical json.RawMessage, c *origin.Call) {
	p.mu.Lock()
	if p.state.Terminal() || f.dropped {
		p.mu.Unlock()
		return
	}
	f.effect, f.label, f.cancel, f.origin = c.Entry.Effect, k.label(&c.Entry), nil, c.From()
	call := f.entry(canonical)
	if c.Unknown() || f.async && f.done == nil {
		p.inflight.Add(f)
		k.append(p, call)
		f.seq = p.standing.Seq
		if c.Unknown() {
			p.mu.Unlock()
			k.complete(p, f, outcome{}, c.InDoubt(f.op, f.brief()))
			return
		}
		p.run.origin.Issued(f.id, c)
		k.wake(p)
		p.mu.Unlock()
		return
	}
	p.inflight.Remove(f.id)
	batch := []agentkernel.Entry{call}
	result := k.originResult(p, f, c)
	if f.effect == agentkernel.EffectPure {
		batch[0].Done, batch[0].Data, batch[0].Err = true, result.Data, result.Err
	} else {
		batch = append(batch, result)
	}
	k.appendBatch(p, agentkernel.Batch{Entries: batch})
	k.deliver(p, f, arrival{agentkernel.Reply{ID: f.id, Result: result.Data, Err: result.Err}, p.standing.Seq})
	p.mu.Unlock()
}

// originResult is the result of an origin call as an entry of this process; p.mu is held.
func (k *Kernel) originResult(p *process, f *inflight, c *origin.Call) agentkernel.Entry {
	e := agentkernel.Entry{Kind: agentkernel.EntryResult, Call: f.id, Data: c.Result.Data, Err: c.Result.Err}
	switch {
	case f.handler.inherit != nil && e.Err == nil:
		e.Data = f.handler.inherit(p, e.Data)
	case !c.Entry.Done && c.Result.Incarnation != "":
		// A session that has ended since is lost for this process as it would be for the old one.
		e.Incarnation = c.Result.Incarnation
		p.standing.Answered(history.Peer(c.Entry.Op, c.Entry.Args), e.Incarnation, e.Err)
	}
	return e
}

// selfOf is what a rerun is told of itself; see origin.Self.
func selfOf(p *process, recorded json.RawMessage) json.RawMessage {
	mine, err := procSelf(nil, p, nil)
	if err != nil {
		return recorded
	}
	return origin.Self(mine, recorded)
}

// nextFromOrigin gives the async result of the origin that comes next, nil if there is none or others come first; p.mu is held.
func (k *Kernel) nextFromOrigin(p *process) *agentkernel.Reply {
	if len(p.run.arrived) > 0 || p.run.replay != nil && len(p.run.replay.Order) > 0 {
		return nil
	}
	id, c := p.run.origin.Next()
	if c == nil {
		return nil
	}
	f := p.inflight.Find(id)
	p.inflight.Remove(f.id)
	e := k.originResult(p, f, c)
	k.append(p, e)
	return &agentkernel.Reply{ID: id, Result: e.Data, Err: e.Err}
}

// resumeOrigin takes up an async call that an earlier life had copied from the origin and whose result the program
// has not had. False: the origin has nothing to say about it.
func (k *Kernel) resumeOrigin(p *process, f *inflight) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.run.origin.Copy(f.id)
	if c == nil || c.Unknown() {
		return false
	}
	if f.done == nil {
		p.run.origin.Issued(f.id, c)
		k.wake(p)
		return true
	}
	p.run.origin.Drop(f.id)
	p.inflight.Remove(f.id)
	e := k.originResult(p, f, c)
	k.append(p, e)
	k.deliver(p, f, arrival{agentkernel.Reply{ID: f.id, Result: e.Data, Err: e.Err}, p.standing.Seq})
	return true
}
