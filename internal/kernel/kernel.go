package kernel

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/advice"
	"agentkernel/internal/kernel/backends"
	"agentkernel/internal/kernel/cells"
	"agentkernel/internal/kernel/files"
	"agentkernel/internal/kernel/gate"
	"agentkernel/internal/kernel/observe"
	"agentkernel/internal/kernel/skills"
	"agentkernel/internal/kernel/slots"
	"agentkernel/internal/kernel/specs"
	"agentkernel/internal/kernel/timers"
	"agentkernel/internal/kernel/wakes"
	"agentkernel/internal/sys"
)

// Config says what a kernel is made of.
type Config struct {
	Store    agentkernel.Store
	Epoch    func(root agentkernel.PID) int64 // of the lease of a tree, where Store is a Fencer; nil: 0
	Backends []agentkernel.Backend            // in the order in which "auto" tries them
	// Families are the system calls beside the kernel's own.
	Families []sys.Family
	// Tools finds the tools that programs import.
	Tools sys.Toolbox
	// Library keeps skills and documents; nil: there are none.
	Library agentkernel.Library
	// Layers keeps what programs do to folders; nil: programs get none.
	Layers agentkernel.Layers
	// Backup writes a backup of everything that the kernel keeps; nil: there is no way to.
	Backup func(ctx context.Context, w io.Writer) error
	// Recovers says that Recover of all processes follows: callers that come before its end wait for it.
	Recovers bool
	Limits   agentkernel.Limits // defaults for processes; zero fields are DefaultLimits
	Logger   *slog.Logger
	Observer agentkernel.Observer // told what processes do; nil: none is
	Now      func() time.Time

	// Slots is how many programs may run at one moment; 0: twice the CPUs, at least 4.
	Slots int
	// Residents is how many sandboxes may be in memory; a waiting one is parked to make room. 0: eight for
	// each CPU, at least 16.
	Residents int
	// ParkAfter is how long a waiting sandbox stays in memory although nobody needs its place. 0: 1 s.
	ParkAfter time.Duration
	// Loaded is how many parked processes stay in memory; what else waits is read from the store when something wakes it.
	// 0: 8,192; less: none.
	Loaded int
	// SessionStay is how long a session whose backend makes no images keeps its sandbox between two pieces although nobody
	// needs its place: to have it again costs the time of all its pieces. 0: 15 min.
	SessionStay time.Duration
	Retention   agentkernel.Retention // of the store
	// Recordings makes what exports, imports and verifies processes; nil: nothing does.
	Recordings func(host agentkernel.RecordingHost) agentkernel.Recordings
	// Grace is how long Close waits for external calls under way, so that their results are journalled.
	Grace time.Duration

	About agentkernel.KernelInfo // for Info: Version, Mode, Home, Settings, Before
}

func (c *Config) setDefaults() error {
	if c.Store == nil {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "kernel", "Config.Store is missing")
	}
	if c.Tools == nil {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "kernel", "Config.Tools is missing")
	}
	if c.Retention == nil {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "kernel", "Config.Retention is missing")
	}
	c.Limits = c.Limits.WithDefaults(agentkernel.DefaultLimits())
	if c.Epoch == nil {
		c.Epoch = func(agentkernel.PID) int64 { return 0 }
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Slots == 0 {
		c.Slots = max(4, 2*runtime.NumCPU())
	}
	if c.Residents == 0 {
		c.Residents = max(16, 8*runtime.NumCPU())
	}
	c.Residents = max(c.Residents, c.Slots)
	if c.Loaded == 0 {
		c.Loaded = 8192
	}
	c.Loaded = max(c.Loaded, 0)
	if c.SessionStay == 0 {
		c.SessionStay = 15 * time.Minute
	}
	if c.ParkAfter == 0 {
		c.ParkAfter = time.Second
	}
	if c.Grace == 0 {
		c.Grace = 5 * time.Second
	}
	return nil
}

// Kernel implements agentkernel.Kernel and agentkernel.Hosted.
type Kernel struct {
	agentkernel.Tools // Config.Tools
	*skills.Library
	*files.Files
	agentkernel.Recordings
	cfg      *Config
	store    agentkernel.Store
	origin   agentkernel.StoreInfo
	ops      map[string]*op
	backends backends.List
	table    *table
	queue    *slots.Queue[*process]
	timers   *timers.Timers
	wakes    *wakes.List
	specs    *specs.Interner
	sessions *cells.Registry
	forest   *forest
	observed *observe.Observed // nil: nobody observes

	verifications atomic.Int64 // counts down: see verifier

	last atomic.Int64 // position of the newest batch, for answers that speak of many processes
	keys sync.Mutex   // one creation with an idempotency key at a time

	broken   chan struct{} // closed when the store has failed
	external *gate.Gate    // handlers outside the kernel
	stop     context.CancelFunc
	ctx      context.Context
}

