package kernel

import (
	"context"
	"encoding/json"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/advice"
	"agentkernel/internal/kernel/cells"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/kernel/watch"
)

// opNext is the call with which a session waits for its next piece.
const opNext = "proc.next"

// sessionIdle is how long a session waits for a piece before it ends by itself: whoever fed it may be gone
// for good. Counted from the moment at which it began to wait, also over a crash.
const sessionIdle = 6 * time.Hour

// sessionCalls is the family of sessions.
var sessionCalls = map[string]ownOp{opNext: {begin: procNext, cell: true}}

// asksForCell says that a session waits with the call for its next cell.
func (f *inflight) asksForCell() bool { return f.handler != nil && f.handler.cell }

// procNext reports how the last piece ended and waits: Feed or EndSession completes the call.
func procNext(k *Kernel, p *process, f *inflight) error {
	if !p.spec.Program.Session {
		return agentkernel.Errorf(agentkernel.CodeUnsupported, f.op, "this process is no session")
	}
	var idle agentkernel.Idle
	if err := decodeArgs(f, &idle); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state.Terminal() || p.inflight.find(f.id) != f {
		return nil // it was killed meanwhile
	}
	k.publish(p, agentkernel.Event{Kind: agentkernel.EventIdle, Idle: &idle})
	if p.stopping() {
		k.completeNow(p, f, outcomeOf(endOfSession), nil)
		return nil
	}
	f.timer = k.timers.At(f.since.Add(sessionIdle), func() { k.complete(p, f, outcomeOf(endOfSession), nil) })
	return nil
}

// waitingSession acquires the session pid, which waits for its next piece. CodeConflict if it does not.
func (k *Kernel) waitingSession(ctx context.Context, pid agentkernel.PID) (*process, error) {
	p := k.carried(ctx, pid)
	if p == nil {
		rec, err := k.store.Process(ctx, pid)
		switch {
		case err != nil:
			return nil, err
		case rec.State.Terminal():
			return nil, cells.Ended(pid, rec.State)
		}
		return nil, cells.Unfinished(pid)
	}
	if !p.spec.Program.Session {
		k.release(p)
		return nil, agentkernel.Errorf(agentkernel.CodeInvalid, "session", "process %d is no session", pid).WithPID(pid)
	}
	k.awaitNext(ctx, p)
	p.mu.Lock()
	_, err := p.atNext()
	p.mu.Unlock()
	if err != nil {
		k.release(p)
		return nil, err
	}
	return p, nil
}

// awaitNext waits for a session that is on its way back to where it waits for its next piece.
func (k *Kernel) awaitNext(ctx context.Context, p *process) {
	p.mu.Lock()
	f := p.inflight.find(p.run.current)
	_, err := p.atNext()
	if err == nil || !(p.run.replay != nil && p.run.replay.Asks() || f != nil && f.asksForCell()) {
		p.mu.Unlock()
		return
	}
	w := k.watch(p, false)
	defer k.unwatch(p, w)
	ctx, cancel := context.WithTimeout(ctx, recoverPatience)
	defer cancel()
	for err != nil && !p.paused && !p.state.Terminal() && ctx.Err() == nil {
		p.mu.Unlock()
		_ = w.Wait(ctx)
		_, _, _, _ = w.Take()
		p.mu.Lock()
		_, err = p.atNext()
	}
	p.mu.Unlock()
}

// atNext is the call at which a session waits for its next piece; p.mu is held. CodeConflict if it does not.
func (p *process) atNext() (*inflight, error) {
	switch f := p.run.current; {
	case p.state.Terminal():
		return nil, cells.Ended(p.pid, p.state)
	case p.paused:
		return nil, cells.Conflict(p.pid, "session %d is paused", p.pid).WithHint(advice.Resume, p.pid)
	default:
		// Before its timer runs it has not said how the last piece ended: whoever feeds the next would take that for his.
		if call := p.inflight.find(f); call != nil && call.asksForCell() && call.timer != nil {
			return call, nil
		}
	}
	return nil, cells.Conflict(p.pid, "session %d is still busy with the last piece", p.pid).WithHint("wait for it, or use another session")
}

// answerNext answers the call at which a session waits now; p.mu is held. It may be another one than a moment before: a
// signal may have come between. bind is a key that is the process's from then on; nil: none.
func (k *Kernel) answerNext(p *process, answer json.RawMessage, bind *agentkernel.Key) error {
	f, err := p.atNext()
	switch {
	case err != nil:
		return err
	case k.ctx.Err() != nil:
		return agentkernel.Errorf(agentkernel.CodeUnavailable, agentkernel.OpKernel, "the kernel is stopping").WithPID(p.pid)
	}
	f.stop()
	f.bind = bind
	k.completeNow(p, f, outcomeOf(answer), nil)
	return nil
}

