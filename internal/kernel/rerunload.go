package kernel

import (
	"context"
	"fmt"

	"agentkernel"
	"agentkernel/internal/kernel/advice"
	"agentkernel/internal/kernel/origin"
	"agentkernel/internal/sys"
)

// loadPast reads the origin that a Spec names; nil: none.
func (k *Kernel) loadOrigin(ctx context.Context, s *agentkernel.Spec) (*origin.Origin, error) {
	if s.Past == nil {
		return nil, nil
	}
	rec, err := k.store.Process(ctx, s.Past.PID)
	if err != nil {
		return nil, err
	}
	switch {
	case rec.Namespace != s.Namespace:
		return nil, agentkernel.Errorf(agentkernel.CodeDenied, "rerun", "process %d belongs to the namespace %q, not to %q", rec.PID, rec.Namespace, s.Namespace).
			WithPID(rec.PID)
	case !rec.State.Terminal():
		return nil, k.notEnded(&rec)
	}
	return origin.Read(ctx, k.store, &rec, s.Past.From, k.rerunRules)
}

// rerunRules says what a call of this name means for a rerun.
func (k *Kernel) rerunRules(name string) (rule sys.Rerun, once bool) {
	if o := k.ops[name]; o != nil {
		return o.Rerun, o.once
	}
	return sys.Strict, false
}

// notEnded says what to do about a process that may still make calls of its own.
func (k *Kernel) notEnded(rec *agentkernel.ProcessRecord) error {
	state, hint := "running", fmt.Sprintf(advice.WaitOrKill, rec.PID, rec.PID)
	switch {
	case rec.Paused:
		state, hint = "paused", fmt.Sprintf(advice.ResumeItself, rec.PID, rec.PID)
	case k.lookup(rec.PID) == nil && !k.carries(rec):
		state, hint = "unfinished", fmt.Sprintf(advice.RecoverItself, rec.PID, rec.PID)
	}
	return agentkernel.Errorf(agentkernel.CodeConflict, "rerun", "process %d is %s: what it did can be taken over when it has ended", rec.PID, state).
		WithPID(rec.PID).WithHint("%s", hint)
}

// pastOf reads the origin of a process that is taken up again. One that is gone ends the process: to go on would make its
// calls again.
func (k *Kernel) originOf(ctx context.Context, p *process) (*origin.Origin, *agentkernel.Error) {
	from, err := k.loadOrigin(ctx, &p.spec.Spec)
	if err != nil {
		e := agentkernel.AsError(err, agentkernel.CodeStorage, "rerun")
		return nil, agentkernel.Errorf(e.Code, "rerun", "the journal that answers its calls cannot be read: %w", e)
	}
	return from, nil
}

// dropReplay lets a process end although it has not repeated what its journal says.
func (p *process) dropReplay() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.run.replay = nil
}
