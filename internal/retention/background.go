package retention

import (
	"context"
	"time"

	"agentkernel"
)

// When the keeper looks after the store by itself. A command that runs one program is over before the first time, and a
// kernel in the background, which ends when it is idle, is not.
const (
	houseFirst = 15 * time.Second
	houseEvery = time.Minute // looks at the quota
	keepEvery  = time.Hour   // prunes
)

// look looks at the quota, prunes when it is time to, and comes again. due is when the next prune is.
func (k *Keeper) look(due time.Time) {
	if _, err := k.Recent(k.ctx); err != nil && k.ctx.Err() == nil {
		k.cfg.Logger.Warn("the store cannot be measured", "error", err)
	}
	if now := k.cfg.Now(); k.rules.Load().Keep > 0 && !now.Before(due) {
		k.pruneExpired(k.ctx, now)
		due = now.Add(keepEvery)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.stopped {
		k.timer = time.AfterFunc(houseEvery, func() { k.look(due) })
	}
}

// pruneExpired is the setting storage.keep.
func (k *Keeper) pruneExpired(ctx context.Context, now time.Time) {
	r := *k.rules.Load()
	out, err := k.prune(ctx, agentkernel.PruneOptions{Before: now.Add(-r.Keep), KeepFailed: r.KeepFailed}, brief)
	switch {
	case err != nil && ctx.Err() == nil:
		k.cfg.Logger.Warn("pruning went wrong", "error", err)
	case out.Processes > 0:
		k.cfg.Logger.Info("pruned", "processes", out.Processes, "entries", out.Entries, "blobs", out.Blobs, "freed", out.Freed, "unapplied", out.Unapplied, "keep", r.Keep)
	}
}
