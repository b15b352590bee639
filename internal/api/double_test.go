package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"agentkernel"
)

// double is a kernel in memory whose programs are lists of commands, one a line:
//
//	print <text>      an output event
//	flood <n> <size>  n output events of size bytes
//	set <key> <json>  a key of the working set
//	ask               an EventAsk; goes on when it is answered
//	pause             the process pauses until a signal resumes it
//	block             until a signal kills it
//	fail <text>       ends as failed
//
// It keeps the contract of agentkernel.Kernel where that matters to callers over a wire: events are kept and
// can be asked again, processes go on without their callers, errors have codes.
type double struct {
	mu      sync.Mutex
	procs   []*task
	keys    map[string]agentkernel.PID
	busy    int
	gone    chan agentkernel.PID // a Run or Events call whose context ended
	started time.Time
}

type task struct {
	k       *double
	spec    agentkernel.Spec
	proc    agentkernel.Process
	events  []agentkernel.Event
	entries []agentkernel.Entry
	state   map[string]json.RawMessage
	asks    map[int64]chan agentkernel.Answer
	signals chan agentkernel.Signal
	changed chan struct{} // closed at every change
}

func newDouble() *double {
	return &double{keys: map[string]agentkernel.PID{}, gone: make(chan agentkernel.PID, 16), started: time.Unix(1_700_000_000, 0).UTC()}
}

var _ agentkernel.Kernel = (*double)(nil)

func (k *double) Info(context.Context) (agentkernel.KernelInfo, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return agentkernel.KernelInfo{Version: "1.0", API: agentkernel.APIVersion, OSPID: 7, Home: "/h", Started: k.started,
		Processes: k.busy, Mode: "serve", Store: agentkernel.StoreInfo{UUID: "u", Schema: 1}}, nil
}

// Close ends the programs.
func (k *double) Close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, t := range k.procs {
		close(t.signals)
	}
	return nil
}

func (k *double) Spawn(_ context.Context, s agentkernel.Spec) (agentkernel.Process, error) {
	t, fresh, err := k.create(s)
	if err != nil {
		return agentkernel.Process{}, err
	}
	created := t.snapshot()
	if fresh {
		go t.run()
	}
	return created, nil
}

func (k *double) SpawnMany(ctx context.Context, s agentkernel.Spec, each []agentkernel.Instance) (pids []agentkernel.PID, err error) {
	pids = []agentkernel.PID{}
	for i := range each {
		p, err := k.Spawn(ctx, s.Instance(&each[i]))
		if err != nil {
			return pids, err
		}
		pids = append(pids, p.PID)
	}
	return pids, nil
}

func (k *double) Run(ctx context.Context, s agentkernel.Spec, fn func(agentkernel.Event) error) (agentkernel.Process, error) {
	t, fresh, err := k.create(s)
	if err != nil {
		return agentkernel.Process{}, err
	}
	if fresh {
		go t.run()
	}
	err = t.follow(ctx, 1, true, true, fn)
	return t.snapshot(), err
}

