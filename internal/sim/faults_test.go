package sim_test

import (
	"context"
	"encoding/json"
	"sync"

	"agentkernel"
	"agentkernel/internal/kernel"
	"agentkernel/internal/sim"
	"agentkernel/internal/sys"
)

// fault is a bug of the world around the kernel.
type fault struct {
	name  string
	plant func(opt *sim.Options)
}

var faults = []fault{
	{"the disk lies about what is durable", func(opt *sim.Options) { opt.Lies = true }},
	{"a store returns from a flush at once", store(func(s agentkernel.Store) agentkernel.Store { return &hastyStore{Store: s} })},
	{"a store drops output", store(func(s agentkernel.Store) agentkernel.Store { return &forgetfulStore{Store: s} })},
	{"a store turns the order of two processes round", store(func(s agentkernel.Store) agentkernel.Store { return &turningStore{Store: s} })},
	{"a store reads a journal without its last entry", store(func(s agentkernel.Store) agentkernel.Store { return &staleStore{Store: s} })},
	{"a tool is called twice", family(func(op *sys.Op) {
		inner, every := op.Outside, &nth{n: 20}
		op.Outside = func(ctx context.Context, c *sys.Call) (sys.Outcome, error) {
			if every.now() {
				_, _ = inner(ctx, c)
			}
			return inner(ctx, c)
		}
	})},
	{"a write is said to be idempotent", func(opt *sim.Options) { opt.Misdescribed = true }},
	{"a sandbox loses a reply", boxes(func(s *box) { s.lose = true })},
	{"a sandbox repeats a call", boxes(func(s *box) { s.repeat = true })},
	{"a sandbox is loaded from an older image", func(opt *sim.Options) {
		older := &olderImages{first: map[agentkernel.PID][]byte{}}
		opt.Wrap = func(cfg *kernel.Config) {
			for i, b := range cfg.Backends {
				cfg.Backends[i] = &olderBackend{b, older}
			}
		}
	}},
}

// nth says yes every n times.
type nth struct {
	mu   sync.Mutex
	n, i int
}

func (c *nth) now() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.i++
	return c.i%c.n == 0
}

// store plants a fault between the kernel and its store.
func store(wrap func(agentkernel.Store) agentkernel.Store) func(*sim.Options) {
	return func(opt *sim.Options) { opt.Wrap = func(cfg *kernel.Config) { cfg.Store = wrap(cfg.Store) } }
}

// family plants a fault in the call of tools.
func family(change func(*sys.Op)) func(*sim.Options) {
	return func(opt *sim.Options) {
		opt.Wrap = func(cfg *kernel.Config) {
			for i := range cfg.Families[0].Ops {
				if op := &cfg.Families[0].Ops[i]; op.Name == "tool.call" {
					change(op)
				}
			}
		}
	}
}

type hastyStore struct {
	agentkernel.Store
	every nth
}

func (s *hastyStore) Flush(ctx context.Context, pos agentkernel.Position) error {
	s.every.n = 5
	if s.every.now() {
		return nil
	}
	return s.Store.Flush(ctx, pos)
}

type forgetfulStore struct {
	agentkernel.Store
	every nth
}

func (s *forgetfulStore) Append(b agentkernel.Batch) (agentkernel.Position, error) {
	s.every.n = 10
	if len(b.Entries) == 1 && b.Entries[0].Kind == agentkernel.EntryOutput && s.every.now() {
		b.Entries = nil
		return s.Store.Append(agentkernel.Batch{})
	}
	return s.Store.Append(b)
}

// turningStore keeps a new process back until its parent's next batch is written.
type turningStore struct {
	agentkernel.Store
	mu   sync.Mutex
	held *agentkernel.Batch
}

func (s *turningStore) Append(b agentkernel.Batch) (agentkernel.Position, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held == nil && b.Process != nil && b.Process.Parent != 0 && len(b.Entries) == 1 && b.Entries[0].Kind == agentkernel.EntryCreated {
		s.held = &b
		return 1, nil
	}
	pos, err := s.Store.Append(b)
	if s.held != nil && err == nil {
		pos, err = s.Store.Append(*s.held)
		s.held = nil
	}
	return pos, err
}

type staleStore struct {
	agentkernel.Store
	every nth
}

func (s *staleStore) Entries(ctx context.Context, pid agentkernel.PID, from int64, limit int) ([]agentkernel.Entry, error) {
	list, err := s.Store.Entries(ctx, pid, from, limit)
	s.every.n = 4
	if len(list) > 1 && s.every.now() {
		list = list[:len(list)-1]
	}
	return list, err
}

// box is a sandbox with a fault.
type box struct {
	agentkernel.Sandbox
	every        *nth
	lose, repeat bool
	last         agentkernel.Turn
}

// boxes plants a fault in sandboxes.
func boxes(change func(*box)) func(*sim.Options) {
	return func(opt *sim.Options) {
		every := &nth{n: 50}
		opt.Wrap = func(cfg *kernel.Config) {
			for i, b := range cfg.Backends {
				cfg.Backends[i] = &boxBackend{b, every, change}
			}
		}
	}
}

type boxBackend struct {
	agentkernel.Backend
	every  *nth
	change func(*box)
}

func (b *boxBackend) Start(ctx context.Context, req agentkernel.StartRequest) (agentkernel.Sandbox, error) {
	inner, err := b.Backend.Start(ctx, req)
	if err != nil {
		return nil, err
	}
	s := &box{Sandbox: inner, every: b.every}
	b.change(s)
	return s, nil
}

func (s *box) Next(ctx context.Context, reply *agentkernel.Reply) (agentkernel.Turn, error) {
	switch {
	case s.lose && reply != nil && !reply.Pending && s.every.now():
		reply = &agentkernel.Reply{ID: reply.ID, Result: json.RawMessage("null")}
	case s.repeat && s.last.Kind == agentkernel.TurnCall && !s.last.Call.Async && s.every.now():
		return s.last, nil
	}
	t, err := s.Sandbox.Next(ctx, reply)
	s.last = t
	return t, err
}

// olderImages are the first images of processes.
type olderImages struct {
	mu    sync.Mutex
	first map[agentkernel.PID][]byte
}

type olderBackend struct {
	agentkernel.Backend
	older *olderImages
}

func (b *olderBackend) Start(ctx context.Context, req agentkernel.StartRequest) (agentkernel.Sandbox, error) {
	b.older.mu.Lock()
	if req.Image != nil && b.older.first[req.PID] == nil {
		b.older.first[req.PID] = req.Image
	}
	if req.Image != nil {
		req.Image = b.older.first[req.PID]
	}
	b.older.mu.Unlock()
	return b.Backend.Start(ctx, req)
}
