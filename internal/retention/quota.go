package retention

import (
	"context"
	"sync"
	"time"

	"agentkernel"
	"agentkernel/internal/bytesize"
)

// quotaAge is how old a measurement of the store may be for the decision whether a process may start. What is
// written meanwhile goes beyond the quota: it is a line for newcomers, no wall for those who run.
const quotaAge = time.Second

// quota watches how much room the store takes.
type quota struct {
	mu      sync.Mutex
	storage agentkernel.Storage
	at      time.Time            // of the measurement; zero: none
	said    agentkernel.Pressure // what the log says about it
}

// forget makes the next one who asks measure again.
func (q *quota) forget() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.at = time.Time{}
}

// Storage says how much room the store takes.
func (k *Keeper) Storage(ctx context.Context) (agentkernel.Storage, error) {
	store, ok := k.store.(agentkernel.Pruner)
	if !ok {
		return agentkernel.Storage{}, agentkernel.Errorf(agentkernel.CodeUnsupported, "storage", "this store does not measure itself")
	}
	s, err := store.Storage(ctx)
	s.Quota = k.rules.Load().Quota
	return s, err
}

// Recent is Storage, as it was a moment ago; zero where there is no quota.
func (k *Keeper) Recent(ctx context.Context) (agentkernel.Storage, error) {
	if k.rules.Load().Quota <= 0 {
		return agentkernel.Storage{}, nil
	}
	q := &k.quota
	q.mu.Lock()
	defer q.mu.Unlock()
	if now := k.cfg.Now(); q.at.IsZero() || now.Sub(q.at) > quotaAge {
		s, err := k.Storage(ctx)
		if err != nil {
			return s, err
		}
		q.storage, q.at = s, now
		q.warn(k)
	}
	return q.storage, nil
}

// warn writes a line into the log when there is something new to say; q.mu is held.
func (q *quota) warn(k *Keeper) {
	if q.storage.Pressure() == q.said {
		return
	}
	q.said = q.storage.Pressure()
	if text := q.storage.Warning(); text != "" {
		k.cfg.Logger.Warn(text, "used", q.storage.Used(), "quota", q.storage.Quota, "hint", "agentkernel prune --older 30d")
	}
}

// Room refuses new processes once the quota is used up. Those that run go on and can end.
func (k *Keeper) Room(ctx context.Context) error {
	s, err := k.Recent(ctx)
	if err != nil || s.Quota <= 0 || s.Used() < s.Quota {
		return err
	}
	return agentkernel.Errorf(agentkernel.CodeLimit, "storage.quota", "journals and blobs take %s, and the storage quota is %s: no new process can start",
		bytesize.Text(s.Used()), bytesize.Text(s.Quota)).WithHint("agentkernel prune --older 30d makes room; or raise storage.quota")
}
