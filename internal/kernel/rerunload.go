package kernel

import (
	"context"

	"agentkernel"
	"agentkernel/internal/kernel/origin"
)

// loadOrigin reads the origin that a Spec names; nil: none.
func (k *Kernel) loadOrigin(ctx context.Context, s *agentkernel.Spec) (*origin.Origin, error) {
	return origin.Load(ctx, k.store, s, k.rerunRules, func(rec *agentkernel.ProcessRecord) bool { return k.lookup(rec.PID) != nil || k.carries(rec) })
}

// rerunRules says what a call of this name means for a rerun.
func (k *Kernel) rerunRules(name string) origin.Rule {
	if o := k.ops[name]; o != nil {
		return origin.Rule{Order: o.Rerun, Once: o.once, Opens: o.Opens}
	}
	return origin.Rule{}
}

// originOf reads the origin of a process that is taken up again. One that is gone ends the process: to go on would make its calls again.
func (k *Kernel) originOf(ctx context.Context, p *process) (*origin.Origin, *agentkernel.Error) {
	from, err := k.loadOrigin(ctx, &p.spec.Spec)
	if err != nil {
		return nil, origin.Lost(err)
	}
	return from, nil
}
