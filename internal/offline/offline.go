// Package offline shows what a store holds while no kernel runs on it.
package offline

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"slices"

	"agentkernel"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/kernel/usage"
)

// Reader shows what a store holds while no kernel runs on it. It implements agentkernel.Kernel; whatever
// would change something answers CodeUnavailable.
type Reader struct {
	store agentkernel.StoreReader
	info  agentkernel.KernelInfo
	close func() error
}

var _ agentkernel.Kernel = (*Reader)(nil)

// New reads store; closeStore is called by Close.
func New(store agentkernel.StoreReader, info agentkernel.StoreInfo, closeStore func() error) *Reader {
	return &Reader{store: store, close: closeStore,
		info: agentkernel.KernelInfo{API: agentkernel.APIVersion, OSPID: os.Getpid(), Store: info, Mode: "reader"}}
}

// After says which kernel ran last.
func (r *Reader) After(life agentkernel.KernelLife) *Reader {
	r.info.Before = life
	return r
}

func errNoKernel(op string) error {
	return agentkernel.Errorf(agentkernel.CodeUnavailable, op, "no kernel runs on this data directory").
		WithHint("any of run, spawn, serve or recover starts one")
}

// Info describes the store; there is no kernel.
func (r *Reader) Info(ctx context.Context) (agentkernel.KernelInfo, error) {
	left, err := r.store.Count(ctx, agentkernel.Filter{Unfinished: true})
	info := r.info
	info.Unfinished = left
	if err == nil {
		info.Holds, err = r.store.Holds(ctx)
		living := history.Living(r.store)
		info.Holds = slices.DeleteFunc(info.Holds, func(h agentkernel.Hold) bool {
			return h.Tree != 0 && agentkernel.CodeOf(living(ctx, h.Tree)) == agentkernel.CodeConflict
		})
	}
	return info, err
}

// Process reads one process.
func (r *Reader) Process(ctx context.Context, pid agentkernel.PID) (agentkernel.Process, error) {
	rec, lost, err := history.Row(ctx, r.store, pid)
	if err == nil {
		rec.Usage = history.Used(ctx, r.store, &rec)
	}
	return history.Shown(rec, lost), err
}

// Count says how many processes a filter selects.
func (r *Reader) Count(ctx context.Context, f agentkernel.Filter) (int, error) {
	return r.store.Count(ctx, f)
}

// List reads a page of processes, newest first.
func (r *Reader) List(ctx context.Context, f agentkernel.Filter) ([]agentkernel.Process, error) {
	records, err := history.Page(ctx, r.store, f)
	out := make([]agentkernel.Process, 0, len(records))
	for _, rec := range records {
		rec.Usage = history.Used(ctx, r.store, &rec)
		out = append(out, history.Shown(rec, nil))
	}
	return out, err
}

// Wait answers for a process that has ended.
func (r *Reader) Wait(ctx context.Context, pid agentkernel.PID) (agentkernel.Process, error) {
	rec, lost, err := history.Row(ctx, r.store, pid)
	if err == nil && !rec.State.Terminal() {
		err = errNoKernel("wait")
	}
	return history.Shown(rec, lost), err
}

// Events reports what the journal has; there is nobody to follow.
func (r *Reader) Events(ctx context.Context, pid agentkernel.PID, from int64, _ bool, fn func(agentkernel.Event) error) error {
	if _, _, err := history.Row(ctx, r.store, pid); err != nil {
		return err
	}
	_, _, err := history.Report(ctx, r.store, pid, max(from, 1), func(context.Context) error { return nil }, fn)
	return err
}

// Spec is what a process was created with.
func (r *Reader) Spec(ctx context.Context, pid agentkernel.PID) (agentkernel.Spec, error) {
	rec, err := r.store.Process(ctx, pid)
	return rec.Spec, err
}

// Journal reads the entries of a process.
func (r *Reader) Journal(ctx context.Context, pid agentkernel.PID, from int64, limit int) ([]agentkernel.Entry, error) {
	if _, _, err := history.Row(ctx, r.store, pid); err != nil {
		return nil, err
	}
	list, _, err := history.Entries(ctx, r.store, pid, max(from, 1), limit)
	return list, err
}