// Feed hands a session its next piece.
func (k *Kernel) Feed(ctx context.Context, pid agentkernel.PID, piece agentkernel.Piece, fn func(agentkernel.Event) error) (agentkernel.PieceEnd, error) {
	var end agentkernel.PieceEnd
	if err := k.takeSession(ctx, pid, piece.Key != ""); err != nil {
		return end, err
	}
	feeding := true
	defer func() {
		if feeding {
			k.sessions.Release(pid)
		}
	}()
	if known, err := k.fedBefore(ctx, pid, &piece); err != nil {
		return end, err
	} else if known > 0 {
		k.sessions.Release(pid)
		feeding = false
		return k.fedAgain(ctx, pid, known, fn)
	}
	p, err := k.waitingSession(ctx, pid)
	if err != nil {
		return end, err
	}
	defer k.release(p)
	next, fed, err := k.preparePiece(ctx, p, piece)
	if err != nil {
		return end, err
	}
	answer, err := json.Marshal(next)
	if err != nil {
		return end, agentkernel.AsError(err, agentkernel.CodeInvalid, "session")
	}
	w := watch.New(true) // whoever feeds an interactive session answers its questions
	w.Hold()
	seen, err := k.feedInline(ctx, p, answer, fed, w)
	if err != nil {
		return end, err
	}
	defer k.unwatch(p, w)
	k.sessions.Release(pid)
	feeding = false
	end, _, err = cells.Follow(func(fn func(agentkernel.Event) error) error { return k.pump(ctx, p, w, seen, true, fn) }, fn)
	if err != nil {
		return end, err
	}
	p.mu.Lock()
	end.Process = p.snapshot()
	p.mu.Unlock()
	return end, nil
}

// preparePiece checks a piece as a program is checked, and finds the tools and skills that it imports. fed is what the
// session has been fed when it has this piece.
func (k *Kernel) preparePiece(ctx context.Context, p *process, piece agentkernel.Piece) (next *agentkernel.NextPiece, fed cells.Sources, err error) {
	earlier, err := k.earlierSources(ctx, p)
	if err != nil {
		return nil, fed, err
	}
	spec := agentkernel.Spec{Namespace: p.spec.Namespace, Program: cells.Program(&p.spec.Program, &piece, earlier)}
	if err := spec.Program.Validate(); err != nil {
		return nil, fed, err
	}
	if err := k.cfg.Tools.Shadowed(ctx, &p.spec.Spec, piece.Modules); err != nil {
		return nil, fed, err
	}
	if err := k.Add(ctx, &spec); err != nil {
		return nil, fed, err
	}
	needs, err := k.checkPiece(ctx, p, &piece, &spec.Program)
	if err != nil {
		return nil, fed, err
	}
	tools, err := k.pieceTools(ctx, p, piece.Name, needs.Tools)
	if err != nil {
		return nil, fed, err
	}
	piece.Modules = spec.Program.Modules
	fed = earlier.Fed(&piece, needs.Plain, p.spec.Namespace)
	return &agentkernel.NextPiece{Piece: piece, Tools: tools}, fed, nil
}

// pieceTools binds the tools that a piece imports. What is handed over is journalled, so that a replay needs
// no server: the schemas stay out.
func (k *Kernel) pieceTools(ctx context.Context, p *process, name string, refs []agentkernel.ToolRef) ([]agentkernel.Tool, error) {
	if len(refs) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, bindTimeout)
	defer cancel()
	b, ref, err := k.cfg.Tools.Bind(ctx, &p.spec.Spec, refs)
	if err != nil {
		return nil, atLine(name, ref, err)
	}
	return cells.Tools(b.Tools), nil
}

// earlierSources are the sources that a session was fed: remembered, or read from its journal.
func (k *Kernel) earlierSources(ctx context.Context, p *process) (cells.Sources, error) {
	if known, ok := k.sessions.Known(p.pid); ok {
		return known, nil
	}
	handed, err := history.Cells(ctx, k.store, p.pid)
	return cells.Earlier(p.spec.Program.Source, handed), err
}

// takeSession makes the caller the one who feeds a session; see cells.Registry.Take.
func (k *Kernel) takeSession(ctx context.Context, pid agentkernel.PID, wait bool) error {
	taken, err := k.sessions.Take(ctx, pid, wait)
	if err == nil && !taken {
		return cells.Conflict(pid, "session %d is being fed by somebody else", pid)
	}
	return err
}

// EndSession lets a session exit.
func (k *Kernel) EndSession(ctx context.Context, pid agentkernel.PID) (agentkernel.Process, error) {
	if err := k.takeSession(ctx, pid, false); err != nil {
		return agentkernel.Process{}, err
	}
	defer k.sessions.Release(pid)
	p, err := k.waitingSession(ctx, pid)
	if err != nil {
		return agentkernel.Process{}, err
	}
	defer k.release(p)
	p.mu.Lock()
	err = k.answerNext(p, endOfSession, nil)
	p.mu.Unlock()
	if err != nil {
		return agentkernel.Process{}, err
	}
	return k.Wait(ctx, pid)
}
