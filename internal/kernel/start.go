package kernel

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/advice"
	"agentkernel/internal/kernel/backends"
	"agentkernel/internal/kernel/budget"
	"agentkernel/internal/kernel/cells"
	"agentkernel/internal/kernel/files"
	"agentkernel/internal/kernel/gate"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/kernel/holds"
	"agentkernel/internal/kernel/observe"
	"agentkernel/internal/kernel/permit"
	"agentkernel/internal/kernel/reserve"
	"agentkernel/internal/kernel/roles"
	"agentkernel/internal/kernel/skills"
	"agentkernel/internal/kernel/slots"
	"agentkernel/internal/kernel/specs"
	"agentkernel/internal/kernel/steps"
	"agentkernel/internal/kernel/streams"
	"agentkernel/internal/kernel/timers"
	"agentkernel/internal/kernel/trees"
	"agentkernel/internal/kernel/wakes"
	"agentkernel/internal/sys"
)

// New starts a kernel on a store. It continues nothing; Recover does.
func New(cfg Config) (*Kernel, error) {
	if err := cfg.Complete(); err != nil {
		return nil, err
	}
	ops, err := newOps(cfg.Families, ownOps, ownRerun)
	if err != nil {
		return nil, err
	}
	cfg.About.Started = cfg.Now()
	ctx, stop := context.WithCancel(context.Background())
	forest := &trees.Forest{}
	k := &Kernel{
		others: &others{Tools: cfg.Tools}, cfg: &cfg, store: cfg.Store, origin: cfg.Store.Info(), ops: ops,
		specs: specs.New(cfg.Limits, &forest.Total), observed: observe.New(cfg.Observer, cfg.Now), sessions: cells.New(), forest: forest, external: gate.New(), broken: make(chan struct{}), ctx: ctx, stop: stop,
	}
	k.args, k.backends = permit.NewArguments(ops, func(o *op) *agentkernel.Syscall { return &o.Syscall }), backends.New(cfg.Backends)
	forest.Ended = func(root agentkernel.PID) { cfg.TreeEnded(root); k.Disk.Forget(root) }
	k.Files = files.New(files.NewDisk(cfg.Store, cfg.Layers, k.specs.Limits, cfg.Logger), (*host)(k))
	k.Reader = roles.New(cfg.Store, cfg.Retention, cfg.Traffic, k.settledOf)
	k.Library = skills.New(cfg.Library, k.backends)
	if k.holds, err = holds.Read(ctx, cfg.Store, cfg.Now, history.Living(cfg.Store)); err != nil {
		stop()
		return nil, err
	}
	k.queue = slots.New(cfg.Slots, cfg.Now, cfg.Weight, k.drive)
	k.timers = timers.New(cfg.Now)
	k.wakes = wakes.New(ctx, wakes.Config{Due: k.due, Wake: k.wakeParked, Timers: k.timers, Go: k.external.Go, Now: cfg.Now, Logger: cfg.Logger})
	k.wakes.Hold(k.holds.Kernel() != nil)
	left, err := cfg.Store.Count(ctx, agentkernel.Filter{Unfinished: true})
	if err != nil {
		stop()
		return nil, err
	}
	k.table = newTable(left, cfg.Recovers, cfg.Families)
	k.table.streams = streams.New(k.external.Go, k.streamEnded)
	k.table.ledger = budget.New(k.bookkeeping())
	k.table.ledger.Allow(cfg.Allowances)
	k.States = k.table.ledger.States()
	if f, ok := cfg.Store.(agentkernel.Fencer); ok {
		f.OnFenced(k.fenced)
	}
	k.Recordings = roles.NoRecordings{}
	if cfg.Recordings != nil {
		k.Recordings = cfg.Recordings((*host)(k))
	}
	cfg.Retention.Start((*host)(k))
	return k, nil
}

