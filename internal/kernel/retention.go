package kernel

import (
	"context"

	"agentkernel"
)

// host is the kernel as its retention sees it.
type host Kernel

func (h *host) Live(pid agentkernel.PID) bool { return (*Kernel)(h).lookup(pid) != nil }

func (h *host) Accepting() error { return (*Kernel)(h).accepting() }

// Prune forgets processes that have ended, and removes what nobody names any more.
func (k *Kernel) Prune(ctx context.Context, o agentkernel.PruneOptions) (agentkernel.Pruned, error) {
	return k.cfg.Retention.Prune(ctx, o)
}

// Storage says how much room the store takes.
func (k *Kernel) Storage(ctx context.Context) (agentkernel.Storage, error) {
	return k.cfg.Retention.Storage(ctx)
}

// stillThere gives the answer for a process that was read while it was being pruned: what was read may be a part.
func (k *Kernel) stillThere(ctx context.Context, pid agentkernel.PID, err error) error {
	if _, perr := k.store.Process(ctx, pid); agentkernel.CodeOf(perr) == agentkernel.CodeNotFound {
		return perr
	}
	return err
}
