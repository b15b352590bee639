package kernel

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"agentkernel"
	"agentkernel/internal/journal"
	"agentkernel/internal/kernel/advice"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/kernel/limits"
	"agentkernel/internal/kernel/moves"
	"agentkernel/internal/kernel/steps"
)

func errInterrupted(f *inflight) *agentkernel.Error {
	text := "a signal asked it to stop"
	if f.intended() && f.effect == agentkernel.EffectWrite {
		text = fmt.Sprintf("interrupted while %s was under way; whether it happened is unknown", f.label)
	}
	return agentkernel.Errorf(agentkernel.CodeInterrupted, f.op, "%s", text)
}

// Signal sends a signal to a process; all but interrupt reach its descendants too.
func (k *Kernel) Signal(ctx context.Context, pid agentkernel.PID, sig agentkernel.Signal) error {
	if err := sig.Validate(); err != nil {
		return err
	}
	p := k.carried(ctx, pid)
	if p == nil {
		return k.signalAbsent(ctx, pid, sig)
	}
	defer k.release(p)
	switch sig {
	case agentkernel.SignalKill:
		if k.table.untaken() { // some of them may be below it
			return k.signalAbsent(ctx, pid, sig)
		}
		return k.killTree(ctx, p)
	case agentkernel.SignalPause, agentkernel.SignalResume:
		any, err := k.holdTree(ctx, pid, p.spec.Ancestors, sig)
		if any || err != nil {
			return err
		}
		return k.signalAbsent(ctx, pid, sig)
	}
	p.mu.Lock()
	if p.state.Terminal() {
		p.mu.Unlock()
		return k.signalAbsent(ctx, pid, sig)
	}
	k.interrupt(p)
	p.mu.Unlock()
	return k.flush(ctx, p)
}

// holdTree pauses or resumes a process with what is below it. False: there is nothing that has not ended.
func (k *Kernel) holdTree(ctx context.Context, pid agentkernel.PID, above []agentkernel.PID, sig agentkernel.Signal) (any bool, err error) {
	if sig == agentkernel.SignalPause {
		return k.pauseTree(ctx, pid, above)
	}
	return k.resumeTree(ctx, pid, above)
}

func (k *Kernel) flush(ctx context.Context, p *process) error {
	p.mu.Lock()
	pos := p.pos
	p.mu.Unlock()
	return k.store.Flush(ctx, pos)
}

// signalAbsent deals with a process that this kernel does not carry: one that has ended, that never was,
// or that is unfinished. An unfinished one can be killed without being continued.
func (k *Kernel) signalAbsent(ctx context.Context, pid agentkernel.PID, sig agentkernel.Signal) error {
	rec, _, err := history.Row(ctx, k.store, pid)
	if err != nil {
		return err
	}
	if sig == agentkernel.SignalInterrupt && rec.State.Terminal() {
		return hasEnded(sig, &rec)
	}
	k.table.recovering.Await(ctx, recoverPatience) // what is below it may be yet to be taken up
	switch {
	case sig == agentkernel.SignalKill:
		return k.killAbsent(ctx, &rec)
	case !rec.State.Terminal() && sig != agentkernel.SignalResume:
		return agentkernel.Errorf(agentkernel.CodeConflict, string(sig), "process %d is unfinished: no kernel runs it", pid).
			WithPID(pid).WithHint(advice.Recover, pid)
	case !rec.State.Terminal(): // what was paused because of it is continued with it
		if _, err := k.Recover(ctx, pid); err != nil {
			return err
		}
	}
	any, err := k.holdTree(ctx, pid, rec.Spec.Ancestors, sig)
	if err == nil && !any && rec.State.Terminal() {
		err = hasEnded(sig, &rec)
	}
	return err
}

func hasEnded(sig agentkernel.Signal, rec *agentkernel.ProcessRecord) error {
	return agentkernel.Errorf(agentkernel.CodeConflict, string(sig), "process %d has ended already: %s", rec.PID, rec.State).WithPID(rec.PID)
}

// killAbsent kills a process that no kernel runs, and all below it, also what no kernel has taken up: a later recovery would
// continue it.
func (k *Kernel) killAbsent(ctx context.Context, rec *agentkernel.ProcessRecord) error {
	tree, err := history.Tree(ctx, k.store, rec.PID)
	if err != nil {
		return err
	}
	if len(tree) == 0 && len(k.table.below(rec.PID)) == 0 {
		return hasEnded(agentkernel.SignalKill, rec)
	}
	for _, rec := range tree {
		_, notTaken := k.adopt(ctx, rec) // or somebody else just has
		err = cmp.Or(err, notTaken)
		if p := k.lookup(rec.PID); p != nil {
			k.kill(p)
			err = cmp.Or(err, k.awaitEnd(ctx, p)) // it may run by now
		}
	}
	return cmp.Or(err, k.killBelow(ctx, rec.PID))
}

// killTree kills a process and its descendants and returns when all have ended, durably. One that runs may
// start another while it is being killed, so it looks again.
func (k *Kernel) killTree(ctx context.Context, p *process) error {
	k.kill(p)
	for _, q := range k.table.below(p.pid) { // now: whoever asked may not wait for the end
		k.kill(q)
	}
	if err := k.awaitEnd(ctx, p); err != nil {
		return err
	}
	return k.killBelow(ctx, p.pid)
}

