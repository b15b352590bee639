package kernel

import (
	"slices"

	"agentkernel"
	"agentkernel/internal/kernel/cells"
	"agentkernel/internal/kernel/files"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/kernel/reserve"
	"agentkernel/internal/kernel/steps"
)

// What a session has beyond proc.next (sys_next.go): its sandbox can go, and its cells can be aborted. Both rest on its
// journal. A session that has no sandbox and no image begins again when it has to go on: its cells run once more, with
// their calls answered from the journal and their output compared with it, as in a recovery.

// repeatIfGone sets a process whose sandbox is gone for good to its beginning: there is no image of it.
func (k *Kernel) repeatIfGone(p *process) error {
	p.mu.Lock()
	gone := p.spec.Program.Session && p.run.need != needStart && p.replayable() && !(p.run.backend.Images && p.imaged)
	p.mu.Unlock()
	if !gone {
		return nil
	}
	if p.spec.HasFiles() {
		if note := files.Drifted(k.cfg.Layers, p.pid); note != "" {
			return agentkernel.Errorf(agentkernel.CodeDiverged, "session", "the session's variables cannot be brought back: %s", note)
		}
	}
	from, err := k.loadOrigin(p.context(), &p.spec.Spec)
	if err != nil {
		return err
	}
	entries, err := k.lockWithJournal(p.context(), p)
	if err != nil {
		return err
	}
	defer p.mu.Unlock()
	k.newRun(p, from, history.Fold(history.Base{}, entries), entries)
	p.run.bound = nil
	return nil
}

// stopCell aborts the cell that a session computes at the moment, if it can: the session then has the variables that
// it had before. What the cell did in calls stays done; p.mu is held. False: there is none.
func (k *Kernel) stopCell(p *process) bool {
	if p.state != agentkernel.StateRunning || !p.canAbort() || p.cause() != nil || p.run.cell == 0 && p.run.replay == nil {
		return false
	}
	if p.run.replay != nil && p.run.replay.Asks() {
		return true // it comes back to where it waits for one
	}
	if p.run.abort == nil {
		p.run.abort = cells.Stopped()
		if p.run.box != nil {
			_ = p.run.box.Close() // whoever drives the process deals with what Next says then
		}
	}
	return true
}

// abortCell deals with a sandbox that is dead because of the cell that it ran: the session asks for the next cell, as its
// sandbox will when its journal is repeated. False: the cell is not the reason, or there is no way back to before it.
func (k *Kernel) abortCell(p *process, err *agentkernel.Error) bool {
	p.mu.Lock()
	why := p.run.abort
	can := p.canAbort() && (why != nil || cells.Alone(err))
	p.mu.Unlock()
	if !can {
		return false
	}
	if why == nil {
		why = cells.Broke(err)
	}
	entries, jerr := k.lockWithJournal(p.context(), p)
	if jerr != nil {
		k.cfg.Logger.Warn("a cell cannot be aborted: the journal cannot be read", "pid", p.pid, "err", jerr)
		return false
	}
	h := history.Fold(history.Base{}, entries)
	cell := h.Cell.Next
	if cell == 0 && p.state == agentkernel.StateRunning && p.cause() == nil && p.run.abort != nil && p.asksForCell() {
		box := k.loseBox(p) // it has said how its cell ended: there is none to abort
		k.letWait(p, box, nil)
		return true
	}
	if cell == 0 || p.state != agentkernel.StateRunning || p.cause() != nil || p.run.abort == nil && p.run.cell != cell {
		p.mu.Unlock() // the last: one that had run to its end before does not do so again
		return false
	}
	if open := h.Queue.OpenWrites(h.Account.Amounts); len(open) > 0 { // nobody will tell what became of it
		why = cells.InDoubt(k.label(&open[0]), why)
	}
	box, f := k.takeBack(p, cell, why)
	k.sessions.Forget(p.pid)
	k.letWait(p, box, f)
	return true
}

// loseBox makes a session wait for its next cell whose sandbox an interrupt has closed; p.mu is held. It gives that to
// discard. What the sandbox was is repeated from the journal.
func (k *Kernel) loseBox(p *process) agentkernel.Sandbox {
	p.run.abort, p.run.bound, p.run.reemit = nil, nil, false
	if p.imaged { // older than its last cell
		k.appendBatch(p, agentkernel.Batch{Image: &agentkernel.Image{PID: p.pid}})
		p.imaged = false
	}
	p.step(steps.Rewind)
	return p.takeBox()
}

// letWait closes the sandbox of a session that waits now, at the call f if that has not begun, and lets go of it; it unlocks p.mu.
func (k *Kernel) letWait(p *process, box agentkernel.Sandbox, f *inflight) {
	p.mu.Unlock()
	if p.spec.HasFiles() { // nothing may write to them when it begins again
		files.Close(box, p.pid, k.cfg.Logger)
	}
	k.discard(p, box)
	if f != nil {
		k.beginLater(p, f)
	}
	p.mu.Lock()
	p.release()
	k.wake(p)
	p.mu.Unlock()
}

// takeBack journals that a cell was aborted, and the call for the next one; p.mu is held. It gives the sandbox to discard.
func (k *Kernel) takeBack(p *process, cell int64, why *agentkernel.Error) (agentkernel.Sandbox, *inflight) {
	box := p.takeBox()
	p.run.bound, p.run.replay, p.run.abort, p.run.reemit = nil, nil, nil, false
	batch := agentkernel.Batch{Entries: reserve.Settlements(k.table.streams.End(p.pid, cell), p.standing.Account.Amounts)}
	for _, f := range slices.Clone(p.inflight) {
		f.dropped = true
		f.stop()
		p.standing.Unresolved.Drop(f.id)
		if f.intended() {
			batch.Entries = append(batch.Entries, agentkernel.Entry{Kind: agentkernel.EntryResult, Call: f.id, Err: p.interrupted(f), Settle: p.left(f, batch.Entries)})
		}
	}
	p.inflight, p.run.arrived = nil, nil
	p.run.calls = max(p.run.calls, p.standing.Account.Calls) + 1
	f := k.newCall(p.run.calls, opNext)
	f.args, f.since = cells.Idle(why), k.cfg.Now()
	batch.Entries = append(batch.Entries, agentkernel.Entry{Kind: agentkernel.EntryAborted, Call: cell, Err: why},
		agentkernel.Entry{Kind: agentkernel.EntryCall, At: f.since, Call: f.id, Op: opNext, Effect: f.effect, Args: f.args})
	if p.imaged {
		batch.Image, p.imaged = &agentkernel.Image{PID: p.pid}, false
	}
	k.appendBatch(p, batch)
	f.seq = p.standing.Seq
	p.inflight.Add(f)
	p.setNeed(needReply, f.id, nil)
	p.step(steps.Rewind)
	return box, f
}
