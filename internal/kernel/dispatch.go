package kernel

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/ends"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/kernel/inbox"
	"agentkernel/internal/kernel/limits"
	"agentkernel/internal/kernel/origin"
	"agentkernel/internal/kernel/permit"
	"agentkernel/internal/kernel/progress"
	"agentkernel/internal/kernel/reserve"
	"agentkernel/internal/kernel/room"
	"agentkernel/internal/kernel/streams"
	"agentkernel/internal/kernel/unresolved"
	"agentkernel/internal/sys"
)

// A new call passes issue, dispatch, issueNew, makeOrWait, admit (or begin), consult, permit, make, turn, goOutside and complete. One of which
// the journal has the intent alone enters at reissue (replay.go), and goes by readmit, consult, turn and goOutsideAgain.

// issue takes a call from the sandbox that the caller drives. False: the process has ended.
func (k *Kernel) issue(p *process, call agentkernel.Call) bool {
	canonical, err := k.args.Read(p.pid, &call)
	p.mu.Lock()
	f := k.number(p, call)
	p.mu.Unlock()
	return k.dispatch(p, f, canonical, err)
}

// number gives a call its number and notes what the sandbox needs next; p.mu is held.
func (k *Kernel) number(p *process, call agentkernel.Call) *inflight {
	p.run.calls++
	f := k.newCall(p.run.calls, call.Op)
	f.async, f.args, f.since = call.Async, call.Args, k.cfg.Now()
	if call.Async {
		p.setNeed(needAck, f.id, &agentkernel.Reply{ID: f.id, Pending: true})
	} else {
		p.setNeed(needReply, f.id, nil)
	}
	return f
}

// dispatch is the one path of every syscall, of whatever program. bad: what is wrong with the arguments. False: the process has ended.
func (k *Kernel) dispatch(p *process, f *inflight, canonical json.RawMessage, bad *agentkernel.Error) bool {
	if entry, diverged := k.recorded(p, f, canonical); diverged != nil {
		k.finish(p, ends.For(diverged))
		return false
	} else if entry != nil {
		return k.redo(p, f, *entry)
	}
	if err := k.spent(p, f); err != nil {
		k.finish(p, ends.For(err))
		return false
	}
	if p.run.verifies != nil {
		return k.beyond(p, f, canonical)
	}
	return k.issueNew(p, f, canonical, bad)
}

// issueNew makes a call that no journal has an answer for, or refuses it. False: the process has ended.
func (k *Kernel) issueNew(p *process, f *inflight, canonical json.RawMessage, bad *agentkernel.Error) bool {
	if stuck, err := k.stopIfRepeating(p, f, canonical, func() { k.issueNew(p, f, canonical, bad) }); err != nil {
		k.finish(p, ends.For(err))
		return false
	} else if stuck {
		return true
	}
	if err := k.refusal(p, f, bad); err != nil {
		k.answer(p, f, canonical, outcome{}, err)
		return true
	}
	if k.answerFromOrigin(p, f, canonical) {
		return true
	}
	if f.handler.exits {
		k.exit(p, f, canonical, false)
		return false
	}
	k.makeOrWait(p, f, canonical)
	return true
}

// stopIfRepeating pauses a process before a call that it has made too often with the same answer, or says how it ends; later makes it.
func (k *Kernel) stopIfRepeating(p *process, f *inflight, canonical json.RawMessage, later func()) (stuck bool, last *agentkernel.Error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	entry := f.entry(canonical)
	why := progress.Stuck(&p.spec.InForce, &p.standing.Account, &entry, func() string { f.label = k.label(&entry); return f.brief() })
	if why == "" || p.state.Terminal() || f.dropped {
		return false, nil
	}
	if last = progress.Ends(&p.spec.Spec, why); last != nil {
		return true, last
	}
	f.later = later
	p.inflight.Add(f)
	k.pause(p, 0, history.Pause{Note: progress.Note(why)})
	return true, nil
}

// makeOrWait makes a call that is new, as soon as its process does not stand still.
func (k *Kernel) makeOrWait(p *process, f *inflight, canonical json.RawMessage) {
	switch {
	case k.deferCall(p, f, func() { k.makeOrWait(p, f, canonical) }):
	case f.handler.Admit != nil:
		k.admit(p, f, canonical)
	default:
		k.begin(p, f, canonical)
	}
}

