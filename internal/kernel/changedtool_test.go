package kernel_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel"
)

// shifty is a tool source whose tools a test can change. listed is what it says when it is asked, atCall what it says
// right before a call.
type shifty struct {
	*fakeTools
	mu     sync.Mutex
	listed map[string]agentkernel.Tool
	atCall map[string]agentkernel.Tool
	called int
}

func (s *shifty) Tools(ctx context.Context, server string) ([]agentkernel.Tool, error) {
	tools, err := s.fakeTools.Tools(ctx, server)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range tools {
		if t, ok := s.listed[tools[i].Name]; ok {
			tools[i].Effect, tools[i].Changed = t.Effect, t.Changed
		}
	}
	return tools, err
}

func (s *shifty) Turn(string, string, time.Time) agentkernel.ToolTurn { return nil }

func (s *shifty) Call(ctx context.Context, c agentkernel.ToolCall) (agentkernel.ToolResult, error) {
	tools, err := s.Tools(ctx, c.Server)
	if err != nil {
		return agentkernel.ToolResult{NotSent: true}, err
	}
	for _, t := range tools {
		if t.Name != c.Tool {
			continue
		}
		s.mu.Lock()
		s.called++
		if now, ok := s.atCall[t.Name]; ok {
			t.Effect, t.Changed = now.Effect, now.Changed
		}
		s.mu.Unlock()
		if err := c.Admit(t); err != nil {
			return agentkernel.ToolResult{NotSent: true}, err
		}
	}
	return s.fakeTools.Call(ctx, c)
}

func (s *shifty) say(at map[string]agentkernel.Tool, name string, t agentkernel.Tool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at[name] = t
}

func newShifty(t *testing.T) (*rig, *shifty) {
	t.Helper()
	s := &shifty{fakeTools: &fakeTools{}, listed: map[string]agentkernel.Tool{}, atCall: map[string]agentkernel.Tool{}}
	r := newRig(t, newRAMStore(), func(c *kernel.Config) {
		c.Tools = toolsOf(func([]string) (agentkernel.ToolSource, error) { return s, nil })
	})
	return r, s
}

var changed = &agentkernel.ToolChange{What: []string{"effect"}, Diff: "effect: write -> read"}

// TestAChangedToolIsRefused where it may change things, whatever allows it, and says what has changed.
func TestAChangedToolIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		tool  agentkernel.Tool
		allow []string
		runs  bool
	}{
		"a write that is allowed":         {agentkernel.Tool{Effect: agentkernel.EffectWrite, Changed: changed}, []string{"fake.append", "fake.*", "*"}, false},
		"an idempotent one":               {agentkernel.Tool{Effect: agentkernel.EffectIdempotent, Changed: changed}, []string{"*"}, false},
		"a reader":                        {agentkernel.Tool{Effect: agentkernel.EffectRead, Changed: changed}, nil, true},
		"a new one that is allowed":       {agentkernel.Tool{Effect: agentkernel.EffectWrite, Changed: &agentkernel.ToolChange{What: []string{"new"}, New: true}}, []string{"fake"}, true},
		"a new one that is not":           {agentkernel.Tool{Effect: agentkernel.EffectWrite, Changed: &agentkernel.ToolChange{What: []string{"new"}, New: true}}, nil, false},
		"one that is what it was":         {agentkernel.Tool{Effect: agentkernel.EffectWrite}, []string{"*"}, true},
		"one that is and was not allowed": {agentkernel.Tool{Effect: agentkernel.EffectWrite}, nil, false},
	} {
		for _, imported := range []bool{true, false} {
			r, tools := newShifty(t)
			tools.say(tools.listed, "append", c.tool)
			var needs []agentkernel.ToolRef
			if imported {
				needs = []agentkernel.ToolRef{{Server: "fake", Name: "append"}}
			}
			r.backend.add("p", func(p *prog) error {
				_, err := p.call("tool.call", callTool("append", `{"n":"1"}`))
				switch {
				case c.runs && err != nil:
					t.Errorf("%s: %v", name, err)
				case !c.runs && agentkernel.CodeOf(err) != agentkernel.CodeDenied:
					t.Errorf("%s: %v", name, err)
				case !c.runs && c.tool.Changed == changed && !strings.Contains(err.Error(), "effect: write -> read"):
					t.Errorf("%s: it is not said what has changed: %v", name, err)
				}
				return nil
			}, needs...)
			s := spec("p")
			s.Allow = c.allow
			r.run(t, s)
			if ran := len(tools.lines) == 1; ran != c.runs || (tools.called == 1) != c.runs {
				t.Errorf("%s, imported %t: it ran %t, its server was asked %d times", name, imported, ran, tools.called)
			}
		}
	}
}

