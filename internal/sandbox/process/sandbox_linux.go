package process

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"agentkernel"
)

// stage is where a sandbox stands between two calls of its methods.
type stage int

const (
	stageFresh stage = iota // the program was not handed over
	stageCall               // the program waits for the reply to call, or goes on if that is async
	stageWait               // everything in the program waits for an async result
	stageEnded              // TurnExit or TurnFail was given
	stageDead               // the child is gone
)

// sandbox is one program in a child.
type sandbox struct {
	cfg  *Config
	c    *child
	req  agentkernel.StartRequest
	v    *verdict
	out  output
	said bool // hello

	stage   stage
	last    int64           // number of the guest's last call
	async   bool            // stageCall: it is async
	flights map[int64]int64 // async calls under way: the kernel's number -> the guest's
	landed  []landing       // async calls that were answered at once: the program gets them when it waits
	ran     time.Duration   // in earlier calls of Next
	begun   time.Time       // of this one

	held  bool            // Next broke off because the program was stopped
	asked json.RawMessage // a session's: arguments of the proc.next that it stands at; nil while a cell runs

	mu     sync.Mutex
	inNext bool
	closed bool
}

// landing is the result of an async call that the program has not been given yet.
type landing struct {
	id    int64 // the guest's number
	reply agentkernel.Reply
}

func newSandbox(cfg *Config, c *child, req agentkernel.StartRequest, v *verdict) *sandbox {
	s := &sandbox{cfg: cfg, c: c, req: req, v: v, flights: map[int64]int64{}}
	s.out = output{emit: req.Output, room: req.Limits.Output}
	c.foreign = s.out.write
	return s
}

var errSandboxClosed = agentkernel.Errorf(agentkernel.CodeCanceled, "sandbox", "the sandbox was closed")

// Next runs the program to its next turn; see agentkernel.Sandbox.
func (s *sandbox) Next(ctx context.Context, reply *agentkernel.Reply) (agentkernel.Turn, error) {
	if err := ctx.Err(); err != nil {
		return agentkernel.Turn{}, err
	}
	if err := s.enter(); err != nil {
		return agentkernel.Turn{}, err
	}
	s.begun = time.Now()
	disarm := s.watch(ctx)
	turn, err := s.run(reply)
	disarm()
	s.ran += time.Since(s.begun)
	if errors.Is(err, errHeld) {
		s.held = true
		turn, err = agentkernel.Turn{Kind: agentkernel.TurnHeld}, nil
	}
	if err != nil {
		turn, err = s.broken(err)
	}
	s.leave()
	return turn, err
}

func (s *sandbox) enter() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return errSandboxClosed
	case s.inNext:
		return agentkernel.Errorf(agentkernel.CodeInternal, "sandbox", "two goroutines use one sandbox")
	case s.stage == stageDead:
		return agentkernel.Errorf(agentkernel.CodeCrashed, "sandbox", "the sandbox is dead")
	case s.stage == stageEnded:
		return agentkernel.Errorf(agentkernel.CodeInternal, "sandbox", "the program has ended")
	}
	s.inNext = true
	return nil
}

// leave ends Next; a Close that came meanwhile left the descriptors to us.
func (s *sandbox) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inNext = false
	if s.closed {
		s.c.close()
	}
}

// pester is how often a program whose time is over is told so, until its grace is over too.
const pester = 50 * time.Millisecond

var errLate = errors.New("the program ran on after its time was over")

// watch sees to it that the program stops when ctx ends or its time is over: it is told, then killed. The function
// that it returns must be called.
func (s *sandbox) watch(ctx context.Context) (disarm func()) {
	left := max(time.Duration(s.req.Limits.Time)-s.ran, 0)
	var mu sync.Mutex
	var timer *time.Timer
	over, killAt := false, time.Now().Add(left+s.cfg.Grace)
	tell := func() {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case over:
		case time.Now().After(killAt):
			s.c.kill(errLate)
		default:
			s.c.signal(unix.SIGXCPU)
			timer.Reset(pester)
		}
	}
	mu.Lock()
	timer = time.AfterFunc(left, tell)
	mu.Unlock()
	stop := context.AfterFunc(ctx, func() { s.c.kill(ctx.Err()) })
	return func() {
		stop()
		mu.Lock()
		defer mu.Unlock()
		over = true
		timer.Stop()
	}
}

