package kernel

import (
	"context"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/history"
)

// The process table is a cache. Of the processes that are parked, some thousand stay in memory; of the others the store has
// all there is, and their rows say until when they wait, and for what. Whoever has to do with a process acquires it, which
// reads it back if need be, and releases it.

// stamp tells the processes that this kernel has parked from those of other kernels.
func (k *Kernel) stamp() int64 { return k.cfg.About.Started.UnixNano() }

// acquire returns a process that this kernel carries, in memory until release; nil: it carries none with this PID. One that is
// read back goes on waiting: that somebody looks at it does not wake it.
func (k *Kernel) acquire(ctx context.Context, pid agentkernel.PID) (*process, error) {
	for {
		p, loading, first := k.table.pin(pid)
		switch {
		case p != nil:
			return p, nil
		case first:
			return k.load(ctx, pid)
		}
		select {
		case <-loading:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// release lets go of a process that was acquired; nil: of none.
func (k *Kernel) release(p *process) {
	if p != nil {
		k.table.unpin(p)
		k.trim()
	}
}

// load reads a parked process back for acquire, while others who want it wait.
func (k *Kernel) load(ctx context.Context, pid agentkernel.PID) (*process, error) {
	defer k.table.loaded(pid)
	rec, ofRow, err := history.Row(ctx, k.store, pid)
	switch {
	case agentkernel.CodeOf(err) == agentkernel.CodeNotFound:
		return nil, nil
	case err != nil || rec.State.Terminal() || !k.carries(&rec):
		return nil, err
	}
	found, err := k.readProcess(context.WithoutCancel(ctx), rec, ofRow)
	if err != nil {
		return nil, err
	}
	p := found.p
	p.parked, p.recoveries, p.run.lastRun = rec.Parked, int32(rec.Recoveries), rec.Parked.Since.UnixNano()
	if !k.table.adopt(p, true, true) {
		return nil, k.table.refuses()
	}
	k.rejoin(p)
	if !k.takeUp(found) {
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
	return rec.Parked != nil && (rec.Parked.Kernel == k.stamp() || k.table.carriesAll())
}

// woken adds to the first batch about a process that was parked that it is in memory, and, if another kernel had parked it, that
// this one has taken it up; p.mu is held.
func (k *Kernel) woken(p *process, b agentkernel.Batch) agentkernel.Batch {
	own := p.parked.Kernel == k.stamp()
	p.parked = nil
	first := agentkernel.Batch{}
	if !own {
		p.recoveries++
		first.Entries = []agentkernel.Entry{k.recoveryEntry(true)}
	}
	if b.Key != nil { // which goes with no row
		first.Process = p.record()
		k.appendBatch(p, first)
		return b
	}
	b.Entries, b.Process = append(first.Entries, b.Entries...), p.record()
	return b
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
	k.release(p)
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
// together is counted in memory, and those with folders, because these are compared when a program begins again.
func (k *Kernel) unloadable(p *process) bool {
	r := p.run
	switch {
	case p.state != agentkernel.StateWaiting, p.owned, p.runEnded(), !p.imaged, r.box != nil, r.backend == nil || !r.backend.Images,
		r.need != needReply && r.need != needAny, p.deliverable(), r.replay != nil, r.origin != nil, r.abort != nil, p.migration != nil,
		len(p.watchers) > 0, p.spec.HasFiles(), p.standing.Unresolved.First() != 0, len(p.spec.Ancestors) > 0, k.forest.of(p) != nil, k.table.mails.of(p.pid).looking:
		return false
	}
	for _, f := range p.inflight {
		if !f.intended() || f.asking || f.cancel != nil || f.child != 0 || !f.timer.Waits() && (f.mail == "" || f.timer != nil) {
			return false
		}
	}
	at := p.wakesAt() // what is due is about to wake it
	return at.IsZero() || at.After(k.cfg.Now())
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
	k.sessions.Forget(p.pid)
	k.observed.Unloaded(p.pid)
	k.forest.total.Set(&p.share, 0)
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
		if at := f.timer.When(); first.IsZero() || !at.IsZero() && at.Before(first) {
			first = at
		}
	}
	return first.Round(0)
}

// shown is a row as others see it.
func (k *Kernel) shown(rec agentkernel.ProcessRecord, lost error) agentkernel.Process {
	s := history.Shown(rec, lost)
	if k.carries(&rec) {
		s.State, s.WaitsFor, s.WaitsSince = agentkernel.StateWaiting, rec.Parked.WaitsFor, rec.Parked.Since
	}
	return s
}
