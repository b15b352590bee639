package kernel

import (
	"context"
	"sync/atomic"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/backends"
	"agentkernel/internal/kernel/budget"
	"agentkernel/internal/kernel/cells"
	"agentkernel/internal/kernel/files"
	"agentkernel/internal/kernel/gate"
	"agentkernel/internal/kernel/holds"
	"agentkernel/internal/kernel/keys"
	"agentkernel/internal/kernel/observe"
	"agentkernel/internal/kernel/permit"
	"agentkernel/internal/kernel/roles"
	"agentkernel/internal/kernel/settings"
	"agentkernel/internal/kernel/skills"
	"agentkernel/internal/kernel/slots"
	"agentkernel/internal/kernel/specs"
	"agentkernel/internal/kernel/timers"
	"agentkernel/internal/kernel/trees"
	"agentkernel/internal/kernel/wakes"
)

// Config says what a kernel is made of.
type Config = settings.Config

// others are the roles of a kernel that others fill for it: they need no process table.
type others struct {
	agentkernel.Tools // Config.Tools
	*skills.Library
	*files.Files
	*roles.Reader
	budget.States
	agentkernel.Recordings
}

// Kernel implements agentkernel.Kernel and agentkernel.Hosted.
type Kernel struct {
	*others
	cfg      *Config
	store    agentkernel.Store
	origin   agentkernel.StoreInfo
	ops      map[string]*op
	args     *permit.Arguments
	backends backends.List
	table    *table
	queue    *slots.Queue[*process]
	timers   *timers.Timers
	wakes    *wakes.List
	holds    *holds.Set
	specs    *specs.Interner
	sessions *cells.Registry
	forest   *trees.Forest
	observed *observe.Observed // nil: nobody observes

	verifications atomic.Int64 // counts down: see verifier

	last atomic.Int64 // position of the newest batch, for answers that speak of many processes
	keys keys.Keys    // idempotency keys

	broken   chan struct{} // closed when the store has failed
	external *gate.Gate    // goroutines that Close waits for: handlers outside, and what must not be done under a lock
	stop     context.CancelFunc
	ctx      context.Context
}

var (
	_ agentkernel.Kernel = (*Kernel)(nil)
	_ agentkernel.Hosted = (*Kernel)(nil)
)

// clock is the time since the kernel started. It is never 0, and no change of the system's time moves it.
func (k *Kernel) clock() time.Duration { return k.cfg.Now().Sub(k.cfg.About.Started) + 1 }

// lookup returns a process that is in memory; nil: it is not. See acquire.
func (k *Kernel) lookup(pid agentkernel.PID) *process { return k.table.Lookup(pid) }

// books are those in which what p spends is; see budget.Ledger.
func (k *Kernel) books(p *process) []agentkernel.PID {
	return k.table.ledger.Nodes(p.pid, &p.spec.Spec)
}
