package kernel

import (
	"cmp"
	"context"
	"slices"

	"agentkernel"
	"agentkernel/internal/journal"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/kernel/inbox"
	"agentkernel/internal/kernel/moves"
	"agentkernel/internal/kernel/specs"
	"agentkernel/internal/kernel/steps"
)

// interrupted is the answer to a call that a signal interrupts; p.mu is held.
func (p *process) interrupted(f *inflight) *agentkernel.Error {
	return inbox.Interrupted(f.op, f.label, f.intended() && f.effect == agentkernel.EffectWrite, p.standing.Account.StopBy, p.standing.Account.Deadline)
}

// interruptDue says that the program's next call is answered with an interrupt; p.mu is held.
func (p *process) interruptDue() bool {
	return p.standing.Account.Interrupted && p.standing.Account.Masks == 0
}

// takeInterrupt is that answer, for one call alone; nil: there is none; p.mu is held.
func (p *process) takeInterrupt(f *inflight) *agentkernel.Error {
	if !p.interruptDue() {
		return nil
	}
	p.standing.Account.Interrupted = false // as the entry of the answer says
	return p.interrupted(f)
}

// Signal sends a signal to a process, and to what it reaches of those below.
func (k *Kernel) Signal(ctx context.Context, pid agentkernel.PID, sig agentkernel.Signal, with ...agentkernel.SignalOptions) error {
	opt, err := agentkernel.OptionsOf(sig, with)
	if err != nil {
		return err
	}
	p := k.carried(ctx, pid)
	if p == nil {
		return k.signalAbsent(ctx, pid, sig, opt)
	}
	defer k.unpin(p)
	if sig == agentkernel.SignalKill && !k.table.untaken() { // else some of them may be below it
		return k.killTree(ctx, p, opt.Tree)
	}
	if sig != agentkernel.SignalKill {
		if any, err := k.reach(ctx, p, sig, opt); any || err != nil {
			return err
		}
	}
	return k.signalAbsent(ctx, pid, sig, opt)
}

// reach sends a signal other than kill to a process that this kernel carries and to those below it. False: none has it.
func (k *Kernel) reach(ctx context.Context, p *process, sig agentkernel.Signal, opt agentkernel.SignalOptions) (any bool, err error) {
	switch sig {
	case agentkernel.SignalPause, agentkernel.SignalResume:
		return k.pauseOrResumeTree(ctx, p.pid, p.spec.Ancestors, sig, opt.Tree)
	case agentkernel.SignalStop:
		return k.stopTree(ctx, p.pid, opt)
	}
	to := []*process{p}
	if opt.Tree {
		to = append(to, k.under(p.pid, true)...)
	}
	if sig == agentkernel.SignalUser {
		return true, k.tellAll(ctx, to, opt.Payload)
	}
	for _, q := range to {
		q.mu.Lock()
		if !q.state.Terminal() {
			k.interrupt(q, agentkernel.SignalInterrupt, history.SignalData{})
			any = true
		}
		q.mu.Unlock()
	}
	return any, k.flushAll(ctx)
}

// pauseOrResumeTree pauses or resumes a process with what is below it. False: there is nothing that has not ended.
func (k *Kernel) pauseOrResumeTree(ctx context.Context, pid agentkernel.PID, above []agentkernel.PID, sig agentkernel.Signal, all bool) (any bool, err error) {
	if sig == agentkernel.SignalPause {
		return k.pauseTree(ctx, pid, above, all)
	}
	return k.resumeTree(ctx, pid, above)
}

// signalAbsent deals with a process that this kernel does not carry: one that has ended, that never was,
// or that is unfinished. An unfinished one can be killed without being continued.
func (k *Kernel) signalAbsent(ctx context.Context, pid agentkernel.PID, sig agentkernel.Signal, opt agentkernel.SignalOptions) error {
	rec, _, err := history.Row(ctx, k.store, pid)
	if err != nil {
		return err
	}
	alone := sig == agentkernel.SignalInterrupt || sig == agentkernel.SignalUser // what is below it does not matter
	if alone && rec.State.Terminal() {
		return history.HasEnded(string(sig), pid, rec.State)
	}
	k.table.recovering.Await(ctx, recoverPatience) // what is below it may be yet to be taken up
	switch {
	case sig == agentkernel.SignalKill:
		return k.killAbsent(ctx, &rec, opt.Tree)
	case !rec.State.Terminal() && sig != agentkernel.SignalResume:
		return history.RunByNone(string(sig), pid)
	case !rec.State.Terminal(): // what was paused because of it is continued with it
		list, err := k.Recover(ctx, pid)
		if err = cmp.Or(err, history.Left(list, pid)); err != nil {
			return err
		}
	}
	var any bool
	if sig == agentkernel.SignalStop {
		any, err = k.stopTree(ctx, pid, opt)
	} else {
		any, err = k.pauseOrResumeTree(ctx, pid, rec.Spec.Ancestors, sig, opt.Tree)
	}
	if err == nil && !any && rec.State.Terminal() {
		err = history.HasEnded(string(sig), pid, rec.State)
	}
	return err
}

