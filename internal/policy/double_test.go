package policy_test

import (
	"context"
	"encoding/json"
	"io"

	"agentkernel"
)

// double is a kernel with one process in each of two namespaces. It notes what reaches it, and does
// nothing.
type double struct {
	specs   map[agentkernel.PID]agentkernel.Spec
	reached []string
	spec    agentkernel.Spec // of the last Spawn or Run
	space   string           // the last namespace that was named
	closed  bool
	holds   []agentkernel.Hold
}

const (
	ofTeam    agentkernel.PID = 1
	ofOthers  agentkernel.PID = 2
	ofNobody  agentkernel.PID = 3
	team                      = "team"
	others                    = "others"
	recording                 = "recording"
)

func newDouble() *double {
	return &double{specs: map[agentkernel.PID]agentkernel.Spec{ofTeam: {Namespace: team}, ofOthers: {Namespace: others}}}
}

func (d *double) note(method string) error {
	d.reached = append(d.reached, method)
	return nil
}

func (d *double) in(method, namespace string) error {
	d.space = namespace
	return d.note(method)
}

func (d *double) row(pid agentkernel.PID) (agentkernel.Process, error) {
	s, ok := d.specs[pid]
	if !ok {
		return agentkernel.Process{}, agentkernel.Errorf(agentkernel.CodeNotFound, agentkernel.OpPruned, "process %d was pruned", pid)
	}
	return agentkernel.Process{PID: pid, Namespace: s.Namespace, State: agentkernel.StateUnfinished}, nil
}

func (d *double) Spawn(_ context.Context, s agentkernel.Spec) (agentkernel.Process, error) {
	d.spec = s
	return agentkernel.Process{}, d.in("Spawn", s.Namespace)
}
func (d *double) SpawnMany(_ context.Context, s agentkernel.Spec, _ []agentkernel.Instance) ([]agentkernel.PID, error) {
	d.spec = s
	return nil, d.in("SpawnMany", s.Namespace)
}
func (d *double) Run(_ context.Context, s agentkernel.Spec, _ func(agentkernel.Event) error) (agentkernel.Process, error) {
	d.spec = s
	return agentkernel.Process{}, d.in("Run", s.Namespace)
}
func (d *double) Process(_ context.Context, pid agentkernel.PID) (agentkernel.Process, error) {
	_ = d.note("Process")
	return d.row(pid)
}
func (d *double) List(_ context.Context, f agentkernel.Filter) (out []agentkernel.Process, err error) {
	for pid := ofOthers; pid >= ofTeam; pid-- {
		if p, _ := d.row(pid); (f.Before == 0 || pid < f.Before) && (f.Namespace == "" || f.Namespace == p.Namespace) {
			out = append(out, p)
		}
	}
	return out, d.in("List", f.Namespace)
}
func (d *double) Count(_ context.Context, f agentkernel.Filter) (int, error) {
	return 1, d.in("Count", f.Namespace)
}
func (d *double) Wait(context.Context, agentkernel.PID) (agentkernel.Process, error) {
	return agentkernel.Process{}, d.note("Wait")
}
func (d *double) Signal(context.Context, agentkernel.PID, agentkernel.Signal, ...agentkernel.SignalOptions) error {
	return d.note("Signal")
}
func (d *double) Answer(context.Context, agentkernel.PID, int64, agentkernel.Answer) error {
	return d.note("Answer")
}
func (d *double) Recover(_ context.Context, pid agentkernel.PID) ([]agentkernel.Process, error) {
	var out []agentkernel.Process
	for _, at := range []agentkernel.PID{ofTeam, ofOthers} {
		if p, _ := d.row(at); pid == 0 || pid == at {
			out = append(out, p)
		}
	}
	return out, d.note("Recover")
}
func (d *double) Events(context.Context, agentkernel.PID, int64, bool, func(agentkernel.Event) error) error {
	return d.note("Events")
}
func (d *double) Journal(context.Context, agentkernel.PID, int64, int) ([]agentkernel.Entry, error) {
	return nil, d.note("Journal")
}
func (d *double) Spec(_ context.Context, pid agentkernel.PID) (agentkernel.Spec, error) {
	_, err := d.row(pid)
	_ = d.note("Spec")
	return d.specs[pid], err
}
func (d *double) State(context.Context, agentkernel.PID) (map[string]json.RawMessage, error) {
	return nil, d.note("State")
}
func (d *double) Resolve(context.Context, agentkernel.PID, int64, agentkernel.Resolution) error {
	return d.note("Resolve")
}
func (d *double) Export(context.Context, agentkernel.PID, agentkernel.ExportOptions) ([]byte, error) {
	return nil, d.note("Export")
}
func (d *double) Import(_ context.Context, _ []byte, o agentkernel.ImportOptions) (agentkernel.Process, error) {
	return agentkernel.Process{}, d.in("Import", o.Namespace)
}
func (d *double) Replay(context.Context, []byte, agentkernel.ReplayOptions) (agentkernel.Verdict, error) {
	return agentkernel.Verdict{}, d.note("Replay")
}
func (d *double) ToolServers(context.Context, []string) ([]agentkernel.ToolServer, error) {
	return nil, d.note("ToolServers")
}
func (d *double) ListTools(context.Context, []string, string) ([]agentkernel.Tool, error) {
	return nil, d.note("ListTools")
}
func (d *double) SearchTools(context.Context, []string, agentkernel.ToolQuery) (agentkernel.ToolMatches, error) {
	return agentkernel.ToolMatches{}, d.note("SearchTools")
}
func (d *double) AcceptTools(context.Context, []string, string, []string) (int, error) {
	return 0, d.note("AcceptTools")
}
func (d *double) SaveSkill(_ context.Context, s agentkernel.Skill) (agentkernel.Skill, error) {
	return s, d.in("SaveSkill", s.Namespace)
}
func (d *double) Skill(_ context.Context, namespace, _ string, _ int) (agentkernel.Skill, error) {
	return agentkernel.Skill{}, d.in("Skill", namespace)
}
func (d *double) Skills(_ context.Context, q agentkernel.SkillQuery) ([]agentkernel.Skill, error) {
	return []agentkernel.Skill{{}}, d.in("Skills", q.Namespace)
}
func (d *double) DeleteSkill(_ context.Context, namespace, _ string) error {
	return d.in("DeleteSkill", namespace)
}
func (d *double) Document(_ context.Context, namespace, _, _ string) (agentkernel.Document, error) {
	return agentkernel.Document{}, d.in("Document", namespace)
}
func (d *double) PutDocument(_ context.Context, doc agentkernel.Document) (agentkernel.Document, error) {
	return doc, d.in("PutDocument", doc.Namespace)
}
func (d *double) Feed(context.Context, agentkernel.PID, agentkernel.Cell, func(agentkernel.Event) error) (agentkernel.CellEnd, error) {
	return agentkernel.CellEnd{}, d.note("Feed")
}
func (d *double) EndSession(context.Context, agentkernel.PID) (agentkernel.Process, error) {
	return agentkernel.Process{}, d.note("EndSession")
}
func (d *double) Changes(context.Context, agentkernel.PID) (agentkernel.Changes, error) {
	return agentkernel.Changes{}, d.note("Changes")
}
func (d *double) Apply(context.Context, agentkernel.PID, agentkernel.ApplyOptions) (agentkernel.Applied, error) {
	return agentkernel.Applied{}, d.note("Apply")
}
func (d *double) Discard(context.Context, agentkernel.PID) error { return d.note("Discard") }
func (d *double) OpenFile(context.Context, agentkernel.PID, agentkernel.FileName) (agentkernel.File, error) {
	return agentkernel.File{}, d.note("OpenFile")
}
func (d *double) Backup(context.Context, io.Writer) error { return d.note("Backup") }
func (d *double) Prune(_ context.Context, o agentkernel.PruneOptions) (agentkernel.Pruned, error) {
	return agentkernel.Pruned{Removed: agentkernel.Removed{Processes: 3, Entries: 9, Blobs: 1, BlobBytes: 8}, Kept: 2, Freed: 100, DryRun: o.DryRun}, d.in("Prune", o.Namespace)
}
func (d *double) Storage(context.Context) (agentkernel.Storage, error) {
	return agentkernel.Storage{Database: 1}, d.note("Storage")
}
func (d *double) Info(context.Context) (agentkernel.KernelInfo, error) {
	return agentkernel.KernelInfo{Version: "1", API: 1, OSPID: 7, Home: "/home/o", Processes: 50, Unfinished: 60, Mode: "serve", Holds: d.holds,
		Store:    agentkernel.StoreInfo{UUID: "u", Schema: 3, Path: "/home/o/db", Earlier: []agentkernel.Origin{{Last: 9}}},
		Backends: []agentkernel.BackendInfo{{Name: "b", Available: true, Problem: "/opt/b is missing"}},
		Settings: map[string]string{"PATH": "/bin"}, Storage: agentkernel.Storage{Database: 1}}, d.note("Info")
}
func (d *double) Close() error {
	d.closed = true
	return d.note("Close")
}

