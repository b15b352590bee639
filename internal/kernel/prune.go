package kernel

import (
	"context"
	"slices"
	"sync"
	"time"

	"agentkernel"
)

// forgetStep is how many processes are forgotten in one step of the store.
const forgetStep = 64

// housekeeping is what the kernel knows while it prunes. Lock order: refs before everything else.
type housekeeping struct {
	one sync.Mutex // one prune at a time

	// refs is held for reading by whoever makes a process that names others, from before it reads them until
	// the process is in the store; for writing while processes are taken away.
	refs sync.RWMutex

	mu    sync.Mutex
	names []agentkernel.Spec // of processes made since the prune under way began: they keep what they name
	on    bool               // a prune is under way
	plan  *kin               // what it decided; nil: it has not yet

	running sync.WaitGroup
}

// Prune forgets processes that have ended, and removes what nobody names any more.
func (k *Kernel) Prune(ctx context.Context, o agentkernel.PruneOptions) (agentkernel.Pruned, error) {
	if o.Before.IsZero() {
		return agentkernel.Pruned{}, agentkernel.Errorf(agentkernel.CodeInvalid, "prune", "say before when the processes must have ended").
			WithHint("agentkernel prune --older 30d")
	}
	return k.prune(ctx, o, thorough)
}

// care is how much a prune does beside forgetting.
type care int

const (
	thorough care = iota // look at every file, give all room back
	brief                // leave files that no row knows: only a crash makes some
)

func (k *Kernel) prune(ctx context.Context, o agentkernel.PruneOptions, c care) (out agentkernel.Pruned, err error) {
	store, ok := k.store.(agentkernel.Pruner)
	if !ok {
		return out, agentkernel.Errorf(agentkernel.CodeUnsupported, "prune", "this store keeps everything")
	}
	ctx, leave, err := k.enterHousekeeping(ctx)
	if err != nil {
		return out, err
	}
	defer leave()
	out.DryRun = o.DryRun
	plan, err := k.planPrune(ctx, store, &o)
	if err != nil {
		return out, err
	}
	if o.DryRun {
		k.house.mu.Lock()
		all := plan.take(len(plan.pids))
		out.Kept = plan.kept
		k.house.mu.Unlock()
		var rows int64
		out.Removed, rows, err = store.Measure(ctx, all)
		out.Freed = rows + out.BlobBytes
		return out, err
	}
	before, err := store.Storage(ctx)
	if err != nil {
		return out, err
	}
	out.Removed, err = k.forgetAll(ctx, store, plan)
	if err == nil && (out.Processes > 0 || c == thorough) {
		var programs agentkernel.Removed
		programs, err = store.SweepPrograms(ctx)
		out.Add(programs)
	}
	if err == nil && c == thorough {
		var strays agentkernel.Removed
		strays, err = store.SweepStrays(ctx)
		out.Add(strays)
	}
	if err == nil {
		err = k.removeLayers(ctx)
	}
	for more := true; more && err == nil; {
		more, err = store.Shrink(ctx)
	}
	after, merr := store.Storage(context.WithoutCancel(ctx))
	if merr == nil {
		out.Freed = max(0, before.Database-after.Database) + out.BlobBytes
		k.quota.forget()
	}
	k.house.mu.Lock()
	out.Kept = plan.kept
	k.house.mu.Unlock()
	return out, err
}

// enterHousekeeping makes the caller the one who prunes. The context ends with the kernel, too.
func (k *Kernel) enterHousekeeping(ctx context.Context) (context.Context, func(), error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.broken != nil:
		return nil, nil, k.broken
	case k.closed:
		return nil, nil, agentkernel.Errorf(agentkernel.CodeUnavailable, "prune", "the kernel is stopping")
	case !k.house.one.TryLock():
		return nil, nil, agentkernel.Errorf(agentkernel.CodeConflict, "prune", "the kernel is pruning already").WithHint("try again in a moment")
	}
	k.house.running.Add(1)
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(k.ctx, cancel)
	return ctx, func() {
		stop()
		cancel()
		k.house.mu.Lock()
		k.house.on, k.house.names, k.house.plan = false, nil, nil
		k.house.mu.Unlock()
		k.house.one.Unlock()
		k.house.running.Done()
	}, nil
}

