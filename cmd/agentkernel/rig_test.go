package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"agentkernel"
	"agentkernel/embedded"
	"agentkernel/internal/datadir"
)

// fakeKernel answers as a test tells it; what a test does not tell panics.
type fakeKernel struct {
	agentkernel.Kernel
	run     func(ctx context.Context, s agentkernel.Spec, fn func(agentkernel.Event) error) (agentkernel.Process, error)
	signal  func(pid agentkernel.PID, s agentkernel.Signal) error
	answer  func(ask int64, a agentkernel.Answer) error
	process func(pid agentkernel.PID) (agentkernel.Process, error) // nil: from list
	toldOf  []agentkernel.PID                                      // whose questions were answered
	list    []agentkernel.Process
	info    agentkernel.KernelInfo

	entries []agentkernel.Entry // of each journal, behind the first
}

func (f *fakeKernel) Skills(context.Context, agentkernel.SkillQuery) ([]agentkernel.Skill, error) {
	return nil, nil
}

func (f *fakeKernel) Budget(_ context.Context, pid agentkernel.PID) (agentkernel.BudgetState, error) {
	return agentkernel.BudgetState{}, agentkernel.Errorf(agentkernel.CodeNotFound, "budget", "process %d has no budget of its own", pid)
}

func (f *fakeKernel) Allowances(context.Context, string) ([]agentkernel.AllowanceState, error) {
	return nil, nil
}

func (f *fakeKernel) ModelUsage(context.Context, agentkernel.UsageQuery) (agentkernel.ModelUsage, error) {
	return agentkernel.ModelUsage{}, nil
}

func (f *fakeKernel) ModelLimits(context.Context) (agentkernel.ModelLimits, error) {
	return agentkernel.ModelLimits{}, nil
}

func (f *fakeKernel) GiveKey(context.Context, agentkernel.PID, string, string) error { return nil }

func (f *fakeKernel) Run(ctx context.Context, s agentkernel.Spec, fn func(agentkernel.Event) error) (agentkernel.Process, error) {
	return f.run(ctx, s, fn)
}

func (f *fakeKernel) Signal(_ context.Context, pid agentkernel.PID, s agentkernel.Signal, _ ...agentkernel.SignalOptions) error {
	return f.signal(pid, s)
}

func (f *fakeKernel) Answer(_ context.Context, pid agentkernel.PID, ask int64, a agentkernel.Answer) error {
	f.toldOf = append(f.toldOf, pid)
	return f.answer(ask, a)
}

func (f *fakeKernel) List(_ context.Context, filter agentkernel.Filter) ([]agentkernel.Process, error) {
	if filter.Before != 0 {
		return nil, nil // all are on the first page
	}
	return f.list, nil
}

func (f *fakeKernel) Process(_ context.Context, pid agentkernel.PID) (agentkernel.Process, error) {
	if f.process != nil {
		return f.process(pid)
	}
	for _, p := range f.list {
		if p.PID == pid {
			return p, nil
		}
	}
	return agentkernel.Process{}, agentkernel.Errorf(agentkernel.CodeNotFound, "process", "there is no process %d", pid)
}

func (f *fakeKernel) Info(context.Context) (agentkernel.KernelInfo, error) { return f.info, nil }
func (f *fakeKernel) Close() error                                         { return nil }

// screen collects a stream; safe for concurrent use. A test can wait for a text to appear on it.
type screen struct {
	mu    sync.Mutex
	text  bytes.Buffer
	wants []want
}

type want struct {
	text string
	seen chan struct{}
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text.Write(p)
	kept := s.wants[:0]
	for _, w := range s.wants {
		if strings.Contains(s.text.String(), w.text) {
			close(w.seen)
			continue
		}
		kept = append(kept, w)
	}
	s.wants = kept
	return len(p), nil
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// sees is closed once the text is on the screen.
func (s *screen) sees(text string) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := want{text, make(chan struct{})}
	if strings.Contains(s.text.String(), text) {
		close(w.seen)
	} else {
		s.wants = append(s.wants, w)
	}
	return w.seen
}

