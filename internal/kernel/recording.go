package kernel

import (
	"context"

	"agentkernel"
)

// The kernel as its recorder sees it; see also Verify.

func (h *host) Settled(ctx context.Context) error { return (*Kernel)(h).settled(ctx) }

func (h *host) Changes(ctx context.Context, pid agentkernel.PID) (agentkernel.Changes, error) {
	return (*Kernel)(h).Changes(ctx, pid)
}

func (h *host) OpenFile(ctx context.Context, pid agentkernel.PID, name agentkernel.FileName) (agentkernel.File, error) {
	return (*Kernel)(h).OpenFile(ctx, pid, name)
}
