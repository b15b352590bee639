package kernel

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"agentkernel"
)

// childKey begins the idempotency keys that the kernel makes for children; users may not use it.
const childKey = "\x00spawn/"

// Spawn creates a process and returns once it is durable.
func (k *Kernel) Spawn(ctx context.Context, s agentkernel.Spec) (agentkernel.Process, error) {
	if err := k.fromOutside(ctx, &s); err != nil {
		return agentkernel.Process{}, err
	}
	p, existing, err := k.create(ctx, s, nil)
	if err != nil {
		return agentkernel.Process{}, err
	}
	if existing != 0 {
		return k.Process(ctx, existing)
	}
	p.mu.Lock()
	snapshot := p.snapshot()
	p.mu.Unlock()
	k.launch(p)
	return snapshot, k.flush(ctx, p)
}

// Run creates a process and reports its events until it ends, is paused, or fn fails.
func (k *Kernel) Run(ctx context.Context, s agentkernel.Spec, fn func(agentkernel.Event) error) (agentkernel.Process, error) {
	if err := k.fromOutside(ctx, &s); err != nil {
		return agentkernel.Process{}, err
	}
	h := &here{w: newWatcher(s.Interactive)}
	h.w.hold()
	p, existing, err := k.create(ctx, s, h)
	if err != nil {
		return agentkernel.Process{}, err
	}
	if existing != 0 {
		return k.follow(ctx, existing, fn)
	}
	defer k.unwatch(p, h.w)
	k.launchHere(p, h)
	var last agentkernel.Process
	err = k.pump(ctx, p, h.w, 0, true, func(ev agentkernel.Event) error {
		if ev.Process != nil {
			last = *ev.Process
		}
		return fn(ev)
	})
	return last, err
}

// fromOutside settles what a caller may not choose.
func (k *Kernel) fromOutside(ctx context.Context, s *agentkernel.Spec) error {
	if strings.HasPrefix(s.IdempotencyKey, childKey) {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "spec", "an idempotency key may not begin with %q", childKey)
	}
	s.Ancestors = nil
	if len(s.Program.Earlier) > 0 || s.Program.Pieces != 0 {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "spec", "earlier and pieces of a program are filled in by the kernel").
			WithHint("leave them out; a session is fed its pieces one by one")
	}
	if err := s.Isolation.Validate(); err != nil {
		return err
	}
	if err := meaningful(s); err != nil {
		return err
	}
	if s.Parent == 0 {
		return nil
	}
	if parent := k.lookup(s.Parent); parent != nil {
		putBelow(s, &parent.spec.Spec)
		return nil
	}
	parent, err := k.store.Process(ctx, s.Parent)
	if err != nil {
		return err
	}
	putBelow(s, &parent.Spec)
	return nil
}

// putBelow gives a Spec what it has from the parent that its creator named.
func putBelow(s, parent *agentkernel.Spec) {
	s.Ancestors = below(parent, s.Parent)
	s.Isolation = s.Isolation.Below(parent.Isolation)
}

// below gives the ancestors of a child.
func below(parent *agentkernel.Spec, pid agentkernel.PID) []agentkernel.PID {
	return append(slices.Clone(parent.Ancestors), pid)
}

// follow reports the events of a process that exists already.
func (k *Kernel) follow(ctx context.Context, pid agentkernel.PID, fn func(agentkernel.Event) error) (agentkernel.Process, error) {
	if err := k.Events(ctx, pid, 1, true, fn); err != nil {
		return agentkernel.Process{}, err
	}
	return k.Process(ctx, pid)
}

