package sim

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel"
	"agentkernel/internal/sys/families"
)

// Options say how one simulation runs.
type Options struct {
	Seed  uint64
	Steps int // of chaos, before everything is let come to its end
	// Verbose gets a line for everything that happens; nil: nobody does.
	Verbose func(line string)
	// Wrap lets a test put faults between the kernel and its world; nil: there are none.
	Wrap func(*kernel.Config)
	// Lies makes every flush a lie: it returns, and nothing is durable.
	Lies bool
	// Misdescribed makes the server say of its writes that they are idempotent.
	Misdescribed bool
}

// Report is what came of a simulation.
type Report struct {
	Seed     uint64
	Trace    uint64 // the same for the same seed
	Steps    int    // effects that were released, and what clients did
	Crashes  int
	Restarts int
	Ended    int // processes
	Calls    int // that tools were asked for
	Asked    int // requests that models got
	Failure  string
}

// World is one simulation.
type World struct {
	opt      Options
	rng      *rand.Rand // the driver's
	plan     plan
	gate     gate
	disk     *disk
	server   server
	market   *market // the models; nil: there are none
	boxes    boxes
	promises *promises
	trace    *trace

	kernel   *kernel.Kernel // nil: none runs
	store    *store         // its store
	engine   *engine        // what asks models for it; nil: nothing does
	booting  bool
	last     bool // no kernel follows
	version  int  // of the engines
	resumes  int  // how often somebody has tried to resume something
	programs int
	lastOp   int
	told     int                         // user signals that were sent
	held     held                        // what stands still for certain
	guests   map[agentkernel.PID]*guest  // hosted programs
	specs    map[string]agentkernel.Spec // with idempotency keys
	checked  map[agentkernel.PID]checked
	report   Report

	mu      sync.Mutex
	ops     []*op
	failure string
}

// plan is what is special about a seed: every simulation is another kind of bad day.
type plan struct {
	slots, residents int
	parkAfter        time.Duration
	slice            time.Duration // see kernel.Config
	loaded           int           // see kernel.Config
	slowest          time.Duration // that a tool answers
	breaks           uint64        // how many flushes of ten thousand break the store
	lose             uint64        // how many turns of a thousand lose their sandbox
	crash, stop      int           // how many steps of ten thousand crash or stop the kernel
	clients          int           // at most at one time
	act              int           // how many steps of a thousand are a client's
	slow             string        // effects whose names begin so mostly come last
	commits          int           // how many steps of a thousand are a commit that nobody asked for
	limits           bool
	recovers         int  // of ten boots, after how many everything is taken up at once
	kills            int  // of two hundred acts of clients, how many are kills
	images           int  // of ten programs, how many run where there are images
	hosted           bool // some programs live elsewhere
}

func newPlan(rng *rand.Rand) plan {
	p := plan{
		slots: 1 + rng.IntN(6), residents: 1000, parkAfter: time.Duration(1+rng.IntN(300)) * time.Millisecond,
		slowest: time.Duration(1+rng.IntN(8000)) * time.Millisecond, crash: rng.IntN(40), stop: rng.IntN(15), clients: 1 + rng.IntN(8),
		act: 20 + rng.IntN(150), commits: rng.IntN(80), limits: rng.IntN(3) == 0, images: rng.IntN(11),
	}
	if rng.IntN(3) == 0 {
		// Where places are short, one slot makes room at a time: which of two would park whom is not decided by the seed.
		p.slots, p.residents = 1, 1+rng.IntN(3)
	}
	switch rng.IntN(6) {
	case 0, 1, 2:
		p.lose = uint64(rng.IntN(20))
	case 3:
		p.lose = uint64(rng.IntN(400))
	}
	if rng.IntN(4) == 0 {
		p.kills += 20
	}
	p.recovers, p.kills = rng.IntN(11), 1+rng.IntN(10)
	if rng.IntN(3) == 0 {
		p.breaks = uint64(rng.IntN(60))
	}
	p.loaded = []int{-1, 0, 1, 3}[rng.IntN(4)]
	p.slice = []time.Duration{-1, 0}[rng.IntN(2)]
	p.slow = []string{"", "", "flush", "read", "answer", "call", "next", "image", "compute", "start"}[rng.IntN(10)]
	return p
}

func newWorld(opt Options) *World {
	rng := rand.New(rand.NewPCG(opt.Seed, 0x5eed)) //nolint:gosec // a seed has to give the same numbers again
	w := &World{
		opt: opt, rng: rng, plan: newPlan(rng), disk: newDisk(), server: server{done: map[string]*deed{}}, promises: newPromises(),
		trace: newTrace(opt.Verbose), specs: map[string]agentkernel.Spec{}, checked: map[agentkernel.PID]checked{}, guests: map[agentkernel.PID]*guest{}, report: Report{Seed: opt.Seed},
	}
	w.disk.lies = opt.Lies
	w.plan.hosted = opt.Seed%3 == 0 // the others are as they were before there were any
	if opt.Seed%4 == 2 {
		w.market = newMarket(rand.New(rand.NewPCG(opt.Seed, 0x3a11)), w.plan.slowest) //nolint:gosec // as above
		w.disk.market = w.market
	}
	return w
}

