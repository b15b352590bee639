package kernel

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/backends"
	"agentkernel/internal/kernel/replay"
)

// A session moves, as a program does (move.go), when a piece comes that its backend cannot run, or runs in another way than
// the language's own runtime, and the choice was the kernel's. It does so before the piece is handed over: the pieces so far
// run again on the next backend, up to where the session waits. If they do not come to the same place the session goes back
// to where it was, with all that it had, and the piece is refused.
//
// It also moves when a piece fails in the middle for what surely only its backend lacks (open, where there are no files).
// The piece goes on there from where it failed, or, if the session has to go back, has failed.

// migration is a session on its way to another backend.
type migration struct {
	from   *backends.Backend
	failed *agentkernel.Error // why it goes back to from; nil: it does not
	ended  *agentkernel.Error // the session's own end came first
	piece  int64              // it moves in the middle of the piece that answered this proc.next; 0: between two
	done   chan struct{}      // closed when it waits for its piece again, or has ended
}

// checkPiece is Check for a piece of a session. Where its backend is not the one for it, the session moves.
func (k *Kernel) checkPiece(ctx context.Context, p *process, piece *agentkernel.Piece, program *agentkernel.Program) (agentkernel.Needs, error) {
	p.mu.Lock()
	here := p.run.backend
	p.mu.Unlock()
	named := piece.Backend != "" && piece.Backend != backends.Auto && piece.Backend != here.Name
	needs, err := here.Check(*program)
	if !named && (err == nil && len(needs.Differs) == 0 || p.spec.Backend != backends.Auto || err != nil && !backends.Elsewhere(err)) {
		return needs, err
	}
	to, err := k.pieceDestination(p, here, piece, program, needs, err)
	if to == nil {
		return needs, err
	}
	why := agentkernel.AsError(err, agentkernel.CodeUnsupported, "session")
	switch {
	case named:
		why = agentkernel.Errorf(agentkernel.CodeUnsupported, "session", "its client asked for the %s backend", to.Name)
	case why == nil:
		why = agentkernel.Errorf(agentkernel.CodeUnsupported, "session", "%s", strings.Join(needs.Differs, "; "))
	}
	failure := k.moveSession(ctx, p, to, why)
	switch {
	case failure == nil:
		return to.Check(*program)
	case err == nil && !named && agentkernel.CodeOf(failure) == agentkernel.CodeDiverged:
		return needs, nil // it can run here, as code did before it
	}
	return needs, failure
}

// pieceDestination finds the backend that can run a piece, and the session's earlier ones perhaps, behind the present one in
// the order of choice. Nil: there is none; the error is then why the piece cannot run, or nil if it can where it is.
func (k *Kernel) pieceDestination(p *process, here *backends.Backend, piece *agentkernel.Piece, program *agentkernel.Program, needs agentkernel.Needs, refused error) (*backends.Backend, error) {
	named := piece.Backend != "" && piece.Backend != backends.Auto && piece.Backend != here.Name
	if named && !slices.Contains(k.backends.Names(), piece.Backend) {
		return nil, k.backends.Unknown(piece.Backend)
	}
	result := refused
	for _, b := range k.backends.Behind(here) {
		if named && b.Name != piece.Backend || !p.couldMoveTo(b, named) {
			continue
		}
		there, err := b.Check(*program)
		switch {
		case err != nil && named:
			return nil, err
		case err != nil && refused != nil:
			result = backends.BothRefused(result, b.Name, err)
		case err == nil && (refused != nil || named || len(there.Differs) == 0):
			return b, refused
		}
	}
	if named {
		return nil, agentkernel.Errorf(agentkernel.CodeUnsupported, "session", "session %d is on the %s backend and cannot move to %s", p.pid, here.Name, piece.Backend).WithPID(p.pid).
			WithHint(`session "new" with backend %q begins one there, session "none" runs this by itself`, piece.Backend)
	}
	return nil, result
}

