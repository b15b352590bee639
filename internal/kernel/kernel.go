package kernel

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"agentkernel"
)

// Config says what a kernel is made of.
type Config struct {
	Store    agentkernel.Store
	Backends []agentkernel.Backend // in the order in which "auto" tries them
	// Tools gives the tools of a list of MCP configuration files. Nil: there are none.
	Tools func(files []string) (agentkernel.ToolSource, error)
	// Fetcher makes HTTP requests; nil: programs cannot make any.
	Fetcher agentkernel.Fetcher
	// Library keeps skills and documents; nil: there are none.
	Library agentkernel.Library
	// Layers keeps what programs do to folders; nil: programs get none.
	Layers Layers
	// Backup writes a backup of everything that the kernel keeps; nil: there is no way to.
	Backup func(ctx context.Context, w io.Writer) error
	Limits agentkernel.Limits // defaults for processes; zero fields are DefaultLimits
	Logger *slog.Logger
	Now    func() time.Time
	Rand   io.Reader // what rand.bytes draws from

	// Slots is how many programs may run at one moment; 0: twice the CPUs, at least 4.
	Slots int
	// Residents is how many sandboxes may be in memory; a waiting one is parked to make room. 0: eight for
	// each CPU, at least 16.
	Residents int
	// ParkAfter is how long a waiting sandbox stays in memory although nobody needs its place. 0: 1 s.
	ParkAfter time.Duration
	// SessionStay is how long a session whose backend makes no images keeps its sandbox between two pieces although nobody
	// needs its place: to have it again costs the time of all its pieces. 0: 15 min.
	SessionStay time.Duration
	Retention   agentkernel.Retention // of the store
	// Grace is how long Close waits for external calls under way, so that their results are journalled.
	Grace time.Duration

	Version, Mode, Home string            // for Info
	Settings            map[string]string // for Info
}

func (c *Config) setDefaults() error {
	if c.Store == nil {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "kernel", "Config.Store is missing")
	}
	if c.Retention == nil {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "kernel", "Config.Retention is missing")
	}
	c.Limits = c.Limits.WithDefaults(agentkernel.DefaultLimits())
	if c.Fetcher == nil {
		c.Fetcher = noFetcher{}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Rand == nil {
		c.Rand = rand.Reader
	}
	if c.Slots == 0 {
		c.Slots = max(4, 2*runtime.NumCPU())
	}
	if c.Residents == 0 {
		c.Residents = max(16, 8*runtime.NumCPU())
	}
	c.Residents = max(c.Residents, c.Slots)
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

// backend is a backend with what it says of itself, asked once: Info may look at the disk.
type backend struct {
	agentkernel.Backend
	agentkernel.BackendInfo
}

// Kernel implements agentkernel.Kernel and agentkernel.Hosted.
type Kernel struct {
	cfg      Config
	store    agentkernel.Store
	origin   agentkernel.StoreInfo
	handlers map[string]handler
	started  time.Time
	backends []*backend
	queue    *readyQueue
	specs    *interner
	bindings *bindings
	sessions *sessions
	forest   forest

	replays atomic.Int64 // counts down: see sealedProcess

	last atomic.Int64 // position of the newest batch, for answers that speak of many processes
	keys sync.Mutex   // one creation with an idempotency key at a time

	mu         sync.Mutex
	procs      map[agentkernel.PID]*process
	resident   map[agentkernel.PID]*process
	unfinished int // left by earlier kernels, not taken up
	closed     bool
	broken     *agentkernel.Error // why the store failed
	brokenCh   chan struct{}
	parker     *time.Timer
	external   *gate // handlers outside the kernel
	stop       context.CancelFunc
	ctx        context.Context
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
	handlers, err := handlerTable()
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	k := &Kernel{
		cfg: cfg, store: cfg.Store, origin: cfg.Store.Info(), handlers: handlers, started: cfg.Now(),
		procs: map[agentkernel.PID]*process{}, resident: map[agentkernel.PID]*process{},
		specs: newInterner(cfg.Limits), bindings: newBindings(cfg), sessions: newSessions(), external: newGate(), brokenCh: make(chan struct{}), ctx: ctx, stop: stop,
	}
	for _, b := range cfg.Backends {
		k.backends = append(k.backends, &backend{Backend: b, BackendInfo: b.Info()})
	}
	k.queue = newReadyQueue(cfg.Slots, cfg.Now, k.drive)
	left, err := cfg.Store.Count(ctx, agentkernel.Filter{Unfinished: true})
	if err != nil {
		stop()
		return nil, err
	}
	k.unfinished = left
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
		Version: k.cfg.Version, API: agentkernel.APIVersion, OSPID: os.Getpid(), Home: k.cfg.Home,
		Store: k.store.Info(), Started: k.started, Mode: k.cfg.Mode, Settings: k.cfg.Settings,
		Storage: storage,
	}
	for _, b := range k.cfg.Backends {
		info.Backends = append(info.Backends, b.Info())
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	info.Processes, info.Unfinished = len(k.procs), k.unfinished
	return info, nil
}

// Close stops the kernel. Processes are left as their journals say: no program runs on, external calls
// under way get Config.Grace to finish so that their results are kept, waiting sandboxes are parked.
func (k *Kernel) Close() error {
	k.mu.Lock()
	if k.closed {
		k.mu.Unlock()
		return nil
	}
	k.closed = true
	if k.parker != nil {
		k.parker.Stop()
	}
	procs := make([]*process, 0, len(k.procs))
	for _, p := range k.procs {
		procs = append(procs, p)
	}
	k.mu.Unlock()

	k.queue.close()
	k.external.await(k.cfg.Grace)
	for _, p := range procs {
		k.abandon(p)
	}
	k.stop()
	k.queue.drain()
	for _, p := range procs {
		k.closeLate(p)
	}
	k.external.close()
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
	if !p.owned && p.box != nil && p.state == agentkernel.StateWaiting && p.need != needGo && p.backend.Images {
		p.owned = true
		p.mu.Unlock()
		k.park(p)
		p.mu.Lock()
	}
	box := p.box
	p.endLife()
	if p.wall != nil {
		p.wall.Stop()
	}
	for _, f := range p.inflight {
		if f.timer != nil {
			f.timer.Stop()
		}
	}
	for _, w := range p.watchers {
		w.fail(agentkernel.Errorf(agentkernel.CodeUnavailable, "kernel", "the kernel was stopped; the process is unfinished").
			WithPID(p.pid).WithHint("agentkernel recover %d", p.pid))
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
	box := p.box
	p.mu.Unlock()
	k.discard(p, box) // again, at most
}

func (k *Kernel) lookup(pid agentkernel.PID) *process {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.procs[pid]
}

func (k *Kernel) isClosed() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.closed
}
