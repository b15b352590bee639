package monty

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os/exec"
	"runtime"
	"sync/atomic"
	"time"

	"agentkernel"
	"agentkernel/internal/fastpath"
	"agentkernel/internal/sandbox/confine"
	"agentkernel/internal/sandbox/monty/frontend"
)

// Launcher starts and kills child processes so that none outlives the kernel; reaper.Reaper is one.
type Launcher interface {
	// Start starts cmd in a process group of its own.
	Start(cmd *exec.Cmd) error
	// Kill kills its whole group. It does not wait, and does nothing if the command has ended.
	Kill(cmd *exec.Cmd)
}

// Clock is time as this package needs it.
type Clock interface {
	Now() time.Time
	AfterFunc(d time.Duration, f func()) Timer
}

// Timer is the part of *time.Timer that is used here.
type Timer interface {
	Stop() bool
	Reset(d time.Duration) bool
}

type systemClock struct{}

func (systemClock) Now() time.Time                            { return time.Now() }
func (systemClock) AfterFunc(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) }

// Config says how to run Monty. Launcher is needed; everything else has a useful zero value.
type Config struct {
	Launcher Launcher
	// Walls puts each worker behind the operating system's walls, where they can stand; else workers run without, and
	// say so. NoWalls is why there is no spawner; nil beside no Walls: nobody said.
	Walls   *confine.Spawner
	NoWalls *agentkernel.Error
	// Masked are directories of the host that no worker sees: the data directory.
	Masked []string
	// Engine is the path of the executable; "" means `monty` on PATH, then Candidates in order.
	Engine     string
	Candidates []string
	// Cache is a file that keeps what the engine said of itself, for the next kernel; "" keeps nothing.
	Cache string
	// Workers bounds how many worker processes there are; 0 means four for each CPU, at least eight.
	Workers int
	// Spare is how many unused workers stand ready; 0 means one, negative none.
	Spare int
	// IdleAfter is how long a used worker waits for another program of its namespace; 0 means one minute.
	IdleAfter time.Duration
	// Grace is how long a program may exceed its time limit before the kernel stops waiting for the
	// worker to end it; 0 means one second.
	Grace time.Duration
	// MaxFrame bounds one message from a worker, and an image, in bytes; 0 means 256 MiB.
	MaxFrame int
	Clock    Clock
	Logger   *slog.Logger
}

