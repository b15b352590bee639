package kernel_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
	"agentkernel/hosted"
)

// calls makes the calls of a hosted program that has one lane.
type calls struct {
	agentkernel.Host
	mu   sync.Mutex
	lane string
	n    int64
}

func (r *rig) attach(t *testing.T, pid agentkernel.PID) (*calls, error) {
	t.Helper()
	h, err := r.Attach(t.Context(), pid, agentkernel.Attaching{})
	return &calls{Host: h}, err
}

func (c *calls) Syscall(ctx context.Context, op string, args json.RawMessage) (json.RawMessage, error) {
	c.mu.Lock()
	c.n++
	wait := c.Issue(agentkernel.HostedCall{Place: agentkernel.Place{Lane: c.lane, N: c.n}, Op: op, Args: args})
	c.mu.Unlock()
	return wait(ctx)
}

// changing is a kernel that is replaced now and then.
type changing struct {
	agentkernel.Processes
	now atomic.Pointer[rig]
}

func (c *changing) Spawn(ctx context.Context, s agentkernel.Spec) (agentkernel.Process, error) {
	return c.now.Load().Spawn(ctx, s)
}

func (c *changing) Process(ctx context.Context, pid agentkernel.PID) (agentkernel.Process, error) {
	return c.now.Load().Process(ctx, pid)
}

func (c *changing) Attach(ctx context.Context, pid agentkernel.PID, how agentkernel.Attaching) (agentkernel.Host, error) {
	return c.now.Load().Attach(ctx, pid, how)
}

// TestHostedOverCrashes: the power is cut at each operation of the store. The program goes on with its lanes, or begins again: what
// it was told stays true, and no line is written twice, or lost without a word.
func TestHostedOverCrashes(t *testing.T) {
	for _, goesOn := range []bool{true, false} {
		t.Run(map[bool]string{true: "goes on", false: "begins again"}[goesOn], func(t *testing.T) {
			for at := 1; ; at++ {
				done := false
				synctest.Test(t, func(t *testing.T) { done = hostedCrash(t, at, goesOn) })
				if done || t.Failed() {
					if at < 20 {
						t.Errorf("only %d operations", at)
					}
					return
				}
			}
		})
	}
}

func hostedCrash(t *testing.T, at int, goesOn bool) (done bool) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := newRig(t, newRAMStore())
	k := &changing{}
	k.now.Store(r)
	var mu sync.Mutex
	told, unknown := map[string]string{}, map[string]bool{}
	note := func(what, now string) { // what a place comes to, always the same
		mu.Lock()
		defer mu.Unlock()
		if had, ok := told[what]; ok && had != now {
			t.Errorf("%s came to %s, and before to %s", what, now, had)
		}
		told[what] = now
	}
	program := func(ctx context.Context, p *hosted.Process) (any, error) {
		var group sync.WaitGroup
		for lane := range 2 {
			own := hosted.Branch(ctx)
			group.Go(func() {
				for n := range 2 {
					line := fmt.Sprint(lane, n)
					var drawn, written json.RawMessage
					err := p.Call(own, "rand.bytes", map[string]int{"n": 8}, &drawn)
					if err == nil {
						note("draw "+line, string(drawn))
						err = p.Call(own, "tool.call", json.RawMessage(callTool("append", `{"line":"`+line+`"}`)), &written)
					}
					switch {
					case err == nil:
						note("line "+line, "written")
					case agentkernel.CodeOf(err) == agentkernel.CodeOutcomeUnknown:
						note("line "+line, "unknown")
						mu.Lock()
						unknown[line] = true
						mu.Unlock()
					default:
						return
					}
					if p.Call(own, "time.sleep", map[string]int{"seconds": 1}, nil) != nil {
						return
					}
				}
			})
		}
		group.Wait()
		return "all", nil
	}
	s := agentkernel.Spec{Program: agentkernel.Program{Name: "agent"}, IdempotencyKey: "one", Tools: []string{"x"}, Allow: []string{"*"}}
	run := func(ctx context.Context) (agentkernel.Process, error) {
		return hosted.Runner{Kernel: k, Patience: time.Hour}.Run(ctx, s, program)
	}
	r.store.cutPower(at)
	first, stop := context.WithCancel(ctx)
	ended := make(chan agentkernel.Process, 1)
	go func() {
		p, err := run(first)
		if err == nil {
			ended <- p
		}
		stop() // it was not even created, or is begun again
	}()
	pass(time.Minute)
	select {
	case p := <-ended:
		if done = p.State == agentkernel.StateExited; !done {
			t.Errorf("it has %s: %v", p.State, p.Error)
		}
		stop()
		return done
	default:
	}
	if !goesOn {
		stop()
		synctest.Wait()
	}
	k.now.Store(r.boot(t, r.store.crash()))
	if !goesOn || first.Err() != nil {
		go func() {
			p, err := run(ctx)
			if err != nil {
				t.Error(err)
			}
			ended <- p
		}()
	}
	pass(10 * time.Minute)
	select {
	case p := <-ended:
		if p.State != agentkernel.StateExited || string(p.Result) != `"all"` {
			t.Errorf("it has %s: %s %v", p.State, p.Result, p.Error)
		}
	default:
		t.Error("it has not ended")
	}
	stop()
	lines := map[string]int{}
	for _, l := range r.tools.lines {
		lines[l]++
	}
	for lane := range 2 {
		for n := range 2 {
			line := fmt.Sprint(lane, n)
			times := 0
			for l, c := range lines {
				if strings.Contains(l, line) {
					times += c
				}
			}
			if times > 1 || times == 0 && !unknown[line] {
				t.Errorf("line %s was written %d times; told: %s", line, times, told["line "+line])
			}
		}
	}
	if t.Failed() {
		t.Errorf("the power was cut at operation %d", at)
	}
	return false
}

