package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"agentkernel"
)

// backend is a model of a backend, for one generation of kernels.
type backend struct {
	w          *World
	generation int
	name       string
	images     bool
	// version is that of the engine: an image of another one is of no use.
	version int
}

var _ agentkernel.Backend = (*backend)(nil)

func (b *backend) Info() agentkernel.BackendInfo {
	return agentkernel.BackendInfo{Name: b.name, Languages: []agentkernel.Language{agentkernel.Python}, Fingerprint: fmt.Sprintf("%s-%d", b.name, b.version),
		Images: b.images, Replayable: true, Available: true, Isolation: agentkernel.IsolationInterpreter}
}

// Check takes every program. Each slot that starts a program comes here before it writes anything, so it waits at the gate.
func (b *backend) Check(p agentkernel.Program) (agentkernel.Needs, error) {
	if _, ok := b.w.gate.pass(b.generation, "check "+p.Name, 0); !ok {
		return agentkernel.Needs{}, crashed()
	}
	var code []instr
	if err := json.Unmarshal([]byte(p.Source), &code); err != nil {
		return agentkernel.Needs{}, agentkernel.Errorf(agentkernel.CodeSyntax, "check", "%v", err)
	}
	var needs agentkernel.Needs
	for _, in := range code {
		if in.Op == opTool && in.S != unbound {
			needs.Tools = append(needs.Tools, agentkernel.ToolRef{Server: serverName, Name: in.S})
		}
	}
	return needs, nil
}

// Start makes a sandbox.
func (b *backend) Start(ctx context.Context, req agentkernel.StartRequest) (agentkernel.Sandbox, error) {
	if _, ok := b.w.gate.pass(b.generation, fmt.Sprintf("start %d", req.PID), 0); !ok {
		return nil, crashed()
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	m, err := newMachine(&req.Program)
	if err == nil && req.Image != nil {
		m, err = loadMachine(&req.Program, req.Image)
	}
	if err != nil {
		return nil, err
	}
	s := &sandbox{b: b, pid: req.PID, m: m, output: req.Output, limit: time.Duration(req.Limits.Time), loaded: req.Image != nil}
	b.w.boxes.add(s)
	return s, nil
}

func (b *backend) Close() error { return nil }

// boxes are the sandboxes that were started and not closed.
type boxes struct {
	mu   sync.Mutex
	live map[*sandbox]bool
}

func (b *boxes) add(s *sandbox) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.live == nil {
		b.live = map[*sandbox]bool{}
	}
	b.live[s] = true
}

func (b *boxes) remove(s *sandbox) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.live, s)
}

// of counts the sandboxes of a process.
func (b *boxes) of(pid agentkernel.PID) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for s := range b.live {
		if s.pid == pid {
			n++
		}
	}
	return n
}

// crash forgets all: they went with their machine.
func (b *boxes) crash() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.live = nil
}

// count is how many there are.
func (b *boxes) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.live)
}

// sandbox is a program in motion. It has no goroutine: whoever drives it runs its machine.
type sandbox struct {
	b      *backend
	pid    agentkernel.PID
	m      *machine
	output func(stream, text string)
	limit  time.Duration
	loaded bool // from an image: the first turn is said again

	mu     sync.Mutex
	begun  bool
	inside bool // a turn runs
	closed bool
}

var _ agentkernel.Sandbox = (*sandbox)(nil)

func errClosed() error {
	return agentkernel.Errorf(agentkernel.CodeCrashed, "sandbox", "the sandbox is closed")
}

// enter notes that a turn, or the making of an image, begins.
func (s *sandbox) enter() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inside {
		s.b.w.failf("process %d: two goroutines use its sandbox", s.pid)
	}
	s.inside = true
}

func (s *sandbox) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inside = false
}

func (s *sandbox) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// Next runs the program to its next turn.
func (s *sandbox) Next(ctx context.Context, reply *agentkernel.Reply) (agentkernel.Turn, error) {
	s.enter()
	defer s.leave()
	w := s.b.w
	w.begins(s)
	roll, ok := w.gate.pass(s.b.generation, fmt.Sprintf("next %d", s.pid), 0)
	switch {
	case !ok || s.isClosed():
		return agentkernel.Turn{}, errClosed()
	case ctx.Err() != nil:
		return agentkernel.Turn{}, context.Cause(ctx)
	case roll%1000 < w.plan.lose:
		return agentkernel.Turn{Kind: agentkernel.TurnLost, Err: agentkernel.Errorf(agentkernel.CodeCrashed, "sandbox", "something killed the sandbox")}, nil
	}
	if s.loaded && !s.begun {
		s.begun = true
		if reply != nil {
			w.failf("process %d: a sandbox that was loaded is handed a reply before it said where it is", s.pid)
		}
		return s.told(s.m.Turn), nil
	}
	s.begun = true
	if reply != nil {
		if err := s.m.give(*reply); err != nil {
			w.failf("process %d: %v", s.pid, err)
			return agentkernel.Turn{}, err
		}
	}
	t, err := s.m.run(func(p pause) error { return s.between(ctx, p) })
	if err != nil {
		return agentkernel.Turn{}, err
	}
	return s.told(t), nil
}

// between does what the program does besides calls.
func (s *sandbox) between(ctx context.Context, p pause) error {
	if p.output != "" {
		s.output("stdout", p.output)
	}
	if p.compute == 0 {
		return nil
	}
	if _, ok := s.b.w.gate.pass(s.b.generation, fmt.Sprintf("compute %d", s.pid), p.compute); !ok || s.isClosed() {
		return errClosed()
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if ran := s.Running(); ran > s.limit {
		return agentkernel.Errorf(agentkernel.CodeLimit, "limit.time", "time limit of %s reached", s.limit)
	}
	return nil
}

// told is a turn as the kernel takes it.
func (s *sandbox) told(t turn) agentkernel.Turn {
	out := agentkernel.Turn{Kind: t.Kind}
	switch t.Kind {
	case agentkernel.TurnCall:
		out.Call = agentkernel.Call{Op: t.Op, Args: t.Args, Async: t.Async}
	case agentkernel.TurnExit:
		out.Result = s.m.result()
	case agentkernel.TurnFail:
		out.Err = s.m.failure()
	}
	return out
}

// Image is the machine as it stands.
func (s *sandbox) Image(ctx context.Context) ([]byte, error) {
	s.enter()
	defer s.leave()
	roll, ok := s.b.w.gate.pass(s.b.generation, fmt.Sprintf("image %d", s.pid), 0)
	switch {
	case !ok || s.isClosed():
		return nil, errClosed()
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case !s.b.images:
		s.b.w.failf("process %d: an image was asked for of a backend that has none", s.pid)
	case roll%50 == 0:
		return nil, agentkernel.Errorf(agentkernel.CodeUnavailable, "sandbox", "no image can be made now")
	}
	return s.m.image()
}

// Running is how long the program has computed.
func (s *sandbox) Running() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Duration(s.m.Ran)
}

// Close gives the sandbox back.
func (s *sandbox) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.b.w.boxes.remove(s)
	return nil
}
