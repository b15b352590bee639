package kernel

import (
	"context"

	"agentkernel"
)

// flush waits until everything of a process is durable.
func (k *Kernel) flush(ctx context.Context, p *process) error {
	p.mu.Lock()
	pos := p.pos
	p.mu.Unlock()
	return k.store.Flush(ctx, pos)
}

// flushAll waits until everything that an answer may speak of is durable.
func (k *Kernel) flushAll(ctx context.Context) error {
	return unlessFenced(k.store.Flush(ctx, agentkernel.Position(k.last.Load())))
}

// settledOf waits until everything of a process that was read from the store is durable; 0: of all.
func (k *Kernel) settledOf(ctx context.Context, pid agentkernel.PID) error {
	if p := k.lookup(pid); p != nil {
		return k.flush(ctx, p) // what is being appended is waited for
	}
	return k.flushAll(ctx)
}

// unlessFenced leaves out that a batch was refused, for those who wait for the batches of other trees.
func unlessFenced(err error) error {
	if agentkernel.CodeOf(err) == agentkernel.CodeFenced {
		return nil
	}
	return err
}
