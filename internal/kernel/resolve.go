package kernel

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"agentkernel"
	"agentkernel/internal/journal"
)

// doubts are the writes of a process whose outcome nobody knows, where a human is to decide. The journal has
// them all: a paused entry that names a call asks, a resolve entry decides, and a retry entry says that a
// call which may be made again is about to be. A crash between the last two therefore makes it once; a
// crash after the retry entry leaves the outcome unknown again.
type doubts struct {
	asked map[int64]*agentkernel.Error // call to the answer that resume hands the program
	again map[int64]bool               // may be made again, and was not begun yet
}

// doubtsIn reads the doubts that a journal ends with; nil: none.
func doubtsIn(entries []agentkernel.Entry) *doubts {
	d := &doubts{asked: map[int64]*agentkernel.Error{}, again: map[int64]bool{}}
	for _, e := range entries {
		switch {
		case e.Kind == agentkernel.EntryPaused && e.Call != 0 && e.Err != nil:
			d.asked[e.Call] = e.Err
		case e.Kind == agentkernel.EntryResolve && e.Note == string(agentkernel.DecisionRetry):
			delete(d.asked, e.Call)
			d.again[e.Call] = true
		case e.Kind == agentkernel.EntryRetry || e.Kind == agentkernel.EntryResult:
			delete(d.asked, e.Call)
			delete(d.again, e.Call)
		}
	}
	if len(d.asked) == 0 && len(d.again) == 0 {
		return nil
	}
	return d
}

// asks gives the call about which a human is asked first; 0: none.
func (d *doubts) asks() int64 {
	if d == nil || len(d.asked) == 0 {
		return 0
	}
	return slices.Min(slices.Collect(maps.Keys(d.asked)))
}

func (d *doubts) drop(call int64) {
	if d != nil {
		delete(d.asked, call)
		delete(d.again, call)
	}
}

// unknown says whether a failure leaves open whether the call happened, and gives it as the program would
// be told. A call that was made once more leaves the first outcome open unless the tool itself answered.
func (f *inflight) unknown(failure *agentkernel.Error) (*agentkernel.Error, bool) {
	switch {
	case failure == nil:
		return nil, false
	case failure.Code == agentkernel.CodeOutcomeUnknown:
		return failure, true
	case f.again && failure.Code != agentkernel.CodeTool && failure.Code != agentkernel.CodeAnswerLost:
		return outcomeUnknown(f, failure), true
	}
	return failure, false
}

// hold keeps a call of unknown outcome open and pauses its process until a human decides; p.mu is held.
func (k *Kernel) hold(p *process, f *inflight, why *agentkernel.Error) {
	if p.doubts == nil {
		p.doubts = &doubts{asked: map[int64]*agentkernel.Error{}, again: map[int64]bool{}}
	}
	p.doubts.asked[f.id] = why
	f.cancel = nil
	if !p.paused {
		p.paused = true
		k.stopWallClock(p)
	}
	p.pauseNote, p.pausedWith = doubtNote(p.pid, f.id, f.label), 0
	k.appendBatch(p, agentkernel.Batch{Process: p.record(),
		Entries: []agentkernel.Entry{{Kind: agentkernel.EntryPaused, Call: f.id, Err: why, Note: p.pauseNote}}})
	if !p.computing() {
		k.announce(p)
	}
}

func doubtNote(pid agentkernel.PID, call int64, label string) string {
	return fmt.Sprintf("the outcome of call %d (%s) is unknown; decide with agentkernel resolve %d %d, or resume hands the program OutcomeUnknown",
		call, label, pid, call)
}

// reconsider decides what becomes of a write of an earlier life that has an intent and no result.
func (k *Kernel) reconsider(p *process, f *inflight) {
	p.mu.Lock()
	again := p.doubts != nil && p.doubts.again[f.id]
	_, asked := p.askedAbout(f.id)
	p.mu.Unlock()
	switch {
	case again:
		k.retry(p, f)
	case !asked: // else it is held already
		k.complete(p, f, nil, "", outcomeUnknown(f, nil))
	}
}

func (p *process) askedAbout(call int64) (*agentkernel.Error, bool) {
	if p.doubts == nil {
		return nil, false
	}
	why, ok := p.doubts.asked[call]
	return why, ok
}

// retry makes a call once more that a human allowed to be made again.
func (k *Kernel) retry(p *process, f *inflight) {
	p.mu.Lock()
	if p.state.Terminal() {
		p.mu.Unlock()
		return
	}
	p.doubts.drop(f.id)
	f.again = true
	k.append(p, agentkernel.Entry{Kind: agentkernel.EntryRetry, Call: f.id})
	p.mu.Unlock()
	if f.op == "tool.call" {
		k.readmitTool(p, f)
		return
	}
	k.goOutside(p, f)
}

