package kernel

import (
	"context"
	"encoding/json"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/cells"
)

// opNext is the call with which a session waits for its next cell.
const opNext = "proc.next"

// sessionIdle is how long a session waits for a cell before it ends by itself: whoever fed it may be gone
// for good. Counted from the moment at which it began to wait, also over a crash.
const sessionIdle = 6 * time.Hour

// sessionCalls is the family of sessions.
var sessionCalls = map[string]ownOp{opNext: {begin: procNext, cell: true}}

// procNext reports how the last cell ended and waits: Feed or EndSession completes the call.
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
	if p.state.Terminal() || p.inflight.Find(f.id) != f {
		return nil // it was killed meanwhile
	}
	k.publish(p, agentkernel.Event{Kind: agentkernel.EventIdle, Idle: &idle})
	if p.stopping() {
		k.completeLocked(p, f, outcomeOf(endOfSession), nil)
		return nil
	}
	f.timer = k.timers.At(f.since.Add(sessionIdle), func() { k.complete(p, f, outcomeOf(endOfSession), nil) })
	return nil
}

// waitingSession acquires the session pid, which waits for its next cell. CodeConflict if it does not.
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
		k.unpin(p)
		return nil, agentkernel.Errorf(agentkernel.CodeInvalid, "session", "process %d is no session", pid).WithPID(pid)
	}
	k.awaitNext(ctx, p)
	p.mu.Lock()
	_, err := p.atNext()
	p.mu.Unlock()
	if err != nil {
		k.unpin(p)
		return nil, err
	}
	return p, nil
}

// awaitNext waits for a session that is on its way back to where it waits for its next cell.
func (k *Kernel) awaitNext(ctx context.Context, p *process) {
	p.mu.Lock()
	f := p.inflight.Find(p.run.current)
	_, err := p.atNext()
	if err == nil || !(p.run.replay != nil && p.run.replay.Asks() || f != nil && f.asksForCell()) {
		p.mu.Unlock()
		return
	}
	w := k.watch(p, false)
	defer k.unwatch(p, w)
	ctx, cancel := context.WithTimeout(ctx, recoverPatience)
	defer cancel()
	for err != nil && !p.standsStill() && !p.state.Terminal() && ctx.Err() == nil {
		p.mu.Unlock()
		_ = w.Wait(ctx)
		_, _, _, _ = w.Take()
		p.mu.Lock()
		_, err = p.atNext()
	}
	p.mu.Unlock()
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
	k.completeLocked(p, f, outcomeOf(answer), nil)
	return nil
}