func (k *double) create(s agentkernel.Spec) (t *task, fresh bool, err error) {
	if err := s.Validate(); err != nil {
		return nil, false, err
	}
	switch s.Program.Source {
	case "":
		return nil, false, &agentkernel.Error{Code: agentkernel.CodeSyntax, Op: "spawn", Err: fmt.Errorf("line 1: nothing"),
			Hint: "write something", Traceback: "  File \"x\", line 1\n    ^\n", Exception: "SyntaxError"}
	case "panic":
		panic("the double was asked to")
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if pid, ok := k.keys[s.IdempotencyKey]; ok && s.IdempotencyKey != "" {
		return k.procs[pid-1], false, nil
	}
	pid := agentkernel.PID(len(k.procs) + 1)
	k.keys[s.IdempotencyKey] = pid
	t = &task{k: k, spec: s, state: map[string]json.RawMessage{}, asks: map[int64]chan agentkernel.Answer{},
		signals: make(chan agentkernel.Signal, 4), changed: make(chan struct{}),
		proc: agentkernel.Process{PID: pid, Parent: s.Parent, Namespace: s.Namespace, Name: s.Program.Name,
			State: agentkernel.StateRunning, Created: k.started}}
	k.procs = append(k.procs, t)
	k.busy++
	proc := t.proc
	t.emitLocked(agentkernel.Event{Kind: agentkernel.EventCreated, Process: &proc})
	return t, true, nil
}

func (t *task) run() {
	for line := range strings.SplitSeq(t.spec.Program.Source, "\n") {
		if !t.step(line) {
			return
		}
	}
	t.end(agentkernel.StateExited, nil)
}

func (t *task) step(line string) (goOn bool) {
	verb, rest, _ := strings.Cut(line, " ")
	switch verb {
	case "print":
		t.emit(agentkernel.Event{Kind: agentkernel.EventOutput, Stream: "stdout", Text: rest + "\n"})
	case "flood":
		var n, size int
		_, _ = fmt.Sscan(rest, &n, &size)
		for i := range n {
			t.emit(agentkernel.Event{Kind: agentkernel.EventOutput, Stream: "stdout", Text: fmt.Sprintf("%0*d", size, i)})
		}
	case "set":
		key, value, _ := strings.Cut(rest, " ")
		t.k.mu.Lock()
		t.state[key] = json.RawMessage(value)
		t.k.mu.Unlock()
	case "ask":
		answer := t.ask()
		t.emit(agentkernel.Event{Kind: agentkernel.EventOutput, Stream: "stdout", Text: string(<-answer)})
	case "pause":
		t.pause(true)
		return t.obey(agentkernel.SignalResume)
	case "block":
		return t.obey("")
	case "fail":
		t.end(agentkernel.StateFailed, agentkernel.Errorf(agentkernel.CodeProgram, "run", "%s", rest))
		return false
	}
	return true
}

func (t *task) ask() chan agentkernel.Answer {
	t.k.mu.Lock()
	defer t.k.mu.Unlock()
	ch := make(chan agentkernel.Answer, 1)
	t.asks[1] = ch
	t.events = append(t.events, agentkernel.Event{Kind: agentkernel.EventAsk, PID: t.proc.PID, Seq: int64(len(t.entries)),
		Ask: &agentkernel.Ask{ID: 1, Call: "fs.write", Effect: agentkernel.EffectWrite, Args: json.RawMessage(`{"a":"<&>"}`)}})
	t.wake()
	return ch
}

func (t *task) pause(on bool) {
	t.k.mu.Lock()
	defer t.k.mu.Unlock()
	t.proc.Paused = on
	proc := t.proc
	t.emitLocked(agentkernel.Event{Kind: agentkernel.EventState, Process: &proc})
}

// obey waits for a signal: until it goes on, or is killed.
func (t *task) obey(goOn agentkernel.Signal) bool {
	for sig := range t.signals {
		switch sig {
		case agentkernel.SignalKill:
			t.end(agentkernel.StateKilled, agentkernel.Errorf(agentkernel.CodeKilled, "signal", "killed"))
			return false
		case goOn:
			t.pause(false)
			return true
		}
	}
	return false
}

func (t *task) end(state agentkernel.State, err *agentkernel.Error) {
	t.k.mu.Lock()
	defer t.k.mu.Unlock()
	t.k.busy--
	t.proc.State, t.proc.Error, t.proc.Result = state, err, json.RawMessage(`{"n":1.0,"s":"<b>"}`)
	proc := t.proc
	t.emitLocked(agentkernel.Event{Kind: agentkernel.EventEnd, Process: &proc})
}

func (t *task) emit(ev agentkernel.Event) {
	t.k.mu.Lock()
	defer t.k.mu.Unlock()
	t.emitLocked(ev)
}

func (t *task) emitLocked(ev agentkernel.Event) {
	ev.PID, ev.Seq, ev.At = t.proc.PID, int64(len(t.entries)+1), t.k.started
	t.events = append(t.events, ev)
	t.entries = append(t.entries, agentkernel.Entry{PID: ev.PID, Seq: ev.Seq, At: ev.At, Kind: agentkernel.EntryOutput, Stream: ev.Stream,
		Data: json.RawMessage(strconv.Quote(ev.Text))})
	t.wake()
}

func (t *task) wake() { close(t.changed); t.changed = make(chan struct{}) }

func (t *task) snapshot() agentkernel.Process {
	t.k.mu.Lock()
	defer t.k.mu.Unlock()
	return t.proc
}

func (t *task) follow(ctx context.Context, from int64, follow, untilPause bool, fn func(agentkernel.Event) error) error {
	for at := 0; ; {
		t.k.mu.Lock()
		events, changed := slices.Clone(t.events[at:]), t.changed
		t.k.mu.Unlock()
		for _, ev := range events {
			at++
			if ev.Seq < from {
				continue
			}
			if err := fn(ev); err != nil {
				return err
			}
			if ev.Kind == agentkernel.EventEnd || untilPause && ev.Kind == agentkernel.EventState && t.snapshot().Paused {
				return nil
			}
		}
		if !follow {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.k.gone <- t.proc.PID
			return ctx.Err()
		}
	}
}

func (k *double) find(pid agentkernel.PID) (*task, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if pid < 1 || int(pid) > len(k.procs) {
		return nil, agentkernel.Errorf(agentkernel.CodeNotFound, "process", "no process %d", pid).WithPID(pid).WithHint("agentkernel ps")
	}
	return k.procs[pid-1], nil
}

func (k *double) Process(_ context.Context, pid agentkernel.PID) (agentkernel.Process, error) {
	t, err := k.find(pid)
	if err != nil {
		return agentkernel.Process{}, err
	}
	return t.snapshot(), nil
}

func (k *double) List(_ context.Context, f agentkernel.Filter) ([]agentkernel.Process, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var list []agentkernel.Process
	for _, t := range slices.Backward(k.procs) {
		if (f.Before == 0 || t.proc.PID < f.Before) && (!f.Active || !t.proc.State.Terminal()) && (f.Namespace == "" || f.Namespace == t.proc.Namespace) && (f.Parent == 0 || f.Parent == t.proc.Parent) &&
			(!f.Unfinished || !t.proc.State.Terminal()) && (f.Limit == 0 || len(list) < f.Limit) {
			list = append(list, t.proc)
		}
	}
	return list, nil
}

func (k *double) Count(ctx context.Context, f agentkernel.Filter) (int, error) {
	f.Limit = 0
	list, err := k.List(ctx, f)
	return len(list), err
}

func (k *double) Wait(ctx context.Context, pid agentkernel.PID) (agentkernel.Process, error) {
	t, err := k.find(pid)
	if err != nil {
		return agentkernel.Process{}, err
	}
	err = t.follow(ctx, 1, true, true, func(agentkernel.Event) error { return nil })
	return t.snapshot(), err
}

func (k *double) Signal(_ context.Context, pid agentkernel.PID, sig agentkernel.Signal, _ ...agentkernel.SignalOptions) error {
	t, err := k.find(pid)
	if err != nil {
		return err
	}
	if p := t.snapshot(); p.State.Terminal() {
		return agentkernel.Errorf(agentkernel.CodeConflict, "signal", "process %d has ended", pid).WithPID(pid)
	}
	t.signals <- sig
	return nil
}

// Resolve knows of an open question about call 7 of any process.
func (k *double) Resolve(_ context.Context, pid agentkernel.PID, call int64, r agentkernel.Resolution) error {
	if err := r.Validate(); err != nil {
		return err
	}
	if call != 7 {
		return agentkernel.Errorf(agentkernel.CodeConflict, "resolve", "nothing to decide: %s %s %s", r.Decision, r.Result, r.Message).WithPID(pid)
	}
	return nil
}

// Prune repeats what it was asked, in the fields that there are.
func (k *double) Prune(_ context.Context, o agentkernel.PruneOptions) (agentkernel.Pruned, error) {
	if o.Before.IsZero() {
		return agentkernel.Pruned{}, agentkernel.Errorf(agentkernel.CodeInvalid, "prune", "before is missing").WithHint("say when")
	}
	return agentkernel.Pruned{Removed: agentkernel.Removed{Processes: o.Before.Unix(), Entries: 2, Blobs: 3, BlobBytes: 4},
		Kept: int64(len(o.Namespace)), Freed: 5, DryRun: o.DryRun && o.KeepFailed}, nil
}

func (k *double) Storage(context.Context) (agentkernel.Storage, error) {
	return agentkernel.Storage{Database: 1, Unused: 2, Log: 3, Blobs: 4, BlobFiles: 5, Quota: 6}, nil
}

// A recording of the double is the process's name.
func (k *double) Export(_ context.Context, pid agentkernel.PID, o agentkernel.ExportOptions) ([]byte, error) {
	t, err := k.find(pid)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "\xff\x00%s %v %v", t.spec.Program.Name, o.Unredacted, o.Files), nil
}

