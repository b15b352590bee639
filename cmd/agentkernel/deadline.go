package main

import (
	"time"

	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/console"
	"agentkernel/internal/config"
)

// deadlineFlag is the flag of those who start one process, or many at once.
type deadlineFlag struct {
	Deadline string `placeholder:"WHEN" group:"limits" help:"When it is asked to stop: a time (2026-12-01T10:00:00Z), or a span from now (30m). It has 10s to end then."`
}

// set puts the deadline into a Spec; whether it is in time is for the kernel to say.
func (f *deadlineFlag) set(s *agentkernel.Spec) error {
	if f.Deadline == "" {
		return nil
	}
	if at, err := time.Parse(time.RFC3339, f.Deadline); err == nil {
		s.Deadline = at
		return nil
	}
	span, err := config.ParseSpan(f.Deadline)
	switch {
	case err == nil && span > 0 && span <= agentkernel.MaxDeadline:
		s.Deadline = time.Now().Add(span)
		return nil
	case err == nil && span > 0:
		return agentkernel.Errorf(agentkernel.CodeInvalid, "usage", "--deadline %s is too far ahead: ten years are the most, 3,650 days", f.Deadline)
	case err == nil:
		return agentkernel.Errorf(agentkernel.CodeInvalid, "usage", "--deadline %s has passed: a span must be above zero", f.Deadline)
	}
	return agentkernel.Errorf(agentkernel.CodeInvalid, "usage", "--deadline: it is no time, such as 2026-12-01T10:00:00Z or 2026-12-01T11:00:00+01:00, and %w", err)
}

// deadlineIn says when the deadline of a process that lives comes; "": it has none.
func deadlineIn(p *agentkernel.Process, now time.Time) string {
	switch left := p.Deadline.Sub(now); {
	case p.Deadline.IsZero() || p.State.Terminal():
		return ""
	case left > 0:
		return "deadline in " + console.Age(left)
	default:
		return "deadline " + console.Age(-left) + " ago"
	}
}