// admit asks the family of a call what is to become of it, before anything of it is in the journal.
func (k *Kernel) admit(p *process, f *inflight, canonical json.RawMessage) {
	k.consult(p, f, func(err error) {
		switch {
		case err != nil:
			k.answer(p, f, canonical, outcome{}, err)
		case f.admission.Ask == nil || k.permit(p, f, canonical):
			k.make(p, f, canonical)
		}
	})
}

// readmit makes a call of an earlier life again. Its permission was settled when its intent was journalled, but for one that was taken over.
func (k *Kernel) readmit(p *process, f *inflight) {
	again := func(err error) { k.goOutsideAgain(p, f, err) }
	switch {
	case k.deferCall(p, f, func() { k.readmit(p, f) }):
	case f.handler == nil:
		again(permit.NotHere(f.op))
	case f.handler.Admit == nil:
		again(nil)
	default:
		k.consult(p, f, func(err error) {
			if err != nil {
				again(err)
			} else if f.admission.Ask == nil || k.permit(p, f, nil) {
				k.turn(p, f, nil, again)
			}
		})
	}
}

// goOutsideAgain makes a call of the journal, which was made before or has waited for its turn, unless its family has an error for it.
func (k *Kernel) goOutsideAgain(p *process, f *inflight, err error) {
	var goes bool
	later := func() { k.readmit(p, f) }
	if err == nil {
		err = k.table.ledger.Within(p.context(), k.books(p), func() (err error) {
			goes, err = k.reserveAgain(p, f, later)
			return err
		})
	}
	if goes { // a process that was paused for it, or for another that asks again now, has enough
		k.resumeIf([]*process{p}, func(p *process) bool { return f.effect == agentkernel.EffectPaid && p.whyPaused().Short != nil })
		k.goOutside(p, f)
	} else if err != nil { // else it has no place any more
		if f.admission.Drop(); !k.deferOverBudget(p, f, err, later) {
			k.complete(p, f, outcome{}, err)
		}
	}
}

// consult lets the family of a call decide about it, and calls then with its error.
func (k *Kernel) consult(p *process, f *inflight, then func(error)) {
	c := k.call(p, f)
	adm, err := f.handler.Admit(c)
	p.admitted(f, adm)
	if err != nil || adm.Later == nil {
		then(err)
		return
	}
	if c.Again && adm.Turn != nil { // it may be made: none that was made later has a place before
		adm.Turn.Ready()
	}
	k.lookOutside(p, f, time.Duration(p.spec.InForce.CallWait), then)
}

// turnAfter is how long a call waits for its turn before the journal has it, so that its process can be parked.
const turnAfter = 250 * time.Millisecond

// turn calls then, with the call's error, when it is the turn of a call that may be made.
func (k *Kernel) turn(p *process, f *inflight, canonical json.RawMessage, then func(error)) {
	adm := f.admission
	if adm == nil || adm.Turn == nil || adm.Turn.Ready() {
		then(nil)
		return
	}
	waits := *adm
	waits.Later = func(ctx context.Context) (sys.Admission, error) {
		defer k.timers.After(turnAfter, func() { k.queued(p, f, canonical) }).Stop()
		return *adm, adm.Turn.Wait(ctx)
	}
	p.admitted(f, waits)
	limit := 10 * 365 * 24 * time.Hour           // any time
	if _, timed := adm.Turn.(sys.Timed); timed { // some of its time is left for the call
		limit = time.Duration(p.spec.InForce.CallWait)
		limit -= min(limit/10, time.Second)
	}
	k.lookOutside(p, f, limit, func(err error) {
		if err == nil || !k.deferCall(p, f, func() { k.turn(p, f, canonical, then) }) { // else its time was over while it could not go on
			then(err)
		}
	})
}

