package kernel

import (
	"cmp"
	"context"
	"slices"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/backends"
	"agentkernel/internal/kernel/keys"
	"agentkernel/internal/kernel/permit"
	"agentkernel/internal/kernel/specs"
	"agentkernel/internal/kernel/watch"
	"agentkernel/internal/sys"
)

// Spawn creates a process and returns once it is durable.
func (k *Kernel) Spawn(ctx context.Context, s agentkernel.Spec) (agentkernel.Process, error) {
	parent, err := k.fromOutside(ctx, &s)
	if err != nil {
		return agentkernel.Process{}, err
	}
	defer k.release(parent)
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
	parent, err := k.fromOutside(ctx, &s)
	if err != nil {
		return agentkernel.Process{}, err
	}
	defer k.release(parent)
	h := &inline{w: watch.New(s.Interactive)}
	h.w.Hold()
	p, existing, err := k.create(ctx, s, h)
	if err != nil {
		return agentkernel.Process{}, err
	}
	if existing != 0 {
		return k.follow(ctx, existing, fn)
	}
	defer k.unwatch(p, h.w)
	k.launchInline(p, h)
	var last agentkernel.Process
	err = k.pump(ctx, p, h.w, 0, true, func(ev agentkernel.Event) error {
		if ev.Process != nil {
			last = *ev.Process
		}
		return fn(ev)
	})
	return last, err
}

// fromOutside settles what a caller may not choose. It acquires the parent that the Spec names; nil: it names none, or one that
// no kernel runs.
func (k *Kernel) fromOutside(ctx context.Context, s *agentkernel.Spec) (parent *process, err error) {
	if err := keys.Refuse(s); err != nil {
		return nil, err
	}
	s.Ancestors = nil
	if len(s.Program.Earlier) > 0 || s.Program.Pieces != 0 {
		return nil, agentkernel.Errorf(agentkernel.CodeInvalid, "spec", "earlier and pieces of a program are filled in by the kernel").
			WithHint("leave them out; a session is fed its pieces one by one")
	}
	if err := cmp.Or(s.Isolation.Validate(), permit.Check(s, k.syscalls())); err != nil || s.Parent == 0 {
		return nil, err
	}
	if parent = k.carried(ctx, s.Parent); parent != nil {
		putBelow(s, &parent.spec.Spec)
		return parent, nil
	}
	row, err := k.store.Process(ctx, s.Parent)
	if err == nil {
		putBelow(s, &row.Spec)
	}
	return nil, err
}

// crowded is how long the creation of many processes waits, at most, while many wait for a slot: a process that has not begun is in
// memory. It is no more than that, since the crowd may be of processes that never end.
const crowded = time.Second

// SpawnMany creates many processes of one Spec and returns once all are durable.
func (k *Kernel) SpawnMany(ctx context.Context, s agentkernel.Spec, each []agentkernel.Instance) (pids []agentkernel.PID, err error) {
	if err := s.ValidateMany(each); err != nil {
		return nil, err
	}
	parent, err := k.fromOutside(ctx, &s)
	if err != nil {
		return nil, err
	}
	defer k.release(parent)
	if _, err := k.prepare(&s); err != nil {
		return nil, err
	}
	if err := keys.FitEach(ctx, k.store, &s, each); err != nil {
		return nil, err
	}
	patient, enough := context.WithTimeout(ctx, crowded)
	defer enough()
	var created []*process
	for i := range each {
		k.queue.Ease(patient)
		if err = ctx.Err(); err != nil {
			break
		}
		p, pid, failed := k.create(ctx, s.Instance(&each[i]), nil)
		if failed != nil {
			err = keys.OfInstance(i, failed)
			break
		}
		if pid == 0 {
			pid, created = p.pid, append(created, p)
			k.launch(p)
		}
		pids = append(pids, pid)
	}
	for _, p := range created { // the first waits for a commit, which has most of the others, too
		if failed := k.flush(ctx, p); failed != nil {
			return nil, failed
		}
	}
	return pids, err
}

