package kernel

import (
	"context"
	"encoding/json"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/backends"
	"agentkernel/internal/kernel/ends"
	"agentkernel/internal/kernel/moves"
	"agentkernel/internal/kernel/replay"
	"agentkernel/internal/kernel/steps"
)

// A session moves, as a program does (move.go), when a cell comes that its backend cannot run, or runs in another way than
// the language's own runtime, and the choice was the kernel's. It does so before the cell is handed over: the cells so far
// run again on the next backend, up to where the session waits. If they do not come to the same place the session goes back
// to where it was, with all that it had, and the cell is refused.
//
// It also moves when a cell fails in the middle for what surely only its backend lacks (open, where there are no files).
// The cell goes on there from where it failed, or, if the session has to go back, has failed.

// checkCell is Check for a cell of a session. Where its backend is not the one for it, the session moves.
func (k *Kernel) checkCell(ctx context.Context, p *process, cell *agentkernel.Cell, program *agentkernel.Program) (agentkernel.Needs, error) {
	p.mu.Lock()
	here, placing := p.run.backend, p.placing(cell.Backend, program)
	p.mu.Unlock()
	v := placing.Check(k.backends, here)
	if v.To == nil {
		return v.Needs, v.Err
	}
	err := k.moveSession(ctx, p, v.To, v.Why)
	switch {
	case err == nil:
		return v.To.Check(*program)
	case v.CanRun && agentkernel.CodeOf(err) == agentkernel.CodeDiverged:
		return v.Needs, nil // as code did before it
	}
	return v.Needs, err
}

// placing is a cell that the session is to run, for which a backend is wanted; p.mu is held.
func (p *process) placing(backend string, program *agentkernel.Program) *moves.Placing {
	return &moves.Placing{PID: p.pid, Spec: &p.spec.Spec, Stays: p.run.origin != nil || !p.replayable(), Backend: backend, Program: program}
}

// moveSession takes a session that waits for a cell to another backend, and returns when it waits there, or why it does not: then it is where it was.
func (k *Kernel) moveSession(ctx context.Context, p *process, to *backends.Backend, why *agentkernel.Error) error {
	c, err := p.leave(ctx)
	if err != nil {
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
	case <-c.Done():
	case <-ctx.Done():
		return ctx.Err()
	case <-k.ctx.Done():
		return agentkernel.Errorf(agentkernel.CodeUnavailable, "session", "the kernel is stopping")
	}
	return c.Outcome(p.pid, to.Name, why)
}

// settleLook is how often a session is looked at that has just said how its cell ended, and is still put to rest.
const settleLook = 500 * time.Microsecond

// leave makes the caller the one who moves a session that waits for its next cell.
func (p *process) leave(ctx context.Context) (*moves.Session, error) {
	for {
		p.mu.Lock()
		switch {
		case !p.asksForCell() || p.standsStill() || p.cause() != nil || p.migration != nil:
			p.mu.Unlock()
			return nil, agentkernel.Errorf(agentkernel.CodeConflict, "session", "session %d is busy", p.pid).WithPID(p.pid).WithHint("try again")
		case !p.owned && p.state == agentkernel.StateWaiting:
			p.step(steps.Reserve) // whoever else would drive it waits
			c := moves.NewSession(p.run.backend, 0)
			p.migration = c
			p.mu.Unlock()
			return c, nil
		}
		p.mu.Unlock()
		select { // whoever drove it, or parks it, is about to let go
		case <-time.After(settleLook):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// arrivedAt tells whoever moved a session that it waits for its cell again; p.mu is held. The error says that it does not stand where it stood.
func (p *process) arrivedAt(f *inflight) *agentkernel.Error {
	c := p.migration
	if c == nil || !f.asksForCell() {
		return nil
	}
	if p.run.replay != nil {
		if left := p.run.replay.Left(); left != "" {
			return replay.Diverged("the session waits for its next cell, but %s", left)
		}
	}
	p.migration = nil
	c.Arrive()
	return nil
}

// moveInCell takes a session to another backend in the middle of a cell, that has failed with call. False: it has failed.
func (k *Kernel) moveInCell(p *process, call agentkernel.Call) bool {
	var idle agentkernel.Idle
	if json.Unmarshal(call.Args, &idle) != nil || idle.Error == nil {
		return false
	}
	p.mu.Lock()
	at := p.run.cell
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
	program, ok := moves.CellOf(entries, at, &p.spec.Program)
	here, cell := p.run.backend, p.placing("", program)
	p.mu.Unlock()
	if !ok {
		return false
	}
	to, _ := cell.Destination(k.backends, here, idle.Error)
	if to == nil {
		return false
	}
	if entries, err = k.lockWithJournal(p.context(), p); err != nil {
		return false
	}
	if p.state != agentkernel.StateRunning || p.runEnded() || p.run.abort != nil || p.standsStill() {
		p.mu.Unlock()
		return false
	}
	p.run.stays = at
	p.migration = moves.NewSession(p.run.backend, at)
	box := k.takeMove(p, to, idle.Error, nil, entries)
	p.mu.Unlock()
	k.discard(p, box)
	return true
}

// inPlace notes that a session which moved in the middle of a cell, or had to go back, has repeated all that it had done: it stays. p.mu is held.
func (p *process) inPlace() {
	if c := p.migration; c != nil && c.Cell > 0 {
		p.migration = nil
		c.Arrive()
	}
}

// moveBack takes a session that did not come to the same place on another backend back to the one that it had, in place
// of its end. False: that is its end.
func (k *Kernel) moveBack(p *process, e ends.Ending) bool {
	p.mu.Lock()
	c := p.migration
	if c == nil || p.state.Terminal() {
		p.mu.Unlock()
		return false
	}
	if p.state != agentkernel.StateRunning || !c.Returns(e.Err, e.State == agentkernel.StateExited) {
		p.migration = nil
		c.End(e.Err)
		p.mu.Unlock()
		return false
	}
	p.mu.Unlock()
	entries, err := k.lockWithJournal(context.WithoutCancel(k.ctx), p) // the end of the kernel is no reason to end it
	if err != nil {
		k.cfg.Logger.Warn("a session cannot go back: its journal cannot be read", "pid", p.pid, "err", err)
		return k.moveBack(p, e) // now it ends
	}
	if cause := p.cause(); moves.EndsAnywhere(cause) { // it came after the divergence
		p.mu.Unlock()
		k.finish(p, ends.For(cause))
		return true
	}
	p.rc = nil // of the sandbox that diverged
	box := k.takeMove(p, c.From, c.Failed, nil, entries)
	p.step(steps.Rewind)
	p.mu.Unlock()
	k.discard(p, box)
	p.mu.Lock()
	p.release()
	k.wake(p)
	p.mu.Unlock()
	return true
}
