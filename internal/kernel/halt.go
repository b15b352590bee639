package kernel

import (
	"context"

	"agentkernel"
	"agentkernel/internal/kernel/holds"
	"agentkernel/internal/kernel/specs"
)

// What stands still because of a hold is as it is when it is paused, only that no journal says so: the set of holds does. A call
// that comes meanwhile waits, before anything of it is in the journal.

// Halt lets what a hold is over stand still.
func (k *Kernel) Halt(ctx context.Context, h agentkernel.Hold) error {
	return k.changeHolds(ctx, h, k.holds.Add)
}

// Thaw ends a hold.
func (k *Kernel) Thaw(ctx context.Context, h agentkernel.Hold) error {
	return k.changeHolds(ctx, h, k.holds.Remove)
}

func (k *Kernel) changeHolds(ctx context.Context, h agentkernel.Hold, change func(context.Context, agentkernel.Hold) error) error {
	if err := h.Validate(); err != nil {
		return err
	}
	if err := change(ctx, h); err != nil {
		return err
	}
	k.standStill()
	return nil
}

// standStill lets each process do what the holds say. What has waited is done in its order, by one goroutine.
func (k *Kernel) standStill() {
	k.wakes.Hold(k.holds.Kernel() != nil)
	var later []holds.Call
	for _, p := range k.table.All() {
		p.mu.Lock()
		later = append(later, k.heed(p)...)
		p.mu.Unlock()
	}
	k.inOrder(later)
}

// inOrder makes calls that have waited, in their order.
func (k *Kernel) inOrder(later []holds.Call) {
	if len(later) > 0 {
		k.external.Go(func() { holds.Make(later) })
	}
}

// heed lets a process stand still if a hold is over it, and else go on with what has waited for that; p.mu is held.
func (k *Kernel) heed(p *process) (later []holds.Call) {
	if p.state.Terminal() || p.run.verifies != nil {
		return nil
	}
	before := p.halted
	p.halted = k.holds.Over(p.pid, p.spec.Namespace, p.spec.Ancestors)
	if (p.halted == nil) == (before == nil) {
		return nil
	}
	if !p.paused() {
		k.suspend(p, p.halted != nil)
	}
	k.announce(p)
	if p.halted != nil {
		return nil
	}
	k.wake(p)
	return p.laters()
}

// laters are what makes the calls that wait until their process goes on; p.mu is held.
func (p *process) laters() (later []holds.Call) {
	for _, f := range p.inflight {
		if f.later != nil {
			later = append(later, holds.Call{Made: f.since, Make: f.later})
			f.later = nil
		}
	}
	return later
}

// deferCall says whether a call has to wait until its process goes on; then later makes it. The caller holds no lock. A pause holds back
// the replies of a sandbox, which so makes no call; a hosted program is not stopped by it. What somebody has paused sends nothing either that
// it had issued before; where the kernel has, for one call, the others go on.
func (k *Kernel) deferCall(p *process, f *inflight, later func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return k.deferCallLocked(p, f, later)
}

// heldBack says whether a call has to wait until its process goes on; p.mu is held.
func (p *process) heldBack(f *inflight) bool {
	return p.halted != nil || p.paused() && (p.spec.Backend == specs.Hosted || f.leaves() && p.pausing.Wanted())
}

// held is heldBack, or that the kernel ends. The caller holds no lock.
func (k *Kernel) held(p *process, f *inflight) bool {
	stopping := k.table.Closed()
	p.mu.Lock()
	defer p.mu.Unlock()
	return stopping || p.heldBack(f)
}

// deferCallLocked is deferCall; p.mu is held.
func (k *Kernel) deferCallLocked(p *process, f *inflight, later func()) bool {
	if !p.heldBack(f) || p.gone(f) {
		return false
	}
	f.later = later
	p.inflight.Add(f)
	return true
}
