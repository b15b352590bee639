package sandboxtest

import (
	"context"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/internal/fastpath"
)

// inlineBackend is a backend whose sandboxes are had at once where they can be, and whose turns are begun before they are
// waited for.
type inlineBackend struct {
	fastpath.Backend
	had, begun, ready int
}

func (b *inlineBackend) Start(ctx context.Context, req agentkernel.StartRequest) (agentkernel.Sandbox, error) {
	if box := b.StartNow(req); box != nil && ctx.Err() == nil {
		b.had++
		return &inlineBox{box, b}, nil
	}
	return b.Backend.Start(ctx, req)
}

type inlineBox struct {
	fastpath.Sandbox
	b *inlineBackend
}

func (s *inlineBox) Next(ctx context.Context, reply *agentkernel.Reply) (agentkernel.Turn, error) {
	begun, err := s.Begin(ctx, reply)
	if err != nil {
		return agentkernel.Turn{}, err
	}
	if begun {
		s.b.begun++
		reply = nil
		if s.Ready(time.Duration(s.b.begun%3) * time.Millisecond) {
			s.b.ready++
		}
	}
	return s.Sandbox.Next(ctx, reply)
}

// inline runs the suite's programs once more, as a caller does who drives them itself.
func (s Suite) inline(t *testing.T, b agentkernel.Backend) {
	inner, ok := b.(fastpath.Backend)
	if !ok {
		t.Skip("the backend has no sandboxes at hand")
	}
	p := &inlineBackend{Backend: inner}
	s.programs(t, p)
	t.Run("Cancel", func(t *testing.T) { cancelled(t, p) })
	t.Run("Order", func(t *testing.T) { order(t, p) })
	if p.had == 0 || p.begun == 0 || p.ready == 0 || p.ready == p.begun {
		t.Errorf("%d sandboxes were at hand; %d turns were begun, %d came in time: not all ways were gone", p.had, p.begun, p.ready)
	}
}
