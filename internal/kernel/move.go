package kernel

import (
	"cmp"
	"context"
	"errors"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/backends"
	"agentkernel/internal/kernel/ends"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/kernel/moves"
	"agentkernel/internal/kernel/origin"
	"agentkernel/internal/sys"
)

// Where the choice of the backend was left to the kernel, it can turn out to have been wrong while the program runs: an
// uncaught error that the language's own runtime might not have raised. Then the process moves: the next backend that takes
// the program runs it from its start, as a recovery by replay would. What the journal has is answered by it and compared
// with it, so nothing is done or shown twice, and a program that does not come to the same place ends as diverged.

// handleFailure ends a process whose program has raised what nobody caught, unless another backend goes on with it: true.
func (k *Kernel) handleFailure(p *process, turn agentkernel.Turn) bool {
	failure := turn.Err
	if failure != nil && k.abortCell(p, failure) {
		return false
	}
	to, why := k.destination(p, turn, true)
	if to != nil && k.move(p, to, failure) {
		return k.startMoved(p)
	}
	if err := p.stopped(); err != nil || (to != nil || p.spec.Program.Session) && k.leaves(p) { // killed while a place was looked for, or the next kernel moves it, or aborts its cell
		k.sandboxFailed(p, err)
		return false
	}
	if failure != nil && failure.Hint == "" {
		// What the program reached for says more than where else it could fail.
		if hint := cmp.Or(p.spec.Boundary(failure.Message()+"\n"+failure.Traceback), why); hint != "" {
			failure = failure.WithHint("%s", hint)
		}
	}
	e := ends.For(failure)
	if turn.ExitCode != 0 {
		e.ExitCode = turn.ExitCode
	}
	k.finish(p, k.settleFiles(p, p.stoppedAsAsked(e)))
	return false
}

// moveUnstarted moves a process that has not begun, and whose backend turns out not to work at all.
func (k *Kernel) moveUnstarted(p *process, err error) bool {
	p.mu.Lock()
	begun := p.run.need != needStart || p.run.replay != nil || p.runEnded()
	p.mu.Unlock()
	why := agentkernel.AsError(err, agentkernel.CodeInternal, "sandbox")
	if errors.As(err, new(sys.Unbound)) || begun || why.Code != agentkernel.CodeUnavailable || p.spec.Backend != backends.Auto {
		return false
	}
	to, _ := k.destination(p, agentkernel.Turn{Kind: agentkernel.TurnFail, Err: why, Fault: agentkernel.FaultBackend}, false)
	return to != nil && k.move(p, to, why)
}

// destination finds the backend that may go on with a program, always one behind the present one in the order of choice.
// Nil: there is none; why is what the user can do about it, if the backend is surely what the program failed for. ran: the
// program has begun, and a session moves in other ways then.
func (k *Kernel) destination(p *process, turn agentkernel.Turn, ran bool) (to *backends.Backend, why string) {
	s := &p.spec.Spec
	if turn.Err == nil || turn.Fault == agentkernel.FaultProgram || p.run.verifies != nil || ran && (s.Program.Session || s.NeedsFiles()) || !p.replayable() {
		return nil, ""
	}
	return k.backends.Next(s, p.run.backend, turn)
}

// move takes a process to another backend, where it has not begun yet. False: it stays where it is.
func (k *Kernel) move(p *process, to *backends.Backend, failure *agentkernel.Error) bool {
	ctx := p.context()
	from, err := k.loadOrigin(ctx, &p.spec.Spec)
	if err != nil {
		k.cfg.Logger.Warn("a process cannot move: the journal that answers its calls cannot be read", "pid", p.pid, "err", err)
		return false
	}
	entries, err := k.lockWithJournal(ctx, p)
	if err != nil {
		k.cfg.Logger.Warn("a process cannot move: its journal cannot be read", "pid", p.pid, "err", err)
		return false
	}
	// A program that fails before it has repeated its own journal has diverged, wherever it runs.
	if p.state != agentkernel.StateRunning || p.runEnded() || p.run.replay != nil && p.run.replay.Left() != "" {
		p.mu.Unlock()
		return false
	}
	box := k.takeMove(p, to, failure, from, entries)
	p.mu.Unlock()
	k.discard(p, box)
	return true
}

// lockWithJournal reads the whole journal of a process and locks p.mu: nothing has been added since.
func (k *Kernel) lockWithJournal(ctx context.Context, p *process) (entries []agentkernel.Entry, err error) {
	for {
		more, lost, err := history.Tail(ctx, k.store, p.pid, int64(len(entries))+1, k.forest.Repeatable(false))
		if err = cmp.Or(err, lost); err != nil {
			return nil, err
		}
		entries = append(entries, more...)
		p.mu.Lock()
		if int64(len(entries)) == p.standing.Seq {
			return entries, nil
		}
		p.mu.Unlock()
		if len(more) == 0 {
			return nil, agentkernel.Errorf(agentkernel.CodeStorage, "move", "the store has %d entries of a journal that has more", len(entries))
		}
	}
}

// takeMove changes the backend in one batch with all that depends on it, and sets the process to its beginning; p.mu is
// held. It gives the sandbox to discard.
func (k *Kernel) takeMove(p *process, to *backends.Backend, failure *agentkernel.Error, answers *origin.Origin, entries []agentkernel.Entry) agentkernel.Sandbox {
	box, from, at := p.takeBox(), p.run.backend.Name, k.cfg.Now().UTC().Truncate(time.Microsecond)
	p.run.backend, p.run.bound, p.run.moved = to, nil, moves.New(from, at, failure)
	k.newRun(p, answers, history.Fold(history.Base{}, entries), entries)
	batch := agentkernel.Batch{Process: p.record(), Entries: []agentkernel.Entry{p.run.moved.Entry(to.Name)}}
	if p.imaged { // no other backend can load it
		batch.Image, p.imaged = &agentkernel.Image{PID: p.pid}, false
	}
	k.appendBatch(p, batch)
	p.run.moved.Seq = p.standing.Seq
	k.announce(p)
	return box
}

// startMoved gives a process that has moved its sandbox. False: it has none, and has ended with the error that it moved for.
func (k *Kernel) startMoved(p *process) bool {
	err := k.ensureBox(p)
	if err == nil {
		return true
	}
	if p.stopped() != nil || k.leaves(p) {
		k.sandboxFailed(p, err)
		return false
	}
	p.dropReplay()
	k.finish(p, ends.For(p.run.moved.NotStarted(p.run.backend.Name, err)))
	return false
}
