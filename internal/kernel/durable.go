package kernel

import (
	"context"

	"agentkernel"
	"agentkernel/internal/kernel/trees"
)

// flush waits until everything of a process is durable.
func (k *Kernel) flush(ctx context.Context, p *process) error {
	p.mu.Lock()
	pos := p.pos
	p.mu.Unlock()
	return k.stored(k.store.Flush(ctx, pos))
}

// stored notices a store that has failed: whoever asks may have nothing to write any more that would tell.
func (k *Kernel) stored(err error) error {
	if agentkernel.CodeOf(err) == agentkernel.CodeStorage {
		k.storageFailed(err)
	}
	return err
}

// flushAll waits until everything that an answer may speak of is durable.
func (k *Kernel) flushAll(ctx context.Context) error {
	return trees.UnlessFenced(k.stored(k.store.Flush(ctx, agentkernel.Position(k.last.Load()))))
}

// settledOf waits until everything of a process that was read from the store is durable; 0: of all.
func (k *Kernel) settledOf(ctx context.Context, pid agentkernel.PID) error {
	if p := k.lookup(pid); p != nil {
		return k.flush(ctx, p) // what is being appended is waited for
	}
	return k.flushAll(ctx)
}
