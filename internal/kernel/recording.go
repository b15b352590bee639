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

// noRecordings is the role of a kernel that was given none.
type noRecordings struct{}

var errNoRecordings = agentkernel.Errorf(agentkernel.CodeUnsupported, "recording", "this kernel makes and reads no recordings")

func (noRecordings) Export(context.Context, agentkernel.PID, agentkernel.ExportOptions) ([]byte, error) {
	return nil, errNoRecordings
}

func (noRecordings) Import(context.Context, []byte, agentkernel.ImportOptions) (agentkernel.Process, error) {
	return agentkernel.Process{}, errNoRecordings
}

func (noRecordings) Replay(context.Context, []byte, agentkernel.ReplayOptions) (agentkernel.Verdict, error) {
	return agentkernel.Verdict{}, errNoRecordings
}
