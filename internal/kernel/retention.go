package kernel

import "agentkernel"

// host is the kernel as its retention and its recorder see it.
type host Kernel

func (h *host) Live(pid agentkernel.PID) bool { return (*Kernel)(h).lookup(pid) != nil }

func (h *host) Accepting() error { return (*Kernel)(h).table.refuses() }