// run says what the reply asks for and hears the program until it needs the kernel.
func (s *sandbox) run(reply *agentkernel.Reply) (agentkernel.Turn, error) {
	if s.held { // the reply before was taken
		s.held = false
		if err := s.c.flush(); err != nil {
			return agentkernel.Turn{}, err
		}
	} else if turn, done, err := s.noCell(reply); done || err != nil {
		return turn, err
	} else if err := s.resume(reply); err != nil {
		return agentkernel.Turn{}, err
	}
	for {
		kind, payload, err := s.c.next()
		if err != nil {
			return agentkernel.Turn{}, err
		}
		if turn, done, err := s.hear(kind, payload); done || err != nil {
			return turn, err
		}
	}
}

// resume lets the program go on.
func (s *sandbox) resume(reply *agentkernel.Reply) error {
	switch {
	case s.stage == stageFresh:
		return s.begin()
	case reply == nil:
		return internal("a reply is missing")
	case s.stage == stageWait:
		id, ok := s.flights[reply.ID]
		if !ok || reply.Pending {
			return internal("call %d is not an async call under way", reply.ID)
		}
		delete(s.flights, reply.ID)
		return s.answer(id, reply)
	case s.async && reply.Pending:
		s.flights[reply.ID] = s.last
		return nil // the program did not wait for this
	case s.async:
		s.landed = append(s.landed, landing{s.last, *reply})
		return nil
	case reply.Pending:
		return internal("only an async call can be pending")
	}
	s.asked = nil
	return s.answer(s.last, reply)
}

func internal(format string, args ...any) error {
	return agentkernel.Errorf(agentkernel.CodeInternal, "sandbox", format, args...)
}

// begin hands the program over.
func (s *sandbox) begin() error {
	p := s.req.Program
	start := startMessage{Type: "start", Name: nameOf(p), Source: p.Source, Args: p.Args, Modules: p.Modules,
		Session: p.Session, Tools: s.req.Tools, Imports: s.v.Imports, Compiled: s.v.Compiled, Recursion: s.req.Limits.Recursion,
		Files: s.c.cell == nil || len(s.req.Mounts) > 0}
	if s.c.cell == nil {
		start.Memory = s.req.Limits.Memory
	}
	frame, err := encode(start)
	if err != nil {
		return internal("the program cannot be written: %w", err)
	}
	return s.c.send(frame)
}

func (s *sandbox) answer(id int64, reply *agentkernel.Reply) error {
	frame, err := replyFrame(id, reply)
	if err != nil {
		return internal("a result cannot be written: %w", err)
	}
	return s.c.send(frame)
}

// hear deals with one frame. done: turn is the kernel's. Otherwise the program goes on.
func (s *sandbox) hear(kind byte, payload []byte) (turn agentkernel.Turn, done bool, err error) {
	if kind != kindJSON {
		if !s.said {
			return turn, false, broke("it did not say hello")
		}
		switch kind {
		case kindStdout, kindStderr:
			return turn, false, s.out.write(int(kind-kindStdout), payload)
		}
		return turn, false, s.c.drain()
	}
	m, err := decodeMessage(payload)
	if err != nil {
		return turn, false, err
	}
	if !s.said {
		return turn, false, s.greeted(&m)
	}
	switch m.Type {
	case "call":
		return s.call(&m)
	case "next":
		return s.cellDone(&m)
	case "wait":
		return s.wait()
	case "exit":
		s.stage = stageEnded
		return agentkernel.Turn{Kind: agentkernel.TurnExit, ExitCode: m.Code, Result: m.Result}, true, s.out.end()
	case "fail":
		s.stage = stageEnded
		if err := s.out.end(); err != nil {
			return turn, false, err
		}
		return programFailed(&m, inForce(s.req.Limits, s.c.cell), s.ran+time.Since(s.begun)), true, nil
	}
	return turn, false, broke("%s at this point", m.Type)
}

// greeted takes the first message of a child.
func (s *sandbox) greeted(m *message) error {
	switch {
	case m.Type == "refused":
		return s.c.refused(m)
	case m.Type != "hello":
		return broke("it did not say hello")
	case m.Wire != wireVersion:
		return broke("it speaks version %d", m.Wire)
	}
	s.said = true
	if s.c.process != nil {
		s.c.process.Built()
	}
	return nil
}