func (k *double) Import(_ context.Context, file []byte, o agentkernel.ImportOptions) (agentkernel.Process, error) {
	if len(file) == 0 {
		return agentkernel.Process{}, agentkernel.Errorf(agentkernel.CodeCorrupt, "recording", "nothing")
	}
	return agentkernel.Process{PID: 77, Name: fmt.Sprintf("%x", file), Namespace: o.Namespace}, nil
}

func (k *double) Replay(_ context.Context, file []byte, o agentkernel.ReplayOptions) (agentkernel.Verdict, error) {
	if len(file) == 0 {
		return agentkernel.Verdict{}, agentkernel.Errorf(agentkernel.CodeCorrupt, "recording", "nothing")
	}
	return agentkernel.Verdict{Equal: o.Memory == 0, Difference: fmt.Sprintf("%x %v %d %s", file, o.Time, o.Memory, o.Environment)}, nil
}

func (k *double) Answer(_ context.Context, pid agentkernel.PID, ask int64, a agentkernel.Answer) error {
	t, err := k.find(pid)
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	ch, ok := t.asks[ask]
	if !ok {
		return agentkernel.Errorf(agentkernel.CodeNotFound, "answer", "nothing was asked").WithPID(pid)
	}
	delete(t.asks, ask)
	ch <- a
	return nil
}