// create validates a Spec and puts a process into the table, not running yet. existing: the process that
// an idempotency key names already. h: the caller will wait for it; nil: not.
func (k *Kernel) create(ctx context.Context, s agentkernel.Spec, h *here) (p *process, existing agentkernel.PID, err error) {
	chosen, err := k.prepare(&s)
	if err != nil {
		return nil, 0, err
	}
	if err := k.accepting(); err != nil {
		return nil, 0, err
	}
	if s.IdempotencyKey != "" && !k.surelyNewChild(&s) {
		k.keys.Lock()
		defer k.keys.Unlock()
		pid, err := k.store.ByKey(ctx, s.Namespace, s.IdempotencyKey)
		if err == nil {
			return nil, pid, k.sameProgram(ctx, pid, &s)
		}
		if agentkernel.CodeOf(err) != agentkernel.CodeNotFound {
			return nil, 0, err
		}
	}
	if err := k.cfg.Retention.Room(ctx); err != nil {
		return nil, 0, err
	}
	release, err := k.cfg.Retention.Hold(ctx, &s)
	if err != nil {
		return nil, 0, err
	}
	defer release()
	past, err := k.loadPast(ctx, &s)
	if err != nil {
		return nil, 0, err
	}
	pid := k.store.NewPID()
	if err := k.createFiles(pid, &s); err != nil {
		return nil, 0, err
	}
	if h != nil && chosen != nil && past == nil { // what may fail has not
		k.headStart(h, pid, &s, chosen)
	}
	data := k.specs.data(&s)
	p = k.newProcess(pid, k.specs.take(&s, data), chosen)
	p.past = past
	p.created = k.cfg.Now()
	if chosen != nil && p.replayable() {
		p.fingerprint = chosen.Fingerprint
	}
	if h != nil {
		p.watchers = append(p.watchers, h.w)
		p.life = h.life
	}
	if err := k.enter(p); err != nil {
		h.giveUp(k)
		k.specs.drop(p.spec)
		return nil, 0, err
	}
	k.appendBatch(p, agentkernel.Batch{Entries: []agentkernel.Entry{{Kind: agentkernel.EntryCreated, At: p.created, Data: data}}, Process: p.record()})
	p.to(agentkernel.StateReady)
	if len(p.watchers) > 0 {
		snapshot := p.snapshot()
		k.publish(p, agentkernel.Event{Kind: agentkernel.EventCreated, At: p.created, Process: &snapshot})
	}
	p.mu.Unlock()
	if s.Parent != 0 {
		k.holdNewborn(p)
	}
	return p, 0, nil
}

// sameProgram refuses an idempotency key that belongs to a process with another program: its caller would take that
// one's result for an answer to his own question. What else differs (limits, permissions) is the first caller's.
func (k *Kernel) sameProgram(ctx context.Context, pid agentkernel.PID, s *agentkernel.Spec) error {
	if strings.HasPrefix(s.IdempotencyKey, childKey) {
		return nil // the parent's journal says what it asked for
	}
	rec, err := k.store.Process(ctx, pid)
	if err != nil {
		return err
	}
	if rec.Spec.IdempotencyKey != s.IdempotencyKey {
		return keyTaken(pid, s.IdempotencyKey)
	}
	a, b := &rec.Spec.Program, &s.Program
	if a.Source == b.Source && a.Language == b.Language && slices.Equal(a.Args, b.Args) {
		return nil
	}
	what := "another program"
	if a.Source == b.Source {
		what = "the same program with other arguments"
	}
	return agentkernel.Errorf(agentkernel.CodeConflict, "spawn", "the idempotency key %q belongs to pid %d, which is %s", s.IdempotencyKey, pid, what).
		WithPID(pid).WithHint("take another key for a process of its own; `agentkernel inspect %d` shows what has this one", pid)
}

// specData is the Spec as the first entry shows it: without the texts of the program.
func specData(s *agentkernel.Spec) json.RawMessage {
	shown := *s
	shown.Program.Source, shown.Program.Modules = "", nil
	data, err := json.Marshal(shown)
	if err != nil {
		return nil // a budget that JSON has no number for; the row has the rest
	}
	return data
}

// surelyNewChild says that the spec is of a child whose parent lives its first life, so that no child of
// that call can exist.
func (k *Kernel) surelyNewChild(s *agentkernel.Spec) bool {
	if !strings.HasPrefix(s.IdempotencyKey, childKey) {
		return false
	}
	parent := k.lookup(s.Parent)
	if parent == nil {
		return false
	}
	parent.mu.Lock()
	defer parent.mu.Unlock()
	return parent.recoveries == 0
}

func (k *Kernel) newProcess(pid agentkernel.PID, s *sharedSpec, b *backend) *process {
	p := &process{pid: pid, spec: s, backend: b, state: stateCreated}
	if s.HasFiles() {
		p.filesFree = make(chan struct{})
	}
	return p
}

// launch lets a created or recovered process go.
func (k *Kernel) launch(p *process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k.startWallClock(p)
	if p.state != agentkernel.StateReady {
		return
	}
	if p.backend == nil || p.paused {
		// A hosted program is always somewhere else; a paused one is driven when it is resumed.
		p.to(agentkernel.StateRunning)
		p.to(agentkernel.StateWaiting)
		return
	}
	k.queue.push(p)
}

// prepare fills in defaults, refuses what cannot run, and chooses the backend (nil: hosted).
func (k *Kernel) prepare(s *agentkernel.Spec) (*backend, error) {
	if s.Backend != hostedBackend {
		s.Program.NormalizeLanguage()
	}
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if s.Namespace == "" {
		s.Namespace = "default"
	}
	if s.Priority == 0 {
		s.Priority = agentkernel.DefaultPriority
	}
	if s.Program.Language == "" {
		s.Program.Language = agentkernel.Python
	}
	if err := k.pinTools(s); err != nil {
		return nil, err
	}
	if len(s.AllowHosts) > 0 {
		if err := k.cfg.Fetcher.CheckHosts(s.AllowHosts); err != nil {
			return nil, err
		}
	}
	if s.Backend == hostedBackend {
		return nil, hostedBelow(s)
	}
	if err := k.addSkills(k.ctx, s); err != nil {
		return nil, err
	}
	return k.choose(s)
}

