package kernel_test

import (
	"context"
	"encoding/json"
	"fmt"
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