func (k *double) Recover(ctx context.Context, pid agentkernel.PID) ([]agentkernel.Process, error) {
	if pid != 0 {
		p, err := k.Process(ctx, pid)
		return []agentkernel.Process{p}, err
	}
	return k.List(ctx, agentkernel.Filter{Unfinished: true})
}

func (k *double) Events(ctx context.Context, pid agentkernel.PID, from int64, follow bool, fn func(agentkernel.Event) error) error {
	t, err := k.find(pid)
	if err != nil {
		return err
	}
	return t.follow(ctx, from, follow, false, fn)
}

func (k *double) Journal(_ context.Context, pid agentkernel.PID, from int64, limit int) ([]agentkernel.Entry, error) {
	t, err := k.find(pid)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	rest := t.entries[min(max(from-1, 0), int64(len(t.entries))):]
	if limit > 0 && limit < len(rest) {
		rest = rest[:limit]
	}
	return slices.Clone(rest), nil
}

func (k *double) Spec(_ context.Context, pid agentkernel.PID) (agentkernel.Spec, error) {
	t, err := k.find(pid)
	if err != nil {
		return agentkernel.Spec{}, err
	}
	return t.spec, nil
}

func (k *double) State(_ context.Context, pid agentkernel.PID) (map[string]json.RawMessage, error) {
	t, err := k.find(pid)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return t.state, nil
}

func (k *double) ToolServers(_ context.Context, files []string) ([]agentkernel.ToolServer, error) {
	var list []agentkernel.ToolServer
	for _, f := range files {
		list = append(list, agentkernel.ToolServer{Name: "s", Source: f})
	}
	return list, nil
}

