package faulty

import (
	"context"
	"time"

	"agentkernel"
)

// Prune is the operation of a step of housekeeping: what it changes is durable when it returns.
const Prune Op = "prune"

var _ agentkernel.Pruner = (*Store)(nil)

// prune counts a step and runs it on the inner store. Everything held back is handed over first: the inner store
// decides by what it has.
func (s *Store) prune(ctx context.Context, op Op, step func(agentkernel.Pruner) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.do(op, func() error {
		p, ok := s.inner.(agentkernel.Pruner)
		if !ok {
			return agentkernel.Errorf(agentkernel.CodeUnsupported, "prune", "this store keeps everything")
		}
		if s.dead == nil {
			if err := s.hand(ctx, len(s.held)); err != nil {
				return err
			}
		}
		return step(p)
	})
}

// Lineages reports all processes.
func (s *Store) Lineages(ctx context.Context, fn func(agentkernel.Lineage) error) error {
	return s.prune(ctx, Read, func(p agentkernel.Pruner) error { return p.Lineages(ctx, fn) })
}

// Measure counts what forgetting processes would remove.
func (s *Store) Measure(ctx context.Context, pids []agentkernel.PID) (r agentkernel.Removed, rows int64, err error) {
	err = s.prune(ctx, Read, func(p agentkernel.Pruner) error { r, rows, err = p.Measure(ctx, pids); return err })
	return r, rows, err
}

// Forget removes processes that have ended.
func (s *Store) Forget(ctx context.Context, pids []agentkernel.PID, at time.Time) (r agentkernel.Removed, err error) {
	err = s.prune(ctx, Prune, func(p agentkernel.Pruner) error { r, err = p.Forget(ctx, pids, at); return err })
	return r, err
}

// Sweep removes some of what nobody names any more.
func (s *Store) Sweep(ctx context.Context) (r agentkernel.Removed, more bool, err error) {
	err = s.prune(ctx, Prune, func(p agentkernel.Pruner) error { r, more, err = p.Sweep(ctx); return err })
	return r, more, err
}

// SweepPrograms removes programs that nobody runs.
func (s *Store) SweepPrograms(ctx context.Context) (r agentkernel.Removed, err error) {
	err = s.prune(ctx, Prune, func(p agentkernel.Pruner) error { r, err = p.SweepPrograms(ctx); return err })
	return r, err
}

// SweepStrays removes files that no row knows.
func (s *Store) SweepStrays(ctx context.Context) (r agentkernel.Removed, err error) {
	err = s.prune(ctx, Prune, func(p agentkernel.Pruner) error { r, err = p.SweepStrays(ctx); return err })
	return r, err
}

// Shrink gives free room back.
func (s *Store) Shrink(ctx context.Context) (more bool, err error) {
	err = s.prune(ctx, Prune, func(p agentkernel.Pruner) error { more, err = p.Shrink(ctx); return err })
	return more, err
}

// Storage measures the inner store.
func (s *Store) Storage(ctx context.Context) (out agentkernel.Storage, err error) {
	err = s.prune(ctx, Read, func(p agentkernel.Pruner) error { out, err = p.Storage(ctx); return err })
	return out, err
}