// planPrune decides who goes. Processes that are made from now on keep what they name: see refer.
func (k *Kernel) planPrune(ctx context.Context, store agentkernel.Pruner, o *agentkernel.PruneOptions) (*kin, error) {
	h := &k.house
	h.refs.Lock() // whoever was making a process has finished, and the store has it
	h.mu.Lock()
	h.on = true
	h.mu.Unlock()
	h.refs.Unlock()
	plan := new(kin)
	if err := store.Kin(ctx, func(r agentkernel.Kin) error { plan.add(r, o); return nil }); err != nil {
		return nil, err
	}
	plan.decide()
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.names {
		plan.keepNamed(&h.names[i])
	}
	h.names, h.plan = nil, plan
	return plan, nil
}

// keepNamed lets those stay that a new process names.
func (k *kin) keepNamed(s *agentkernel.Spec) {
	k.keepAbove(s.Parent)
	if s.Past != nil {
		k.keep(s.Past.PID)
	}
}

// refer is called before a process is made; what it names stays until the caller has put it into the store and
// calls release. A parent that this kernel carries needs no protection: it lives.
func (k *Kernel) refer(ctx context.Context, s *agentkernel.Spec) (release func(), err error) {
	absentParent := s.Parent != 0 && k.lookup(s.Parent) == nil
	if s.Past == nil && !absentParent {
		return func() {}, nil
	}
	h := &k.house
	h.refs.RLock()
	h.mu.Lock()
	switch {
	case h.plan != nil:
		h.plan.keepNamed(s)
	case h.on:
		h.names = append(h.names, agentkernel.Spec{Parent: s.Parent, Past: s.Past})
	}
	h.mu.Unlock()
	if absentParent {
		if _, err := k.store.Process(ctx, s.Parent); err != nil {
			h.refs.RUnlock()
			return nil, err
		}
	}
	return h.refs.RUnlock, nil
}

// forgetAll carries the plan out, and sweeps up after every step, so that the store never holds much that nobody
// names.
func (k *Kernel) forgetAll(ctx context.Context, store agentkernel.Pruner, plan *kin) (out agentkernel.Removed, err error) {
	at := k.cfg.Now()
	for {
		removed, found, err := k.forgetSome(ctx, store, plan, at)
		out.Add(removed)
		if err != nil {
			return out, err
		}
		for more := true; more; {
			var swept agentkernel.Removed
			if swept, more, err = store.Sweep(ctx); err != nil {
				return out, err
			}
			out.Add(swept)
		}
		if !found {
			return out, nil
		}
	}
}

// forgetSome takes the next processes away, while nobody can begin to name one of them.
func (k *Kernel) forgetSome(ctx context.Context, store agentkernel.Pruner, plan *kin, at time.Time) (out agentkernel.Removed, found bool, err error) {
	if err := ctx.Err(); err != nil {
		return out, false, agentkernel.AsError(err, agentkernel.CodeCanceled, "prune")
	}
	h := &k.house
	h.refs.Lock()
	defer h.refs.Unlock()
	h.mu.Lock()
	pids := plan.take(forgetStep)
	h.mu.Unlock()
	if len(pids) == 0 {
		return out, false, nil
	}
	// The end of a process is in the store a moment before the kernel lets go of it.
	gone := slices.DeleteFunc(pids, func(pid agentkernel.PID) bool { return k.lookup(pid) != nil })
	out, err = store.Forget(ctx, gone, at)
	return out, true, err
}

// stillThere gives the answer for a process that was read while it was being pruned: what was read may be a part.
func (k *Kernel) stillThere(ctx context.Context, pid agentkernel.PID, err error) error {
	if _, perr := k.store.Process(ctx, pid); agentkernel.CodeOf(perr) == agentkernel.CodeNotFound {
		return perr
	}
	return err
}

// layerRemover is a [Layers] that can forget.
type layerRemover interface {
	// PIDs lists the processes of which there is something.
	PIDs() ([]agentkernel.PID, error)
	Remove(pid agentkernel.PID) error
}

// removeLayers removes what pruned processes did to folders and nobody has applied, also after a crash between the two.
func (k *Kernel) removeLayers(ctx context.Context) error {
	layers, ok := k.cfg.Layers.(layerRemover)
	if !ok {
		return nil
	}
	pids, err := layers.PIDs()
	if err != nil {
		return err
	}
	for _, pid := range pids {
		_, err := k.store.Process(ctx, pid)
		if err == nil || agentkernel.AsError(err, agentkernel.CodeInternal, "prune").Op != agentkernel.OpPruned {
			continue // it is there, or about to be created
		}
		if err := layers.Remove(pid); err != nil {
			return err
		}
	}
	return nil
}
