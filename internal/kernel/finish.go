package kernel

import (
	"context"
	"errors"

	"agentkernel"
	"agentkernel/internal/kernel/ends"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/kernel/replay"
	"agentkernel/internal/kernel/reserve"
	"agentkernel/internal/kernel/steps"
	"agentkernel/internal/kernel/unresolved"
)

// finish ends a process: one terminal entry, its row, its last event. It is idempotent.
func (k *Kernel) finish(p *process, e ends.Ending) {
	if k.moveBack(p, e) {
		return
	}
	open := k.table.streams.Finish(p.pid)
	p.mu.Lock()
	if p.state.Terminal() {
		p.mu.Unlock()
		return
	}
	e = p.movedEnding(p.checkedEnding(e))
	box := p.end(k, e, reserve.Settlements(open, p.standing.Account.Amounts))
	p.mu.Unlock()
	k.discard(p, box)
	k.freeFiles(p, box)
	if p.run.verifies != nil {
		p.run.verifies.Ended(e)
		return
	}
	k.forget(p)
	k.tellParent(p)
	k.table.foreign.Ring(int64(p.pid))
}

// end makes the process terminal, whose open streams were settled so; p.mu is held. It gives the sandbox to discard.
func (p *process) end(k *Kernel, e ends.Ending, settled []agentkernel.Entry) agentkernel.Sandbox {
	p.run.running, p.run.turning = p.ran(k.clock()), 0
	e.Err = replay.Ended(e.Err, p.pid)
	e.Err, e.UnderWay = p.withUnresolved(e.Err)
	if l, ok := p.run.box.(agentkernel.Leaver); ok {
		e.Left = l.Left()
	}
	p.step(steps.End(e.State))
	e.At = k.cfg.Now()
	p.ending = &e
	p.pausing = nil
	box := p.takeBox()
	for _, f := range p.inflight {
		if used := p.left(f, settled); used != nil {
			settled = append(settled, agentkernel.Entry{Kind: agentkernel.EntrySettled, Call: f.id, Settle: used})
		}
	}
	p.dropInflight(hasNoReply)
	p.wall.Stop()
	// The order matters: what the handlers that are still outside append must come before, or not at all.
	data := history.EndData{ExitCode: e.ExitCode, State: e.State,
		Ran: k.table.ledger.Uncounted(&p.spec.Spec, p.run.running, p.standing.Account.Amounts)}.Encode()
	words := p.lastWords()
	last := agentkernel.Batch{
		Entries: append(append(settled, words...), agentkernel.Entry{Kind: agentkernel.EntryTerminal, At: e.At, Data: data, Err: e.Err}),
		Process: p.record(),
	}
	if p.imaged { // most runs are never parked, and need not pay for a deletion
		last.Image = &agentkernel.Image{PID: p.pid}
	}
	k.appendBatch(p, last)
	for _, w := range words {
		k.publishAt(p, p.standing.Seq-1, agentkernel.Event{Kind: agentkernel.EventPast, At: e.At, Text: w.Note})
	}
	snapshot := p.snapshot()
	k.publish(p, agentkernel.Event{Kind: agentkernel.EventEnd, At: e.At, Process: &snapshot})
	p.run.replay = p.run.replay.Drop()
	p.endRun(nil)
	return box
}

// withUnresolved adds to the error that ends a process the writes that are under way: whoever reads it would make them again. Where
// there is no error it gives them; p.mu is held.
func (p *process) withUnresolved(err *agentkernel.Error) (*agentkernel.Error, []string) {
	var calls []string
	for _, f := range p.inflight {
		if p.inDoubt(f) {
			calls = append(calls, f.label)
		}
	}
	return unresolved.Told(err, calls)
}

var hasNoReply = agentkernel.Errorf(agentkernel.CodeKilled, "kernel", "the process has ended")

// dropInflight stops the calls that are under way; why is what a hosted program hears of its own; p.mu is held.
func (p *process) dropInflight(why *agentkernel.Error) {
	for _, f := range p.inflight {
		f.stop()
		if f.done != nil {
			own := *why
			own.Op, own.PID = f.op, p.pid
			f.done <- agentkernel.Reply{ID: f.id, Err: &own}
		}
	}
	p.inflight, p.run.arrived, p.run.reply = nil, nil, nil
}

// forget takes an ended process off the table; its row and journal stay in the store. Its place in its tree is free before: a parent
// that waits for it looks at the table, and starts the next.
func (k *Kernel) forget(p *process) {
	k.forest.Leave(p.place())
	k.table.remove(p.pid)
	if k.table.ledger.Drop(p.pid); p.spec.Budget != (agentkernel.Budget{}) {
		k.resumeIf(k.table.below(p.pid), func(q *process) bool { return q.whyPaused().For(p.pid) }) // nobody will raise it any more
	}
	k.specs.Drop(p.spec)
	k.sessions.Ended(p.pid)
	k.dropLocals(p)
}

// dropLocals lets go of what families keep of a process that leaves memory, of its working set and its streams.
func (k *Kernel) dropLocals(p *process) {
	k.table.streams.End(p.pid, 0)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.standing.Locals.Drop()
	p.dropWork()
}

// tellParent completes the wait of a parent for this child.
func (k *Kernel) tellParent(p *process) {
	parent := k.lookup(p.spec.Parent)
	if parent == nil {
		return
	}
	parent.mu.Lock()
	var waiting []*inflight
	for _, f := range parent.inflight {
		if f.child == p.pid {
			waiting = append(waiting, f)
		}
	}
	parent.mu.Unlock()
	for _, f := range waiting {
		k.completeWait(parent, f, p.pid)
	}
}

// storageFailed stops the kernel's work: nothing more can be made durable, so nothing more may happen.
func (k *Kernel) storageFailed(err error) {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return // the process ended while it waited for the disk
	}
	failure := agentkernel.AsError(err, agentkernel.CodeStorage, "store")
	procs, first := k.table.Fail(failure)
	if !first {
		return
	}
	close(k.broken)
	k.cfg.Logger.Error("the store failed; the kernel stops", "err", failure)
	k.queue.Close()
	for _, q := range procs {
		q.mu.Lock()
		q.endRun(nil)
		for _, w := range q.watchers {
			w.Fail(failure.WithPID(q.pid))
		}
		k.table.hosts.Vacate(q.pid, failure)
		q.mu.Unlock()
	}
}

// Broken is closed when the store has failed: the kernel can do nothing more and should be closed.
func (k *Kernel) Broken() <-chan struct{} { return k.broken }

// Failure is why the store failed; nil as long as Broken is open.
func (k *Kernel) Failure() error {
	return k.table.Failed().OrNil()
}