// State reads the working set of a process.
func (r *Reader) State(ctx context.Context, pid agentkernel.PID) (map[string]json.RawMessage, error) {
	return r.store.State(ctx, pid)
}

// Spawn needs a kernel.
func (r *Reader) Spawn(context.Context, agentkernel.Spec) (agentkernel.Process, error) {
	return agentkernel.Process{}, errNoKernel("spawn")
}

// SpawnMany needs a kernel.
func (r *Reader) SpawnMany(context.Context, agentkernel.Spec, []agentkernel.Instance) ([]agentkernel.PID, error) {
	return nil, errNoKernel("spawn")
}

// Run needs a kernel.
func (r *Reader) Run(context.Context, agentkernel.Spec, func(agentkernel.Event) error) (agentkernel.Process, error) {
	return agentkernel.Process{}, errNoKernel("run")
}

// Signal needs a kernel.
func (r *Reader) Signal(context.Context, agentkernel.PID, agentkernel.Signal, ...agentkernel.SignalOptions) error {
	return errNoKernel("signal")
}

// Answer needs a kernel.
func (r *Reader) Answer(context.Context, agentkernel.PID, int64, agentkernel.Answer) error {
	return errNoKernel("answer")
}

// Recover needs a kernel.
func (r *Reader) Recover(context.Context, agentkernel.PID) ([]agentkernel.Process, error) {
	return nil, errNoKernel("recover")
}

// Resolve needs a kernel.
func (r *Reader) Resolve(context.Context, agentkernel.PID, int64, agentkernel.Resolution) error {
	return errNoKernel("resolve")
}

// Export needs a kernel: it knows the secrets that are taken out.
func (r *Reader) Export(context.Context, agentkernel.PID, agentkernel.ExportOptions) ([]byte, error) {
	return nil, errNoKernel("export")
}

// Backup needs a kernel: it decides when a blob may go.
func (r *Reader) Backup(context.Context, io.Writer) error { return errNoKernel("backup") }

// Import needs a kernel.
func (r *Reader) Import(context.Context, []byte, agentkernel.ImportOptions) (agentkernel.Process, error) {
	return agentkernel.Process{}, errNoKernel("import")
}

// Replay needs a kernel.
func (r *Reader) Replay(context.Context, []byte, agentkernel.ReplayOptions) (agentkernel.Verdict, error) {
	return agentkernel.Verdict{}, errNoKernel("replay")
}

// Prune needs a kernel.
func (r *Reader) Prune(context.Context, agentkernel.PruneOptions) (agentkernel.Pruned, error) {
	return agentkernel.Pruned{}, errNoKernel("prune")
}

// Storage says how much room the store takes.
func (r *Reader) Storage(ctx context.Context) (agentkernel.Storage, error) {
	store, ok := r.store.(interface {
		Storage(ctx context.Context) (agentkernel.Storage, error)
	})
	if !ok {
		return agentkernel.Storage{}, agentkernel.Errorf(agentkernel.CodeUnsupported, "storage", "this store does not measure itself")
	}
	return store.Storage(ctx)
}

// ToolServers needs a kernel.
func (r *Reader) ToolServers(context.Context, []string) ([]agentkernel.ToolServer, error) {
	return nil, errNoKernel("tools")
}

// ListTools needs a kernel.
func (r *Reader) ListTools(context.Context, []string, string) ([]agentkernel.Tool, error) {
	return nil, errNoKernel("tools")
}

// SearchTools needs a kernel.
func (r *Reader) SearchTools(context.Context, []string, agentkernel.ToolQuery) (agentkernel.ToolMatches, error) {
	return agentkernel.ToolMatches{}, errNoKernel("tools")
}

// AcceptTools needs a kernel.
func (r *Reader) AcceptTools(context.Context, []string, string, []string) (int, error) {
	return 0, errNoKernel("tools")
}