// lookOutside does what a call does later, in a goroutine and within a time, and calls then with its error.
func (k *Kernel) lookOutside(p *process, f *inflight, limit time.Duration, then func(error)) {
	ctx, cancel := context.WithTimeout(p.context(), limit)
	p.mu.Lock()
	look, gone := f.admission.Later, p.gone(f) // it was interrupted, or the program has begun again meanwhile, and issues it anew
	if f.cancel = cancel; !gone {
		p.inflight.Add(f)
	}
	p.mu.Unlock()
	if gone || !k.external.Go(func() {
		defer cancel()
		defer context.AfterFunc(k.external.Ending, cancel)()
		adm, err := look(ctx)
		if p.contextEnded() || ctx.Err() != nil && k.external.Ending.Err() != nil { // the next kernel looks
			adm.Drop()
			return
		}
		p.admitted(f, adm)
		then(err)
	}) {
		f.admission.Drop()
		cancel()
	}
}

// queued journals a call that still waits for its turn.
func (k *Kernel) queued(p *process, f *inflight, canonical json.RawMessage) {
	stopping := k.table.Closed()
	p.mu.Lock()
	defer p.mu.Unlock()
	if f.intended() || f.again || f.origin != nil /* that may have been sent */ || f.admission.Later == nil || p.gone(f) || p.standsStill() || stopping {
		return
	}
	entry := f.entry(canonical)
	entry.Reserve = agentkernel.Amounts{agentkernel.AmountUnsent: 1}
	k.append(p, entry)
	f.seq = p.standing.Seq
}

// admitted notes what a family has decided about a call; others may be looking at it already.
func (p *process) admitted(f *inflight, adm sys.Admission) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f.admission = &adm
	if adm.Subject != "" {
		f.label = f.handler.Labelled(adm.Subject)
	}
	if adm.Effect != "" && !f.intended() { // the class of a journalled intent stays
		f.effect = adm.Effect
	}
}

// make makes a call that may be made, when it is its turn: outside, unless the origin has made it.
func (k *Kernel) make(p *process, f *inflight, canonical json.RawMessage) {
	if k.answerDone(p, f, canonical) {
		return
	}
	k.turn(p, f, canonical, func(err error) {
		if f.intended() { // it has waited for long
			k.goOutsideAgain(p, f, err)
			return
		}
		adm, waits := f.admission, false // a decision of a human about the call may put another there once it is seen
		if err == nil {
			err = k.table.ledger.Within(p.context(), k.books(p), func() (err error) {
				waits, err = k.intend(p, f, canonical)
				return err
			})
		}
		if waits {
			k.goOutside(p, f)
		} else if err != nil { // else it has no place any more
			if adm.Drop(); !k.deferOverBudget(p, f, err, func() { k.make(p, f, canonical) }) {
				k.answer(p, f, canonical, outcome{}, err)
			}
		}
	})
}

// spent says which limit on a whole life the call would go beyond; that ends the process.
func (k *Kernel) spent(p *process, f *inflight) *agentkernel.Error {
	if err := limits.Calls(&p.spec.InForce, f.id); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return k.journalFull(p, len(f.args))
}

// refusal says why a call may not run: unknown, no capability, bad arguments, a signal, too much under way.
// It is journalled as the call's result, so that a replay refuses the same calls.
func (k *Kernel) refusal(p *process, f *inflight, bad *agentkernel.Error) *agentkernel.Error {
	if f.handler == nil {
		return permit.NoSyscall(f.op, k.ops)
	}
	if err := permit.Refusal(p.spec.Deny, &f.handler.Syscall, bad); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.takeInterrupt(f); err != nil {
		return err
	}
	if f.handler.immediate() && !f.async {
		return nil // never under way
	}
	if f.handler.Opens {
		if err := streams.Full(f.op, k.table.streams.Count(p.pid, p.inflight.Has)+p.opening()); err != nil {
			return err
		}
	}
	if err := limits.InFlight(&p.spec.InForce, len(p.inflight)+p.untaken()); err != nil {
		return err
	}
	return k.tooMuchHeld(p, f, len(f.args), room.Copies(f.args), "there is no room for arguments of %s")
}

// outcome is what has become of a call.
type outcome struct {
	sys.Outcome
	took []agentkernel.PostID // out of the inbox of its process
}

func outcomeOf(raw json.RawMessage) outcome { return outcome{Outcome: sys.Outcome{Result: raw}} }

