package policy

import (
	"context"
	"encoding/json"
	"slices"

	"agentkernel"
)

// Spawn creates a process in the namespace.
func (s *scope) Spawn(ctx context.Context, spec agentkernel.Spec) (agentkernel.Process, error) {
	spec, err := s.admit(ctx, "spawn", spec)
	if err != nil {
		return agentkernel.Process{}, err
	}
	return s.k.Spawn(ctx, spec)
}

// SpawnMany creates many processes in the namespace.
func (s *scope) SpawnMany(ctx context.Context, spec agentkernel.Spec, each []agentkernel.Instance) ([]agentkernel.PID, error) {
	spec, err := s.admit(ctx, "spawn", spec)
	if err != nil {
		return nil, err
	}
	return s.k.SpawnMany(ctx, spec, each)
}

// Run is Spawn for who may read what the process does, too.
func (s *scope) Run(ctx context.Context, spec agentkernel.Spec, fn func(agentkernel.Event) error) (agentkernel.Process, error) {
	if err := s.may("run", agentkernel.RightRead); err != nil {
		return agentkernel.Process{}, err
	}
	spec, err := s.admit(ctx, "run", spec)
	if err != nil {
		return agentkernel.Process{}, err
	}
	if spec.IdempotencyKey != "" && !s.who.Has(agentkernel.RightAnswer) {
		had, err := s.k.List(ctx, agentkernel.Filter{Namespace: s.namespace, Key: spec.IdempotencyKey, Limit: 1})
		if err != nil {
			return agentkernel.Process{}, err
		}
		for i := range had { // its events are followed, whatever the new Spec says
			if err := s.follow(ctx, "run", had[i].PID); err != nil {
				return agentkernel.Process{}, err
			}
		}
	}
	return s.k.Run(ctx, spec, fn)
}

// Process is one process of the namespace.
func (s *scope) Process(ctx context.Context, pid agentkernel.PID) (agentkernel.Process, error) {
	if err := s.may("process", agentkernel.RightRead); err != nil {
		return agentkernel.Process{}, err
	}
	p, err := s.k.Process(ctx, pid)
	if err = s.seen(pid, p.Namespace, err); err != nil {
		return agentkernel.Process{}, err
	}
	return p, nil
}

// Count counts processes of the namespace. Another one has none.
func (s *scope) Count(ctx context.Context, f agentkernel.Filter) (int, error) {
	if err := s.may("list", agentkernel.RightRead); err != nil {
		return 0, err
	}
	if f.Namespace != "" && f.Namespace != s.namespace {
		return 0, nil
	}
	f.Namespace = s.namespace
	return s.k.Count(ctx, f)
}

// List lists processes of the namespace. Another one has none.
func (s *scope) List(ctx context.Context, f agentkernel.Filter) ([]agentkernel.Process, error) {
	if err := s.may("list", agentkernel.RightRead); err != nil {
		return nil, err
	}
	if f.Namespace != "" && f.Namespace != s.namespace {
		return nil, nil
	}
	f.Namespace = s.namespace
	return s.k.List(ctx, f)
}

// Wait waits for a process of the namespace.
func (s *scope) Wait(ctx context.Context, pid agentkernel.PID) (agentkernel.Process, error) {
	if err := s.own(ctx, "wait", pid, agentkernel.RightRead); err != nil {
		return agentkernel.Process{}, err
	}
	return s.k.Wait(ctx, pid)
}

// Signal signals a process of the namespace.
func (s *scope) Signal(ctx context.Context, pid agentkernel.PID, sig agentkernel.Signal, with ...agentkernel.SignalOptions) error {
	if err := s.own(ctx, "signal", pid, agentkernel.RightAnswer); err != nil {
		return err
	}
	return s.k.Signal(ctx, pid, sig, with...)
}

// Answer answers what a process of the namespace asks.
func (s *scope) Answer(ctx context.Context, pid agentkernel.PID, ask int64, a agentkernel.Answer) error {
	if err := s.own(ctx, "answer", pid, agentkernel.RightAnswer); err != nil {
		return err
	}
	return s.k.Answer(ctx, pid, ask, a)
}

// Recover continues processes of the namespace; all (0) are all of the namespace.
func (s *scope) Recover(ctx context.Context, pid agentkernel.PID) ([]agentkernel.Process, error) {
	if pid == 0 {
		return s.recoverAll(ctx)
	}
	if err := s.own(ctx, "recover", pid, agentkernel.RightRun); err != nil {
		return nil, err
	}
	taken, err := s.k.Recover(ctx, pid)
	return s.only(taken), err
}

