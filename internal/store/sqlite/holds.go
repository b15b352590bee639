package sqlite

import (
	"context"

	"agentkernel"
)

// SetHolds replaces what stands still, durably.
func (s *Store) SetHolds(_ context.Context, holds []agentkernel.Hold) error {
	return s.work(func(w *writer) error {
		return w.transaction(s.queue, func() error {
			if err := w.c.exec("DELETE FROM holds"); err != nil {
				return err
			}
			for i := range holds {
				h := &holds[i]
				if err := w.c.exec("INSERT INTO holds(namespace, tree, since, why) VALUES (?,?,?,?)",
					h.Namespace, int64(h.Tree), h.Since.UnixMicro(), h.Why); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// holds reads what stands still: the kernel first, then namespaces, then trees.
func (s *reads) holds(ctx context.Context) (holds []agentkernel.Hold, err error) {
	err = s.do(ctx, func(c *conn) error {
		holds = nil
		return c.query(func(v row) error {
			holds = append(holds, agentkernel.Hold{Namespace: v.text(0), Tree: agentkernel.PID(v.int(1)), Since: microTime(v.int(2)), Why: v.text(3)})
			return nil
		}, "SELECT namespace, tree, since, why FROM holds ORDER BY tree, namespace")
	})
	return holds, err
}

// Holds reads what stands still.
func (s *Store) Holds(ctx context.Context) ([]agentkernel.Hold, error) { return s.reads.holds(ctx) }

// Holds reads what stands still.
func (r *Reader) Holds(ctx context.Context) ([]agentkernel.Hold, error) { return r.reads.holds(ctx) }
