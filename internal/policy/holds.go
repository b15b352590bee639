package policy

import (
	"context"

	"agentkernel"
)

// mostHolds is how many holds over its trees a namespace may have: all namespaces share the room of the kernel.
const mostHolds = 100

// Halt lets the namespace stand still, or a tree of it; the kernel is its owner's.
func (s *scope) Halt(ctx context.Context, h agentkernel.Hold) error {
	if err := s.mayHold(ctx, "halt", &h); err != nil {
		return err
	}
	if h.Tree != 0 {
		all, err := s.k.Info(ctx)
		if err != nil {
			return err
		}
		if len(s.holds(ctx, all.Holds)) >= mostHolds {
			return agentkernel.Errorf(agentkernel.CodeLimit, "halt", "the namespace %q has %d holds, which is the limit", s.namespace, mostHolds)
		}
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

// holds are those over processes of the namespace. Why the kernel stands still is the owner's affair.
func (s *scope) holds(ctx context.Context, all []agentkernel.Hold) (seen []agentkernel.Hold) {
	for _, h := range all {
		switch {
		case h.Tree != 0:
			if p, err := s.k.Process(ctx, h.Tree); err != nil || !s.here(p.Namespace) {
				continue
			}
		case h.Namespace == "":
			h.Why = ""
		case !s.here(h.Namespace):
			continue
		}
		seen = append(seen, h)
	}
	return seen
}
