package kernel

import (
	"cmp"
	"context"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/backends"
	"agentkernel/internal/kernel/keys"
	"agentkernel/internal/kernel/specs"
	"agentkernel/internal/kernel/steps"
	"agentkernel/internal/kernel/watch"
)

// Spawn creates a process and returns once it is durable.
func (k *Kernel) Spawn(ctx context.Context, s agentkernel.Spec) (agentkernel.Process, error) {
	parent, err := k.fromOutside(ctx, &s)
	if err != nil {
		return agentkernel.Process{}, err
	}
	defer k.unpin(parent)
	p, existing, err := k.create(ctx, s, nil)
	if err != nil {
		return agentkernel.Process{}, err
	}
	if existing != 0 {
		return k.Process(ctx, existing)
	}
	snapshot := p.seen()
	k.launch(p)
	return snapshot, k.flush(ctx, p)
}

// Run creates a process and reports its events until it ends, is paused, or fn fails.
func (k *Kernel) Run(ctx context.Context, s agentkernel.Spec, fn func(agentkernel.Event) error) (agentkernel.Process, error) {
	parent, err := k.fromOutside(ctx, &s)
	if err != nil {
		return agentkernel.Process{}, err
	}
	defer k.unpin(parent)
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
	last := &none
	err = k.pump(ctx, p, h.w, 0, true, func(ev agentkernel.Event) error {
		last = cmp.Or(ev.Process, last)
		return fn(ev)
	})
	return *last, err
}

var none agentkernel.Process // where no event told one

// fromOutside settles what a caller may not choose. It acquires the parent that the Spec names; nil: it names none, or one that
// no kernel runs.
func (k *Kernel) fromOutside(ctx context.Context, s *agentkernel.Spec) (parent *process, err error) {
	if err := cmp.Or(specs.FromOutside(s), k.args.Check(s)); err != nil {
		return nil, err
	}
	if s.Parent != 0 {
		var above agentkernel.ProcessRecord
		if parent = k.carried(ctx, s.Parent); parent != nil {
			above.Spec = parent.spec.Spec
		} else if above, err = k.store.Process(ctx, s.Parent); err != nil {
			return nil, err
		}
		err = specs.PutBelow(s, &above.Spec)
	}
	if err = cmp.Or(err, k.holds.Refuse("spawn", cmp.Or(s.Namespace, "default"), s.Ancestors)); err != nil {
		k.unpin(parent)
		return nil, err
	}
	return parent, nil
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
	defer k.unpin(parent)
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

// follow reports the events of a process that exists already.
func (k *Kernel) follow(ctx context.Context, pid agentkernel.PID, fn func(agentkernel.Event) error) (agentkernel.Process, error) {
	if err := k.Events(ctx, pid, 1, true, fn); err != nil {
		return agentkernel.Process{}, err
	}
	return k.Process(ctx, pid)
}

// create validates a Spec and puts a process into the table, not running yet. existing: the process that
// an idempotency key names already. h: the caller will wait for it; nil: not.
func (k *Kernel) create(ctx context.Context, given agentkernel.Spec, h *inline) (p *process, existing agentkernel.PID, err error) {
	draft, s := specs.Draft(given)
	chosen, err := k.prepare(s)
	if err != nil {
		return nil, 0, err
	}
	if err := cmp.Or(ctx.Err(), k.table.Refuses()); err != nil { // to look at it may have taken a minute: whoever has left knows of no process
		return nil, 0, err
	}
	if s.IdempotencyKey != "" && !k.surelyNewChild(s) {
		owner, unlock, err := k.keys.Find(ctx, k.store, s)
		if owner != 0 || err != nil {
			return nil, owner, err
		}
		defer unlock()
	}
	if err := cmp.Or(specs.InTime(s, k.cfg.Now()), k.specs.Room(s), k.cfg.Retention.Room(ctx)); err != nil {
		return nil, 0, err
	}
	release, err := k.cfg.Retention.Hold(ctx, s)
	if err != nil {
		return nil, 0, err
	}
	defer release()
	from, err := k.loadOrigin(ctx, s)
	if err != nil {
		return nil, 0, err
	}
	pid, err := k.store.NewPID(ctx)
	if err != nil {
		return nil, 0, err
	}
	if err := k.Disk.Create(ctx, pid, s); err != nil {
		return nil, 0, err
	}
	if h != nil && chosen != nil && from == nil { // what may fail has not
		k.headStart(h, pid, s, chosen)
	}
	data := k.specs.Data(s)
	p = k.newProcess(pid, k.specs.Share(draft, data), chosen)
	p.run.origin = from
	p.created = k.cfg.Now()
	if chosen != nil && p.replayable() {
		p.run.fingerprint = chosen.Now().Fingerprint
	}
	if h != nil {
		p.rc = h.rc
	}
	if err := k.table.enter(p); err != nil {
		h.abandon(k)
		k.specs.Drop(p.spec)
		return nil, 0, err
	}
	k.table.ledger.Join(k.books(p), pid, &p.standing.Account)
	k.appendBatch(p, agentkernel.Batch{Entries: []agentkernel.Entry{{Kind: agentkernel.EntryCreated, At: p.created, Data: data}}, Process: p.record()})
	p.step(steps.Begin)
	if h != nil {
		k.listen(p, h.w)
		snapshot := p.snapshot()
		k.publish(p, agentkernel.Event{Kind: agentkernel.EventCreated, At: p.created, Process: &snapshot})
	}
	p.mu.Unlock()
	if s.Parent != 0 {
		k.pauseNewborn(p)
	}
	return p, 0, nil
}

// surelyNewChild says that the spec is of a child whose parent lives its first life, so that no child of that call can exist.
func (k *Kernel) surelyNewChild(s *agentkernel.Spec) bool {
	if !keys.IsOfChild(s.IdempotencyKey) {
		return false
	}
	parent := k.lookup(s.Parent)
	if parent == nil {
		return false
	}
	parent.mu.Lock()
	defer parent.mu.Unlock()
	return parent.recoveries.Load() == 0
}

// prepare fills in defaults, refuses what cannot run, and chooses the backend (nil: hosted).
func (k *Kernel) prepare(s *agentkernel.Spec) (*backends.Backend, error) {
	if err := specs.Complete(s); err != nil {
		return nil, err
	}
	if err := k.cfg.Tools.Pin(s); err != nil {
		return nil, err
	}
	if !keys.IsOfChild(s.IdempotencyKey) { // a child has the local tools of its parent
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
	if s.Backend == specs.Hosted {
		return nil, specs.OfHosted(s)
	}
	if err := k.Library.Add(k.ctx, s); err != nil {
		return nil, err
	}
	return k.backends.Choose(s)
}

// childSpec makes the Spec of a child.
func (k *Kernel) childSpec(p *process, f *inflight, a specs.SpawnArgs) (agentkernel.Spec, error) {
	asked, err := a.Asked(f.op)
	if err != nil {
		return agentkernel.Spec{}, err
	}
	p.mu.Lock()
	parent := &specs.Parent{Shared: p.spec, PID: p.pid, Lived: p.standing.Pauses.Lived(p.created, k.cfg.Now())}
	p.mu.Unlock()
	return specs.Child(parent, f.id, asked)
}