// killAbsent kills a process that no kernel runs, and all below it, also what no kernel has taken up: a later recovery would
// continue it.
func (k *Kernel) killAbsent(ctx context.Context, rec *agentkernel.ProcessRecord, all bool) error {
	tree, err := history.Tree(ctx, k.store, rec.PID)
	if err != nil {
		return err
	}
	if !all {
		tree = slices.DeleteFunc(tree, func(q agentkernel.ProcessRecord) bool { return q.PID != rec.PID && !specs.Attached(&q.Spec, rec.PID) })
	}
	if len(tree) == 0 && len(k.under(rec.PID, all)) == 0 {
		return history.HasEnded(string(agentkernel.SignalKill), rec.PID, rec.State)
	}
	for _, rec := range tree {
		adopted, _, notTaken := k.adopt(ctx, rec.PID, true) // or somebody else just has, and it may sleep, or run by now
		p, unread := k.acquire(ctx, rec.PID)
		if err = cmp.Or(err, notTaken, unread); p != nil {
			k.kill(p)
			err = cmp.Or(err, k.awaitEnd(ctx, p))
			k.unpin(p)
		}
		k.unpin(adopted)
	}
	return cmp.Or(err, k.killBelow(ctx, rec.PID, all))
}

// killTree kills a process and its descendants, also those that are started meanwhile, and returns when all have ended, durably.
func (k *Kernel) killTree(ctx context.Context, p *process, all bool) error {
	k.kill(p)
	for _, q := range k.under(p.pid, all) { // now: whoever asked may not wait for the end
		k.kill(q)
	}
	return cmp.Or(k.awaitEnd(ctx, p), k.killBelow(ctx, p.pid, all))
}

// killBelow is killTree for the descendants alone.
func (k *Kernel) killBelow(ctx context.Context, pid agentkernel.PID, all bool) error {
	for {
		below := k.under(pid, all)
		if len(below) == 0 {
			return k.flushAll(ctx)
		}
		for _, q := range below {
			k.kill(q)
		}
		for _, q := range below {
			if err := k.awaitEnd(ctx, q); err != nil {
				return err
			}
		}
	}
}

// awaitEnd returns when a process has ended.
func (k *Kernel) awaitEnd(ctx context.Context, p *process) error {
	p.mu.Lock()
	if p.state.Terminal() {
		p.mu.Unlock()
		return nil
	}
	w := k.watch(p, false)
	p.mu.Unlock()
	defer k.unwatch(p, w)
	return k.pump(ctx, p, w, 0, false, func(agentkernel.Event) error { return nil })
}

func (k *Kernel) kill(p *process) { k.killFor(p, inbox.Killed()) }

// killFor ends a process at once, whatever it does.
func (k *Kernel) killFor(p *process, cause *agentkernel.Error) {
	p.mu.Lock()
	switch {
	case p.state.Terminal():
		p.mu.Unlock()
		return
	case p.owned:
		// The goroutine that drives it owns the sandbox; it ends the process when Next fails.
		if p.state == agentkernel.StateRunning {
			if p.migration != nil && p.cause() != nil && !moves.EndsAnywhere(p.cause()) {
				p.rc.cause = nil // a session that goes back because of it would outlive this one
			}
			p.endRun(cause)
			p.mu.Unlock()
			return
		}
	case p.state == steps.Created:
		p.step(steps.Begin)
		p.step(steps.Reserve)
	case p.state != agentkernel.StateRunning: // or the kernel ends, and nobody drives it any more
		p.step(steps.Reserve) // nobody begins to drive it before it has ended
	}
	p.mu.Unlock()
	k.finish(p, endingFor(cause))
}

// pause lets no reply through any more; p.mu is held. with is the process because of which, 0: because of none.
func (k *Kernel) pause(p *process, with agentkernel.PID, why history.Pause) {
	if p.paused() {
		return
	}
	k.arrest(p, why)
	k.journalState(p, agentkernel.EntryPaused, with)
	k.startClock(p)
}

// arrest notes why a process is paused, and stops its program and what it has run; p.mu is held.
func (k *Kernel) arrest(p *process, why history.Pause) {
	clock, stops := k.clock(), p.halted == nil && !p.paused()
	if p.run.running = p.ran(clock); p.run.turning != 0 { // also where its sandbox is lost with the pause
		p.run.turning = clock
	}
	p.pausing = &pausing{Pause: why}
	if stops {
		k.suspend(p, true)
	}
}