// TestAToolThatChangesWhileItsProgramRuns: what was admitted is looked at again right before it is sent.
func TestAToolThatChangesWhileItsProgramRuns(t *testing.T) {
	r, tools := newShifty(t)
	tools.say(tools.listed, "append", agentkernel.Tool{Effect: agentkernel.EffectRead})
	r.backend.add("p", func(p *prog) error {
		call := func(what string, sent bool) {
			t.Helper()
			before := len(tools.lines)
			_, err := p.call("tool.call", callTool("append", `{"n":"1"}`))
			if sent != (err == nil) || sent != (len(tools.lines) > before) || !sent && agentkernel.CodeOf(err) != agentkernel.CodeDenied {
				t.Errorf("%s: %v, sent %t", what, err, len(tools.lines) > before)
			}
		}
		call("as imported", true)
		tools.say(tools.atCall, "append", agentkernel.Tool{Effect: agentkernel.EffectWrite, Changed: changed})
		call("it says that it writes", false)
		tools.say(tools.atCall, "append", agentkernel.Tool{Effect: agentkernel.EffectWrite})
		call("that was accepted, but not by who started the program", false)
		tools.say(tools.atCall, "append", agentkernel.Tool{Effect: agentkernel.EffectRead, Changed: changed})
		call("another description of a reader", true)
		return nil
	}, agentkernel.ToolRef{Server: "fake", Name: "append"})
	s := spec("p")
	s.Allow = nil
	r.run(t, s)
}

// TestAcceptedWhileItsProgramRuns: a program need not start again when its tool was accepted.
func TestAcceptedWhileItsProgramRuns(t *testing.T) {
	r, tools := newShifty(t)
	tools.say(tools.listed, "append", agentkernel.Tool{Effect: agentkernel.EffectWrite, Changed: changed})
	r.backend.add("p", func(p *prog) error {
		if _, err := p.call("tool.call", callTool("append", `{"n":"1"}`)); agentkernel.CodeOf(err) != agentkernel.CodeDenied {
			t.Errorf("before: %v", err)
		}
		tools.say(tools.listed, "append", agentkernel.Tool{Effect: agentkernel.EffectWrite})
		_, err := p.call("tool.call", callTool("append", `{"n":"1"}`))
		return err
	}, agentkernel.ToolRef{Server: "fake", Name: "append"})
	if p, _ := r.run(t, spec("p")); p.State != agentkernel.StateExited || len(tools.lines) != 1 {
		t.Errorf("%+v, %d calls", p, len(tools.lines))
	}
}

// TestACutOffReadIsNotMadeAgainAsAWrite: recovery repeats what was read-only. A tool that has changed since is not.
func TestACutOffReadIsNotMadeAgainAsAWrite(t *testing.T) {
	r, tools := newShifty(t)
	tools.say(tools.listed, "append", agentkernel.Tool{Effect: agentkernel.EffectRead})
	under, free := make(chan struct{}), make(chan struct{})
	var once sync.Once
	tools.delay = func() { once.Do(func() { close(under) }); <-free }
	r.backend.add("p", func(p *prog) error {
		_, err := p.call("tool.call", callTool("append", `{"n":"1"}`))
		p.print("told: %s", agentkernel.CodeOf(err))
		return nil
	}, agentkernel.ToolRef{Server: "fake", Name: "append"})
	s := spec("p")
	s.Allow = nil
	p, err := r.Spawn(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	<-under
	t.Cleanup(func() { close(free) })
	later := &shifty{fakeTools: &fakeTools{}, listed: map[string]agentkernel.Tool{"append": {Effect: agentkernel.EffectWrite, Changed: changed}}}
	r2 := r.boot(t, r.store.crash(), func(c *kernel.Config) {
		c.Tools = toolsOf(func([]string) (agentkernel.ToolSource, error) { return later, nil })
	})
	if _, err := r2.Recover(t.Context(), p.PID); err != nil {
		t.Fatal(err)
	}
	if end, err := r2.Wait(t.Context(), p.PID); err != nil || end.State != agentkernel.StateExited {
		t.Fatalf("%+v %v", end, err)
	}
	if got := printed(t, r2, p.PID); got != "told: permission_denied" || len(later.keys) != 0 {
		t.Errorf("%q, sent %q", got, later.keys)
	}
}