// TestPausedHostedProcess: no sandbox holds a hosted program back while its process is paused; the kernel holds back its calls.
func TestPausedHostedProcess(t *testing.T) {
	r := newRig(t, newRAMStore())
	s := agentkernel.Spec{Backend: "hosted", Program: agentkernel.Program{Name: "agent"}, Tools: []string{"x"}, Allow: []string{"*"}}
	p, err := r.Spawn(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	h, err := r.attach(t, p.PID)
	if err != nil {
		t.Fatal(err)
	}
	signal := func(sig agentkernel.Signal) {
		t.Helper()
		if err := r.Signal(t.Context(), p.PID, sig); err != nil {
			t.Fatal(err)
		}
	}
	signal(agentkernel.SignalPause)
	var waits []agentkernel.Awaited
	for n, op := range []string{"tool.call", "time.now"} {
		args := json.RawMessage("{}")
		if op == "tool.call" {
			args = json.RawMessage(callTool("append", `{"n":1}`))
		}
		waits = append(waits, h.Issue(agentkernel.HostedCall{Place: agentkernel.Place{N: int64(n) + 1}, Op: op, Args: args}))
	}
	for _, e := range r.entries(t, p.PID) {
		if e.Kind == agentkernel.EntryCall {
			t.Errorf("call %d (%s) was made while the process was paused", e.Call, e.Op)
		}
	}
	signal(agentkernel.SignalResume)
	for _, wait := range waits {
		if _, err := wait(t.Context()); err != nil {
			t.Errorf("a call that waited: %v", err)
		}
	}
	if len(r.tools.lines) != 1 {
		t.Errorf("the tool was called %d times", len(r.tools.lines))
	}
}

// TestRecordingOfHosted: the calls of a hosted process say where in its program they stand, also in a recording.
func TestRecordingOfHosted(t *testing.T) {
	r := newRig(t, newRAMStore())
	p, err := r.Spawn(t.Context(), agentkernel.Spec{Backend: "hosted", Program: agentkernel.Program{Name: "agent"}})
	if err != nil {
		t.Fatal(err)
	}
	h, err := r.attach(t, p.PID)
	if err != nil {
		t.Fatal(err)
	}
	h.lane = "1.2"
	if _, err := h.Syscall(t.Context(), "time.now", json.RawMessage("{}")); err != nil {
		t.Fatal(err)
	}
	if _, err := h.End(t.Context(), agentkernel.HostedEnd{}); err != nil {
		t.Fatal(err)
	}
	file, far := export(t, r, p.PID), elsewhere(t, r)
	got, err := far.Import(t.Context(), file, agentkernel.ImportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if ours, theirs := r.entries(t, p.PID)[2], far.entries(t, got.PID)[2]; theirs.Stream != "1@1.2" || theirs.Stream != ours.Stream {
		t.Errorf("the call of the import is at %q, that of the process at %q", theirs.Stream, ours.Stream)
	}
	if _, err := far.Replay(t.Context(), file, agentkernel.ReplayOptions{}); agentkernel.CodeOf(err) != agentkernel.CodeUnsupported {
		t.Errorf("a replay of a hosted program: %v", err)
	}
}

// TestDecidedHostedProcess: what a hosted program asked for while its process was paused with a write whose outcome nobody knows is
// done when somebody has decided.
func TestDecidedHostedProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		r.tools.delay = func() { pass(time.Hour) }
		s := agentkernel.Spec{Backend: "hosted", Program: agentkernel.Program{Name: "agent"}, Tools: []string{"x"}, Allow: []string{"*"}, OnUnknown: agentkernel.UnknownPause}
		p, err := r.Spawn(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		h, err := r.attach(t, p.PID)
		if err != nil {
			t.Fatal(err)
		}
		call := func(n int64, op, args string) agentkernel.Awaited {
			return h.Issue(agentkernel.HostedCall{Place: agentkernel.Place{N: n}, Op: op, Args: json.RawMessage(args)})
		}
		call(1, "tool.call", callTool("append", `{}`))
		synctest.Wait()
		r = r.boot(t, r.store.crash())
		if h, err = r.attach(t, p.PID); err != nil {
			t.Fatal(err)
		}
		cut, then := call(1, "tool.call", callTool("append", `{}`)), call(2, "time.now", "{}")
		synctest.Wait()
		if got, _ := r.Process(t.Context(), p.PID); !got.Paused {
			t.Fatalf("it is not paused: %+v", got)
		}
		if err := r.Resolve(t.Context(), p.PID, 1, agentkernel.Resolution{Decision: agentkernel.DecisionFail, Message: "no"}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := cut(ctx); err == nil || ctx.Err() != nil {
			t.Errorf("the call that was decided about: %v", err)
		}
		if _, err := then(ctx); err != nil {
			t.Errorf("the call that waited: %v", err)
		}
	})
}

// TestAttachReadsBesides: a process can be looked at, and signalled, while its journal is read for a host. What comes into the journal
// meanwhile is known to the host.
func TestAttachReadsBesides(t *testing.T) {
	store := newRAMStore()
	r := newRig(t, store)
	p, err := r.Spawn(t.Context(), agentkernel.Spec{Backend: "hosted", Program: agentkernel.Program{Name: "agent"}})
	if err != nil {
		t.Fatal(err)
	}
	before, err := r.attach(t, p.PID)
	if err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	look := func() {
		once.Do(func() { // with the lock held, this would never return
			if got, err := r.Process(t.Context(), p.PID); err != nil || got.State.Terminal() {
				t.Errorf("%+v, %v", got, err)
			}
			if err := r.Signal(t.Context(), p.PID, agentkernel.SignalInterrupt); err != nil {
				t.Error(err)
			}
		})
	}
	store.mu.Lock()
	store.onEntries = look
	store.mu.Unlock()
	h, err := r.Attach(t.Context(), p.PID, agentkernel.Attaching{TakeOver: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := before.Err(); agentkernel.CodeOf(err) != agentkernel.CodeFenced {
		t.Errorf("the host before: %v", err)
	}
	kinds := []agentkernel.EntryKind{}
	for _, e := range r.entries(t, p.PID)[1:] {
		kinds = append(kinds, e.Kind)
	}
	if want := []agentkernel.EntryKind{agentkernel.EntryAttached, agentkernel.EntrySignal, agentkernel.EntryAttached}; !slices.Equal(kinds, want) || h.Attached().Epoch != 2 {
		t.Errorf("%v, not %v; %+v", kinds, want, h.Attached())
	}
}

// TestAttachToAFullJournal: nothing can be added to what a process with a full journal has done, so it ends, and is not left to be tried again.
func TestAttachToAFullJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		p, err := r.Spawn(t.Context(), agentkernel.Spec{Program: agentkernel.Program{Name: "h"}, Backend: "hosted", Limits: agentkernel.Limits{Journal: 1 << 10}})
		if err != nil {
			t.Fatal(err)
		}
		for n := 0; err == nil; n++ {
			if n == 1000 {
				t.Fatal("1,000 attachments, and its journal is not full")
			}
			var h *calls
			if h, err = r.attach(t, p.PID); err == nil {
				_ = h.Close()
			}
		}
		if agentkernel.CodeOf(err) != agentkernel.CodeLimit {
			t.Error(err)
		}
		pass(time.Second)
		if p, err := r.Process(t.Context(), p.PID); err != nil || p.State != agentkernel.StateKilled || p.Error.Op != "limit.journal" {
			t.Errorf("%s %v %v", p.State, p.Error, err)
		}
	})
}