// killBelow is killTree for the descendants alone.
func (k *Kernel) killBelow(ctx context.Context, pid agentkernel.PID) error {
	for {
		below := k.table.below(pid)
		if len(below) == 0 {
			return k.settled(ctx)
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

func (k *Kernel) kill(p *process) {
	k.killFor(p, agentkernel.Errorf(agentkernel.CodeKilled, "kill", "killed by a signal"))
}

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
			k.stopSandbox(p, cause)
			p.mu.Unlock()
			return
		}
	case p.state == steps.Created:
		p.step(steps.Begin)
	}
	p.mu.Unlock()
	k.finish(p, endingFor(cause))
}

// pause lets no reply through any more; p.mu is held. with is the process because of which, 0: because of none; note says why if
// the kernel paused it by itself.
func (k *Kernel) pause(p *process, with agentkernel.PID, note string) {
	if p.paused {
		return
	}
	if p.run.turning != 0 { // it has been running until now, also where its sandbox is lost with the pause
		now := k.clock()
		p.run.running += now - p.run.turning
		p.run.turning = now
	}
	if asked := p.asks(); note == "" && asked != "" { // for whoever sees it after this kernel
		note = "by hand; " + asked
	}
	p.paused, p.pauseNote = true, note
	p.stopWallClock()
	k.suspend(p, true)
	k.journalState(p, agentkernel.EntryPaused, with)
}

func (k *Kernel) resume(p *process) {
	if !p.paused {
		return
	}
	k.leaveUnknown(p)
	p.paused, p.pauseNote = false, ""
	if p.run.turning != 0 {
		p.run.turning = k.clock()
	}
	k.suspend(p, false)
	k.journalState(p, agentkernel.EntryResumed, 0)
	k.startWallClock(p)
	k.wake(p)
	k.pauseUnheard(p)
}

func (k *Kernel) journalState(p *process, kind agentkernel.EntryKind, with agentkernel.PID) {
	entry := agentkernel.Entry{Kind: kind, Note: p.pauseNote, Data: history.PauseData{With: with}.Encode()}
	k.appendBatch(p, agentkernel.Batch{Entries: []agentkernel.Entry{entry}, Process: p.record()})
	if !p.computing() { // else nextReply reports the pause, when the sandbox has stopped
		k.announce(p)
	}
}

// computing says that the program runs at this moment: a pause takes effect when its sandbox has stopped.
func (p *process) computing() bool { return p.state == agentkernel.StateRunning }

func (k *Kernel) announce(p *process) {
	snapshot := p.snapshot()
	k.publish(p, agentkernel.Event{Kind: agentkernel.EventState, Process: &snapshot})
}

// interrupt makes the call that the program waits for, or else its next one, raise KernelInterrupt; p.mu
// is held.
func (k *Kernel) interrupt(p *process) {
	signal := agentkernel.Entry{Kind: agentkernel.EntrySignal, Signal: agentkernel.SignalInterrupt}
	f := p.interruptible()
	if f == nil && !p.asksForPiece() && !k.stopPiece(p) {
		signal.Data = json.RawMessage(history.SignalPending)
	}
	k.append(p, signal)
	if f == nil || p.asksForPiece() { // of a session that waits nothing runs
		return
	}
	f.stop()
	p.inflight.remove(f)
	p.standing.Unresolved.Drop(f.id)
	p.run.origin.Drop(f.id)
	failure := errInterrupted(f)
	entry := agentkernel.Entry{Kind: agentkernel.EntryResult, Call: f.id, Err: failure}
	if canonical, err := journal.Canonical(f.args); f.asking && err == nil { // else it was refused before
		entry = f.entry(canonical)
		entry.Done, entry.Err = true, failure
	}
	k.append(p, entry)
	k.deliver(p, f, arrival{agentkernel.Reply{ID: f.id, Err: failure}, p.standing.Seq})
	k.heard(p)
}

// interruptible is the call that the program is waiting for at this moment, which is journalled or asked about.
func (p *process) interruptible() *inflight {
	if p.state != agentkernel.StateWaiting && p.run.backend != nil {
		return nil
	}
	var first *inflight
	for _, f := range p.inflight {
		if (f.intended() || f.asking) && (p.run.need == needAny || f.id == p.run.current) && (first == nil || f.id < first.id) {
			first = f
		}
	}
	return first
}

// stop ends what goes on for a call whose result nobody waits for any more.
func (f *inflight) stop() {
	f.timer.Stop()
	if f.cancel != nil {
		f.cancel()
	}
}

// startWallClock arms the wall limit, counted from the creation of the process without its pauses; p.mu is held.
func (k *Kernel) startWallClock(p *process) {
	if p.spec.InForce.Wall == 0 || p.paused {
		return
	}
	left := time.Duration(p.spec.InForce.Wall) - p.lived(k.cfg.Now())
	p.wall = k.timers.After(left, func() { k.external.Go(func() { k.wallReached(p) }) })
}

// wallReached ends a process that has lived as long as it may.
func (k *Kernel) wallReached(p *process) {
	p.mu.Lock()
	lived := p.lived(k.cfg.Now())
	p.mu.Unlock()
	k.killFor(p, limits.Wall(&p.spec.InForce, lived, p.pid))
}

// stopWallClock stops the wall limit for a pause; p.mu is held.
func (p *process) stopWallClock() {
	p.wall.Stop()
}

// lived is the time since the creation of a process, pauses left out; p.mu is held.
func (p *process) lived(now time.Time) time.Duration {
	if p.paused {
		now = p.standing.Pauses.At
	}
	return now.Sub(p.created) - p.standing.Pauses.Ended
}
