// Package keys says what idempotency keys of processes mean.
package keys

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"agentkernel"
	"agentkernel/internal/kernel/advice"
)

// children begins the keys that the kernel makes for children; users may not use it.
const children = "\x00spawn/"

// OfChild is the key of the child that a call of a process makes: replay of the parent finds the child that it has already.
func OfChild(parent agentkernel.PID, call int64) string {
	return fmt.Sprintf("%s%d/%d", children, parent, call)
}

// IsChilds says that the kernel made the key of a Spec.
func IsChilds(s *agentkernel.Spec) bool { return strings.HasPrefix(s.IdempotencyKey, children) }

// Refuse refuses a key that only the kernel may make.
func Refuse(s *agentkernel.Spec) error {
	if !IsChilds(s) {
		return nil
	}
	return agentkernel.Errorf(agentkernel.CodeInvalid, "spec", "an idempotency key may not begin with %q", children)
}

// Taken is the error of a key that a process has otherwise than one wants it: for a piece, or as its own.
func Taken(owner agentkernel.PID, key string) error {
	return agentkernel.Errorf(agentkernel.CodeConflict, agentkernel.OpKey, "the idempotency key %q belongs to pid %d already", key, owner).
		WithPID(owner).WithHint(advice.OtherKeyOrLogs, owner)
}

// Rows is the part of a store that is asked.
type Rows interface {
	Process(ctx context.Context, pid agentkernel.PID) (agentkernel.ProcessRecord, error)
	ByKey(ctx context.Context, namespace, key string) (agentkernel.PID, error)
}

// Fits refuses a key that belongs to a process with another program: its caller would take that one's result for an answer to
// his own question. What else differs (limits, permissions) is the first caller's.
func Fits(ctx context.Context, rows Rows, pid agentkernel.PID, s *agentkernel.Spec) error {
	if IsChilds(s) {
		return nil // the parent's journal says what it asked for
	}
	rec, err := rows.Process(ctx, pid)
	if err != nil {
		return err
	}
	if rec.Spec.IdempotencyKey != s.IdempotencyKey {
		return Taken(pid, s.IdempotencyKey)
	}
	a, b := &rec.Spec.Program, &s.Program
	if a.Source == b.Source && a.Language == b.Language && slices.Equal(a.Args, b.Args) {
		return nil
	}
	what := "another program"
	if a.Source == b.Source {
		what = "the same program with other arguments"
	}
	return agentkernel.Errorf(agentkernel.CodeConflict, "spawn", "the idempotency key %q belongs to pid %d, which is %s", s.IdempotencyKey, pid, what).
		WithPID(pid).WithHint(advice.OtherKeyOrInspect, pid)
}

// FitEach refuses, before any of many processes is created, what is wrong with the key of one.
func FitEach(ctx context.Context, rows Rows, s *agentkernel.Spec, each []agentkernel.Instance) error {
	for i := range each {
		one := s.Instance(&each[i])
		if one.IdempotencyKey == "" {
			continue
		}
		err := Refuse(&one)
		if err == nil {
			var pid agentkernel.PID
			if pid, err = rows.ByKey(ctx, one.Namespace, one.IdempotencyKey); err == nil {
				err = Fits(ctx, rows, pid, &one)
			} else if agentkernel.CodeOf(err) == agentkernel.CodeNotFound {
				err = nil
			}
		}
		if err != nil {
			return OfInstance(i, err)
		}
	}
	return nil
}

// OfInstance says of which of many processes an error is.
func OfInstance(i int, err error) error {
	e := *agentkernel.AsError(err, agentkernel.CodeInternal, "spawn")
	e.Err = fmt.Errorf("each[%d]: %w", i, e.Err)
	return &e
}