func (s *sandbox) call(m *message) (agentkernel.Turn, bool, error) {
	if m.ID <= s.last { // a number may be left out: an exception that came between is no call
		return agentkernel.Turn{}, false, broke("call %d after call %d", m.ID, s.last)
	}
	if m.Op == opNext { // a cell cannot end itself
		return agentkernel.Turn{}, false, broke("a call of %s", opNext)
	}
	s.stage, s.last, s.async = stageCall, m.ID, m.Async
	return agentkernel.Turn{Kind: agentkernel.TurnCall,
		Call: agentkernel.Call{Op: m.Op, Args: append([]byte(nil), m.Args...), Async: m.Async}}, true, nil
}

func (s *sandbox) wait() (turn agentkernel.Turn, done bool, err error) {
	if len(s.landed) > 0 {
		l := s.landed[0]
		s.landed = s.landed[1:]
		return turn, false, s.answer(l.id, &l.reply)
	}
	if len(s.flights) == 0 {
		return turn, false, broke("it waits for results, but no async call is under way")
	}
	s.stage = stageWait
	return agentkernel.Turn{Kind: agentkernel.TurnWait}, true, nil
}

// broken ends the sandbox after an error and says what it was in the kernel's words.
func (s *sandbox) broken(err error) (agentkernel.Turn, error) {
	s.stage = stageDead
	err = s.c.failed(err)
	if errors.Is(err, io.EOF) { // it left without a word, as os._exit does
		if err = errors.Join(s.c.drain(), s.out.end()); err == nil {
			s.stage = stageEnded
			return agentkernel.Turn{Kind: agentkernel.TurnExit, ExitCode: s.c.end.status.ExitStatus()}, nil
		}
	}
	limit, ok := errors.AsType[errLimit](err)
	if own := sandboxLimit(string(limit), s.req.Limits); own != nil {
		return agentkernel.Turn{}, own
	} else if ok && limit == "memory" {
		return agentkernel.Turn{}, memoryLimit(s.req.Limits)
	} else if ok && s.req.Limits.CPUTime > 0 {
		return agentkernel.Turn{}, cpuLimit(s.req.Limits)
	} else if ok {
		return agentkernel.Turn{}, unseenTime(s.req.Limits, s.c.cell.Config.Limits.CPUTime)
	}
	switch {
	case errors.Is(err, errOutput):
		return failTurn(outputLimit(s.req.Limits)), nil
	case errors.Is(err, errLate):
		return agentkernel.Turn{}, limitError("time", "the program ran longer than its limit of %s and did not stop when told", s.req.Limits.Time)
	case errors.Is(err, errSandboxClosed), errors.Is(err, errClosed):
		return agentkernel.Turn{}, errSandboxClosed
	case errors.Is(err, errLost):
		return agentkernel.Turn{Kind: agentkernel.TurnLost, Err: agentkernel.AsError(err, agentkernel.CodeCrashed, "process")}, nil
	}
	return agentkernel.Turn{}, err
}

// Suspend stops or continues every process and thread of the program; see agentkernel.Suspender. While it is stopped
// no time of it passes.
func (s *sandbox) Suspend(stop bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	err := s.c.suspend(stop)
	if stop {
		s.c.bell.ring()
	} else {
		s.c.bell.still()
	}
	return err
}

// Image says that there are none.
func (s *sandbox) Image(context.Context) ([]byte, error) {
	return nil, agentkernel.Errorf(agentkernel.CodeUnsupported, "sandbox", "the process backend makes no images; a process is recovered by replay")
}

// Left names files that go with the sandbox; see agentkernel.Leaver.
func (s *sandbox) Left() []string { return leftBehind(&s.req, s.c.process) }

// Running is the time that the program has spent between a reply and its next turn.
func (s *sandbox) Running() time.Duration { return s.ran }

// Close kills the program and all that it started. It may be called while Next runs, which then fails.
func (s *sandbox) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	s.c.kill(errSandboxClosed)
	if !s.inNext {
		s.c.close()
	}
	return nil
}
