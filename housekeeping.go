package agentkernel

import (
	"context"
	"fmt"
	"time"
)

// Housekeeping keeps a store from growing for ever.
type Housekeeping interface {
	// Prune forgets processes that have ended, and removes what nobody names any more. It never touches an
	// unfinished process, nor one that another which stays may need: its child, its past, and what those name
	// in turn. It works in small steps between which running processes get their turn; if ctx ends, what was removed stays
	// removed and the error is CodeCanceled. CodeConflict if somebody prunes already; CodeUnsupported if the
	// store keeps everything.
	Prune(ctx context.Context, o PruneOptions) (Pruned, error)
	// Storage says how much room the store takes, and how much it may take.
	Storage(ctx context.Context) (Storage, error)
}

// PruneOptions say what Prune removes.
type PruneOptions struct {
	Before     time.Time `json:"before"`                // processes that ended earlier
	Namespace  string    `json:"namespace,omitempty"`   // "" all
	KeepFailed bool      `json:"keep_failed,omitempty"` // keep what did not end with exit code 0
	DryRun     bool      `json:"dry_run,omitempty"`     // only count
}

// Pruned says what Prune removed, or would remove.
type Pruned struct {
	Removed
	Kept   int64 `json:"kept"`  // processes that ended early enough, and stay because another needs them
	Freed  int64 `json:"freed"` // bytes by which the files have become smaller; of a dry run: about
	DryRun bool  `json:"dry_run,omitempty"`
	// Unapplied says of how many of the processes changes go that nobody has applied or discarded.
	Unapplied int64 `json:"unapplied"`
}

// Removed counts what was taken out of a store.
type Removed struct {
	Processes int64 `json:"processes"`
	Entries   int64 `json:"entries"`    // of journals
	Blobs     int64 `json:"blobs"`      // files of large payloads
	BlobBytes int64 `json:"blob_bytes"` // their size
}

// Add adds another count.
func (r *Removed) Add(o Removed) {
	r.Processes += o.Processes
	r.Entries += o.Entries
	r.Blobs += o.Blobs
	r.BlobBytes += o.BlobBytes
}

// Storage is the room that a store takes, in bytes.
type Storage struct {
	Database  int64 `json:"database"`        // the file of the database
	Unused    int64 `json:"unused"`          // of it: room for new rows
	Log       int64 `json:"log"`             // the database's write-ahead log
	Blobs     int64 `json:"blobs"`           // files of large payloads
	BlobFiles int64 `json:"blob_files"`      // how many
	Quota     int64 `json:"quota,omitempty"` // what Used may come to; 0: anything
}

// Used is what counts against the quota: rows and blobs, without the log and without room that is free.
func (s Storage) Used() int64 { return s.Database - s.Unused + s.Blobs }

// Pressure is how near the quota is.
type Pressure string

const (
	PressureNone Pressure = ""
	PressureHigh Pressure = "high" // from 80 % on people are warned
	PressureFull Pressure = "full" // no new process can start
)

// Pressure says how near the quota is.
func (s Storage) Pressure() Pressure {
	switch used := s.Used(); {
	case s.Quota <= 0 || used < s.Quota-s.Quota/5:
		return PressureNone
	case used < s.Quota:
		return PressureHigh
	}
	return PressureFull
}

// Warning says in words that the quota is nearly, or quite, used up; "" if there is nothing to say.
func (s Storage) Warning() string {
	switch s.Pressure() {
	case PressureHigh:
		return fmt.Sprintf("%.0f %% of the storage quota is used; at 100 %% no new process can start", 100*float64(s.Used())/float64(s.Quota))
	case PressureFull:
		return "the storage quota is used up: no new process can start"
	}
	return ""
}

// Pruner is the ability of a [Store] to forget. Its methods work in steps of a few milliseconds each, between
// which batches are committed.
type Pruner interface {
	// Lineages reports all processes, those appended a moment ago included, in the order of their PIDs.
	Lineages(ctx context.Context, fn func(Lineage) error) error
	// Measure counts what forgetting processes would remove, and about how many bytes of rows.
	Measure(ctx context.Context, pids []PID) (r Removed, rows int64, err error)
	// Forget removes processes that have ended, durably and each as a whole, in one step; at is when. From then on
	// the store answers CodeNotFound for them, with Op [OpPruned]. What is not there, or has not ended, is left
	// alone. Their journals are left to Sweep.
	Forget(ctx context.Context, pids []PID, at time.Time) (Removed, error)
	// Sweep removes in one step some of what nobody names any more: journals of forgotten processes, blobs.
	// more: there is more. A crash anywhere leaves nothing but work for the next Sweep.
	Sweep(ctx context.Context) (r Removed, more bool, err error)
	// SweepPrograms removes programs that only forgotten processes ran, and what Sweep then finds.
	SweepPrograms(ctx context.Context) (Removed, error)
	// SweepStrays removes blobs that were written for rows which a crash has prevented.
	SweepStrays(ctx context.Context) (Removed, error)
	// Shrink gives room that is free back to the file system, some of it in one step.
	Shrink(ctx context.Context) (more bool, err error)
	// Storage measures the store; Quota is not its business.
	Storage(ctx context.Context) (Storage, error)
}

// OpPruned is the Op of the error, CodeNotFound, that answers for a process which was pruned.
const OpPruned = "pruned"

// Lineage is what decides whether a process may be forgotten.
type Lineage struct {
	PID, Parent, Past PID
	Namespace         string
	State             State
	ExitCode          int
	Ended             time.Time // zero while unfinished
}

// Retention keeps a store within bounds: it forgets processes that have ended, and refuses new ones once the quota is used up.
type Retention interface {
	// Start lets it look after the store by itself, if it was told what to do, and takes prunes from now on.
	Start(host RetentionHost)
	// Stop ends what is under way and waits for it.
	Stop()
	// Room refuses new processes once the quota is used up: CodeLimit.
	Room(ctx context.Context) error
	// Hold keeps what the Spec of a process that is being made names, until release is called.
	Hold(ctx context.Context, s *Spec) (release func(), err error)
	Prune(ctx context.Context, o PruneOptions) (Pruned, error)
	Storage(ctx context.Context) (Storage, error)
	// Recent is Storage as it was a moment ago; zero where there is no quota.
	Recent(ctx context.Context) (Storage, error)
}

// RetentionHost is the kernel whose processes are kept.
type RetentionHost interface {
	// Live says whether the kernel carries a process.
	Live(pid PID) bool
	// Accepting is why nothing new may begin; nil: it may.
	Accepting() error
}
