package kernel

import (
	"agentkernel"
	"agentkernel/internal/journal"
)

// inheritChild finds out what became of a child that the origin started in the place of a new one. One that has ended becomes the origin of
// the new child. One that goes on is taken over if the calls are the same, and its PID is the answer.
func (k *Kernel) inheritChild(p *process, f *inflight, spec *agentkernel.Spec) (agentkernel.PID, error) {
	canonical, err := journal.Canonical(f.args)
	if err != nil {
		return 0, err
	}
	for {
		p.mu.Lock()
		c, child, same := p.run.origin.TakeChild(canonical)
		p.mu.Unlock()
		if c == nil {
			return 0, nil
		}
		rec, err := k.store.Process(p.context(), child)
		switch {
		case agentkernel.CodeOf(err) == agentkernel.CodeNotFound:
		case err != nil:
			return 0, err
		case rec.Namespace != p.spec.Namespace || !p.run.origin.IsOf(rec.Parent): // it never was its child: an origin may have been imported
		case same && !rec.State.Terminal():
			f.origin = c.From()
			return child, nil
		default:
			if !same {
				p.mu.Lock()
				k.tellOrigin(p, 0, c.Started(f.id, &rec))
				p.mu.Unlock()
			}
			if rec.State.Terminal() {
				f.origin, spec.Past = c.As(), &agentkernel.Past{PID: child, Again: p.spec.Past.Again}
				return 0, nil
			}
		}
	}
}

// watchForeign tells a rerun of the end of a child that another process started: tellParent does not know it. Where it ends in another
// kernel, that is looked for in the store.
func (k *Kernel) watchForeign(p *process, f *inflight, child agentkernel.PID) {
	k.table.foreign.Add(k.timers, int64(child), func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return !p.gone(f) && !p.runEnded() && k.external.Go(func() { k.recheckChild(p, f, child) })
	})
}
