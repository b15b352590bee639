// Package roles is what a kernel answers from its store alone: the Spec, the working set and the journal of a process, what calls to
// models have used, and what the store keeps. It hands on keys of models, and never looks at a process that runs, or changes one.
package roles

import (
	"context"
	"encoding/json"

	"agentkernel"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/kernel/usage"
	"agentkernel/internal/sys"
)

// Reader answers from a store.
type Reader struct {
	store     agentkernel.StoreReader
	retention agentkernel.Retention
	traffic   sys.Traffic // nil: there are no models
	settled   func(ctx context.Context, pid agentkernel.PID) error
}

// New returns a Reader. settled returns when everything that the store was handed of a process (0: of all) is durable.
func New(store agentkernel.StoreReader, retention agentkernel.Retention, traffic sys.Traffic, settled func(ctx context.Context, pid agentkernel.PID) error) *Reader {
	return &Reader{store, retention, traffic, settled}
}

// ModelUsage adds up what calls to models have used.
func (r *Reader) ModelUsage(ctx context.Context, q agentkernel.UsageQuery) (agentkernel.ModelUsage, error) {
	u, err := usage.Read(ctx, r.store, q)
	if err == nil {
		err = r.settled(ctx, 0)
	}
	return u, err
}

// ModelLimits is what is known of the traffic to models.
func (r *Reader) ModelLimits(context.Context) (agentkernel.ModelLimits, error) {
	if r.traffic == nil {
		return agentkernel.ModelLimits{}, nil
	}
	return r.traffic.Limits(), nil
}

// GiveKey hands over the key of a model.
func (r *Reader) GiveKey(ctx context.Context, pid agentkernel.PID, model, key string) error {
	if r.traffic == nil {
		return agentkernel.Errorf(agentkernel.CodeNotFound, "key", "no model is configured")
	}
	if pid == 0 {
		return r.traffic.Give(0, nil, model, key)
	}
	rec, err := r.store.Process(ctx, pid)
	if err != nil {
		return err
	}
	if len(rec.Spec.Models) == 0 {
		return agentkernel.Errorf(agentkernel.CodeNotFound, "key", "process %d has brought no models of its own", pid).WithPID(pid)
	}
	root := agentkernel.RootOf(pid, rec.Spec.Ancestors)
	if !rec.State.Terminal() {
		if err := r.traffic.Give(root, rec.Spec.Models, model, key); err != nil {
			return err
		}
		if rec, err = r.store.Process(ctx, pid); err != nil { // it may have ended meanwhile, and taken along what its tree had
			return err
		}
	}
	if !rec.State.Terminal() {
		return nil
	}
	return agentkernel.Errorf(agentkernel.CodeConflict, "key", "process %d has ended: it asks no model any more", pid).WithPID(pid)
}

// Spec is what a process was created with.
func (r *Reader) Spec(ctx context.Context, pid agentkernel.PID) (agentkernel.Spec, error) {
	rec, err := r.store.Process(ctx, pid)
	if err != nil {
		return agentkernel.Spec{}, err
	}
	return rec.Spec, r.settled(ctx, 0)
}

// State is the working set of a process.
func (r *Reader) State(ctx context.Context, pid agentkernel.PID) (map[string]json.RawMessage, error) {
	if _, err := r.store.Process(ctx, pid); err != nil {
		return nil, err
	}
	if err := r.settled(ctx, 0); err != nil {
		return nil, err
	}
	return r.store.State(ctx, pid)
}

// Journal reads the entries of a process from a position on.
func (r *Reader) Journal(ctx context.Context, pid agentkernel.PID, from int64, limit int) ([]agentkernel.Entry, error) {
	if _, _, err := history.Row(ctx, r.store, pid); err != nil {
		return nil, err
	}
	entries, _, err := history.Entries(ctx, r.store, pid, max(from, 1), limit)
	if err == nil { // some of them may have just been appended
		err = r.settled(ctx, pid)
	}
	return entries, history.StillThere(ctx, r.store, pid, err)
}

// Prune forgets processes that have ended, and removes what nobody names any more.
func (r *Reader) Prune(ctx context.Context, o agentkernel.PruneOptions) (agentkernel.Pruned, error) {
	return r.retention.Prune(ctx, o)
}

// Storage says how much room the store takes.
func (r *Reader) Storage(ctx context.Context) (agentkernel.Storage, error) {
	return r.retention.Storage(ctx)
}

// NoRecordings is the role of a kernel that makes and reads none.
type NoRecordings struct{}

var errNoRecordings = agentkernel.Errorf(agentkernel.CodeUnsupported, "recording", "this kernel makes and reads no recordings")

// Export exports nothing.
func (NoRecordings) Export(context.Context, agentkernel.PID, agentkernel.ExportOptions) ([]byte, error) {
	return nil, errNoRecordings
}

// Import imports nothing.
func (NoRecordings) Import(context.Context, []byte, agentkernel.ImportOptions) (agentkernel.Process, error) {
	return agentkernel.Process{}, errNoRecordings
}

// Replay verifies nothing.
func (NoRecordings) Replay(context.Context, []byte, agentkernel.ReplayOptions) (agentkernel.Verdict, error) {
	return agentkernel.Verdict{}, errNoRecordings
}