// couldMoveTo says whether a backend could have a session, whatever its pieces are.
func (p *process) couldMoveTo(b *backends.Backend, named bool) bool {
	if !named && !b.Offered(&p.spec.Spec) {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return b.Sessions && b.Replayable && b.Speaks(p.spec.Program.Language) && b.Lacks(&p.spec.Spec) == nil && p.run.origin == nil && p.replayable()
}

// moveSession takes a session that waits for a piece to another backend, and returns when it waits there, or why it does
// not: then it is where it was.
func (k *Kernel) moveSession(ctx context.Context, p *process, to *backends.Backend, why *agentkernel.Error) error {
	c := &migration{done: make(chan struct{})}
	if err := p.leave(ctx, c); err != nil {
		return err
	}
	entries, err := k.lockWithJournal(ctx, p)
	if err != nil {
		p.mu.Lock()
		p.migration = nil
		p.release()
		k.wake(p)
		p.mu.Unlock()
		return err
	}
	if p.state.Terminal() {
		p.mu.Unlock()
		return agentkernel.Errorf(agentkernel.CodeConflict, "session", "session %d has ended: %s", p.pid, p.state).WithPID(p.pid)
	}
	box := k.takeMove(p, to, why, nil, entries)
	p.release()
	k.wake(p)
	p.mu.Unlock()
	k.discard(p, box)
	select {
	case <-c.done:
	case <-ctx.Done():
		return ctx.Err()
	case <-k.ctx.Done():
		return agentkernel.Errorf(agentkernel.CodeUnavailable, "session", "the kernel is stopping")
	}
	switch {
	case c.ended != nil:
		return agentkernel.Errorf(agentkernel.CodeConflict, "session", "session %d has ended: %s", p.pid, c.ended.Message()).WithPID(p.pid)
	case c.failed != nil:
		return agentkernel.Errorf(agentkernel.CodeDiverged, "session", "%s; and the session cannot move to the %s backend with its variables, because its code so far does something else there: %s",
			why.Message(), to.Name, c.failed.Message()).WithPID(p.pid).
			WithHint(`the session is as it was; session "new" with backend %q begins one there, session "none" runs this by itself`, to.Name)
	}
	return nil
}

// settleLook is how often a session is looked at that has just said how its piece ended, and is still put to rest.
const settleLook = 500 * time.Microsecond

// leave makes the caller the one who moves a session that waits for its next piece.
func (p *process) leave(ctx context.Context, c *migration) error {
	for {
		p.mu.Lock()
		switch {
		case !p.asksForPiece() || p.paused || p.cause() != nil || p.migration != nil:
			p.mu.Unlock()
			return agentkernel.Errorf(agentkernel.CodeConflict, "session", "session %d is busy", p.pid).WithPID(p.pid).WithHint("try again")
		case !p.owned && p.state == agentkernel.StateWaiting:
			p.step(&stepReserve) // whoever else would drive it waits
			p.migration, c.from = c, p.run.backend
			p.mu.Unlock()
			return nil
		}
		p.mu.Unlock()
		select { // whoever drove it, or parks it, is about to let go
		case <-time.After(settleLook):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// arrivedAt tells whoever moved a session that it waits for its piece again; p.mu is held. The error says that it does not
// stand where it stood.
func (p *process) arrivedAt(f *inflight) *agentkernel.Error {
	c := p.migration
	if c == nil || !f.asksForCell() {
		return nil
	}
	if p.run.replay != nil {
		if left := p.run.replay.Left(); left != "" {
			return replay.Diverged("the session waits for its next piece, but %s", left)
		}
	}
	p.migration = nil
	close(c.done)
	return nil
}

// pieceMoves takes a session to another backend in the middle of a piece, that has failed with call. False: it has failed.
func (k *Kernel) pieceMoves(p *process, call agentkernel.Call) bool {
	var idle agentkernel.Idle
	if json.Unmarshal(call.Args, &idle) != nil || idle.Error == nil {
		return false
	}
	p.mu.Lock()
	at := p.run.piece
	can := p.spec.Program.Session && p.spec.Backend == backends.Auto && at > 0 && p.run.stays != at && p.run.replay == nil && p.run.origin == nil &&
		p.run.verifies == nil && p.migration == nil && len(p.inflight) == 0
	p.mu.Unlock()
	if !can {
		return false
	}
	entries, err := k.lockWithJournal(p.context(), p)
	if err != nil {
		k.cfg.Logger.Warn("a session cannot move: its journal cannot be read", "pid", p.pid, "err", err)
		return false
	}
	p.mu.Unlock()
	program, ok := pieceOf(p, entries, at)
	if !ok {
		return false
	}
	to, _ := k.pieceDestination(p, p.run.backend, &agentkernel.Piece{}, program, agentkernel.Needs{}, idle.Error)
	if to == nil {
		return false
	}
	if entries, err = k.lockWithJournal(p.context(), p); err != nil {
		return false
	}
	if p.state != agentkernel.StateRunning || p.runEnded() || p.run.abort != nil || p.paused {
		p.mu.Unlock()
		return false
	}
	p.run.stays = at
	p.migration = &migration{from: p.run.backend, piece: at, done: make(chan struct{})}
	box := k.takeMove(p, to, idle.Error, nil, entries)
	p.mu.Unlock()
	k.discard(p, box)
	return true
}

// pieceOf is the piece that answered a proc.next, as a program.
func pieceOf(p *process, entries []agentkernel.Entry, at int64) (*agentkernel.Program, bool) {
	for _, e := range slices.Backward(entries) {
		var next agentkernel.NextPiece
		if e.Kind == agentkernel.EntryResult && e.Call == at && e.Err == nil && json.Unmarshal(e.Data, &next) == nil {
			return &agentkernel.Program{Name: next.Piece.Name, Language: p.spec.Program.Language, Source: next.Piece.Source,
				Host: p.spec.Program.Host, Modules: next.Piece.Modules}, true
		}
	}
	return nil, false
}

// inPlace notes that a session which moved in the middle of a piece, or had to go back, has repeated all that it had done:
// it stays. p.mu is held.
func (p *process) inPlace() {
	if c := p.migration; c != nil && c.piece > 0 {
		p.migration = nil
		close(c.done)
	}
}

// endsAnywhere says whether an error ends a session wherever it is. Any other may be what its backend does to it.
func endsAnywhere(err *agentkernel.Error) bool {
	limit, _ := err.Limit()
	return limit == "wall" || err != nil && err.Code == agentkernel.CodeKilled
}

// movedBack takes a session that did not come to the same place on another backend back to the one that it had, in place
// of its end. False: that is its end.
func (k *Kernel) movedBack(p *process, e ending) bool {
	p.mu.Lock()
	c := p.migration
	if c == nil || p.state.Terminal() {
		p.mu.Unlock()
		return false
	}
	if c.failed != nil || endsAnywhere(e.err) || e.err == nil && e.state != agentkernel.StateExited || p.state != agentkernel.StateRunning {
		c.ended, p.migration = e.err, nil
		if c.ended == nil {
			c.ended = agentkernel.Errorf(agentkernel.CodeConflict, "session", "it exited")
		}
		close(c.done)
		p.mu.Unlock()
		return false
	}
	c.failed = e.err
	if c.failed == nil {
		c.failed = replay.Diverged("it exits")
	}
	p.mu.Unlock()
	entries, err := k.lockWithJournal(k.ctx, p)
	if err != nil {
		k.cfg.Logger.Warn("a session cannot go back: its journal cannot be read", "pid", p.pid, "err", err)
		return k.movedBack(p, e) // now it ends
	}
	if cause := p.cause(); endsAnywhere(cause) { // it came after the divergence
		p.mu.Unlock()
		k.finish(p, endingFor(cause))
		return true
	}
	p.rc = nil // of the sandbox that diverged
	box := k.takeMove(p, c.from, c.failed, nil, entries)
	p.step(&stepRewind)
	p.mu.Unlock()
	k.discard(p, box)
	p.mu.Lock()
	p.release()
	k.wake(p)
	p.mu.Unlock()
	return true
}
