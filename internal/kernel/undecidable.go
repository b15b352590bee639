package kernel

import (
	"context"

	"agentkernel"
)

// openWrite says that a journal has the intent of a write and no result.
func openWrite(entries []agentkernel.Entry, call int64) bool {
	open := false
	for _, e := range entries {
		switch {
		case e.Call != call:
		case e.Kind == agentkernel.EntryCall:
			open = e.Effect == agentkernel.EffectWrite && !e.Done
		case e.Kind == agentkernel.EntryResult:
			open = false
		}
	}
	return open
}

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
			WithHint("agentkernel rerun %d makes a new process that goes on from what this one did", pid)
	}
	entries, err := k.store.Entries(ctx, pid, 1, 0)
	if err != nil {
		return err
	}
	var made, result *agentkernel.Entry
	for i := range entries {
		switch e := &entries[i]; {
		case e.Call != call:
		case e.Kind == agentkernel.EntryCall:
			made = e
		case e.Kind == agentkernel.EntryResult:
			result = e
		}
	}
	switch {
	case made == nil:
		return agentkernel.Errorf(agentkernel.CodeNotFound, "resolve", "process %d has made no call %d", pid, call).WithPID(pid).
			WithHint("agentkernel inspect %d says which call is to be decided", pid)
	case result != nil && agentkernel.CodeOf(errOrNil(result.Err)) == agentkernel.CodeOutcomeUnknown:
		return conflict("the program has been handed OutcomeUnknown for call %d (%s) already", call, label(*made)).
			WithHint("with --on-unknown pause a process waits for your decision instead")
	case made.Done || result != nil:
		return conflict("call %d (%s) has its result already", call, label(*made)).WithHint("agentkernel trace %d", pid)
	case made.Effect != agentkernel.EffectWrite:
		return conflict("call %d (%s) is no write: a kernel that finds it cut off makes it again", call, label(*made))
	case rec.Spec.OnUnknown != agentkernel.UnknownPause:
		return conflict("process %d hands unknown outcomes to its program; nobody is asked", pid).
			WithHint("with --on-unknown pause a process waits for your decision instead")
	}
	return conflict("call %d (%s) is under way", call, label(*made)).WithHint("wait until it has ended, or its server has died")
}