func (c Config) withDefaults() (Config, error) {
	if c.Launcher == nil {
		return c, agentkernel.Errorf(agentkernel.CodeInternal, "monty", "Config.Launcher is nil")
	}
	if c.Workers == 0 {
		c.Workers = max(8, 4*runtime.NumCPU())
	}
	switch {
	case c.Spare == 0:
		c.Spare = 1
	case c.Spare < 0:
		c.Spare = 0
	}
	c.Spare = min(c.Spare, c.Workers)
	if c.IdleAfter == 0 {
		c.IdleAfter = time.Minute
	}
	if c.Grace == 0 {
		c.Grace = time.Second
	}
	if c.MaxFrame == 0 {
		c.MaxFrame = 256 << 20
	}
	if c.Clock == nil {
		c.Clock = systemClock{}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Workers < 0 || c.MaxFrame < 1<<10 {
		return c, agentkernel.Errorf(agentkernel.CodeInvalid, "monty", "workers and frame size must be positive")
	}
	return c, nil
}

// Backend runs Python programs in Monty workers. It is safe for concurrent use.
type Backend struct {
	cfg      Config
	engine   *engine
	pool     *pool
	programs *programs
	// installed says that the engine was found once, so that Check need not look for each program.
	installed atomic.Bool
	syscalls  map[string]agentkernel.Syscall // by guest name
}

var _ agentkernel.Backend = (*Backend)(nil)

// New prepares the backend and returns at once; spare workers start beside it. A missing engine is not an
// error here: Info says so, and Start does.
func New(cfg Config) (*Backend, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	b := &Backend{cfg: cfg, programs: newPrograms(), syscalls: map[string]agentkernel.Syscall{}}
	for _, s := range agentkernel.Syscalls() {
		if s.Guest != "" {
			b.syscalls[s.Guest] = s
		}
	}
	b.engine = &engine{path: cfg.Engine, candidates: cfg.Candidates, cache: cfg.Cache, launch: cfg.Launcher, clock: cfg.Clock}
	b.pool = newPool(&b.cfg, b.engine)
	return b, nil
}

// Info describes the backend. It runs nothing: whether the engine really works is known after the first start.
func (b *Backend) Info() agentkernel.BackendInfo {
	info := agentkernel.BackendInfo{
		Name:        "monty",
		Languages:   []agentkernel.Language{agentkernel.Python},
		Fingerprint: fingerprint(),
		Images:      true,
		Sessions:    true,
		Replayable:  true,
		Isolation:   agentkernel.IsolationInterpreter,
		Available:   true,
	}
	if d := b.pool.walls.decision.Load(); d != nil && d.problem != nil {
		info.Walls = plainWalls(d.problem.Message())
	}
	if err := cmp.Or(b.engine.problem(), b.pool.hung()); err != nil {
		info.Available, info.Problem = false, err.Error()
		if e, ok := errors.AsType[*agentkernel.Error](err); ok {
			info.Problem, info.Fix = e.Message(), e.Hint
		}
	}
	return info
}

func fingerprint() string { return "monty-" + EngineVersion + "+" + frontend.Version() }

// Check refuses a program that Monty cannot run, before anything ran.
func (b *Backend) Check(p agentkernel.Program) (agentkernel.Needs, error) {
	if p.Host != "" {
		return agentkernel.Needs{}, agentkernel.Errorf(agentkernel.CodeUnsupported, "check", "the monty backend has no packages; the process backend (CPython) has them")
	}
	needs, err := b.programs.check(p)
	if err == nil && !b.installed.Load() {
		if _, err = b.engine.find(); err == nil {
			b.installed.Store(true) // if it goes away, Start says so
		}
	}
	if err == nil {
		err = b.pool.hung()
	}
	return needs, err
}

// Start makes a sandbox. A worker is taken from the pool, or waited for in the order of asking.
func (b *Backend) Start(ctx context.Context, req agentkernel.StartRequest) (agentkernel.Sandbox, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	req.Limits = req.Limits.WithDefaults(agentkernel.DefaultLimits())
	prog, err := b.programs.bind(req.Program, req.Tools)
	if err != nil {
		return nil, err
	}
	for left := startTries; ; left-- {
		box, err := b.start(ctx, req, prog)
		if left == 1 || !errors.Is(err, errUnready) {
			return box, err
		}
	}
}

// startTries is how often a worker is taken that may be gone, or be killed while it is made ready.
const startTries = 100

func (b *Backend) start(ctx context.Context, req agentkernel.StartRequest, prog *program) (agentkernel.Sandbox, error) {
	s := &sandbox{b: b, req: req, prog: prog}
	if req.Image != nil {
		if err := s.openImage(req.Image); err != nil {
			return nil, err
		}
	}
	var err error
	if s.w, err = b.pool.acquire(ctx, req.Namespace, settingsOf(req.Limits)); err != nil {
		return nil, err
	}
	if req.Image == nil || s.dump == nil {
		return s, nil
	}
	switch err := s.load(ctx); {
	case err != nil:
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

// StartNow gives a sandbox for a fresh program if a worker is at hand; see fastpath.Backend.
func (b *Backend) StartNow(req agentkernel.StartRequest) fastpath.Sandbox {
	if req.Image != nil || req.Program.Session {
		return nil
	}
	req.Limits = req.Limits.WithDefaults(agentkernel.DefaultLimits())
	prog, err := b.programs.bind(req.Program, req.Tools)
	if err != nil {
		return nil // Start says so
	}
	w := b.pool.acquireNow(req.Namespace, settingsOf(req.Limits))
	if w == nil {
		return nil
	}
	return &sandbox{b: b, req: req, prog: prog, w: w}
}

// Stats counts the workers.
func (b *Backend) Stats() Stats { return b.pool.stats() }

// Close kills every worker and waits until they are gone. Programs that run fail.
func (b *Backend) Close() error {
	b.pool.close()
	return nil
}
