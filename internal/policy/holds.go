package policy

import (
	"context"

	"agentkernel"
)

// Halt lets the namespace stand still, or a tree of it; the kernel is its owner's.
func (s *scope) Halt(ctx context.Context, h agentkernel.Hold) error {
	if err := s.mayHold(ctx, "halt", &h); err != nil {
		return err
	}
	return s.k.Halt(ctx, h)
}

// Thaw ends what Halt has begun.
func (s *scope) Thaw(ctx context.Context, h agentkernel.Hold) error {
	if err := s.mayHold(ctx, "thaw", &h); err != nil {
		return err
	}
	return s.k.Thaw(ctx, h)
}

func (s *scope) mayHold(ctx context.Context, op string, h *agentkernel.Hold) error {
	switch {
	case h.Tree != 0:
		return s.own(ctx, op, h.Tree, agentkernel.RightAnswer)
	case h.Namespace == "":
		return s.ownerAlone(op)
	}
	if err := s.may(op, agentkernel.RightAdmin); err != nil {
		return err
	}
	return s.into(op, h.Namespace)
}
