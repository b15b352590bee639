// Package embedded wires the concrete parts into a kernel that runs inside the calling program. It is the
// only place that names concrete types: a Go program that wants its own kernel starts here.
package embedded

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"time"

	"agentkernel"
	"agentkernel/internal/datadir"
	"agentkernel/internal/fetch"
	"agentkernel/internal/incoming"
	"agentkernel/internal/kernel"
	"agentkernel/internal/kernel/room"
	"agentkernel/internal/library"
	"agentkernel/internal/offline"
	"agentkernel/internal/policy"
	"agentkernel/internal/reaper"
	"agentkernel/internal/recording"
	"agentkernel/internal/retention"
	"agentkernel/internal/sandbox/monty"
	"agentkernel/internal/sandbox/workspace"
	"agentkernel/internal/sched"
	"agentkernel/internal/setup"
	"agentkernel/internal/store/sqlite"
	"agentkernel/internal/sys/families"
	toolcalls "agentkernel/internal/sys/tool"
	"agentkernel/internal/tool"
	"agentkernel/internal/tool/catalog"
)

// Config says how to build a kernel. The zero value of each field is a useful default.
type Config struct {
	Home    string // data directory; "" is AGENTKERNEL_HOME, else the XDG state directory
	Mode    string // "embedded" (default), "serve" or "background": what Info reports
	Version string // of the calling program
	// Recovers says that Recover of all processes follows: callers that come before its end wait for it.
	Recovers bool
	Workers  int // sandboxes in memory at most; 0: chosen from the number of CPUs
	// Shares are the weights by which namespaces get slots while they wait for some at the same time: "team 3". Others have 1.
	Shares []string
	// Allowances bound what the processes of a namespace spend together in a day or a month, by UTC: "team day usd 5".
	Allowances []string
	Slots      int    // programs that run at one moment; 0: chosen from the number of CPUs, and the memory
	Engine     string // path of the Monty executable; "": found on PATH, in the data directory or where `agentkernel setup` puts it
	Python     string // interpreter of the process backend, path or name; "": python3 on PATH
	// Sandboxes says that the calling program calls [Main] first of all: without that the process backend cannot
	// build its walls, and runs nothing.
	Sandboxes bool
	// NeverUnconfined refuses programs without a boundary (agentkernel.IsolationNone). Else they run where that is asked for
	// and no walls can stand.
	NeverUnconfined bool
	// Settings are what Info reports as those of the kernel; nothing else is done with them.
	Settings map[string]string
	// Limits are the defaults for processes whose Spec says nothing; zero fields are agentkernel.DefaultLimits.
	Limits agentkernel.Limits
	// ParkAfter is how long a waiting program stays in memory although nobody needs its place; 0: 1 s.
	ParkAfter time.Duration
	// SessionStay is how long a session in CPython keeps its process between two cells although nobody needs its place;
	// then its cells run again when the next one comes. 0: 15 min.
	SessionStay time.Duration
	// Quota is how many bytes journals and blobs may take before new processes are refused; 0: any.
	Quota int64
	// Keep is how long processes are kept after their end, with KeepFailed only those that ended well; 0: for ever.
	Keep       time.Duration
	KeepFailed bool
	// Tools replaces the MCP client: it gives the tools of a list of configuration files. Nil: MCP servers.
	Tools func(files []string) (agentkernel.ToolSource, error)
	// Secrets are what http.fetch may fill into headers: "NAME env:VARIABLE HOST..." or "NAME file:PATH HOST...".
	Secrets []string
	// Embeddings is where tool search finds vectors; without a URL it goes by words alone.
	Embeddings Embeddings
	// Models declares language models ("fast openai:gpt-5-mini rpm=500"); docs/llm.md has the form. Prices are files with what they
	// cost, before the table that is installed in the data directory, and that which comes with this version.
	Models, Prices []string
	// ModelShares are the parts of each limit of models that namespaces have as long as they ask for them: "team 70%".
	ModelShares []string
	// WrapStore puts something around the store: a fault to be injected, a counter. Nil: nothing.
	WrapStore func(agentkernel.Store) agentkernel.Store
	// Observer is told what processes do, for metrics and traces; nil: none is.
	Observer agentkernel.Observer
	Logger   *slog.Logger
}