// begin runs the handler of a call that may run.
func (k *Kernel) begin(p *process, f *inflight, canonical json.RawMessage) {
	switch h := f.handler; {
	case h.now != nil:
		raw, err := h.now(k, p, f)
		k.answer(p, f, canonical, outcomeOf(raw), err)
	case h.Now != nil:
		out, err := h.Now(k.call(p, f))
		if err == nil {
			err = inbox.Reachable(p.context(), k.store, p.spec.Namespace, f.op, out.Posts)
		}
		k.answer(p, f, canonical, outcome{Outcome: out}, err)
	case h.Outside != nil:
		k.make(p, f, canonical)
	default:
		if waits, err := k.intend(p, f, canonical); waits {
			k.beginLater(p, f)
		} else if err != nil {
			k.answer(p, f, canonical, outcome{}, err)
		}
	}
}

// beginLater begins a call that waits inside the kernel, or begins it again.
func (k *Kernel) beginLater(p *process, f *inflight) {
	var err error
	if h := f.handler; h.begin != nil {
		err = h.begin(k, p, f)
	} else {
		err = k.wait(p, f)
	}
	if err != nil {
		k.complete(p, f, outcome{}, err)
	}
}

// wait lets a call wait for what its family says.
func (k *Kernel) wait(p *process, f *inflight) error {
	w, err := f.handler.Begin(k.call(p, f))
	if err != nil {
		return err
	}
	ring := func() { k.complete(p, f, outcomeOf(w.Result), w.Err.OrNil()) }
	later := w.Until.After(k.cfg.Now())
	p.mu.Lock()
	if f.mail = w.Kind; later {
		f.timer = k.timers.At(w.Until, ring)
	}
	p.mu.Unlock()
	if w.Kind != "" {
		k.look(p)
	}
	if !later && (w.Kind == "" || !w.Until.IsZero()) {
		ring()
	}
	return nil
}

// entry is a call in the journal.
func (f *inflight) entry(args json.RawMessage) agentkernel.Entry {
	return agentkernel.Entry{Kind: agentkernel.EntryCall, At: f.since, Call: f.id, Op: f.op, Effect: f.effect, Async: f.async, Origin: f.origin,
		Args: args, Stream: f.place}
}

// answer journals a call together with its result and hands the result over. Of one that was taken over the journal has the call.
func (k *Kernel) answer(p *process, f *inflight, canonical json.RawMessage, out outcome, err error) {
	if f.intended() {
		k.complete(p, f, out, err)
		return
	}
	stopping := err != nil && k.table.Closed()
	entry := f.entry(canonical)
	entry.Done, entry.Data, entry.Err = true, out.Result, agentkernel.AsError(err, agentkernel.CodeInternal, f.op)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state.Terminal() || f.dropped {
		return
	}
	if stopping { // it may be about the end of the kernel, which is nothing that the program should learn: it is asked again
		p.inflight.Add(f) // without an intent, so that no image is made that stands behind the call
		return
	}
	p.inflight.Remove(f.id)
	if entry.Err == nil && len(p.watchers) > 0 {
		if ev, shown := history.Event(&entry); shown {
			k.publishAt(p, p.standing.Seq+1, ev) // the position that the entry is about to have
		}
	}
	b := agentkernel.Batch{Entries: reserve.Result(entry, &out.Outcome, p.standing.Account.Amounts)}
	if entry.Err == nil {
		b.State, b.Posts = out.State, inbox.Posts(out.Posts)
	}
	k.appendBatch(p, b)
	k.deliver(p, f, arrival{agentkernel.Reply{ID: f.id, Result: out.Result, Err: entry.Err}, p.standing.Seq})
	if f.handler != nil && f.handler.Mask < 0 && p.waitsForMail() { // for what came while it held signals back
		k.external.Go(func() { k.look(p) })
	}
}

