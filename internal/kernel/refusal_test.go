package kernel_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
)

// TestArgumentsHaveABound: what is longer than any tool server takes is refused before it is parsed.
func TestArgumentsHaveABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		long := `{"key":"a","value":"` + strings.Repeat("x", 64<<20) + `"}`
		var err error
		r.backend.add("p", func(p *prog) error {
			_, err = p.call("state.set", long)
			return nil
		})
		s := spec("p")
		s.Limits.Memory = 1 << 30
		r.run(t, s)
		if agentkernel.CodeOf(err) != agentkernel.CodeLimit || !strings.Contains(err.Error(), "the arguments are 64 MiB long") {
			t.Errorf("arguments of 64 MiB: %v", err)
		}
	})
}

// TestArgumentsUnderWayAreHeldAgainstMemory: the kernel keeps the arguments of calls that are under way, and keeps no
// more of them than the program may hold itself.
func TestArgumentsUnderWayAreHeldAgainstMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		went := make(chan struct{})
		r.tools.delay = func() { <-went }
		const each, memory = 1 << 20, 8 << 20
		taken, refused := 0, 0
		r.backend.add("p", func(p *prog) error {
			args := callTool("append", `{"n":"`+strings.Repeat("x", each)+`"}`)
			var ids []int64
			for range 20 {
				ids = append(ids, p.async("tool.call", args))
			}
			close(went)
			for _, id := range ids {
				switch _, err := p.wait(id); agentkernel.CodeOf(err) {
				case "":
					taken++
				case agentkernel.CodeLimit:
					refused++
				default:
					return err
				}
			}
			return nil
		})
		s := spec("p")
		s.Limits.Memory = memory
		p, _ := r.run(t, s)
		if p.State != agentkernel.StateExited || taken+refused != 20 || taken == 0 || taken > memory/each {
			t.Errorf("%d calls of 1 MiB each were taken and %d refused, with 8 MiB: %+v %v", taken, refused, p, p.Error)
		}
		if made := len(r.tools.lines); made != taken {
			t.Errorf("%d calls were taken, and %d were made", taken, made)
		}
	})
}

// TestAnInterruptIsRaisedOnce: a program that handles it makes its next call as if nothing had been.
func TestAnInterruptIsRaisedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		computing, signalled := make(chan struct{}), make(chan struct{})
		var codes []agentkernel.Code
		r.backend.add("p", func(p *prog) error {
			close(computing)
			<-signalled
			for range 3 {
				_, err := p.call("state.set", `{"key":"a","value":1}`)
				codes = append(codes, agentkernel.CodeOf(err))
			}
			return nil
		})
		p, err := r.Spawn(t.Context(), spec("p"))
		if err != nil {
			t.Fatal(err)
		}
		<-computing
		if err := r.Signal(t.Context(), p.PID, agentkernel.SignalInterrupt); err != nil {
			t.Fatal(err)
		}
		close(signalled)
		if p, err = r.Wait(t.Context(), p.PID); err != nil || p.State != agentkernel.StateExited {
			t.Fatalf("%+v, %v", p, err)
		}
		if got := fmt.Sprint(codes); got != "[interrupted  ]" {
			t.Errorf("the calls after one interrupt: %s", got)
		}
	})
}

// TestAlwaysMeansOneTool: the answer "always" allows the tool that was asked about, and no other of its server.
func TestAlwaysMeansOneTool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		r.backend.add("p", func(p *prog) error {
			for _, tool := range []string{"append", "append", "put"} {
				if _, err := p.call("tool.call", callTool(tool, `{"n":1}`)); err != nil {
					return err
				}
			}
			return nil
		})
		s := spec("p")
		s.Allow, s.Interactive = nil, true
		var asked []string
		p, err := r.Run(t.Context(), s, func(ev agentkernel.Event) error {
			if ev.Kind != agentkernel.EventAsk {
				return nil
			}
			asked = append(asked, ev.Ask.Call)
			return r.Answer(t.Context(), ev.PID, ev.Ask.ID, agentkernel.AnswerAlways)
		})
		if err != nil || p.State != agentkernel.StateExited {
			t.Fatalf("%+v, %v", p, err)
		}
		if got := fmt.Sprint(asked); got != "[fake.append fake.put]" {
			t.Errorf("asked about %s", got)
		}
	})
}