// spareWorkers is how many times Config.Workers the engine may start: a program whose heap is too large for
// an image keeps its worker while it waits, and must not keep others from running.
const spareWorkers = 4

// Kernel is a kernel in this program, with everything that it is made of.
type Kernel struct {
	*kernel.Kernel
	keeper   *retention.Keeper
	fetcher  *fetch.Fetcher
	settings atomic.Pointer[map[string]string] // since Reload; nil: those with which it was opened
	closers  []func() error
}

// Reload takes from a Config what may change while the kernel runs: Quota, Keep, KeepFailed, Allowances, Secrets, and Settings, which Info
// reports from then on. Processes go on, also those that were paused for an allowance that is larger now. CodeInvalid: an entry of Secrets
// or of Allowances is none, and nothing has changed.
func (k *Kernel) Reload(cfg Config) error {
	allowances, err := agentkernel.ParseAllowances(cfg.Allowances)
	if err != nil {
		return err
	}
	if err := k.fetcher.SetSecrets(cfg.Secrets); err != nil {
		return err
	}
	k.keeper.SetRules(cfg.rules(allowances))
	k.Allow(allowances)
	k.settings.Store(&cfg.Settings)
	return nil
}

func (cfg *Config) rules(allowances agentkernel.Allowances) retention.Rules {
	return retention.Rules{Quota: cfg.Quota, Keep: cfg.Keep, KeepFailed: cfg.KeepFailed, Allowances: allowances}
}

// Info says which kernel this is.
func (k *Kernel) Info(ctx context.Context) (agentkernel.KernelInfo, error) {
	info, err := k.Kernel.Info(ctx)
	if s := k.settings.Load(); s != nil && err == nil {
		info.Settings = *s
	}
	return info, err
}

// As returns the kernel as a principal sees it, for a program that serves others: [agentkernel.Owner] sees all of it, anybody
// else one namespace.
func (k *Kernel) As(who agentkernel.Principal) agentkernel.Kernel { return policy.Scoped(k, who) }

