package kernel

import (
	"cmp"
	"context"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/kernel/timers"
)

// The process table is a cache. Of the processes that are parked, some thousand stay in memory; of the others the store has
// all there is, and their rows say until when they wait, and for what. Whoever has to do with a process acquires it, which
// reads it back if need be, and lets go of it by unpin.

// acquire returns a process that this kernel carries, in memory until unpin; nil: it carries none with this PID. One that is
// read back goes on waiting: that somebody looks at it does not wake it.
func (k *Kernel) acquire(ctx context.Context, pid agentkernel.PID) (*process, error) {
	p, first, err := k.table.Claim(ctx, pid)
	if first {
		return k.load(ctx, pid)
	}
	return p, err
}

// unpin lets go of a process that was acquired; nil: of none.
func (k *Kernel) unpin(p *process) {
	if p != nil {
		k.table.Unpin(p.pid, p)
		k.trim()
	}
}

// load reads a parked process back for acquire, while others who want it wait.
func (k *Kernel) load(ctx context.Context, pid agentkernel.PID) (*process, error) {
	defer k.table.Loaded(pid)
	rec, ofRow, err := history.Row(ctx, k.store, pid)
	switch {
	case agentkernel.CodeOf(err) == agentkernel.CodeNotFound:
		return nil, nil
	case err != nil || rec.State.Terminal() || !k.carries(&rec):
		return nil, err
	}
	found, err := k.readProcess(context.WithoutCancel(ctx), rec, ofRow, false)
	if err != nil {
		return nil, err
	}
	if history.CanBePutBack(found.lost) {
		return nil, cmp.Or[error](k.leave(ctx, rec, found, ofRow == nil), found.lost) // it is not asked for again at once
	}
	p := found.p
	p.parked, p.run.lastRun, p.pos = rec.Parked, rec.Parked.Since.UnixNano(), agentkernel.Position(k.last.Load()) // what was read may not be durable yet
	p.recoveries.Store(int32(rec.Recoveries))
	if !k.table.Adopt(p.pid, p, true) {
		return nil, k.table.Refuses()
	}
	k.rejoin(p)
	if !k.takeUp(found) {
		k.unpin(p)
		return nil, nil
	}
	p.mu.Lock()
	if p.state == agentkernel.StateReady {
		k.observeWait(p)
	}
	p.mu.Unlock()
	k.launch(p)
	return p, nil
}

// carries says whether a parked process is this kernel's to wake.
func (k *Kernel) carries(rec *agentkernel.ProcessRecord) bool {
	return rec.Parked != nil && (rec.Parked.Kernel == k.stamp() || k.table.CarriesAll())
}

// due reads for the list of those that have to be woken.
func (k *Kernel) due(ctx context.Context, own bool, limit int) ([]agentkernel.Due, error) {
	if own {
		return k.store.Due(ctx, k.stamp(), limit)
	}
	return k.store.Due(ctx, 0, limit)
}

// wakeParked reads a process back whose time has come: its timers do the rest.
func (k *Kernel) wakeParked(ctx context.Context, pid agentkernel.PID) error {
	p, err := k.acquire(ctx, pid)
	k.unpin(p)
	return err
}

// trim unloads the processes that were parked first, until no more are in memory than may be.
func (k *Kernel) trim() {
	for {
		p := k.table.surplus(k.cfg.Loaded, k.unloadable)
		if p == nil {
			return
		}
		k.unload(p)
	}
}

// unloadable says whether the store can have all of a process; p.mu is held. Those of a tree stay, because what they have
// together is counted in memory, those with open streams, and those with folders, because these are compared when a program begins again.
func (k *Kernel) unloadable(p *process) bool {
	r := p.run
	switch {
	case p.state != agentkernel.StateWaiting, p.owned, p.halted != nil, p.whyPaused().Short != nil, p.runEnded(), !p.imaged, r.box != nil, r.backend == nil || !r.backend.Images,
		r.need != needReply && r.need != needAny, p.deliverable(), r.replay != nil, r.origin != nil, r.abort != nil, p.migration != nil,
		len(p.watchers) > 0, p.spec.HasFiles(), p.standing.Unresolved.First() != 0, len(p.spec.Ancestors) > 0, k.inTree(p), k.table.looks.Looking(p.pid), k.table.streams.Count(p.pid, nil) > 0:
		return false
	}
	for _, f := range p.inflight {
		if !f.intended() || f.asking || f.cancel != nil || f.child != 0 || !f.timer.Waits() && (f.mail == "" || f.timer != nil) {
			return false
		}
	}
	at, now := p.wakesAt(), k.cfg.Now() // what is due is about to wake it; one that has not begun has no clock yet
	return (at.IsZero() || at.After(now)) && (p.wall.Waits() || p.endsAt(now).IsZero())
}

// unload takes a process that its caller owns out of memory, unless somebody has come for it meanwhile.
func (k *Kernel) unload(p *process) {
	p.mu.Lock()
	k.notePark(p)
	until := p.parked.Until
	p.mu.Unlock()
	if !k.table.evict(p) {
		p.mu.Lock()
		p.release()
		k.wake(p)
		p.mu.Unlock()
		return
	}
	k.specs.Drop(p.spec)
	k.dropLocals(p)
	k.sessions.Forget(p.pid)
	k.observed.Unloaded(p.pid)
	k.forest.Unload(p.place())
	k.table.ledger.Drop(p.pid) // it has no children
	if !until.IsZero() {
		k.wakes.Add(agentkernel.Due{PID: p.pid, At: until})
	}
}

// notePark says in the store that a process need not be in memory; p.mu is held.
func (k *Kernel) notePark(p *process) {
	if p.parked == nil {
		now := p.snapshot()
		p.parked = &agentkernel.Parked{Until: p.wakesAt(), Since: now.WaitsSince, WaitsFor: now.WaitsFor, Kernel: k.stamp()}
		k.appendBatch(p, agentkernel.Batch{Process: p.record()})
	}
}

// wakesAt is when the first of a process's timers rings; zero: it has none; p.mu is held.
func (p *process) wakesAt() time.Time {
	first := p.wall.When()
	for _, f := range p.inflight {
		first = timers.Sooner(first, f.timer.When())
	}
	return first.Round(0)
}

// shown is a row as others see it.
func (k *Kernel) shown(rec agentkernel.ProcessRecord, lost error) agentkernel.Process {
	s := history.Shown(rec, lost)
	if k.carries(&rec) {
		if h := k.holds.Over(rec.PID, rec.Namespace, rec.Spec.Ancestors); h != nil {
			s.Halted = h.Over()
		}
		s.State, s.WaitsFor, s.WaitsSince, s.WakeAt = agentkernel.StateWaiting, rec.Parked.WaitsFor, rec.Parked.Since, rec.Parked.Until
	}
	return s
}

// recoverPatience bounds how long a caller waits for a recovery that is under way.
const recoverPatience = 30 * time.Second

// carried is acquire for a caller from outside; nil: no kernel runs it. A kernel is called before it has recovered: one that may
// be taken up is waited for.
func (k *Kernel) carried(ctx context.Context, pid agentkernel.PID) *process {
	p, err := k.acquire(ctx, pid)
	if p == nil {
		if rec, gone := k.store.Process(ctx, pid); err != nil || gone != nil || rec.State.Terminal() {
			return nil
		}
	}
	if p != nil && p.recoveries.Load() == 0 { // it is this kernel's own
		return p
	}
	k.table.recovering.Await(ctx, recoverPatience)
	if p == nil {
		p, _ = k.acquire(ctx, pid) // if it cannot be read, whoever looks at its row says so
	}
	return p
}