// setFree is the reverse of arrest, and makes the calls that have waited for it; p.mu is held.
func (k *Kernel) setFree(p *process) {
	p.pausing = nil
	if p.run.turning != 0 {
		p.run.turning = k.clock()
	}
	if p.halted == nil {
		k.suspend(p, false)
		k.inOrder(p.laters())
	}
}

func (k *Kernel) resume(p *process) {
	if !p.paused() {
		return
	}
	k.leaveUnknown(p)
	k.setFree(p)
	k.journalState(p, agentkernel.EntryResumed, 0)
	k.startClock(p)
	k.wake(p)
	k.pauseUnheard(p)
}

func (k *Kernel) journalState(p *process, kind agentkernel.EntryKind, with agentkernel.PID) {
	entry := agentkernel.Entry{Kind: kind, Note: p.whyPaused().Note, Data: history.PauseData{With: with}.Encode()}
	k.appendBatch(p, agentkernel.Batch{Entries: []agentkernel.Entry{entry}, Process: p.record()})
	if !p.computing() { // else nextReply reports the pause, when the sandbox has stopped
		k.announce(p)
	}
}

// computing says that the program runs at this moment: a pause takes effect when its sandbox has stopped, or at once if it has none yet.
func (p *process) computing() bool { return p.state == agentkernel.StateRunning && p.run.box != nil }

func (k *Kernel) announce(p *process) {
	snapshot := p.snapshot()
	k.publish(p, agentkernel.Event{Kind: agentkernel.EventState, Process: &snapshot})
}

// interrupt makes the call that the program waits for, or else its next one, raise KernelInterrupt. While the program holds
// signals back, that is its next one after that; p.mu is held.
func (k *Kernel) interrupt(p *process, sig agentkernel.Signal, data history.SignalData) {
	f := p.interruptible()
	data.Pending = f == nil && !p.asksForCell() && !k.stopCell(p) && (sig != agentkernel.SignalStop || !k.stopProgram(p))
	k.append(p, agentkernel.Entry{Kind: agentkernel.EntrySignal, Signal: sig, Data: data.Encode()})
	k.interruptCall(p, f)
}

// interruptWaiting does what a signal has left to do that came before the program was back in the call that it waits for; p.mu is held.
func (k *Kernel) interruptWaiting(p *process) {
	f := p.interruptible() // what has come to an inbox is read first, and what a human is asked is decided
	if f != nil && p.interruptDue() && !(f.async && f.mail != "") && p.standing.Unresolved.First() == 0 {
		k.interruptCall(p, f)
	}
}

// interruptedAgain is the same for a call of an earlier life, before it is made again. Whether a write was made, a human decides.
func (k *Kernel) interruptedAgain(p *process, f *inflight) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	due := p.interruptDue() && (p.run.backend == nil || f.id == p.run.current) && f.effect != agentkernel.EffectWrite && !p.asksForCell()
	if due {
		k.interruptCall(p, f)
	}
	return due
}

// interruptCall answers a call, nil: none, with KernelInterrupt; p.mu is held.
func (k *Kernel) interruptCall(p *process, f *inflight) {
	if f == nil || p.asksForCell() { // of a session that waits nothing runs
		return
	}
	f.stop()
	p.inflight.Remove(f.id)
	f.dropped = !f.intended() // its family may still be asked
	p.standing.Unresolved.Drop(f.id)
	p.run.origin.Drop(f.id)
	failure := p.interrupted(f)
	entry := agentkernel.Entry{Kind: agentkernel.EntryResult, Call: f.id, Err: failure, Settle: p.left(f)}
	if canonical, err := journal.Canonical(f.args); f.dropped && err == nil { // else it was refused before
		entry = f.entry(canonical)
		entry.Done, entry.Err = true, failure
	}
	k.append(p, entry)
	k.deliver(p, f, arrival{agentkernel.Reply{ID: f.id, Err: failure}, p.standing.Seq})
	k.resumeIfAnswered(p)
}

// interruptible is the call that the program waits for now, and that a signal reaches; nil: there is none.
func (p *process) interruptible() *inflight {
	if p.standing.Account.Masks > 0 || p.state != agentkernel.StateWaiting && p.run.backend != nil {
		return nil
	}
	var first *inflight
	for _, f := range p.inflight {
		waits := p.run.need == needAny || p.run.backend == nil || f.id == p.run.current
		if waits && (f.intended() || f.asking || f.admission.Waits() != "" || f.later != nil && !p.standsStill()) && (first == nil || f.id < first.id) {
			first = f
		}
	}
	return first
}