// Open locks the data directory, kills survivors of a dead kernel and starts a kernel on it. It does not
// continue unfinished processes (Kernel.Recover does). Errors: CodeConflict, another kernel holds the
// directory; CodeStorage, CodeCorrupt or CodeVersion, the directory or its database cannot be used.
func Open(ctx context.Context, cfg Config) (*Kernel, error) {
	if cfg.Mode == "" {
		cfg.Mode = "embedded"
	}
	if cfg.Workers == 0 {
		cfg.Workers = max(8, 4*runtime.NumCPU())
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	weight, err := sched.Weights(cfg.Shares)
	allowances, err2 := agentkernel.ParseAllowances(cfg.Allowances)
	if err := cmp.Or(err, err2); err != nil {
		return nil, agentkernel.AsError(err, agentkernel.CodeInvalid, "open")
	}
	k := &Kernel{}
	if err := k.open(ctx, cfg, weight, allowances); err != nil {
		return nil, errors.Join(err, k.closeParts())
	}
	return k, nil
}

func (k *Kernel) open(ctx context.Context, cfg Config, weight func(namespace string) int, allowances agentkernel.Allowances) error {
	home, err := datadir.Resolve(cfg.Home)
	if err != nil {
		return err
	}
	dir, err := datadir.Open(home)
	if err != nil {
		return err
	}
	for _, w := range dir.Warnings() {
		cfg.Logger.Warn(w)
	}
	lock, err := dir.Lock(datadir.Holder{OSPID: os.Getpid(), Version: cfg.Version, Mode: cfg.Mode, Started: time.Now()})
	if err != nil {
		return err
	}
	k.onClose(lock.Unlock)
	lock.Beat()
	if n, err := reaper.KillSurvivors(dir.Run()); err != nil {
		return err
	} else if n > 0 {
		cfg.Logger.Info("killed what a dead kernel had left", "processes", n)
	}
	reap, err := reaper.New(dir.Run(), ownerID())
	if err != nil {
		return err
	}
	k.onClose(reap.Close)
	backends, closeBackends, err := k.backends(cfg, dir, reap)
	if err != nil {
		return err
	}
	key, err := dir.Key()
	if err != nil {
		return errors.Join(err, closeBackends())
	}
	store, err := openStore(ctx, cfg, dir, key)
	if err != nil {
		return errors.Join(err, closeBackends())
	}
	received := incoming.New(room.Most())
	tools, err := k.tools(cfg, dir, reap, received)
	if err != nil {
		return errors.Join(err, closeBackends(), store.Close())
	}
	k.fetcher, err = fetch.New(fetch.Config{Secrets: cfg.Secrets, Env: os.LookupEnv, Room: received, Version: cfg.Version})
	if err != nil {
		return errors.Join(err, closeBackends(), store.Close())
	}
	k.onClose(k.fetcher.Close)
	router, err := askers(cfg, dir, weight)
	if err != nil {
		return errors.Join(err, closeBackends(), store.Close())
	}
	k.onClose(func() error { router.Close(); return nil })
	layers := workspace.New(workspace.Config{Dir: dir.Workspaces(), Apart: dir.Path(), Origin: store.Info().UUID, Logger: cfg.Logger})
	k.keeper = retention.New(retention.Config{Store: store, Layers: layers, Rules: cfg.rules(allowances), Logger: cfg.Logger})
	toolbox := toolcalls.New(tools, nil)
	recordings := func(host agentkernel.RecordingHost) agentkernel.Recordings {
		return recording.New(recording.Config{Store: store, Layers: layers, Room: k.keeper.Room, Tools: toolbox.Open, Version: cfg.Version}, host)
	}
	k.Kernel, err = kernel.New(kernel.Config{Store: store, Backends: backends, Limits: cfg.Limits, Recovers: cfg.Recovers,
		Traffic: router, Families: families.All(families.Parts{Tools: toolbox, Fetcher: k.fetcher, Models: router}), Tools: toolbox,
		Layers: layers, Retention: k.keeper, Recordings: recordings,
		Library: library.New(dir.Path(), nil), Backup: backups(cfg, dir, store),
		Logger: cfg.Logger, Observer: cfg.Observer, Allowances: allowances, Slots: cfg.Slots, Weight: weight,
		Residents: cfg.Workers, ParkAfter: cfg.ParkAfter, SessionStay: cfg.SessionStay,
		About: agentkernel.KernelInfo{Version: cfg.Version, Mode: cfg.Mode, Home: dir.Path(), Settings: cfg.Settings, Before: lock.Before()}})
	if err != nil {
		return errors.Join(err, closeBackends(), store.Close())
	}
	if cfg.Mode != "embedded" { // a command of its own: what it does is in its terminal
		cfg.Logger.Info("the kernel is open", "version", cfg.Version, "os_pid", os.Getpid(), "mode", cfg.Mode)
	}
	return nil
}

// backends opens all that programs can run in, the engine first: its first worker starts while the database opens.
// They are the kernel's to close as soon as there is one; until then, the caller closes them with what it returns.
func (k *Kernel) backends(cfg Config, dir *datadir.Dir, reap *reaper.Reaper) ([]agentkernel.Backend, func() error, error) {
	spawner, problem, err := k.spawner(cfg, dir, reap)
	if err != nil {
		return nil, nil, err
	}
	engine, err := monty.New(monty.Config{Launcher: reap, Walls: spawner, NoWalls: problem, Masked: []string{dir.Path()}, Engine: cfg.Engine, Candidates: setup.Candidates(dir.Path(), setup.UserEngines()),
		Cache: filepath.Join(dir.Path(), "engine.json"), Workers: cfg.Workers * spareWorkers, Logger: cfg.Logger})
	if err != nil {
		return nil, nil, err
	}
	opened := []agentkernel.Backend{engine}
	closeAll := func() (err error) {
		for _, b := range opened {
			err = errors.Join(err, b.Close())
		}
		return err
	}
	cpython, err := k.process(cfg, dir, reap, spawner, problem)
	if err != nil {
		return nil, nil, errors.Join(err, closeAll())
	}
	opened = append(opened, cpython)
	if bare, err := k.unconfined(cfg, dir, reap, spawner); err != nil {
		return nil, nil, errors.Join(err, closeAll())
	} else if bare != nil {
		opened = append(opened, bare)
	}
	return opened, closeAll, nil
}

func openStore(ctx context.Context, cfg Config, dir *datadir.Dir, key []byte) (agentkernel.Store, error) {
	store, err := sqlite.Open(ctx, sqlite.Config{Path: dir.Database(), Blobs: dir.Blobs(), Key: key, Logger: cfg.Logger})
	if err != nil {
		return nil, err
	}
	if cfg.WrapStore != nil {
		return cfg.WrapStore(store), nil
	}
	return store, nil
}

// tools gives the tools of configuration files, with what is known of them beside what their servers say.
func (k *Kernel) tools(cfg Config, dir *datadir.Dir, reap *reaper.Reaper, received *incoming.Room) (func([]string) (agentkernel.ToolSource, error), error) {
	source := cfg.Tools
	if source == nil {
		// What a tools file holds when it is named counts; what it holds later only if the user has accepted it.
		hub, err := tool.New(tool.Config{Launcher: reap.Guarded(), Logger: cfg.Logger, Room: received, Version: cfg.Version,
			Changed: tool.NewTrust(dir.Trust()).Require})
		if err != nil {
			return nil, err
		}
		k.onClose(hub.Close)
		source = hub.Set
	}
	embedder, err := embedder(cfg.Embeddings)
	if err != nil {
		return nil, err
	}
	cat, err := catalog.New(catalog.Config{Source: source, Dir: dir.Tools(), Embedder: embedder,
		Model: cfg.Embeddings.URL + " " + cfg.Embeddings.Model, Logger: cfg.Logger})
	if err != nil {
		return nil, err
	}
	k.onClose(cat.Close)
	return cat.Set, nil
}

func (k *Kernel) onClose(fn func() error) { k.closers = append(k.closers, fn) }

// Close stops the kernel: calls under way get a moment to finish, processes are left as their journals say.
func (k *Kernel) Close() error {
	return errors.Join(k.Kernel.Close(), k.closeParts())
}

func (k *Kernel) closeParts() error {
	var errs []error
	for i := len(k.closers) - 1; i >= 0; i-- {
		errs = append(errs, k.closers[i]())
	}
	k.closers = nil
	return errors.Join(errs...)
}

// OpenReader reads the database of a data directory without a kernel, also while one runs: Process, List,
// Events without follow, Journal, State. Everything else answers CodeUnavailable. Nothing is created.
func OpenReader(ctx context.Context, home string) (agentkernel.Kernel, error) {
	home, err := datadir.Resolve(home)
	if err != nil {
		return nil, err
	}
	dir := datadir.At(home)
	cfg := readerConfig(dir)
	damage := damageOf(ctx, dir)
	store, err := sqlite.OpenReader(ctx, cfg)
	if err != nil {
		return nil, readError(err, damage)
	}
	info := store.Info()
	info.Damage = damage
	return offline.New(store, info, store.Close).After(dir.LastLife()), nil
}

// Examination is what Examine has found.
type Examination = sqlite.Examination

// Examine looks for damage of a data directory that opening it does not show, in its database and its blobs. It reads a bounded part,
// says how much that was, and changes nothing.
func Examine(ctx context.Context, home string) (Examination, error) {
	home, err := datadir.Resolve(home)
	if err != nil {
		return Examination{}, err
	}
	return sqlite.Examine(ctx, readerConfig(datadir.At(home)))
}

// readerConfig is of a database that this process reads and does not have open as its kernel.
func readerConfig(dir *datadir.Dir) sqlite.Config {
	return sqlite.Config{Path: dir.Database(), Blobs: dir.Blobs(), Key: dir.KeyIfAny(), Idle: func() bool {
		_, held := dir.Held()
		return !held
	}}
}

// ownerID names this incarnation of a kernel for the reaper.
func ownerID() string {
	b := make([]byte, 8)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	return "k" + hex.EncodeToString(b)
}