// Resolve decides about a write whose outcome nobody knows.
func (k *Kernel) Resolve(ctx context.Context, pid agentkernel.PID, call int64, r agentkernel.Resolution) error {
	if err := r.Validate(); err != nil {
		return err
	}
	if err := k.accepting(); err != nil {
		return err
	}
	p := k.lookup(pid)
	absent := p == nil
	if absent {
		var err error
		if p, err = k.takeUpUndecided(ctx, pid, call); err != nil {
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
		return k.undecidable(ctx, pid, call)
	}
	if f != nil {
		k.retry(p, f)
	}
	return k.flush(ctx, p)
}

// takeUpUndecided takes up a process that no kernel carries, so that one of its calls can be decided. A
// process about which there is nothing to decide is left alone.
func (k *Kernel) takeUpUndecided(ctx context.Context, pid agentkernel.PID, call int64) (*process, error) {
	rec, err := k.store.Process(ctx, pid)
	if err != nil {
		return nil, err
	}
	entries, err := k.store.Entries(ctx, pid, 1, 0)
	if err != nil {
		return nil, err
	}
	if rec.State.Terminal() || rec.Spec.OnUnknown != agentkernel.UnknownPause || !openWrite(entries, call) {
		return nil, k.undecidable(ctx, pid, call)
	}
	p, err := k.adopt(ctx, rec)
	if err == nil && p == nil { // somebody else took it up meanwhile, or it could not be
		if p = k.lookup(pid); p == nil {
			err = k.undecidable(ctx, pid, call)
		}
	}
	return p, err
}

// decide journals a decision and does what follows from it; p.mu is held. f is a call that is to be made
// again now. Not decided: there is nothing to decide about the call.
func (k *Kernel) decide(p *process, call int64, r agentkernel.Resolution) (f *inflight, decided bool) {
	if p.state.Terminal() {
		return nil, false
	}
	_, asked := p.askedAbout(call)
	if !asked && !p.openInReplay(call) {
		return nil, false
	}
	f = p.inflight.find(call)
	p.doubts.drop(call)
	batch := []agentkernel.Entry{{Kind: agentkernel.EntryResolve, Call: call, Note: string(r.Decision)}}
	switch r.Decision {
	case agentkernel.DecisionDone:
		result, err := journal.FromPlain(r.Result)
		if err != nil { // Validate has read it
			result = json.RawMessage("null")
		}
		batch = append(batch, agentkernel.Entry{Kind: agentkernel.EntryResult, Call: call, Data: result})
	case agentkernel.DecisionFail:
		batch = append(batch, agentkernel.Entry{Kind: agentkernel.EntryResult, Call: call,
			Err: agentkernel.Errorf(agentkernel.CodeTool, "resolve", "%s", r.Message)})
	}
	goesOn := k.unpause(p, &batch)
	k.appendBatch(p, agentkernel.Batch{Entries: batch, Process: p.record()})
	if r.Decision == agentkernel.DecisionRetry {
		if f == nil { // the program has not come to it yet
			p.allowAgain(call)
		}
	} else {
		k.handOver(p, batch[1])
		f = nil
	}
	if goesOn {
		k.announce(p)
		k.wake(p)
	}
	return f, true
}

// unpause lets the process go on if nothing is left to decide, else it says what is; p.mu is held.
func (k *Kernel) unpause(p *process, batch *[]agentkernel.Entry) bool {
	if next := p.doubts.asks(); next != 0 {
		p.pauseNote = doubtNote(p.pid, next, p.labelOf(next))
		return false
	}
	if !p.paused {
		return false
	}
	p.paused, p.pauseNote = false, ""
	k.goOnWallClock(p)
	*batch = append(*batch, agentkernel.Entry{Kind: agentkernel.EntryResumed})
	return true
}

// handOver delivers a result that did not come from the call itself; p.mu is held and it is in the journal.
func (k *Kernel) handOver(p *process, result agentkernel.Entry) {
	if f := p.inflight.find(result.Call); f != nil {
		p.inflight.remove(f)
		k.deliver(p, f, agentkernel.Reply{ID: f.id, Result: result.Data, Err: result.Err})
		return
	}
	if r := p.replay; r != nil { // the program has not come to the call yet
		r.results[result.Call] = result
		if r.calls[result.Call].Async {
			r.order = append(r.order, result.Call)
		}
	}
}

// leaveUnknown hands the program OutcomeUnknown for all that nobody decided; p.mu is held.
func (k *Kernel) leaveUnknown(p *process) {
	for call := p.doubts.asks(); call != 0; call = p.doubts.asks() {
		e := []agentkernel.Entry{{Kind: agentkernel.EntryResult, Call: call, Err: p.doubts.asked[call]}}
		p.doubts.drop(call)
		k.appendBatch(p, agentkernel.Batch{Entries: e})
		k.handOver(p, e[0])
	}
}

// openInReplay says that the call is an open write that the program has not repeated yet, and whose outcome
// is for a human to decide; p.mu is held.
func (p *process) openInReplay(call int64) bool {
	if p.replay == nil || p.spec.OnUnknown != agentkernel.UnknownPause {
		return false
	}
	e, ok := p.replay.calls[call]
	_, answered := p.replay.results[call]
	return ok && !e.Done && !answered && e.Effect == agentkernel.EffectWrite
}

func (p *process) allowAgain(call int64) {
	if p.doubts == nil {
		p.doubts = &doubts{asked: map[int64]*agentkernel.Error{}, again: map[int64]bool{}}
	}
	p.doubts.again[call] = true
}

// labelOf names a call that is under way, or that the program has still to repeat; p.mu is held.
func (p *process) labelOf(call int64) string {
	if f := p.inflight.find(call); f != nil {
		return f.label
	}
	if p.replay != nil {
		if e, ok := p.replay.calls[call]; ok {
			return label(e)
		}
	}
	return "?"
}