// bookkeeping is what budgets are kept with.
func (k *Kernel) bookkeeping() budget.Source {
	return budget.Source{
		Loaded: func(pid agentkernel.PID, fn func(agentkernel.PID, *history.Account)) {
			accounts(append(k.table.below(pid), k.lookup(pid)), fn)
		},
		Members: func(namespace string, fn func(agentkernel.PID, *history.Account)) {
			accounts(slices.DeleteFunc(k.table.All(), func(p *process) bool { return p.spec.Namespace != namespace }), fn)
		},
		Flush: k.flushAll, Store: k.store, Now: k.cfg.Now,
		Due: func(pid agentkernel.PID) { k.external.Go(func() { k.warn(pid) }) },
		At:  func(at time.Time, fn func()) { k.timers.At(at, func() { k.external.Go(fn) }) },
	}
}

// Info says which kernel this is.
func (k *Kernel) Info(ctx context.Context) (agentkernel.KernelInfo, error) {
	storage, err := k.cfg.Retention.Recent(ctx)
	if err != nil {
		return agentkernel.KernelInfo{}, err
	}
	info := agentkernel.KernelInfo{
		Version: k.cfg.About.Version, API: agentkernel.APIVersion, OSPID: os.Getpid(), Home: k.cfg.About.Home,
		Store: k.store.Info(), Started: k.cfg.About.Started, Mode: k.cfg.About.Mode, Settings: k.cfg.About.Settings, Before: k.cfg.About.Before,
		Storage: storage,
	}
	info.Holds, _ = k.holds.Living(ctx) // all, if the store cannot say which
	for _, b := range k.cfg.Backends {
		info.Backends = append(info.Backends, b.Info())
	}
	k.table.counts(&info)
	return info, nil
}

// Close stops the kernel. Processes are left as their journals say: no program runs on, external calls
// under way get Config.Grace to finish so that their results are kept, waiting sandboxes are parked.
func (k *Kernel) Close() error {
	procs, first := k.table.Close()
	if !first {
		return nil
	}
	k.queue.Close()
	k.external.Await(k.ctx, k.cfg.Grace)
	for _, p := range procs { // before a request that ends makes room for another
		k.putBack(p)
	}
	for _, p := range procs {
		k.abandon(p)
	}
	k.timers.Close()
	k.stop()
	k.queue.Drain()
	for _, p := range procs {
		k.discard(p, p.sandbox()) // again, at most: it was let go while it was being started, and no slot is in use any more
		k.dropLocals(p)
	}
	k.external.Close()
	k.cfg.Retention.Stop()
	var errs []error
	for _, b := range k.cfg.Backends {
		errs = append(errs, b.Close())
	}
	errs = append(errs, k.store.Close())
	return errors.Join(errs...)
}

// putBack lets the calls of a process wait for their turn again that have not gone out: the next kernel sends them.
func (k *Kernel) putBack(p *process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.inflight {
		if entry, ok := reserve.Unsent(f.id, p.left(f, nil)); ok {
			k.append(p, entry)
			f.dropped = true
		}
	}
}

// abandon lets go of a process without ending it: the journal has all that it did.
func (k *Kernel) abandon(p *process) {
	p.mu.Lock()
	if question := p.asks(); question != "" { // whoever is asked loses his kernel, which is no answer
		k.pause(p, 0, history.Unheard(question))
	}
	if p.state == agentkernel.StateWaiting && p.evictable() && p.run.backend.Images {
		p.step(steps.Reserve)
		p.mu.Unlock()
		k.park(p)
		p.mu.Lock()
	}
	if k.unloadable(p) { // the next kernel leaves it where it is
		k.notePark(p)
	}
	box := p.run.box
	p.endRun(nil)
	p.wall.Stop()
	for _, f := range p.inflight {
		f.timer.Stop()
	}
	why := agentkernel.Errorf(agentkernel.CodeUnavailable, "kernel", "the kernel was stopped; the process is unfinished").
		WithPID(p.pid).WithHint(advice.Recover, p.pid)
	for _, w := range p.watchers {
		w.Fail(why)
	}
	k.table.hosts.Vacate(p.pid, why)
	p.mu.Unlock()
	if box != nil {
		if err := box.Close(); err != nil {
			k.cfg.Logger.Warn("sandbox did not close", "pid", p.pid, "err", err)
		}
	}
}

// ownOps are the kernel's own calls.
var ownOps = []map[string]ownOp{procCalls, sessionCalls}

// ownRerun says what the kernel's own calls mean in a rerun, where they are not strict.
var ownRerun = map[string]sys.Rerun{opSelf: sys.Free, opExit: sys.Own}