// TestAnswersToWhatWasNotAsked: a call that is under way with permission is not made again by an answer.
func TestAnswersToWhatWasNotAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		out, back := make(chan struct{}), make(chan struct{})
		r.tools.delay = func() { close(out); <-back }
		r.backend.add("p", func(p *prog) error {
			v, err := p.call("tool.call", callTool("append", `{"n":1}`))
			p.result = v
			return err
		})
		p, err := r.Spawn(t.Context(), spec("p"))
		if err != nil {
			t.Fatal(err)
		}
		<-out
		if err := r.Answer(t.Context(), p.PID, 1, agentkernel.AnswerYes); agentkernel.CodeOf(err) != agentkernel.CodeNotFound {
			t.Errorf("answer to a call that was not asked about: %v", err)
		}
		close(back)
		if p, err = r.Wait(t.Context(), p.PID); err != nil || p.State != agentkernel.StateExited || len(r.tools.lines) != 1 {
			t.Errorf("%+v, %v: %d writes", p, err, len(r.tools.lines))
		}
	})
}

// TestFailedWrites: only a write that certainly was not sent fails as what it is.
func TestFailedWrites(t *testing.T) {
	for _, c := range []struct {
		notSent bool
		want    agentkernel.Code
	}{{true, agentkernel.CodeUnavailable}, {false, agentkernel.CodeOutcomeUnknown}} {
		t.Run(string(c.want), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, newRAMStore())
				r.tools.fail = func(agentkernel.ToolCall) (agentkernel.ToolResult, error) {
					return agentkernel.ToolResult{NotSent: c.notSent}, agentkernel.Errorf(agentkernel.CodeUnavailable, "tool", "no server")
				}
				var err error
				r.backend.add("p", func(p *prog) error { _, err = p.call("tool.call", callTool("append", `{}`)); return nil })
				r.run(t, spec("p"))
				if agentkernel.CodeOf(err) != c.want {
					t.Errorf("got %v, want %s", err, c.want)
				}
			})
		})
	}
}

// TestALostSessionIsToldOnce: the call after it is made with whatever session there is now.
func TestALostSessionIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		var expected []string
		r.tools.fail = func(c agentkernel.ToolCall) (agentkernel.ToolResult, error) {
			if expected = append(expected, c.Expect); c.Expect == "" {
				return agentkernel.ToolResult{}, nil
			}
			return agentkernel.ToolResult{}, agentkernel.Errorf(agentkernel.CodeSessionLost, "tool", "its server was started anew")
		}
		var codes []agentkernel.Code
		r.backend.add("p", func(p *prog) error {
			for range 3 {
				_, err := p.call("tool.call", callTool("append", `{}`))
				codes = append(codes, agentkernel.CodeOf(err))
			}
			return nil
		})
		r.run(t, spec("p"))
		if fmt.Sprint(codes) != "[ session_lost ]" || fmt.Sprintf("%q", expected) != `["" "one" ""]` {
			t.Errorf("calls ended with %q, sessions expected were %q", codes, expected)
		}
	})
}

// TestKeysNameTheCall: the idempotency key of a call says which call of which process it is, and a call that is made
// again after a crash has the key that it had.
func TestKeysNameTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newRAMStore())
		r.tools.delay = func() { pass(time.Hour) } // the second call is cut off
		r.backend.add("p", func(p *prog) error {
			if _, err := p.call("state.set", `{"key":"a","value":1}`); err != nil {
				return err
			}
			_, err := p.call("tool.call", callTool("put", `{"n":1}`))
			return err
		})
		p, err := r.Spawn(t.Context(), spec("p"))
		if err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		r.tools.mu.Lock()
		r.tools.delay = nil
		r.tools.mu.Unlock()
		r2 := r.boot(t, r.store.crash())
		if _, err := r2.Recover(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		if got, err := r2.Wait(t.Context(), p.PID); err != nil || got.State != agentkernel.StateExited || got.Recoveries != 1 {
			t.Fatalf("%+v, %v", got, err)
		}
		suffix := fmt.Sprintf("/%d/2", p.PID)
		if k := r.tools.keys; len(k) != 2 || k[0] != k[1] || !strings.HasSuffix(k[0], suffix) || len(k[0]) == len(suffix) {
			t.Errorf("the call was made with the keys %q, want the same twice, ending in %s", k, suffix)
		}
	})
}
