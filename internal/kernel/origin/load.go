package origin

import (
	"context"
	"fmt"

	"agentkernel"
	"agentkernel/internal/kernel/advice"
)

// Load reads the origin that a Spec names; nil: none. alive says that a kernel carries a process which has not ended.
func Load(ctx context.Context, store Reader, s *agentkernel.Spec, rules Rules, alive func(*agentkernel.ProcessRecord) bool) (*Origin, error) {
	if s.Past == nil {
		return nil, nil
	}
	rec, err := store.Process(ctx, s.Past.PID)
	if err != nil {
		return nil, err
	}
	switch {
	case rec.Namespace != s.Namespace:
		return nil, agentkernel.Errorf(agentkernel.CodeDenied, "rerun", "process %d belongs to the namespace %q, not to %q", rec.PID, rec.Namespace, s.Namespace).
			WithPID(rec.PID)
	case !rec.State.Terminal():
		return nil, notEnded(&rec, alive(&rec))
	}
	return Read(ctx, store, &rec, s.Past.From, rules)
}

// notEnded says what to do about a process that may still make calls of its own.
func notEnded(rec *agentkernel.ProcessRecord, alive bool) error {
	state, hint := "running", fmt.Sprintf(advice.WaitOrKill, rec.PID, rec.PID)
	switch {
	case rec.Paused:
		state, hint = "paused", fmt.Sprintf(advice.ResumeItself, rec.PID, rec.PID)
	case !alive:
		state, hint = "unfinished", fmt.Sprintf(advice.RecoverItself, rec.PID, rec.PID)
	}
	return agentkernel.Errorf(agentkernel.CodeConflict, "rerun", "process %d is %s: what it did can be taken over when it has ended", rec.PID, state).
		WithPID(rec.PID).WithHint("%s", hint)
}

// Lost is why a process that is taken up again cannot go on without the origin that it had.
func Lost(err error) *agentkernel.Error {
	e := agentkernel.AsError(err, agentkernel.CodeStorage, "rerun")
	return agentkernel.Errorf(e.Code, "rerun", "the journal that answers its calls cannot be read: %w", e)
}
