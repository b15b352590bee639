package kernel

import (
	"context"

	"agentkernel"
)

// host is the kernel as its retention, its recorder and the files of its processes see it; see also Verify.
type host Kernel

func (h *host) Live(pid agentkernel.PID) bool { return (*Kernel)(h).lookup(pid) != nil }

func (h *host) Accepting() error { return (*Kernel)(h).table.Refuses() }

func (h *host) Settled(ctx context.Context) error { return (*Kernel)(h).flushAll(ctx) }