// intend journals the intent of a call whose result comes later, with what the call reserves. False: nobody waits for it any
// more. The error says that there is too little left for it; then the journal has nothing of it.
func (k *Kernel) intend(p *process, f *inflight, canonical json.RawMessage) (waits bool, err error) {
	stopping := f.leaves() && k.table.Closed()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state.Terminal() || f.dropped || k.deferCallLocked(p, f, func() { k.begin(p, f, canonical) }) {
		f.admission.Drop()
		return false, nil
	}
	if err := p.takeInterrupt(f); err != nil { // it came while the call waited to be made
		return false, err
	}
	if stopping { // nobody would be there for its answer: it is made by the next kernel; see answer
		f.admission.Drop()
		p.inflight.Add(f)
		return false, nil
	}
	entry := f.entry(canonical)
	var at time.Time
	if entry.Reserve, at, err = k.reserve(p, f); err != nil {
		return false, err
	}
	if !at.IsZero() { // it may have waited for an allowance, and belongs to the one of this time
		entry.At = at
	}
	p.inflight.Add(f)
	k.append(p, entry)
	f.seq, f.ours = p.standing.Seq, true
	return true, nil
}

// reserve is what a call reserves, and the time of its entry; see budget.Ledger. p.mu is held. The error: too little is left.
func (k *Kernel) reserve(p *process, f *inflight) (want agentkernel.Amounts, at time.Time, err error) {
	want, nodes := f.admission.Wants(), k.books(p)
	if len(nodes) > 0 && f.leaves() && want[agentkernel.AmountUnsent] == 0 {
		want = want.Plus(k.table.ledger.OfCall(&p.spec.Spec, p.run.running, p.standing.Account.Amounts))
	}
	if err := reserve.Refusal(f.op, want, reserve.Grant(k.cfg.Families, &p.spec.Spec), p.standing.Account.Amounts); err != nil {
		return nil, at, err
	}
	at, err = k.table.ledger.Reserve(f.op, nodes, want, p.standing.Account.Amounts.Lost(f.id))
	return want, at, err
}

// reserveAgain notes that a call which costs each time is made once more, or that it is the turn of one, and reserves for it. Others have
// what they reserved. False: nobody waits for it any more, or its process stands still, and later makes it.
func (k *Kernel) reserveAgain(p *process, f *inflight, later func()) (goes bool, err error) {
	stopping := k.table.Closed()
	p.mu.Lock()
	defer p.mu.Unlock()
	unsent := p.standing.Account.Amounts.Unsent(f.id) // from now on it may have been sent
	switch {
	case stopping || p.gone(f) || k.deferCallLocked(p, f, later):
		f.admission.Drop()
		return false, nil
	case !unsent && !f.again && f.effect != agentkernel.EffectPaid && f.admission.Wants()[agentkernel.AmountUSD] == 0:
		return true, nil
	}
	want, at, err := k.reserve(p, f)
	if err == nil {
		k.append(p, agentkernel.Entry{Kind: agentkernel.EntryRetry, At: at, Call: f.id, Reserve: want})
		f.ours = true
	}
	return err == nil, err
}

// goOutside runs an external handler once its intent is durable.
func (k *Kernel) goOutside(p *process, f *inflight) {
	ctx, cancel := context.WithCancel(p.context())
	p.mu.Lock()
	pos, gone := p.pos, p.gone(f)
	f.cancel = cancel
	p.mu.Unlock()
	if gone || !k.external.Go(func() {
		defer cancel()
		if err := k.store.Flush(ctx, pos); err != nil {
			f.admission.Drop()
			k.notStored(p, err)
			return
		}
		ctx, late := context.WithTimeout(ctx, time.Duration(p.spec.InForce.CallWait)-f.admission.Waited()) // the disk's time is not the call's
		defer late()
		out, err := k.outside(ctx, p, f)
		if errors.Is(err, sys.ErrWaits) {
			defer f.admission.Drop() // when it waits again: none that was made later has the place
			k.waitAgain(p, f, out.Settle)
			return
		}
		committed := k.complete(p, f, out, err)
		if out.Done != nil {
			out.Done(committed)
		}
	}) {
		f.admission.Drop()
		cancel() // it was interrupted; or the kernel is stopping, and recovery finds the intent
	}
}

// waitAgain lets a call wait for its turn again that has nothing under way, and charges what it has used. Of one that costs nothing and was
// begun before nobody knows what the first time did: that stays so.
func (k *Kernel) waitAgain(p *process, f *inflight, used agentkernel.Amounts) {
	entry, known := reserve.Waits(f.id, used)
	p.mu.Lock()
	first := f.ours && !f.again && f.origin == nil && !p.standing.Account.Amounts.Again(f.id)
	gone := p.gone(f) || k.ctx.Err() != nil
	if f.cancel = nil; !gone && known && (first || f.effect == agentkernel.EffectPaid) {
		f.ours = false
		k.append(p, entry)
	}
	p.mu.Unlock()
	if !gone {
		k.readmit(p, f)
	}
}

