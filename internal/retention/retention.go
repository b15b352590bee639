// Package retention keeps the store within bounds: it forgets processes that have ended, removes what nobody names any more,
// and refuses new processes once the quota is used up. It decides by the rows of the store alone; of the kernel it asks which
// processes it carries, and is told what new processes name.
package retention

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"agentkernel"
)

// Config says what is kept, and where.
type Config struct {
	Store  agentkernel.Store
	Layers Layers // nil: processes change no folders
	Rules
	Logger *slog.Logger     // nil: nothing is logged
	Now    func() time.Time // nil: time.Now
}

// Rules say how much is kept, and for how long. They may change while the kernel runs.
type Rules struct {
	// Quota is how many bytes journals and blobs may take before new processes are refused; 0: any.
	Quota int64
	// Keep is how long processes are kept after their end; older ones are pruned in the background, with KeepFailed only those
	// that ended well. 0: for ever.
	Keep       time.Duration
	KeepFailed bool
	// Allowances keep what ended in a namespace since the period began that they are for: what it has spent still counts.
	Allowances agentkernel.Allowances
}

// Layers is what processes did to folders; workspace.Store is one.
type Layers interface {
	// PIDs lists the processes of which there is something.
	PIDs() ([]agentkernel.PID, error)
	Remove(pid agentkernel.PID) error
	// Holding lists the processes whose changes nobody has applied or discarded.
	Holding() ([]agentkernel.PID, error)
	// RemoveStray removes what an earlier kernel was making for a process that the store does not have.
	RemoveStray(pid agentkernel.PID) error
	// SweepRemoved finishes removals that were cut off.
	SweepRemoved() error
}

// Keeper keeps the store of one kernel within bounds.
type Keeper struct {
	cfg   Config
	store agentkernel.Store
	host  agentkernel.RetentionHost // set by Start
	rules atomic.Pointer[Rules]
	quota quota

	one sync.Mutex // one prune at a time
	// refs is held for reading by whoever makes a process that names others, from before it reads them until the process is
	// in the store; for writing while processes are taken away. It comes before all other locks.
	refs sync.RWMutex

	mu      sync.Mutex
	names   []agentkernel.Spec // of processes made since the prune under way began: they keep what they name
	pruning bool
	plan    *plan // what the prune under way decided; nil: it has not yet
	timer   *time.Timer
	stopped bool

	running sync.WaitGroup
	ctx     context.Context // ends with Stop
	stop    context.CancelFunc
}

var _ agentkernel.Retention = (*Keeper)(nil)

// New makes a keeper, which does nothing before Start.
func New(cfg Config) *Keeper {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	ctx, stop := context.WithCancel(context.Background())
	k := &Keeper{cfg: cfg, store: cfg.Store, ctx: ctx, stop: stop}
	k.rules.Store(&cfg.Rules)
	return k
}

// Start lets the keeper look after the store by itself, if it was told what to do, and takes prunes from now on.
func (k *Keeper) Start(host agentkernel.RetentionHost) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.host = host
	k.lookSoon()
}

// lookSoon lets the keeper look after the store by itself, if its rules ask for that and it does not yet; k.mu is held.
func (k *Keeper) lookSoon() {
	if r := k.rules.Load(); k.timer == nil && !k.stopped && (r.Keep > 0 || r.Quota > 0) {
		k.timer = time.AfterFunc(houseFirst, func() { k.look(k.cfg.Now()) })
	}
}

// SetRules replaces the rules. The quota counts at once, and what is too old by the new ones is pruned at the next time.
func (k *Keeper) SetRules(r Rules) {
	k.rules.Store(&r)
	k.quota.forget()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.host != nil {
		k.lookSoon()
	}
}

// Stop ends what is under way and waits for it.
func (k *Keeper) Stop() {
	k.mu.Lock()
	k.stopped = true
	if k.timer != nil {
		k.timer.Stop()
	}
	k.mu.Unlock()
	k.stop()
	k.running.Wait()
}

// Hold is called before a process is made; what its Spec names stays until the caller has put it into the store and calls
// release. A parent that the kernel carries needs no protection: it lives.
func (k *Keeper) Hold(ctx context.Context, s *agentkernel.Spec) (release func(), err error) {
	absentParent := s.Parent != 0 && !k.host.Live(s.Parent)
	if s.Past == nil && !absentParent {
		return func() {}, nil
	}
	k.refs.RLock()
	k.mu.Lock()
	switch {
	case k.plan != nil:
		k.plan.keepNamed(s)
	case k.pruning:
		k.names = append(k.names, agentkernel.Spec{Parent: s.Parent, Past: s.Past})
	}
	k.mu.Unlock()
	if absentParent {
		if _, err := k.store.Process(ctx, s.Parent); err != nil {
			k.refs.RUnlock()
			return nil, err
		}
	}
	return k.refs.RUnlock, nil
}