// Feed needs a kernel.
func (r *Reader) Feed(context.Context, agentkernel.PID, agentkernel.Cell, func(agentkernel.Event) error) (agentkernel.CellEnd, error) {
	return agentkernel.CellEnd{}, errNoKernel("session")
}

// EndSession needs a kernel.
func (r *Reader) EndSession(context.Context, agentkernel.PID) (agentkernel.Process, error) {
	return agentkernel.Process{}, errNoKernel("session")
}

// Changes needs a kernel.
func (r *Reader) Changes(context.Context, agentkernel.PID) (agentkernel.Changes, error) {
	return agentkernel.Changes{}, errNoKernel("files")
}

// Apply needs a kernel.
func (r *Reader) Apply(context.Context, agentkernel.PID, agentkernel.ApplyOptions) (agentkernel.Applied, error) {
	return agentkernel.Applied{}, errNoKernel("apply")
}

// Discard needs a kernel.
func (r *Reader) Discard(context.Context, agentkernel.PID) error { return errNoKernel("discard") }

// OpenFile needs a kernel.
func (r *Reader) OpenFile(context.Context, agentkernel.PID, agentkernel.FileName) (agentkernel.File, error) {
	return agentkernel.File{}, errNoKernel("get")
}

// SaveSkill needs a kernel.
func (r *Reader) SaveSkill(context.Context, agentkernel.Skill) (agentkernel.Skill, error) {
	return agentkernel.Skill{}, errNoKernel("skill")
}

// Skill needs a kernel.
func (r *Reader) Skill(context.Context, string, string, int) (agentkernel.Skill, error) {
	return agentkernel.Skill{}, errNoKernel("skill")
}

// Skills needs a kernel.
func (r *Reader) Skills(context.Context, agentkernel.SkillQuery) ([]agentkernel.Skill, error) {
	return nil, errNoKernel("skill")
}

// DeleteSkill needs a kernel.
func (r *Reader) DeleteSkill(context.Context, string, string) error { return errNoKernel("skill") }

// Document needs a kernel.
func (r *Reader) Document(context.Context, string, string, string) (agentkernel.Document, error) {
	return agentkernel.Document{}, errNoKernel("state")
}

// PutDocument needs a kernel.
func (r *Reader) PutDocument(context.Context, agentkernel.Document) (agentkernel.Document, error) {
	return agentkernel.Document{}, errNoKernel("state")
}

// Close closes the store.
func (r *Reader) Close() error { return r.close() }

// Budget needs a kernel.
func (r *Reader) Budget(context.Context, agentkernel.PID) (agentkernel.BudgetState, error) {
	return agentkernel.BudgetState{}, errNoKernel("budget")
}

// AddBudget needs a kernel.
func (r *Reader) AddBudget(context.Context, agentkernel.PID, agentkernel.Budget) (agentkernel.BudgetState, error) {
	return agentkernel.BudgetState{}, errNoKernel("budget")
}

// Allowances needs a kernel, whose setting they are.
func (r *Reader) Allowances(context.Context, string) ([]agentkernel.AllowanceState, error) {
	return nil, errNoKernel("budget")
}

// ModelUsage adds up what calls to models have used.
func (r *Reader) ModelUsage(ctx context.Context, q agentkernel.UsageQuery) (agentkernel.ModelUsage, error) {
	return usage.Read(ctx, r.store, q)
}

// ModelLimits needs a kernel, which has learned them.
func (r *Reader) ModelLimits(context.Context) (agentkernel.ModelLimits, error) {
	return agentkernel.ModelLimits{}, errNoKernel("limits")
}

// GiveKey needs a kernel, in whose memory the key is.
func (r *Reader) GiveKey(context.Context, agentkernel.PID, string, string) error {
	return errNoKernel("key")
}

// Halt needs a kernel.
func (r *Reader) Halt(context.Context, agentkernel.Hold) error { return errNoKernel("halt") }

// Thaw needs a kernel.
func (r *Reader) Thaw(context.Context, agentkernel.Hold) error { return errNoKernel("thaw") }