// failf notes that something is wrong. The first of it counts.
func (w *World) failf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failure == "" {
		w.failure = fmt.Sprintf(format, args...)
		w.trace.note("FAILURE: " + w.failure)
	}
}

// failed says whether something is wrong.
func (w *World) failed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failure != ""
}

// boot starts a kernel on what the disk has.
func (w *World) boot() {
	w.disk.booted()
	generation := w.gate.generation
	box := newToolbox(w, generation)
	parts := families.Parts{Tools: box.Box, Random: &dice{rng: rand.New(rand.NewPCG(w.rng.Uint64(), 1))}} //nolint:gosec // as above
	if w.market != nil {
		w.engine = newEngine(w, generation)
		parts.Models = w.engine
	}
	fam := families.All(parts)
	fam[0] = box.Family()
	w.store = &store{w: w, generation: generation}
	cfg := kernel.Config{
		Store: w.store, Families: fam, Tools: box, Retention: keepAll{}, Now: time.Now,
		Backends: []agentkernel.Backend{
			&backend{w: w, generation: generation, name: "images", images: true, version: w.version},
			&backend{w: w, generation: generation, name: "replay", version: w.version},
		},
		Allowances: w.disk.allowances, Slots: w.plan.slots, Residents: w.plan.residents, ParkAfter: w.plan.parkAfter, Loaded: w.plan.loaded, Slice: w.plan.slice, Grace: 100 * time.Millisecond,
	}
	if w.opt.Wrap != nil {
		w.opt.Wrap(&cfg)
	}
	w.booting = true
	k, err := kernel.New(cfg)
	w.booting = false
	if err != nil {
		w.failf("the kernel did not start: %v", err)
		return
	}
	w.kernel = k
}

// dice are the randomness that programs ask for.
type dice struct {
	mu  sync.Mutex
	rng *rand.Rand
}

func (d *dice) Read(b []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range b {
		b[i] = byte(d.rng.Uint32())
	}
	return len(b), nil
}

// float is a number from 0 to 1.
func (d *dice) float() float64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rng.Float64()
}

// keepAll is a retention that forgets nothing.
type keepAll struct{}

func (keepAll) Start(agentkernel.RetentionHost)                         {}
func (keepAll) Stop()                                                   {}
func (keepAll) Room(context.Context) error                              { return nil }
func (keepAll) Hold(context.Context, *agentkernel.Spec) (func(), error) { return func() {}, nil }
func (keepAll) Storage(context.Context) (agentkernel.Storage, error) {
	return agentkernel.Storage{}, nil
}
func (keepAll) Recent(context.Context) (agentkernel.Storage, error) {
	return agentkernel.Storage{}, nil
}
func (keepAll) Prune(context.Context, agentkernel.PruneOptions) (agentkernel.Pruned, error) {
	return agentkernel.Pruned{}, agentkernel.Errorf(agentkernel.CodeUnsupported, "prune", "this store keeps everything")
}

// trace is what happened, as a sum, and as lines for who asks.
type trace struct {
	mu    sync.Mutex
	sum   uint64
	begun time.Time
	line  func(string)
}

func newTrace(line func(string)) *trace { return &trace{begun: time.Now(), line: line} }

// note adds something that happened.
func (t *trace) note(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := fnv.New64a()
	at := time.Since(t.begun)
	fmt.Fprintf(h, "%d %d %s", t.sum, at, what)
	t.sum = h.Sum64()
	if t.line != nil {
		t.line(fmt.Sprintf("%12s %016x %s", at, t.sum, what))
	}
}

// batch adds what was appended.
func (t *trace) batch(b *agentkernel.Batch) {
	what := fmt.Sprintf("  append %d:", pidOf(b))
	for i := range b.Entries {
		e := &b.Entries[i]
		what += fmt.Sprintf(" %d %s", e.Seq, e.Kind)
		if e.Call != 0 {
			what += fmt.Sprintf(" %d %s", e.Call, e.Op)
		}
		if e.Kind != agentkernel.EntryRecover && e.Kind != agentkernel.EntryCreated { // they tell of the machine
			what += " " + string(e.Data)
		}
		if e.Err != nil {
			what += " " + string(e.Err.Code)
		}
	}
	if b.Image != nil {
		what += fmt.Sprintf(" image of %d bytes", len(b.Image.Bytes))
	}
	t.note(what)
}