// recoverAll continues one tree after the other: the kernel's own recovery of all is of all
// namespaces.
func (s *scope) recoverAll(ctx context.Context) (taken []agentkernel.Process, failed error) {
	if err := s.may("recover", agentkernel.RightRun); err != nil {
		return nil, err
	}
	var left []agentkernel.PID
	for page, err := range agentkernel.Pages(ctx, s.k, agentkernel.Filter{Namespace: s.namespace, Unfinished: true}) {
		if err != nil {
			return nil, err
		}
		for i := range page {
			if page[i].State == agentkernel.StateUnfinished {
				left = append(left, page[i].PID)
			}
		}
	}
	for _, pid := range slices.Backward(left) { // the newest is first, and a child newer than its parent
		more, err := s.k.Recover(ctx, pid)
		taken = append(taken, s.only(more)...)
		switch agentkernel.CodeOf(err) {
		case "", agentkernel.CodeConflict, agentkernel.CodeNotFound: // it was taken up with its parent, and has ended
		default:
			if failed == nil {
				failed = err
			}
		}
	}
	return taken, failed
}

// only leaves processes of other namespaces out.
func (s *scope) only(all []agentkernel.Process) []agentkernel.Process {
	return slices.DeleteFunc(all, func(p agentkernel.Process) bool { return !s.here(p.Namespace) })
}

// follow refuses to listen to a process that asks whoever listens, unless the principal may answer:
// a process that was paused since nobody listened goes on for him.
func (s *scope) follow(ctx context.Context, op string, pid agentkernel.PID) error {
	if s.who.Has(agentkernel.RightAnswer) {
		return nil
	}
	spec, err := s.ownSpec(ctx, pid)
	if err != nil || !spec.Interactive {
		return err
	}
	return agentkernel.AsError(s.denied(op, agentkernel.RightAnswer), "", op).WithPID(pid).
		WithHint("the process asks whoever follows it; read its events without following")
}

// Events reports events of a process of the namespace.
func (s *scope) Events(ctx context.Context, pid agentkernel.PID, from int64, follow bool, fn func(agentkernel.Event) error) error {
	if err := s.own(ctx, "events", pid, agentkernel.RightRead); err != nil {
		return err
	}
	if follow {
		if err := s.follow(ctx, "events", pid); err != nil {
			return err
		}
	}
	return s.k.Events(ctx, pid, from, follow, fn)
}

// Journal reads the journal of a process of the namespace.
func (s *scope) Journal(ctx context.Context, pid agentkernel.PID, from int64, limit int) ([]agentkernel.Entry, error) {
	if err := s.own(ctx, "journal", pid, agentkernel.RightRead); err != nil {
		return nil, err
	}
	return s.k.Journal(ctx, pid, from, limit)
}

// Spec is what a process of the namespace was created with.
func (s *scope) Spec(ctx context.Context, pid agentkernel.PID) (agentkernel.Spec, error) {
	if err := s.may("spec", agentkernel.RightRead); err != nil {
		return agentkernel.Spec{}, err
	}
	return s.ownSpec(ctx, pid)
}

// State is the working set of a process of the namespace.
func (s *scope) State(ctx context.Context, pid agentkernel.PID) (map[string]json.RawMessage, error) {
	if err := s.own(ctx, "state", pid, agentkernel.RightRead); err != nil {
		return nil, err
	}
	return s.k.State(ctx, pid)
}

// Resolve decides about a write of a process of the namespace.
func (s *scope) Resolve(ctx context.Context, pid agentkernel.PID, call int64, r agentkernel.Resolution) error {
	if err := s.own(ctx, "resolve", pid, agentkernel.RightAnswer); err != nil {
		return err
	}
	return s.k.Resolve(ctx, pid, call, r)
}

// Feed hands a session of the namespace its next cell, which may do all that the session may.
func (s *scope) Feed(ctx context.Context, pid agentkernel.PID, p agentkernel.Cell, fn func(agentkernel.Event) error) (agentkernel.CellEnd, error) {
	if err := s.drive(ctx, "feed", pid, agentkernel.RightRead); err != nil {
		return agentkernel.CellEnd{}, err
	}
	return s.k.Feed(ctx, pid, p, fn)
}

// EndSession ends a session of the namespace.
func (s *scope) EndSession(ctx context.Context, pid agentkernel.PID) (agentkernel.Process, error) {
	if err := s.own(ctx, "end", pid, agentkernel.RightRun); err != nil {
		return agentkernel.Process{}, err
	}
	return s.k.EndSession(ctx, pid)
}

// Attach takes up a hosted process of the namespace: whoever holds it may do all that it may.
func (s *hostedScope) Attach(ctx context.Context, pid agentkernel.PID, how agentkernel.Attaching) (agentkernel.Host, error) {
	if err := s.drive(ctx, "attach", pid); err != nil {
		return nil, err
	}
	return s.hosted.Attach(ctx, pid, how)
}
