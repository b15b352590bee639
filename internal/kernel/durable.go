package kernel

import (
	"context"

	"agentkernel"
)

// settled waits until everything that an answer may speak of is durable.
func (k *Kernel) settled(ctx context.Context) error {
	return unlessFenced(k.store.Flush(ctx, agentkernel.Position(k.last.Load())))
}

// settledOf waits until everything of a process that was read from the store is durable; 0: of all.
func (k *Kernel) settledOf(ctx context.Context, pid agentkernel.PID) error {
	if p := k.lookup(pid); p != nil {
		return k.flush(ctx, p) // what is being appended is waited for
	}
	return k.settled(ctx)
}

// unlessFenced leaves out that a batch was refused, for those who wait for the batches of other trees.
func unlessFenced(err error) error {
	if agentkernel.CodeOf(err) == agentkernel.CodeFenced {
		return nil
	}
	return err
}
