package agentkernel

import (
	"context"
	"encoding/json"
	"time"
)

// Kernel runs processes. Two implementations pass one end-to-end table: the kernel itself
// (package embedded) and a client over a socket (package client).
type Kernel interface {
	Processes
	Holds
	Budgets
	Models
	Listing
	Traces
	Repairs
	Recordings
	Tools
	Library
	Sessions
	Workspaces
	Backups
	Housekeeping
	// Info says which kernel this is.
	Info(ctx context.Context) (KernelInfo, error)
	// Close ends a kernel that runs here (processes stay as their journals say), or the connection.
	Close() error
}

// Processes is the process table.
type Processes interface {
	// Spawn creates a process and returns once it is durable. A Spec with a known idempotency key
	// returns the process of the first call. Errors: CodeInvalid, CodeSyntax, CodeUnsupported, CodeNotFound (unknown tool or
	// module), CodeConflict (the key is that of another program), CodeUnavailable (engine missing, with the command).
	Spawn(ctx context.Context, s Spec) (Process, error)
	// SpawnMany creates a process of a Spec for each Instance, at most MaxMany, and returns their PIDs, in order, once all are durable. It
	// refuses what is wrong with any of them before it creates the first. If a later one fails (no room, the kernel ends), it
	// returns the PIDs of those before it, which stay; with idempotency keys the call may be repeated. Errors: as Spawn.
	SpawnMany(ctx context.Context, s Spec, each []Instance) ([]PID, error)
	// Run creates a process and reports its events until it ends or fn returns an error, which is
	// returned; the process goes on then. The last event is EventEnd (or EventState with Paused).
	Run(ctx context.Context, s Spec, fn func(Event) error) (Process, error)
	// Process is one process; CodeNotFound.
	Process(ctx context.Context, pid PID) (Process, error)
	// Wait returns when the process has ended or is paused.
	Wait(ctx context.Context, pid PID) (Process, error)
	// Signal sends a signal, with at most one SignalOptions, and returns when it is durable. Errors: CodeInvalid, CodeNotFound,
	// CodeConflict if the process has ended, CodeLimit if too many user signals wait for it already.
	Signal(ctx context.Context, pid PID, sig Signal, with ...SignalOptions) error
	// Answer answers an EventAsk; CodeNotFound if nothing was asked.
	Answer(ctx context.Context, pid PID, ask int64, a Answer) error
	// Recover continues unfinished processes: the one named, or all (0). It returns those that it took up, those that failed since they
	// cannot be, and those that it left because a payload of theirs cannot be read now (Process.NotTakenUp). Of all, those that were parked stay so until something
	// wakes them, and at most 1,000 of them are returned.
	Recover(ctx context.Context, pid PID) ([]Process, error)
}

// Traces reads what processes did.
type Traces interface {
	// Events reports the events of a process from a journal position on; with follow until it ends.
	Events(ctx context.Context, pid PID, from int64, follow bool, fn func(Event) error) error
	// Journal reads the entries of a process from a position on; limit 0 means all.
	Journal(ctx context.Context, pid PID, from int64, limit int) ([]Entry, error)
	// Spec is what a process was created with, program text included.
	Spec(ctx context.Context, pid PID) (Spec, error)
	// State is the working set of a process.
	State(ctx context.Context, pid PID) (map[string]json.RawMessage, error)
}

// Tools reaches tools outside any process. files are MCP configuration files, absolute.
type Tools interface {
	ToolServers(ctx context.Context, files []string) ([]ToolServer, error)
	// ListTools lists the tools of a server, or of all ("").
	ListTools(ctx context.Context, files []string, server string) ([]Tool, error)
	// SearchTools finds tools by what somebody wants to do, best first.
	SearchTools(ctx context.Context, files []string, q ToolQuery) (ToolMatches, error)
	// AcceptTools accepts a server's tools as they are now: the named ones, or all. It gives how many had
	// changed since they were accepted last.
	AcceptTools(ctx context.Context, files []string, server string, names []string) (int, error)
}

// KernelInfo describes a running kernel.
type KernelInfo struct {
	Version    string        `json:"version"`
	API        int           `json:"api"` // version of the HTTP API: equal on both sides or refused
	OSPID      int           `json:"os_pid"`
	Home       string        `json:"home"` // data directory
	Store      StoreInfo     `json:"store"`
	Started    time.Time     `json:"started"`
	Processes  int           `json:"processes"`  // carried on by this kernel
	Resident   int           `json:"resident"`   // of these: with a sandbox in memory
	Parked     int           `json:"parked"`     // of these: in the store alone
	Unfinished int           `json:"unfinished"` // waiting for `recover`
	Backends   []BackendInfo `json:"backends"`
	Mode       string        `json:"mode"` // "serve", "background" or "embedded"
	// Settings are those with which whoever started the kernel has changed its defaults, by key ("engine", "workers"), and the PATH on
	// which it finds commands.
	Settings map[string]string `json:"settings,omitempty"`
	// Storage is the room that the store took a moment ago, if it has a quota.
	Storage Storage `json:"storage,omitzero"`
	// Holds are what stands still; see Kernel.Halt.
	Holds []Hold `json:"holds,omitempty"`
	// Before is the kernel that had the data directory before this one.
	Before KernelLife `json:"before,omitzero"`
}

// KernelLife is when a kernel began, and its last sign of life. The zero value: nothing is known.
type KernelLife struct {
	Began time.Time `json:"began"`
	Seen  time.Time `json:"seen"`
}

// APIVersion is the version of the HTTP API that this module speaks.
const APIVersion = 1
