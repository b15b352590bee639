package kernel

import (
	"context"
	"encoding/json"
	"time"

	"agentkernel"
	"agentkernel/internal/journal"
	"agentkernel/internal/kernel/ends"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/kernel/inbox"
)

// interrupted is the answer to a call that a signal interrupts; p.mu is held.
func (p *process) interrupted(f *inflight) *agentkernel.Error {
	return inbox.Interrupted(f.op, f.label, p.inDoubt(f), p.standing.Account.StopBy, p.standing.Account.Deadline)
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
	due := p.interruptDue() && (p.run.backend == nil || f.id == p.run.current) && !p.inDoubt(f) && !p.asksForCell()
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
	entry := agentkernel.Entry{Kind: agentkernel.EntryResult, Call: f.id, Err: failure, Settle: p.left(f, nil)}
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

// stopTree asks a process to end, if this kernel carries it, and those below it. Each is killed that has not ended when the grace time
// is over. False: all have ended.
func (k *Kernel) stopTree(ctx context.Context, pid agentkernel.PID, opt agentkernel.SignalOptions) (any bool, err error) {
	how := history.SignalData{By: k.cfg.Now().Add(time.Duration(opt.Grace)).Truncate(time.Microsecond), All: opt.Tree}
	if p := k.lookup(pid); p != nil {
		any = k.askToStop(p, how)
	}
	asked := map[*process]bool{}
	for again := true; again; { // one that was not asked yet may start another meanwhile
		again = false
		for _, q := range k.under(pid, opt.Tree) {
			if !asked[q] {
				asked[q], again = true, true
				how.By = how.By.Add(time.Microsecond) // those that do not listen are killed in this order
				any = k.askToStop(q, how) || any
			}
		}
	}
	return any, k.flushAll(ctx)
}

// stopNewborn asks a child to stop whose parent was asked while the child was being created: whoever asked has not seen it.
func (k *Kernel) stopNewborn(p, child *process) {
	p.mu.Lock()
	a := &p.standing.Account
	how := history.SignalData{By: a.StopBy, All: a.StopAll, Deadline: a.Deadline}
	p.mu.Unlock()
	if !how.By.IsZero() && (how.All || !child.spec.Detached) {
		k.askToStop(child, how)
	}
}

// askToStop asks a process to end until a time, if it has none before that. False: it has ended.
func (k *Kernel) askToStop(p *process, how history.SignalData) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state.Terminal() {
		return false
	}
	if before := p.standing.Account.StopBy; !before.IsZero() && !how.By.Before(before) {
		return true
	}
	k.interrupt(p, agentkernel.SignalStop, how)
	k.startClock(p)
	if _, err := p.atNext(); err == nil { // a session at rest has nothing to clean up
		_ = k.answerNext(p, endOfSession, nil) // it fails if the kernel stops, and then the next one ends the session
	}
	k.announce(p)
	return true
}

// endOfSession is the answer to a session's call for its next cell with which it ends.
var endOfSession = json.RawMessage(`{"end":true}`)

// stopping says that a process was asked to stop; p.mu is held.
func (p *process) stopping() bool { return !p.standing.Account.StopBy.IsZero() }

// stoppedAsAsked is how a process ends that let the interrupt end it with which it was asked to stop; p.mu is not held.
func (p *process) stoppedAsAsked(e ends.Ending) ends.Ending {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.stopping() || !inbox.Obeys(e.Err) {
		return e
	}
	return ends.For(inbox.Stopped(p.standing.Account.Deadline, true))
}
