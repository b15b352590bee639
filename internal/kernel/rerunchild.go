package kernel

import (
	"encoding/json"

	"agentkernel"
	"agentkernel/internal/journal"
	"agentkernel/internal/kernel/origin"
)

// inheritChild finds out what became of a child that the origin started with the same call. One that goes on is
// taken over, and its PID is the answer; one that has ended becomes the origin of the new child.
func (k *Kernel) inheritChild(p *process, f *inflight, spec *agentkernel.Spec) (agentkernel.PID, error) {
	canonical, err := journal.Canonical(f.args)
	if err != nil {
		return 0, err
	}
	c, child, running := k.childOfOrigin(p, f, canonical)
	switch {
	case c == nil:
		return 0, nil
	case running:
		f.origin = c.From()
		return child, nil
	}
	f.origin = c.As()
	spec.Past = &agentkernel.Past{PID: child, Again: p.spec.Past.Again}
	return 0, nil
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

// childOfOrigin finds the child that the origin started with the same call beyond the first difference. One
// that has ended becomes the origin of the new child; one that goes on is taken over as it is (running).
func (k *Kernel) childOfOrigin(p *process, f *inflight, canonical json.RawMessage) (c *origin.Call, child agentkernel.PID, running bool) {
	if p.run.origin == nil {
		return nil, 0, false
	}
	p.mu.Lock()
	c = p.run.origin.TakeDone(f.op, f.effect, canonical)
	p.mu.Unlock()
	if c == nil || json.Unmarshal(c.Result.Data, &child) != nil {
		return nil, 0, false
	}
	rec, err := k.store.Process(p.context(), child)
	if err != nil || rec.Namespace != p.spec.Namespace || !p.run.origin.IsOf(rec.Parent) {
		return nil, 0, false // it is gone, or never was its child: an origin may have been imported
	}
	return c, child, !rec.State.Terminal()
}