// autoBackend is the name in a Spec by which the choice is left to the kernel.
const autoBackend = "auto"

// choose finds the backend: the one that is named, or the first that accepts the program and runs it as its
// language's own runtime does, or the first that accepts it.
func (k *Kernel) choose(s *agentkernel.Spec) (*backend, error) {
	if err := k.unreached(s); err != nil {
		return nil, err
	}
	if s.Backend != "" && s.Backend != autoBackend {
		return k.named(s)
	}
	s.Backend = autoBackend // what was asked for stays in the Spec: children ask for the same, and the program may move
	var refused error
	var differing *backend
	for _, b := range k.backends {
		if !b.speaks(s.Program.Language) || b.lacks(s) != nil || !b.offered(s) {
			continue
		}
		switch needs, err := b.check(s); {
		case err != nil && refused == nil:
			refused = err
			if !elsewhere(err) {
				return nil, err
			}
		case agentkernel.CodeOf(err) == agentkernel.CodeSyntax:
			return nil, err // what the first lacks is no reason: the program cannot be read
		case err != nil:
			refused = bothRefused(refused, b.Name, err)
		case len(needs.Differs) == 0:
			return b, nil
		case differing == nil:
			differing = b
		}
	}
	switch {
	case differing != nil:
		return differing, nil
	case refused != nil:
		return nil, refused
	case s.NeedsFiles():
		return nil, agentkernel.Errorf(agentkernel.CodeUnsupported, "spec", "no backend here gives programs folders or a standard input; there are: %s", strings.Join(k.backendNames(), ", ")).
			WithHint("agentkernel doctor")
	}
	return nil, agentkernel.Errorf(agentkernel.CodeUnsupported, "spec", "no backend here runs programs in the language %s; there are: %s", s.Program.Language, strings.Join(k.backendNames(), ", "))
}

// named finds the backend that the Spec names, if it can run the program.
func (k *Kernel) named(s *agentkernel.Spec) (*backend, error) {
	for _, b := range k.backends {
		if b.Name != s.Backend {
			continue
		}
		if err := b.lacks(s); err != nil {
			return nil, err
		}
		if !b.speaks(s.Program.Language) {
			return nil, doesNotSpeak(b.Name, s.Program.Language)
		}
		_, err := b.check(s)
		return b, err
	}
	return nil, k.noBackend(s.Backend)
}

func (k *Kernel) noBackend(name string) error {
	return agentkernel.Errorf(agentkernel.CodeInvalid, "spec", "there is no backend %q; there are: %s", name, strings.Join(k.backendNames(), ", "))
}

// lacks says what a Spec asks for that the backend does not have.
func (b *backend) lacks(s *agentkernel.Spec) *agentkernel.Error {
	if !b.Isolation.Reaches(s.Isolation) {
		return tooWeak(b, s.Isolation)
	}
	return withoutFiles(b, s)
}

// offered says whether a program may come to the backend without naming it: none without a boundary is chosen, or even
// spoken of, unless that was asked for.
func (b *backend) offered(s *agentkernel.Spec) bool {
	return b.Isolation != agentkernel.IsolationNone || b.Available && s.Isolation == agentkernel.IsolationNone
}

func (k *Kernel) backendNames() []string {
	names := make([]string, 0, len(k.backends))
	for _, b := range k.backends {
		names = append(names, b.Name)
	}
	return names
}

// elsewhere says whether another backend may run a program that one refused.
func elsewhere(err error) bool {
	code := agentkernel.CodeOf(err)
	return code == agentkernel.CodeUnsupported || code == agentkernel.CodeUnavailable
}

// bothRefused is the answer where two backends refuse a program: what to mend is what the next one says, which has all of the
// language. The first refusal stays where it is the author's own doing, and with it the advice of what to use instead.
func bothRefused(first error, name string, next error) error {
	e := agentkernel.AsError(first, agentkernel.CodeUnsupported, "spec")
	why := agentkernel.AsError(next, agentkernel.CodeUnsupported, "spec")
	switch {
	case e.Code == agentkernel.CodeUnavailable && why.Code == agentkernel.CodeUnavailable: // nothing runs here
		both := agentkernel.Errorf(e.Code, e.Op, "%s, and %s", e.Message(), why.Message())
		both.Hint = e.Hint
		if why.Hint != "" {
			both.Hint = strings.TrimPrefix(e.Hint+"; or "+why.Hint, "; or ")
		}
		return both
	case why.Code == agentkernel.CodeUnavailable: // it would run there: what is missing is what to mend
		both := agentkernel.Errorf(why.Code, why.Op, "%s, but the %s backend is not available: %s", e.Message(), name, why.Message())
		both.Hint = why.Hint
		return both
	case why.Code == agentkernel.CodeUnsupported && e.Code == agentkernel.CodeUnsupported:
		if e.Hint != "" {
			return why.WithHint("%s", e.Hint)
		}
		return why
	case e.Hint != "":
		return e
	}
	hint := fmt.Sprintf("the %s backend refuses it too: %s", name, why.Message())
	if why.Hint != "" {
		hint += "; " + why.Hint
	}
	return e.WithHint("%s", hint)
}

