package kernel

import (
	"context"

	"agentkernel"
	"agentkernel/internal/kernel/advice"
	"agentkernel/internal/kernel/history"
)

// undecidable says why there is nothing to decide about a call.
func (k *Kernel) undecidable(ctx context.Context, pid agentkernel.PID, call int64) error {
	rec, err := k.store.Process(ctx, pid)
	if err != nil {
		return err
	}
	conflict := func(format string, args ...any) *agentkernel.Error {
		return agentkernel.Errorf(agentkernel.CodeConflict, "resolve", format, args...).WithPID(pid)
	}
	if rec.State.Terminal() {
		return conflict("process %d has ended already: %s", pid, rec.State).
			WithHint(advice.Rerun, pid)
	}
	entries, err := k.store.Entries(ctx, pid, 1, 0)
	if err != nil {
		return err
	}
	made := history.CallOf(entries, call)
	if made == nil {
		return agentkernel.Errorf(agentkernel.CodeNotFound, "resolve", "process %d has made no call %d", pid, call).WithPID(pid).
			WithHint(advice.Undecided, pid)
	}
	name := k.label(&agentkernel.Entry{Op: made.Op, Args: made.Args})
	switch {
	case !made.Instant() && agentkernel.CodeOf(errOrNil(made.Err)) == agentkernel.CodeOutcomeUnknown:
		return conflict("the program has been handed OutcomeUnknown for call %d (%s) already", call, name).
			WithHint(advice.PauseInstead)
	case !made.Open():
		return conflict("call %d (%s) has its result already", call, name).WithHint(advice.Trace, pid)
	case made.Effect != agentkernel.EffectWrite:
		return conflict("call %d (%s) is no write: a kernel that finds it cut off makes it again", call, name)
	case rec.Spec.OnUnknown != agentkernel.UnknownPause:
		return conflict("process %d hands unknown outcomes to its program; nobody is asked", pid).
			WithHint(advice.PauseInstead)
	}
	return conflict("call %d (%s) is under way", call, name).WithHint("wait until it has ended, or its server has died")
}