var (
	_ agentkernel.Kernel = (*Kernel)(nil)
	_ agentkernel.Hosted = (*Kernel)(nil)
)

// New starts a kernel on a store. It continues nothing; Recover does.
func New(cfg Config) (*Kernel, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	ops, err := newOps(cfg.Families)
	if err != nil {
		return nil, err
	}
	cfg.About.Started = cfg.Now()
	ctx, stop := context.WithCancel(context.Background())
	k := &Kernel{
		Tools: cfg.Tools, cfg: &cfg, store: cfg.Store, origin: cfg.Store.Info(), ops: ops,
		specs: specs.New(cfg.Limits), observed: observe.New(cfg.Observer, cfg.Now), sessions: cells.New(), forest: &forest{}, external: gate.New(), broken: make(chan struct{}), ctx: ctx, stop: stop,
	}
	k.backends = backends.New(cfg.Backends)
	k.Files = files.New(cfg.Store, cfg.Layers, (*host)(k))
	k.Library = skills.New(cfg.Library, k.backends)
	k.queue = slots.New(cfg.Slots, cfg.Now, k.drive)
	k.timers = timers.New(cfg.Now)
	k.wakes = wakes.New(ctx, wakes.Config{Due: k.due, Wake: k.wakeParked, Timers: k.timers, Go: k.external.Go, Now: cfg.Now, Logger: cfg.Logger})
	left, err := cfg.Store.Count(ctx, agentkernel.Filter{Unfinished: true})
	if err != nil {
		stop()
		return nil, err
	}
	k.table = newTable(left, cfg.Recovers)
	if f, ok := cfg.Store.(agentkernel.Fencer); ok {
		f.OnFenced(k.fenced)
	}
	k.Recordings = noRecordings{}
	if cfg.Recordings != nil {
		k.Recordings = cfg.Recordings((*host)(k))
	}
	cfg.Retention.Start((*host)(k))
	return k, nil
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
	for _, b := range k.cfg.Backends {
		info.Backends = append(info.Backends, b.Info())
	}
	k.table.counts(&info)
	return info, nil
}

// Close stops the kernel. Processes are left as their journals say: no program runs on, external calls
// under way get Config.Grace to finish so that their results are kept, waiting sandboxes are parked.
func (k *Kernel) Close() error {
	procs, first := k.table.close()
	if !first {
		return nil
	}
	k.queue.Close()
	k.external.Await(k.ctx, k.cfg.Grace)
	for _, p := range procs {
		k.abandon(p)
	}
	k.timers.Close()
	k.stop()
	k.queue.Drain()
	for _, p := range procs {
		k.closeLate(p)
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

// abandon lets go of a process without ending it: the journal has all that it did.
func (k *Kernel) abandon(p *process) {
	p.mu.Lock()
	if question := p.asks(); question != "" { // whoever is asked loses his kernel, which is no answer
		k.pause(p, 0, question)
	}
	if p.state == agentkernel.StateWaiting && p.evictable() && p.run.backend.Images {
		p.step(&stepReserve)
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
	for _, w := range p.watchers {
		w.Fail(agentkernel.Errorf(agentkernel.CodeUnavailable, "kernel", "the kernel was stopped; the process is unfinished").
			WithPID(p.pid).WithHint(advice.Recover, p.pid))
	}
	p.mu.Unlock()
	if box != nil {
		if err := box.Close(); err != nil {
			k.cfg.Logger.Warn("sandbox did not close", "pid", p.pid, "err", err)
		}
	}
}

// closeLate closes the sandbox of a process that was let go while it was being started. No slot is in use any more.
func (k *Kernel) closeLate(p *process) {
	p.mu.Lock()
	box := p.run.box
	p.mu.Unlock()
	k.discard(p, box) // again, at most
}

// clock is the time since the kernel started. It is never 0, and no change of the system's time moves it.
func (k *Kernel) clock() time.Duration { return k.cfg.Now().Sub(k.cfg.About.Started) + 1 }

// lookup returns a process that is in memory; nil: it is not. See acquire.
func (k *Kernel) lookup(pid agentkernel.PID) *process { return k.table.lookup(pid) }
