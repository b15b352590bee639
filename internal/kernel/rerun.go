package kernel

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"agentkernel"
	"agentkernel/internal/kernel/history"
)

// Notes by which the journal of a rerun names the call of its past. The first one stands at a call that was
// answered from there, the second at a spawn whose child takes over the child of that call.
const (
	noteFrom = "from pid %d call %d"
	noteAs   = "as pid %d call %d"
)

func (c pastKey) note(format string) string { return fmt.Sprintf(format, c.pid, c.call) }

// parseNote reads what note wrote.
func parseNote(note string) (c pastKey, ok bool) {
	if !strings.HasPrefix(note, "from pid ") && !strings.HasPrefix(note, "as pid ") {
		return c, false
	}
	for _, format := range []string{noteFrom, noteAs} {
		if n, err := fmt.Sscanf(note, format, &c.pid, &c.call); err == nil && n == 2 && c.note(format) == note {
			return c, true
		}
	}
	return c, false
}

// answeredByPast answers a call from the past of its process. False: it is to be made.
func (k *Kernel) answeredByPast(p *process, f *inflight, canonical json.RawMessage) bool {
	if p.past == nil {
		return false
	}
	p.mu.Lock()
	c, why := p.past.match(f.op, canonical)
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
	p.past.leave()
	k.tellPast(p, f.id, fmt.Sprintf("%s; live from call %d: %s", p.past.answered(f.id-1), f.id, why))
}

// answered says how far the past went.
func (h *past) answered(calls int64) string {
	switch calls {
	case 0:
		return fmt.Sprintf("no call answered from the journal of pid %d", h.pid)
	case 1:
		return fmt.Sprintf("call 1 answered from the journal of pid %d", h.pid)
	}
	return fmt.Sprintf("calls 1-%d answered from the journal of pid %d", calls, h.pid)
}

// tellPast journals a sentence about the past and shows it; p.mu is held. call is the first live one.
func (k *Kernel) tellPast(p *process, call int64, text string) {
	k.append(p, agentkernel.Entry{Kind: agentkernel.EntryPast, Call: call, Note: text})
	k.publish(p, agentkernel.Event{Kind: agentkernel.EventPast, Text: text})
}

// doneByPast answers a write that the past made beyond the first difference: it is not made again unless the
// Spec says so. False: it is to be made.
func (k *Kernel) doneByPast(p *process, f *inflight, canonical json.RawMessage) bool {
	if p.past == nil || f.effect != agentkernel.EffectWrite {
		return false
	}
	for _, pattern := range p.spec.Past.Again {
		if f.tool != nil && allows(pattern, f.tool) || f.op == fetchOp && fetchAgain(pattern) {
			return false
		}
	}
	p.mu.Lock()
	var c *pastCall
	if !f.dropped {
		c = p.past.takeDone(f.op, f.effect, canonical)
	}
	if c != nil {
		name := strings.TrimPrefix(f.label, "tool.call ")
		if f.op == fetchOp {
			name = fetchOp
		}
		k.tellPast(p, 0, fmt.Sprintf("call %d (%s) was made by pid %d as call %d: answered from its journal (--again '%s' makes it again)",
			f.id, name, c.pid, c.call, name))
	}
	p.mu.Unlock()
	if c == nil {
		return false
	}
	k.takeOver(p, f, canonical, c)
	return true
}

// takeOver copies a call of the past into the journal and hands its result to the program: an async one at a
// wait, in the order in which the past received them.
func (k *Kernel) takeOver(p *process, f *inflight, canonical json.RawMessage, c *pastCall) {
	p.mu.Lock()
	if p.state.Terminal() || f.dropped {
		p.mu.Unlock()
		return
	}
	f.effect, f.label, f.cancel = c.entry.Effect, label(c.entry), nil
	call := agentkernel.Entry{Kind: agentkernel.EntryCall, At: f.since, Call: f.id, Op: f.op, Effect: f.effect, Async: f.async,
		Args: canonical, Note: c.note(noteFrom)}
	if c.unknown() || f.async && f.done == nil {
		p.inflight.add(f)
		k.append(p, call)
		f.seq = p.seq
		if c.unknown() {
			p.mu.Unlock()
			k.complete(p, f, nil, "", c.inDoubt(f))
			return
		}
		p.past.ready = append(p.past.ready, readyCall{f, c})
		k.wake(p)
		p.mu.Unlock()
		return
	}
	p.inflight.remove(f)
	batch := []agentkernel.Entry{call}
	result := k.pastResult(p, f, c)
	if f.effect == agentkernel.EffectPure {
		batch[0].Done, batch[0].Data, batch[0].Err = true, result.Data, result.Err
	} else {
		batch = append(batch, result)
	}
	k.appendBatch(p, agentkernel.Batch{Entries: batch})
	k.deliver(p, f, arrival{agentkernel.Reply{ID: f.id, Result: result.Data, Err: result.Err}, p.seq})
	p.mu.Unlock()
}