// rig is a command line before a fake kernel.
type rig struct {
	t        *testing.T
	kernel   *fakeKernel
	signals  chan os.Signal
	tty      io.ReadCloser // nil: nobody to ask
	out, err screen
	outTo    io.Writer // instead of out
	outTTY   bool
	inTTY    bool
	in       io.Reader          // nil: there is nothing to read
	any      agentkernel.Kernel // instead of kernel
	door     listener           // what serve listens with; nil: it cannot
	env      []string
	dir      string
	opened   int // kernels in this command
}

func newRig(t *testing.T) *rig {
	return &rig{t: t, kernel: &fakeKernel{}, signals: make(chan os.Signal, 4), dir: t.TempDir()}
}

func (r *rig) instance() agentkernel.Kernel {
	if r.any != nil {
		return r.any
	}
	return r.kernel
}

// run runs the command and gives its exit code.
func (r *rig) run(args ...string) int {
	r.t.Helper()
	h := host{
		args: args, env: append([]string{"AGENTKERNEL_HOME=" + r.t.TempDir()}, r.env...), in: strings.NewReader(""), out: &r.out, err: &r.err,
		width: func() int { return 80 }, workingDir: func() (string, error) { return r.dir, nil },
		signals: func() (<-chan os.Signal, func()) { return r.signals, func() {} },
	}
	h.outTTY, h.inTTY = r.outTTY, r.inTTY
	if r.in != nil {
		h.in = r.in
	}
	if r.outTo != nil {
		h.out = r.outTo
	}
	if r.tty != nil {
		h.errTTY = true
		h.askTTY = func() (io.ReadCloser, error) { return r.tty, nil }
	}
	p := parts{
		dial: func(context.Context, string) (agentkernel.Kernel, error) { return r.instance(), nil },
		open: func(context.Context, embedded.Config) (agentkernel.Kernel, error) {
			r.opened++
			return r.instance(), nil
		},
		openReader: func(context.Context, string) (agentkernel.Kernel, error) { return r.instance(), nil },
		listen: func(context.Context, listenConfig) (listener, error) {
			if r.door != nil {
				return r.door, nil
			}
			return nil, errors.New("no socket in this test")
		},
		start:        func(context.Context, *app, *datadir.Dir) error { panic("nothing is started in this test") },
		mcp:          func(context.Context, agentkernel.Kernel, mcpConfig) error { return nil },
		localModules: func(string) (map[string]string, error) { return nil, nil },
		localTools:   func(map[string]string) []agentkernel.Tool { return nil },
	}
	return run(r.t.Context(), h, p)
}

// program is a Run that shows events, then waits for a signal and ends as after says.
func (r *rig) program(events []agentkernel.Event, after map[agentkernel.Signal]agentkernel.Process) {
	sent := make(chan agentkernel.Signal, 4)
	r.kernel.signal = func(_ agentkernel.PID, s agentkernel.Signal) error { sent <- s; return nil }
	r.kernel.run = func(ctx context.Context, _ agentkernel.Spec, fn func(agentkernel.Event) error) (agentkernel.Process, error) {
		for _, e := range events {
			if err := fn(e); err != nil {
				return agentkernel.Process{}, err
			}
		}
		for {
			select {
			case <-ctx.Done():
				return agentkernel.Process{}, ctx.Err()
			case s := <-sent:
				if p, ok := after[s]; ok {
					return p, fn(agentkernel.Event{Kind: agentkernel.EventEnd, PID: p.PID, Process: &p})
				}
			}
		}
	}
}

func created(pid agentkernel.PID) agentkernel.Event {
	return agentkernel.Event{Kind: agentkernel.EventCreated, PID: pid, Seq: 1, Process: &agentkernel.Process{PID: pid, State: agentkernel.StateReady}}
}

func output(stream, text string) agentkernel.Event {
	return agentkernel.Event{Kind: agentkernel.EventOutput, PID: 12, Stream: stream, Text: text}
}

func contains(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%s lacks %q:\n%s", what, p, text)
		}
	}
}