// outside runs the handler of an external call. A write that may have been made and was not answered has an unknown outcome.
func (k *Kernel) outside(ctx context.Context, p *process, f *inflight) (outcome, error) {
	c := k.call(p, f)
	peer := history.Peer(f.op, f.args)
	p.mu.Lock()
	f.peer, c.Expect = peer, p.standing.Servers[peer]
	c.Key = p.run.origin.CallKey(origin.Key{PID: p.pid, Call: f.id}, f.origin, k.origin.UUIDOf)
	if f.admission != nil {
		c.Admitted = f.admission.Value
	}
	p.mu.Unlock()
	out, err := f.handler.Outside(ctx, c)
	if !errors.Is(err, sys.ErrWaits) {
		f.admission.Drop() // it is the turn of the next, whatever the disk does
	}
	if err == nil {
		k.table.streams.Open(p.pid, f.id, &out)
	}
	if err == nil || errors.Is(err, sys.ErrWaits) {
		return outcome{Outcome: out}, err
	}
	e := unresolved.Failure(ctx, f.op, f.label, err, out.Settled)
	if f.effect == agentkernel.EffectWrite && !out.Settled {
		e, out.Settle = unresolved.Unknown(f.op, f.brief(), e), nil
	}
	return outcome{Outcome: sys.Outcome{Incarnation: out.Incarnation, Settle: out.Settle, Ends: out.Ends, Done: out.Done}}, e
}

// complete journals the result of a call that was under way and hands it over. A result that nobody waits for any more (killed,
// interrupted, kernel stopping) is dropped: recovery treats the call as open. False: the journal has another answer, or none.
func (k *Kernel) complete(p *process, f *inflight, out outcome, err error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return k.completeLocked(p, f, out, err)
}

// completeLocked is complete; p.mu is held.
func (k *Kernel) completeLocked(p *process, f *inflight, out outcome, err error) bool {
	if p.gone(f) || p.inflight.Find(f.id) != f || k.ctx.Err() != nil || err != nil && p.runEnded() {
		return false
	}
	failure, unknown := unresolved.Leaves(agentkernel.AsError(err, agentkernel.CodeInternal, f.op), f.op, f.again, f.brief)
	if unknown && p.spec.OnUnknown == agentkernel.UnknownPause && f.effect != agentkernel.EffectPaid {
		k.pauseForDecision(p, f, failure)
		return false
	}
	p.inflight.Remove(f.id)
	result, fits := out.Result, true
	if err := k.tooMuchHeld(p, f, len(result), 1, "it was done, and its result of %s is dropped: there is no room for it"); err != nil {
		result, failure, fits = nil, err, false
	}
	p.standing.Answered(f.peer, out.Incarnation, failure)
	entry := agentkernel.Entry{Kind: agentkernel.EntryResult, Call: f.id, Data: result, Err: failure, Incarnation: out.Incarnation}
	batch := agentkernel.Batch{Entries: reserve.Result(entry, &out.Outcome, p.standing.Account.Amounts)}
	if failure == nil {
		batch.Key, batch.State, batch.Posts, batch.Took = f.bind, out.State, inbox.Posts(out.Posts), out.took
	}
	k.appendBatch(p, batch)
	p.began(f, failure)
	k.deliver(p, f, arrival{agentkernel.Reply{ID: f.id, Result: result, Err: failure}, p.standing.Seq})
	return fits
}

// deliver hands a result to whoever needs it; p.mu is held and the result is in the journal.
func (k *Kernel) deliver(p *process, f *inflight, r arrival) {
	switch {
	case f.done != nil:
		f.done <- r.Reply
	case f.async && p.run.replay != nil && p.run.verifies == nil:
		p.run.replay.Arrived(r.Reply, r.seq)
	case f.async:
		p.run.arrived = append(p.run.arrived, r)
		k.note(p)
	case p.run.current == f.id:
		p.run.reply, p.run.replySeq = &r.Reply, r.seq
	}
	k.wake(p)
}
