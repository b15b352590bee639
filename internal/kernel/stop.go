package kernel

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"agentkernel"
	"agentkernel/internal/journal"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/kernel/inbox"
	"agentkernel/internal/kernel/specs"
)

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
func (p *process) stoppedAsAsked(e ending) ending {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.stopping() || !inbox.Obeys(e.err) {
		return e
	}
	return endingFor(inbox.Stopped(p.standing.Account.Deadline, true))
}

// tellAll puts a user signal before a process and others below it. One that cannot have it keeps it from no other.
func (k *Kernel) tellAll(ctx context.Context, procs []*process, payload json.RawMessage) (err error) {
	for i, p := range procs {
		if failed := k.tell(ctx, p, payload); i == 0 || agentkernel.CodeOf(failed) != agentkernel.CodeConflict { // else it has just ended
			err = cmp.Or(err, failed)
		}
	}
	for _, p := range procs {
		err = cmp.Or(err, k.flush(ctx, p))
	}
	return err
}

// tell puts a user signal before a process: into its journal and its inbox, where it waits until the program takes it.
func (k *Kernel) tell(ctx context.Context, p *process, payload json.RawMessage) error {
	canonical, err := journal.Canonical(payload)
	if err != nil {
		return agentkernel.AsError(err, agentkernel.CodeInvalid, "signal")
	}
	end, err := k.table.senders.Enter(ctx, k.store, p.pid)
	if err != nil {
		return err
	}
	defer end()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state.Terminal() {
		return history.HasEnded(string(agentkernel.SignalUser), p.pid, p.state)
	}
	k.appendBatch(p, agentkernel.Batch{
		Entries: []agentkernel.Entry{{Kind: agentkernel.EntrySignal, Signal: agentkernel.SignalUser, Data: history.SignalData{Payload: canonical}.Encode()}},
		Posts:   []agentkernel.Post{{To: p.pid, Kind: agentkernel.PostSignal, Data: canonical}}, // priority 0: ahead of every message
	})
	return nil
}

// under returns the descendants of a process that are in memory; those that are detached from it, and theirs, with all alone.
func (k *Kernel) under(pid agentkernel.PID, all bool) (found []*process) {
	for _, q := range k.table.below(pid) {
		if all || specs.Attached(&q.spec.Spec, pid) {
			found = append(found, q)
		}
	}
	return found
}