func (k *double) ListTools(_ context.Context, files []string, server string) ([]agentkernel.Tool, error) {
	if server == "dead" {
		return nil, agentkernel.Errorf(agentkernel.CodeUnavailable, "tools", "server dead does not start: boom")
	}
	return []agentkernel.Tool{{Server: server, Name: strings.Join(files, "+"), InputSchema: json.RawMessage(`{"type":"object"}`)}}, nil
}

func (k *double) SearchTools(_ context.Context, files []string, q agentkernel.ToolQuery) (agentkernel.ToolMatches, error) {
	if err := q.Validate(); err != nil {
		return agentkernel.ToolMatches{}, err
	}
	return agentkernel.ToolMatches{Tools: []agentkernel.Tool{{Server: q.Server, Name: q.Text}}, Total: q.Limit, Problems: files}, nil
}

func (k *double) AcceptTools(_ context.Context, files []string, server string, names []string) (int, error) {
	if server == "dead" {
		return 0, agentkernel.Errorf(agentkernel.CodeUnavailable, "tools", "server dead does not start: boom")
	}
	return len(files) + len(names), nil
}

func (k *double) Budget(_ context.Context, pid agentkernel.PID) (agentkernel.BudgetState, error) {
	return agentkernel.BudgetState{PID: pid}, nil
}

func (k *double) Allowances(_ context.Context, namespace string) ([]agentkernel.AllowanceState, error) {
	if namespace == "none" {
		return nil, nil
	}
	day := time.Date(2026, 11, 25, 0, 0, 0, 0, time.UTC)
	return []agentkernel.AllowanceState{{Allowance: agentkernel.Allowance{Namespace: namespace, Period: agentkernel.PeriodDay, Limit: agentkernel.Spending{USD: 5 * agentkernel.USD}},
		Spent: agentkernel.Spending{USD: agentkernel.USD}, Since: day, Until: day.AddDate(0, 0, 1)}}, nil
}

func (k *double) ModelUsage(_ context.Context, q agentkernel.UsageQuery) (agentkernel.ModelUsage, error) {
	if err := q.Validate(); err != nil {
		return agentkernel.ModelUsage{}, err
	}
	row := agentkernel.UsageRow{Agent: fmt.Sprint(q.By), Namespace: q.Namespace, Tree: q.Tree, Day: q.Since.UTC().Format(time.RFC3339Nano), Model: q.Until.UTC().Format(time.RFC3339Nano), USD: 1}
	if len(q.By) == 0 {
		return agentkernel.ModelUsage{Total: row}, nil
	}
	return agentkernel.ModelUsage{Rows: []agentkernel.UsageRow{row}, Total: row}, nil
}

func (k *double) ModelLimits(context.Context) (agentkernel.ModelLimits, error) {
	at := time.Date(2026, 11, 25, 0, 0, 0, 0, time.UTC)
	return agentkernel.ModelLimits{Keys: []agentkernel.KeyLimits{{Key: "k", Family: "f", Share: 1, Limits: []agentkernel.ModelLimit{{What: "requests", Source: "headers", Amount: 500,
		Period: agentkernel.Duration(time.Minute), Left: 3}}, Queue: []agentkernel.QueuedAt{{Priority: 10, Calls: 2}}, PausedUntil: at}},
		Deployments: []agentkernel.ModelDeployment{{Name: "fast", State: agentkernel.ModelDown, Since: at, Until: at}}, Unplaced: 1}, nil
}

func (k *double) GiveKey(_ context.Context, pid agentkernel.PID, model, key string) error {
	if model == "none" {
		return agentkernel.Errorf(agentkernel.CodeNotFound, "key", "%s of %d, with a key of %d bytes", model, pid, len(key))
	}
	return nil
}

func (k *double) AddBudget(_ context.Context, pid agentkernel.PID, more agentkernel.Budget) (agentkernel.BudgetState, error) {
	return agentkernel.BudgetState{PID: pid, Limit: agentkernel.Spending(more)}, nil
}

func (k *double) Halt(context.Context, agentkernel.Hold) error { return nil }

func (k *double) Thaw(context.Context, agentkernel.Hold) error { return nil }
