package kernel_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"agentkernel"
	"agentkernel/internal/fastpath"
	"agentkernel/internal/places"
)

// goBackend is a backend whose programs are Go functions: the source names one. It has all the abilities
// of a real one, images included: an image is the list of replies that the program has had.
type goBackend struct {
	name        string
	fingerprint string
	mu          sync.Mutex
	programs    map[string]func(*prog) error
	checks      map[string]agentkernel.Needs
	live        int
	started     int
	places      chan struct{} // bounds the sandboxes, as a pool of workers does; nil: no bound
	onStart     func(agentkernel.StartRequest)
	onImage     func() // runs while an image is being made
	onCheck     func() // runs while a program is looked at
	onClose     func() // runs when a sandbox has been closed
	missing     error  // why the engine cannot start a sandbox
	noImages    bool   // a process is recovered by replay alone
	sessions    bool   // it keeps sessions: see prog.session
	isolation   agentkernel.Isolation
	walls       []agentkernel.Wall // around each sandbox
	refuse      map[string]error   // what Check says of programs
}

func newGoBackend() *goBackend {
	return &goBackend{name: "go", fingerprint: "go-1", programs: map[string]func(*prog) error{}, checks: map[string]agentkernel.Needs{}}
}

func (b *goBackend) add(name string, fn func(*prog) error, tools ...agentkernel.ToolRef) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.programs[name], b.checks[name] = fn, agentkernel.Needs{Tools: tools}
}

// sandboxes is how many are in memory.
func (b *goBackend) sandboxes() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.live
}

func (b *goBackend) Info() agentkernel.BackendInfo {
	return agentkernel.BackendInfo{Name: b.name, Languages: []agentkernel.Language{agentkernel.Python, agentkernel.Script}, Fingerprint: b.fingerprint, Images: !b.noImages,
		Sessions: b.sessions, Replayable: true, Available: true, Isolation: b.isolation}
}