func (k *Kernel) accepting() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.refusing()
}

// refusing says why no process may be created; k.mu is held.
func (k *Kernel) refusing() error {
	if k.broken != nil {
		return k.broken
	}
	if k.closed {
		return agentkernel.Errorf(agentkernel.CodeUnavailable, "kernel", "the kernel is stopping")
	}
	return nil
}

// enter puts a process into the table, and locks it: whoever finds it there finds it created. A kernel that is stopping has
// seen to all that are in the table, so it takes no more.
func (k *Kernel) enter(p *process) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.refusing(); err != nil {
		return err
	}
	k.procs[p.pid] = p
	p.mu.Lock()
	return nil
}

// childSpec makes the Spec of a child: never more than its parent has.
func (k *Kernel) childSpec(p *process, f *inflight, a spawnArgs) (agentkernel.Spec, error) {
	parent := &p.spec.Spec
	p.mu.Lock()
	allow := slices.Concat(parent.Allow, p.account.Allowed)
	p.mu.Unlock()
	s := agentkernel.Spec{
		Program: agentkernel.Program{Name: a.Name, Language: agentkernel.Python, Source: a.Source, Args: a.Args, Modules: parent.Program.Modules,
			Host: environmentOf(&parent.Program)},
		Backend: parent.Backend, Namespace: parent.Namespace, Parent: p.pid, Ancestors: below(parent, p.pid), Priority: max(parent.Priority, a.Priority),
		Limits: parent.Limits, Tools: parent.Tools, ToolDigests: parent.ToolDigests, Allow: allow, AllowHosts: parent.AllowHosts,
		Isolation: parent.Isolation, Deny: parent.Deny, OnUnknown: parent.OnUnknown, Durability: parent.Durability,
		// Replay of the parent finds the child that it has already, also if the crash came between the two.
		IdempotencyKey: fmt.Sprintf("%s%d/%d", childKey, p.pid, f.id),
	}
	if s.Program.Name == "" {
		s.Program.Name = "<spawned>"
	}
	if len(a.Limits) > 0 {
		var l agentkernel.Limits
		if err := strictJSON(a.Limits, &l); err != nil {
			return s, agentkernel.Errorf(agentkernel.CodeInvalid, f.op, "limits: %v", err)
		}
		s.Limits = smaller(l, p.spec.limits)
	}
	if wall := p.spec.limits.Wall; wall > 0 {
		// The parent's time from start to end holds for all that it starts.
		p.mu.Lock()
		left := time.Duration(wall) - p.lived(k.cfg.Now())
		p.mu.Unlock()
		s.Limits.Wall = lower(s.Limits.Wall, agentkernel.Duration(max(left, time.Millisecond)))
	}
	return s, nil
}

// environmentOf is the virtual environment that a program's children in Python have, too.
func environmentOf(p *agentkernel.Program) string {
	if p.Language != agentkernel.Python {
		return ""
	}
	return p.Host
}

// smaller gives l, capped by what the parent has.
func smaller(l, parent agentkernel.Limits) agentkernel.Limits {
	return agentkernel.Limits{
		Time: lower(l.Time, parent.Time), Wall: lower(l.Wall, parent.Wall), Memory: lower(l.Memory, parent.Memory),
		Recursion: lower(l.Recursion, parent.Recursion), Output: lower(l.Output, parent.Output),
		Calls: lower(l.Calls, parent.Calls), CallWait: lower(l.CallWait, parent.CallWait),
		InFlight: lower(l.InFlight, parent.InFlight), Processes: lower(l.Processes, parent.Processes),
		Journal: lower(l.Journal, parent.Journal), Disk: lower(l.Disk, parent.Disk),
		CPUs: lower(l.CPUs, parent.CPUs), CPUTime: lower(l.CPUTime, parent.CPUTime), Pids: lower(l.Pids, parent.Pids),
		OpenFiles: lower(l.OpenFiles, parent.OpenFiles), FileSize: lower(l.FileSize, parent.FileSize),
	}
}

// lower is the smaller of two limits, of which 0 is none.
func lower[T int | int64 | float64 | agentkernel.Duration](a, b T) T {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

func strictJSON(raw json.RawMessage, v any) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	return dec.Decode(v)
}
