package kernel

import (
	"context"

	"agentkernel"
	"agentkernel/internal/kernel/history"
)

// What stands still because of a hold is as it is when it is paused, only that no journal says so: the set of holds does. A call
// that comes meanwhile waits, before anything of it is in the journal.

// Halt lets what a hold is over stand still.
func (k *Kernel) Halt(ctx context.Context, h agentkernel.Hold) error {
	if err := h.Validate(); err != nil {
		return err
	}
	if h.Tree != 0 {
		if _, _, err := history.Row(ctx, k.store, h.Tree); err != nil {
			return err
		}
	}
	if err := k.holds.Add(ctx, h); err != nil {
		return err
	}
	if k.holds.Kernel() != nil {
		k.wakes.Hold(true)
	}
	k.standStill()
	return nil
}

// Thaw ends a hold.
func (k *Kernel) Thaw(ctx context.Context, h agentkernel.Hold) error {
	if err := h.Validate(); err != nil {
		return err
	}
	if err := k.holds.Remove(ctx, h); err != nil {
		return err
	}
	k.standStill()
	if k.holds.Kernel() == nil {
		k.wakes.Hold(false)
	}
	return nil
}

// standStill lets each process in memory do what the holds say.
func (k *Kernel) standStill() {
	for _, p := range k.table.all() {
		p.mu.Lock()
		k.heed(p)
		p.mu.Unlock()
	}
}

// heed lets a process stand still if a hold is over it, and else go on; p.mu is held.
func (k *Kernel) heed(p *process) {
	if p.state.Terminal() || p.run.verifies != nil {
		return
	}
	before := p.halted
	p.halted = k.holds.Over(p.pid, p.spec.Namespace, p.spec.Ancestors)
	if (p.halted == nil) == (before == nil) {
		return
	}
	if !p.paused() {
		k.suspend(p, p.halted != nil)
	}
	k.announce(p)
	if p.halted != nil {
		return
	}
	for _, f := range p.inflight {
		if later := f.later; later != nil {
			f.later = nil
			k.external.Go(later)
		}
	}
	k.wake(p)
}

// waits says whether a call has to wait until its process goes on; then later makes it. The caller holds no lock.
func (k *Kernel) waits(p *process, f *inflight, later func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.halted == nil || p.state.Terminal() {
		return false
	}
	f.later = later
	p.inflight.add(f)
	return true
}
