package kernel

import (
	"context"

	"agentkernel"
)

// host is the kernel as its retention and its recorder see it.
type host Kernel

func (h *host) Live(pid agentkernel.PID) bool { return (*Kernel)(h).lookup(pid) != nil }

func (h *host) Accepting() error { return (*Kernel)(h).table.refuses() }

// Prune forgets processes that have ended, and removes what nobody names any more.
func (k *Kernel) Prune(ctx context.Context, o agentkernel.PruneOptions) (agentkernel.Pruned, error) {
	return k.cfg.Retention.Prune(ctx, o)
}

// Storage says how much room the store takes.
func (k *Kernel) Storage(ctx context.Context) (agentkernel.Storage, error) {
	return k.cfg.Retention.Storage(ctx)
}