// putBelow gives a Spec what it has from the parent that its creator named.
func putBelow(s, parent *agentkernel.Spec) {
	s.Ancestors = specs.Below(parent, s.Parent)
	s.Isolation = s.Isolation.Below(parent.Isolation)
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
func (k *Kernel) create(ctx context.Context, s agentkernel.Spec, h *inline) (p *process, existing agentkernel.PID, err error) {
	chosen, err := k.prepare(&s)
	if err != nil {
		return nil, 0, err
	}
	if err := k.table.refuses(); err != nil {
		return nil, 0, err
	}
	if s.IdempotencyKey != "" && !k.surelyNewChild(&s) {
		k.keys.Lock()
		defer k.keys.Unlock()
		pid, err := k.store.ByKey(ctx, s.Namespace, s.IdempotencyKey)
		if err == nil {
			return nil, pid, keys.Fits(ctx, k.store, pid, &s)
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
	from, err := k.loadOrigin(ctx, &s)
	if err != nil {
		return nil, 0, err
	}
	pid, err := k.store.NewPID(ctx)
	if err != nil {
		return nil, 0, err
	}
	if err := k.createFiles(pid, &s); err != nil {
		return nil, 0, err
	}
	if h != nil && chosen != nil && from == nil { // what may fail has not
		k.headStart(h, pid, &s, chosen)
	}
	data := k.specs.Data(&s)
	p = k.newProcess(pid, k.specs.Take(&s, data), chosen)
	p.run.origin = from
	p.created = k.cfg.Now()
	if chosen != nil && p.replayable() {
		p.run.fingerprint = chosen.Now().Fingerprint
	}
	if h != nil {
		p.watchers = append(p.watchers, h.w)
		p.rc = h.rc
	}
	if err := k.table.enter(p); err != nil {
		h.abandon(k)
		k.specs.Drop(p.spec)
		return nil, 0, err
	}
	k.appendBatch(p, agentkernel.Batch{Entries: []agentkernel.Entry{{Kind: agentkernel.EntryCreated, At: p.created, Data: data}}, Process: p.record()})
	p.step(&stepBegin)
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

// surelyNewChild says that the spec is of a child whose parent lives its first life, so that no child of
// that call can exist.
func (k *Kernel) surelyNewChild(s *agentkernel.Spec) bool {
	if !keys.IsChilds(s) {
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

func (k *Kernel) newProcess(pid agentkernel.PID, s *specs.Shared, b *backends.Backend) *process {
	p := &process{pid: pid, spec: s, run: &run{backend: b}, state: stateCreated}
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
	if p.run.backend == nil || p.paused {
		// A hosted program is always somewhere else; a paused one is driven when it is resumed.
		p.step(&stepHold)
		return
	}
	k.queue.Push(p)
}

// prepare fills in defaults, refuses what cannot run, and chooses the backend (nil: hosted).
func (k *Kernel) prepare(s *agentkernel.Spec) (*backends.Backend, error) {
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
	if err := k.cfg.Tools.Pin(s); err != nil {
		return nil, err
	}
	if !keys.IsChilds(s) { // a child has the local tools of its parent
		if err := k.cfg.Tools.Shadowed(k.ctx, s, s.Program.Modules); err != nil {
			return nil, err
		}
	}
	for _, f := range k.cfg.Families {
		if f.Check != nil {
			if err := f.Check(s); err != nil {
				return nil, err
			}
		}
	}
	if s.Backend == hostedBackend {
		return nil, hostedBelow(s)
	}
	if err := k.Add(k.ctx, s); err != nil {
		return nil, err
	}
	return k.backends.Choose(s)
}

// childSpec makes the Spec of a child: never more than its parent has.
func (k *Kernel) childSpec(p *process, f *inflight, a spawnArgs) (agentkernel.Spec, error) {
	parent := &p.spec.Spec
	p.mu.Lock()
	allow := slices.Concat(parent.Allow, p.standing.Account.Allowed)
	p.mu.Unlock()
	s := agentkernel.Spec{
		Program: agentkernel.Program{Name: a.Name, Language: agentkernel.Python, Source: a.Source, Args: a.Args, Modules: parent.Program.Modules,
			Host: specs.EnvironmentOf(&parent.Program)},
		Backend: parent.Backend, Namespace: parent.Namespace, Parent: p.pid, Ancestors: specs.Below(parent, p.pid), Priority: max(parent.Priority, a.Priority),
		Limits: parent.Limits, Tools: parent.Tools, ToolDigests: parent.ToolDigests, Allow: allow, AllowHosts: parent.AllowHosts,
		Isolation: parent.Isolation, Deny: parent.Deny, OnUnknown: parent.OnUnknown, Durability: parent.Durability,
		IdempotencyKey: keys.OfChild(p.pid, f.id),
	}
	if s.Program.Name == "" {
		s.Program.Name = "<spawned>"
	}
	if len(a.Limits) > 0 {
		var l agentkernel.Limits
		if err := sys.DecodePart(f.op, "limits", a.Limits, &l); err != nil {
			return s, err
		}
		s.Limits = l.Within(p.spec.InForce)
	}
	if wall := p.spec.InForce.Wall; wall > 0 {
		// The parent's time from start to end holds for all that it starts.
		p.mu.Lock()
		left := time.Duration(wall) - p.lived(k.cfg.Now())
		p.mu.Unlock()
		s.Limits = s.Limits.Within(agentkernel.Limits{Wall: agentkernel.Duration(max(left, time.Millisecond))})
	}
	return s, nil
}
