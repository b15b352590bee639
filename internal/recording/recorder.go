package recording

import (
	"context"

	"agentkernel"
)

// Config says what recordings are made of, and where imported ones go.
type Config struct {
	Store  agentkernel.Store
	Layers Layers // nil: recordings with files are refused
	// Room refuses new processes once the store is full.
	Room func(ctx context.Context) error
	// Tools gives the tools of a list of configuration files, whose secrets are taken out. Nil: they cannot be.
	Tools   func(files []string) (agentkernel.ToolSource, error)
	Version string // of the calling program
}

// Layers keeps what processes did to folders; workspace.Store does.
type Layers interface {
	// Import keeps, durably, what came with a recording for a process that is about to be.
	Import(pid agentkernel.PID, files []agentkernel.RecordedFile) error
}

// Recorder exports, imports and verifies the processes of one kernel.
type Recorder struct {
	cfg    Config
	store  agentkernel.Store
	origin agentkernel.StoreInfo
	host   agentkernel.RecordingHost
}

var _ agentkernel.Recordings = (*Recorder)(nil)

// New makes a recorder for the processes of host.
func New(cfg Config, host agentkernel.RecordingHost) *Recorder {
	return &Recorder{cfg: cfg, store: cfg.Store, origin: cfg.Store.Info(), host: host}
}