// pastResult is the result of a past call as an entry of this process; p.mu is held.
func (k *Kernel) pastResult(p *process, f *inflight, c *pastCall) agentkernel.Entry {
	e := agentkernel.Entry{Kind: agentkernel.EntryResult, Call: f.id, Data: c.result.Data, Err: c.result.Err}
	switch {
	case f.op == "proc.self" && e.Err == nil:
		e.Data = selfOf(p, e.Data)
	case f.op == "tool.call" && !c.entry.Done && c.result.Note != "":
		// The incarnation of the server that answered: a session that has ended since is lost for this
		// process as it would be for the old one.
		e.Note = c.result.Note
		p.servers = history.Answered(p.servers, history.Target(&c.entry).Server, e.Note, e.Err)
	}
	return e
}

// selfOf puts what a rerun may choose into the answer of the past. The PID stays that of the past: programs
// put it into names.
func selfOf(p *process, recorded json.RawMessage) json.RawMessage {
	var self map[string]json.RawMessage
	mine, err := procSelf(nil, p, nil)
	if err != nil || json.Unmarshal(mine, &self) != nil {
		return recorded
	}
	var old map[string]json.RawMessage
	if json.Unmarshal(recorded, &old) == nil && old["pid"] != nil {
		self["pid"] = old["pid"]
	}
	merged, err := json.Marshal(self)
	if err != nil {
		return recorded
	}
	return merged
}

// inDoubt is the answer for a write of the past of which nobody knows whether it happened.
func (c *pastCall) inDoubt(f *inflight) *agentkernel.Error {
	if c.result != nil && c.result.Err.Code == agentkernel.CodeOutcomeUnknown {
		return c.result.Err
	}
	return outcomeUnknown(f, fmt.Errorf("process %d ended before it was answered", c.pid))
}

// nextPast gives the async result of the past that comes next, nil if there is none or others come first;
// p.mu is held.
func (k *Kernel) nextPast(p *process) *agentkernel.Reply {
	if p.past == nil || len(p.past.ready) == 0 || len(p.arrived) > 0 || p.replay != nil && len(p.replay.Order) > 0 {
		return nil
	}
	next := slices.MinFunc(p.past.ready, func(a, b readyCall) int { return int(a.c.order() - b.c.order()) })
	p.past.drop(next.f.id)
	p.inflight.remove(next.f)
	e := k.pastResult(p, next.f, next.c)
	k.append(p, e)
	return &agentkernel.Reply{ID: next.f.id, Result: e.Data, Err: e.Err}
}

// resumePast takes up an async call that an earlier life had copied from the past and whose result the program
// has not had. False: the past has nothing to say about it.
func (k *Kernel) resumePast(p *process, f *inflight) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.past == nil {
		return false
	}
	c := p.past.copies[f.id]
	if c == nil || c.unknown() {
		return false
	}
	if f.done == nil {
		p.past.ready = append(p.past.ready, readyCall{f, c})
		k.wake(p)
		return true
	}
	delete(p.past.copies, f.id)
	p.inflight.remove(f)
	e := k.pastResult(p, f, c)
	k.append(p, e)
	k.deliver(p, f, arrival{agentkernel.Reply{ID: f.id, Result: e.Data, Err: e.Err}, p.seq})
	return true
}

// lastWords is said at the end of a process that never went beyond its past; p.mu is held.
func (p *process) lastWords() []agentkernel.Entry {
	if p.past == nil || p.past.live {
		return nil
	}
	return []agentkernel.Entry{{Kind: agentkernel.EntryPast, Note: p.past.answered(p.calls) + "; none was live"}}
}