func (b *goBackend) Check(p agentkernel.Program) (agentkernel.Needs, error) {
	b.mu.Lock()
	look := b.onCheck
	b.mu.Unlock()
	if look != nil {
		look()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.refuse[p.Source]; err != nil {
		return agentkernel.Needs{}, err
	}
	if _, ok := b.programs[p.Source]; !ok {
		return agentkernel.Needs{}, agentkernel.Errorf(agentkernel.CodeSyntax, "check", "no such program %q", p.Source)
	}
	return b.checks[p.Source], nil
}

func (b *goBackend) Close() error { return nil }

// setOnCheck says what runs while a program is looked at; nil: nothing.
func (b *goBackend) setOnCheck(fn func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.onCheck = fn
}

func (b *goBackend) Start(ctx context.Context, req agentkernel.StartRequest) (agentkernel.Sandbox, error) {
	if b.places != nil {
		select {
		case b.places <- struct{}{}:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	b.mu.Lock()
	missing, look := b.missing, b.onStart
	b.mu.Unlock()
	if missing != nil {
		return nil, missing
	}
	if look != nil {
		look(req) // it may take long, and other sandboxes are closed in the meantime
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.live++
	b.started++
	s := &goSandbox{b: b, turns: make(chan agentkernel.Turn), replies: make(chan *agentkernel.Reply), dead: make(chan struct{}), held: make(chan struct{}, 1), output: req.Output}
	if req.Image != nil {
		if err := json.Unmarshal(req.Image, &s.history); err != nil {
			return nil, err
		}
	}
	fn := b.programs[req.Program.Source]
	pr := &prog{s: s, args: req.Program.Args, tools: req.Tools, past: s.history, quiet: req.Image != nil}
	go func() {
		select {
		case <-s.replies: // the first Next
		case <-s.dead:
			return
		}
		defer func() {
			if r := recover(); r != nil && r != errStopped {
				panic(r)
			}
		}()
		err := fn(pr)
		turn := agentkernel.Turn{Kind: agentkernel.TurnExit, Result: pr.result}
		if err != nil {
			turn = agentkernel.Turn{Kind: agentkernel.TurnFail, Err: agentkernel.AsError(err, agentkernel.CodeProgram, "program")}
			if f, ok := errors.AsType[*shortfall](err); ok {
				turn.Fault = f.fault
			}
		}
		select {
		case s.turns <- turn:
		case <-s.dead:
		}
	}()
	return s, nil
}

// shortfall is an error of a program that may be its backend's doing.
type shortfall struct {
	error
	fault agentkernel.Fault
}

func (s *shortfall) Unwrap() error { return s.error }

type goSandbox struct {
	b       *goBackend
	turns   chan agentkernel.Turn
	replies chan *agentkernel.Reply
	history []agentkernel.Reply
	dead    chan struct{}
	once    sync.Once
	output  func(string, string)
	begun   bool
	turned  *agentkernel.Turn
	ran     atomic.Int64
	mu      sync.Mutex
	stopped chan struct{} // closed when it is suspended; nil: it does not compute
	since   time.Time     // when it began, or went on, to compute
	goOn    chan struct{} // closed when it goes on; nil: it is not suspended
	held    chan struct{} // Next says that it is
}

// StartNow starts a program without an image, if there is a place.
func (b *goBackend) StartNow(req agentkernel.StartRequest) fastpath.Sandbox {
	if req.Image != nil || b.places != nil && len(b.places) == cap(b.places) {
		return nil
	}
	box, err := b.Start(context.Background(), req)
	if err != nil {
		return nil
	}
	return box.(*goSandbox)
}

func (s *goSandbox) Begin(ctx context.Context, reply *agentkernel.Reply) (bool, error) {
	if reply != nil {
		s.history = append(s.history, *reply)
	}
	select {
	case s.replies <- reply:
		s.begun = true
		return true, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	case <-s.dead:
		return false, errors.New("closed")
	}
}

func (s *goSandbox) Ready(atMost time.Duration) bool {
	timer := time.NewTimer(atMost)
	defer timer.Stop()
	select {
	case t := <-s.turns:
		s.turned = &t
	case <-s.dead:
	case <-timer.C:
		return false
	}
	return true
}

func (s *goSandbox) Next(ctx context.Context, reply *agentkernel.Reply) (agentkernel.Turn, error) {
	if !s.begun {
		if _, err := s.Begin(ctx, reply); err != nil {
			return agentkernel.Turn{}, err
		}
	}
	t := s.turned
	s.begun, s.turned = false, nil
	if t != nil {
		return *t, nil
	}
	select {
	case t := <-s.turns:
		return t, nil
	case <-s.held:
		s.begun = true // Next(nil) lets it go on
		return agentkernel.Turn{Kind: agentkernel.TurnHeld}, nil
	case <-ctx.Done():
		return agentkernel.Turn{}, context.Cause(ctx)
	case <-s.dead:
		return agentkernel.Turn{}, errors.New("closed")
	}
}

func (s *goSandbox) Image(context.Context) ([]byte, error) {
	if s.b.noImages {
		return nil, errors.New("asked for an image that the backend said it has not")
	}
	image, err := json.Marshal(s.history)
	if s.b.onImage != nil {
		s.b.onImage()
	}
	return image, err
}

// Running is how long the program has computed; see prog.compute.
func (s *goSandbox) Running() time.Duration { return time.Duration(s.ran.Load()) }

// Suspend stops a program that computes, and lets it go on.
func (s *goSandbox) Suspend(stop bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !stop && s.goOn != nil:
		close(s.goOn)
		s.goOn = nil
	case stop && s.goOn == nil && s.stopped != nil:
		close(s.stopped)
		s.ran.Add(int64(time.Since(s.since)))
		s.stopped, s.goOn = nil, make(chan struct{})
		s.held <- struct{}{}
	}
	return nil
}

func (s *goSandbox) Walls() []agentkernel.Wall { return s.b.walls }

func (s *goSandbox) Close() error {
	s.once.Do(func() {
		close(s.dead)
		s.b.mu.Lock()
		s.b.live--
		s.b.mu.Unlock()
		if s.b.places != nil {
			<-s.b.places
		}
		if s.b.onClose != nil {
			s.b.onClose()
		}
	})
	return nil
}

// prog is what a Go program has of the kernel.
type prog struct {
	s       *goSandbox
	args    []string
	tools   []agentkernel.Tool
	past    []agentkernel.Reply
	ran     int  // cells of a session
	quiet   bool // it runs through its origin: nothing that it does has an effect
	result  json.RawMessage
	results map[int64]agentkernel.Reply
}

var errStopped = errors.New("stopped")

// turn hands a turn to the kernel and takes the reply; while the origin lasts, from there.
func (p *prog) turn(t agentkernel.Turn) agentkernel.Reply {
	if len(p.past) > 0 {
		r := p.past[0]
		p.past = p.past[1:]
		return r
	}
	p.quiet = false
	select {
	case p.s.turns <- t:
	case <-p.s.dead:
		panic(errStopped)
	}
	select {
	case r := <-p.s.replies:
		return *r
	case <-p.s.dead:
		panic(errStopped)
	}
}

func (p *prog) print(format string, args ...any) {
	select {
	case <-p.s.dead: // what a closed sandbox printed would be taken for the next one's
		panic(errStopped)
	default:
	}
	if !p.quiet {
		p.s.output("stdout", fmt.Sprintf(format, args...))
	}
}

// call is a sync syscall; args is JSON.
func (p *prog) call(op, args string) (json.RawMessage, error) {
	r := p.turn(agentkernel.Turn{Kind: agentkernel.TurnCall, Call: agentkernel.Call{Op: op, Args: json.RawMessage(args)}})
	if r.Err != nil {
		return nil, r.Err
	}
	return r.Result, nil
}

// compute runs for so long, and stands still while its sandbox is suspended. An image has it behind it.
func (p *prog) compute(long time.Duration) {
	if len(p.past) > 0 {
		return
	}
	s := p.s
	for end := s.Running() + long; ; {
		s.mu.Lock()
		goOn, stopped := s.goOn, make(chan struct{})
		if goOn == nil {
			s.stopped, s.since = stopped, time.Now()
		}
		s.mu.Unlock()
		select {
		case <-goOn:
			continue
		case <-s.dead:
			panic(errStopped)
		case <-stopped:
			continue
		case <-time.After(end - s.Running()):
		}
		s.mu.Lock()
		done := s.stopped == stopped // else it was suspended at this moment
		if done {
			s.ran.Add(int64(time.Since(s.since)))
			s.stopped = nil
		}
		s.mu.Unlock()
		if done {
			return
		}
	}
}

// session runs the cells that it is handed; each gives its result as JSON.
func (p *prog) session(cells map[string]func(*prog) (string, error)) error {
	var fault agentkernel.Fault
	for idle := `{"result":null}`; ; {
		r := p.turn(agentkernel.Turn{Kind: agentkernel.TurnCall, Call: agentkernel.Call{Op: "proc.next", Args: json.RawMessage(idle)}, Fault: fault})
		if r.Err != nil && r.Err.Op == agentkernel.OpCell { // the cell was aborted: that is how it ended
			text, _ := json.Marshal(agentkernel.Idle{Error: r.Err})
			idle, fault = string(text), agentkernel.FaultProgram
			continue
		} else if r.Err != nil && r.Err.Code == agentkernel.CodeInterrupted {
			continue
		} else if r.Err != nil {
			return r.Err
		}
		var next agentkernel.NextCell
		if err := json.Unmarshal(r.Result, &next); err != nil || next.End {
			return err
		}
		p.ran++
		result, err := cells[next.Cell.Source](p)
		if idle = `{"result":` + result + `}`; err != nil {
			text, _ := json.Marshal(agentkernel.AsError(err, agentkernel.CodeProgram, "piece"))
			idle = `{"error":` + string(text) + `}`
		}
		fault = agentkernel.FaultProgram
		if f, ok := errors.AsType[*shortfall](err); ok {
			fault = f.fault
		}
	}
}

// async issues a call whose result wait delivers.
func (p *prog) async(op, args string) int64 {
	r := p.turn(agentkernel.Turn{Kind: agentkernel.TurnCall, Call: agentkernel.Call{Op: op, Args: json.RawMessage(args), Async: true}})
	if !r.Pending {
		panic("an async call was not acknowledged")
	}
	return r.ID
}

// wait takes results until that of call id is there.
func (p *prog) wait(id int64) (json.RawMessage, error) {
	for {
		if r, ok := p.results[id]; ok {
			delete(p.results, id)
			if r.Err != nil {
				return nil, r.Err
			}
			return r.Result, nil
		}
		r := p.turn(agentkernel.Turn{Kind: agentkernel.TurnWait})
		if p.results == nil {
			p.results = map[int64]agentkernel.Reply{}
		}
		p.results[r.ID] = r
	}
}

// fakeTools is a tool server at the far end: what it did is what the tests look at.
type fakeTools struct {
	mu    sync.Mutex
	lines []string // what append wrote
	delay func()   // runs inside append before it acts
	look  func()   // runs before the tools are listed; nil: nothing does
	fail  func(call agentkernel.ToolCall) (agentkernel.ToolResult, error)
	// answer is what fetch gives.
	answer func(call agentkernel.ToolCall) json.RawMessage
	// places are how many calls it does at once; nil: any number.
	places *places.Places
	keys   []string
	log    []string // for watchTools
}

var fakeTool = map[string]agentkernel.Effect{"append": agentkernel.EffectWrite, "echo": agentkernel.EffectRead, "fetch": agentkernel.EffectRead, "put": agentkernel.EffectIdempotent}

func (t *fakeTools) Servers(context.Context) ([]agentkernel.ToolServer, error) {
	return []agentkernel.ToolServer{{Name: "fake", PythonName: "fake", Transport: "local"}}, nil
}

func (t *fakeTools) Tools(_ context.Context, server string) ([]agentkernel.Tool, error) {
	t.mu.Lock()
	look := t.look
	t.mu.Unlock()
	if look != nil {
		look()
	}
	if server != "fake" {
		return nil, agentkernel.Errorf(agentkernel.CodeNotFound, "tool", "no server %q", server)
	}
	var out []agentkernel.Tool
	for _, n := range []string{"append", "echo", "fetch", "put"} {
		out = append(out, agentkernel.Tool{Server: "fake", PythonServer: "fake", Name: n, PythonName: n, Effect: fakeTool[n]})
	}
	return out, nil
}

// Turn is that of a server with so many places.
func (t *fakeTools) Turn(_, namespace string, made time.Time) agentkernel.ToolTurn {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.places == nil {
		return nil
	}
	return t.places.Turn(namespace, made, time.Minute, func(ctx context.Context) error { return ctx.Err() })
}

// limit gives it so many places, of which none is taken.
func (t *fakeTools) limit(n int) *places.Places {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.places = places.New(n, "fake")
	return t.places
}

func (t *fakeTools) Call(ctx context.Context, c agentkernel.ToolCall) (agentkernel.ToolResult, error) {
	t.mu.Lock()
	fail, delay, answer := t.fail, t.delay, t.answer
	t.keys = append(t.keys, c.Key)
	t.mu.Unlock()
	if fail != nil {
		if r, err := fail(c); err != nil {
			return r, err
		}
	}
	if delay != nil {
		delay()
	}
	if c.Tool == "fetch" {
		return agentkernel.ToolResult{Value: answer(c), Incarnation: "one"}, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.Tool != "echo" {
		t.lines = append(t.lines, string(c.Arguments))
	}
	return agentkernel.ToolResult{Value: c.Arguments, Incarnation: "one"}, nil
}
