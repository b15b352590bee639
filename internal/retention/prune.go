package retention

import (
	"context"
	"slices"
	"time"

	"agentkernel"
)

// forgetStep is how many processes are forgotten in one step of the store.
const forgetStep = 64

// Prune forgets processes that have ended, and removes what nobody names any more.
func (k *Keeper) Prune(ctx context.Context, o agentkernel.PruneOptions) (agentkernel.Pruned, error) {
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

func (k *Keeper) prune(ctx context.Context, o agentkernel.PruneOptions, c care) (out agentkernel.Pruned, err error) {
	store, ok := k.store.(agentkernel.Pruner)
	if !ok {
		return out, agentkernel.Errorf(agentkernel.CodeUnsupported, "prune", "this store keeps everything")
	}
	ctx, leave, err := k.enter(ctx)
	if err != nil {
		return out, err
	}
	defer leave()
	out.DryRun = o.DryRun
	p, err := k.decide(ctx, store, &o)
	if err != nil {
		return out, err
	}
	if o.DryRun {
		k.mu.Lock()
		all := p.take(len(p.pids))
		out.Kept = p.kept
		k.mu.Unlock()
		if out.Unapplied, err = k.unapplied(all); err != nil {
			return out, err
		}
		var rows int64
		out.Removed, rows, err = store.Measure(ctx, all)
		out.Freed = rows + out.BlobBytes
		return out, err
	}
	before, err := store.Storage(ctx)
	if err != nil {
		return out, err
	}
	out.Removed, err = k.forgetAll(ctx, store, p)
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
		out.Unapplied, err = k.removeLayers(ctx, c)
	}
	for more := true; more && err == nil; {
		more, err = store.Shrink(ctx)
	}
	after, merr := store.Storage(context.WithoutCancel(ctx))
	if merr == nil {
		out.Freed = max(0, before.Database-after.Database) + out.BlobBytes
		k.quota.forget()
	}
	k.mu.Lock()
	out.Kept = p.kept
	k.mu.Unlock()
	return out, err
}

// enter makes the caller the one who prunes. The context ends with the keeper, too.
func (k *Keeper) enter(ctx context.Context) (context.Context, func(), error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stopped || k.host == nil {
		return nil, nil, agentkernel.Errorf(agentkernel.CodeUnavailable, "prune", "the kernel is stopping")
	}
	if err := k.host.Accepting(); err != nil {
		return nil, nil, err
	}
	if !k.one.TryLock() {
		return nil, nil, agentkernel.Errorf(agentkernel.CodeConflict, "prune", "the kernel is pruning already").WithHint("try again in a moment")
	}
	k.running.Add(1)
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(k.ctx, cancel)
	return ctx, func() {
		stop()
		cancel()
		k.mu.Lock()
		k.pruning, k.names, k.plan = false, nil, nil
		k.mu.Unlock()
		k.one.Unlock()
		k.running.Done()
	}, nil
}

// decide decides who goes. Processes that are made from now on keep what they name: see Hold.
func (k *Keeper) decide(ctx context.Context, store agentkernel.Pruner, o *agentkernel.PruneOptions) (*plan, error) {
	k.refs.Lock() // whoever was making a process has finished, and the store has it
	k.mu.Lock()
	k.pruning = true
	k.mu.Unlock()
	k.refs.Unlock()
	p, which := new(plan), options{*o, k.rules.Load().Allowances, k.cfg.Now()}
	if err := store.Lineages(ctx, func(r agentkernel.Lineage) error { p.add(r, &which); return nil }); err != nil {
		return nil, err
	}
	p.decide()
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range k.names {
		p.keepNamed(&k.names[i])
	}
	k.names, k.plan = nil, p
	return p, nil
}

// keepNamed lets those stay that a new process names.
func (k *plan) keepNamed(s *agentkernel.Spec) {
	k.keepAbove(s.Parent)
	if s.Past != nil {
		k.keep(s.Past.PID)
	}
}

// forgetAll carries the plan out, and sweeps up after every step, so that the store never holds much that nobody
// names.
func (k *Keeper) forgetAll(ctx context.Context, store agentkernel.Pruner, p *plan) (out agentkernel.Removed, err error) {
	at := k.cfg.Now()
	for {
		removed, found, err := k.forgetSome(ctx, store, p, at)
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
func (k *Keeper) forgetSome(ctx context.Context, store agentkernel.Pruner, p *plan, at time.Time) (out agentkernel.Removed, found bool, err error) {
	if err := ctx.Err(); err != nil {
		return out, false, agentkernel.AsError(err, agentkernel.CodeCanceled, "prune")
	}
	k.refs.Lock()
	defer k.refs.Unlock()
	k.mu.Lock()
	pids := p.take(forgetStep)
	k.mu.Unlock()
	if len(pids) == 0 {
		return out, false, nil
	}
	// The end of a process is in the store a moment before the kernel lets go of it.
	gone := slices.DeleteFunc(pids, func(pid agentkernel.PID) bool { return k.host.Live(pid) })
	out, err = store.Forget(ctx, gone, at)
	return out, true, err
}

// removeLayers removes what pruned processes did to folders and nobody has applied, also after a crash between the two;
// a thorough one also what was being made when a kernel died.
func (k *Keeper) removeLayers(ctx context.Context, c care) (unapplied int64, err error) {
	if k.cfg.Layers == nil {
		return 0, nil
	}
	pids, err := k.cfg.Layers.PIDs()
	if err != nil {
		return 0, err
	}
	var gone []agentkernel.PID
	for _, pid := range pids {
		_, err := k.store.Process(ctx, pid)
		switch e := agentkernel.AsError(err, agentkernel.CodeInternal, "prune"); {
		case err == nil:
		case e.Op == agentkernel.OpPruned:
			gone = append(gone, pid)
		case e.Code == agentkernel.CodeNotFound && c == thorough: // or it is about to be created
			if err := k.cfg.Layers.RemoveStray(pid); err != nil {
				return 0, err
			}
		}
	}
	if unapplied, err = k.unapplied(gone); err != nil {
		return 0, err
	}
	for _, pid := range gone {
		if err := k.cfg.Layers.Remove(pid); err != nil {
			return unapplied, err
		}
	}
	if c == thorough {
		return unapplied, k.cfg.Layers.SweepRemoved()
	}
	return unapplied, nil
}

// unapplied counts those of which changes wait.
func (k *Keeper) unapplied(of []agentkernel.PID) (n int64, err error) {
	if k.cfg.Layers == nil || len(of) == 0 {
		return 0, nil
	}
	holding, err := k.cfg.Layers.Holding()
	if err != nil {
		return 0, err
	}
	going := map[agentkernel.PID]bool{}
	for _, pid := range of {
		going[pid] = true
	}
	for _, pid := range holding {
		if going[pid] {
			n++
		}
	}
	return n, nil
}
