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

func (k *Kernel) recorder() (agentkernel.Recordings, error) {
	if k.recordings == nil {
		return nil, agentkernel.Errorf(agentkernel.CodeUnsupported, "recording", "this kernel makes and reads no recordings")
	}
	return k.recordings, nil
}

// Export gives a process as a recording.
func (k *Kernel) Export(ctx context.Context, pid agentkernel.PID, o agentkernel.ExportOptions) ([]byte, error) {
	r, err := k.recorder()
	if err != nil {
		return nil, err
	}
	return r.Export(ctx, pid, o)
}

// Import puts a recording into the store, as a process that has ended.
func (k *Kernel) Import(ctx context.Context, file []byte, o agentkernel.ImportOptions) (agentkernel.Process, error) {
	r, err := k.recorder()
	if err != nil {
		return agentkernel.Process{}, err
	}
	return r.Import(ctx, file, o)
}

// Replay runs the program of a recording on nothing but the recording.
func (k *Kernel) Replay(ctx context.Context, file []byte, o agentkernel.ReplayOptions) (agentkernel.Verdict, error) {
	r, err := k.recorder()
	if err != nil {
		return agentkernel.Verdict{}, err
	}
	return r.Replay(ctx, file, o)
}
