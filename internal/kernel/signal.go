package kernel

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"agentkernel"
	"agentkernel/internal/journal"
	"agentkernel/internal/kernel/ends"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/kernel/inbox"
	"agentkernel/internal/kernel/moves"
	"agentkernel/internal/kernel/specs"
	"agentkernel/internal/kernel/steps"
)

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
	case agentkernel.SignalPause:
		return k.pauseTree(ctx, p.pid, p.spec.Ancestors, opt.Tree)
	case agentkernel.SignalResume:
		return k.resumeTree(ctx, p.pid, p.spec.Ancestors)
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

// signalAbsent deals with a process that this kernel does not carry: one that has ended, that never was,
// or that is unfinished. An unfinished one can be killed without being continued.
func (k *Kernel) signalAbsent(ctx context.Context, pid agentkernel.PID, sig agentkernel.Signal, opt agentkernel.SignalOptions) error {
	rec, lost, err := history.Row(ctx, k.store, pid)
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
		return cmp.Or[error](lost, history.RunByNone(string(sig), pid))
	case !rec.State.Terminal(): // what was paused because of it is continued with it
		list, err := k.Recover(ctx, pid)
		if err = cmp.Or(err, history.Left(list, pid)); err != nil {
			return err
		}
	}
	var any bool
	switch sig {
	case agentkernel.SignalStop:
		any, err = k.stopTree(ctx, pid, opt)
	case agentkernel.SignalPause:
		any, err = k.pauseTree(ctx, pid, rec.Spec.Ancestors, opt.Tree)
	default:
		any, err = k.resumeTree(ctx, pid, rec.Spec.Ancestors)
	}
	if err == nil && !any && rec.State.Terminal() {
		err = history.HasEnded(string(sig), pid, rec.State)
	}
	return err
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

// killAbsent kills a process that no kernel runs, and all below it, also what no kernel has taken up: a later recovery would continue it.
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
				p.rc.Forget() // a session that goes back because of it would outlive this one
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
	k.finish(p, ends.For(cause))
}