// hosting is a double that hosts programs, too.
type hosting struct{ *double }

func (h hosting) Attach(context.Context, agentkernel.PID, agentkernel.Attaching) (agentkernel.Host, error) {
	return nil, h.note("Attach")
}

func (d *double) Budget(_ context.Context, pid agentkernel.PID) (agentkernel.BudgetState, error) {
	return agentkernel.BudgetState{PID: pid}, d.note("Budget")
}

func (d *double) Allowances(_ context.Context, namespace string) ([]agentkernel.AllowanceState, error) {
	return []agentkernel.AllowanceState{{Allowance: agentkernel.Allowance{Namespace: namespace}}}, d.note("Allowances")
}

func (d *double) ModelUsage(_ context.Context, q agentkernel.UsageQuery) (agentkernel.ModelUsage, error) {
	return agentkernel.ModelUsage{Rows: []agentkernel.UsageRow{{Namespace: q.Namespace}}}, d.note("ModelUsage")
}

func (d *double) ModelLimits(context.Context) (agentkernel.ModelLimits, error) {
	return agentkernel.ModelLimits{}, d.note("ModelLimits")
}

func (d *double) GiveKey(context.Context, agentkernel.PID, string, string) error {
	return d.note("GiveKey")
}

func (d *double) AddBudget(_ context.Context, pid agentkernel.PID, _ agentkernel.Budget) (agentkernel.BudgetState, error) {
	return agentkernel.BudgetState{PID: pid}, d.note("AddBudget")
}

func (d *double) Halt(context.Context, agentkernel.Hold) error { return d.note("Halt") }

func (d *double) Thaw(context.Context, agentkernel.Hold) error { return d.note("Thaw") }
