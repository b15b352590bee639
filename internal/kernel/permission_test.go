package kernel_test

import (
	"fmt"
	"strings"
	"testing"

	"agentkernel"
)

// TestWhatNeedsPermission: only what is read-only runs without one. That a call may be repeated is another thing.
func TestWhatNeedsPermission(t *testing.T) {
	for _, c := range []struct {
		tool, allow string
		runs        bool
	}{
		{"echo", "", true}, {"put", "", false}, {"append", "", false},
		{"put", "fake.put", true}, {"append", "fake.append", true}, {"put", "fake", true}, {"append", "fake.*", true}, {"put", "*", true},
		{"put", "fake.append", false}, {"append", "fake.put", false}, {"put", "fak", false}, {"put", "fake.pu", false}, {"put", "*.append", false},
	} {
		for _, imported := range []bool{true, false} {
			r := newRig(t, newRAMStore())
			var needs []agentkernel.ToolRef
			if imported {
				needs = []agentkernel.ToolRef{{Server: "fake", Name: c.tool}}
			}
			r.backend.add("p", func(p *prog) error {
				_, err := p.call("tool.call", callTool(c.tool, `{"n":"1"}`))
				if c.runs != (err == nil) || !c.runs && (agentkernel.CodeOf(err) != agentkernel.CodeDenied || !strings.Contains(err.Error(), "was not allowed")) {
					t.Errorf("%s with --allow %q: %v", c.tool, c.allow, err)
				}
				return nil
			}, needs...)
			s := spec("p")
			if s.Allow = nil; c.allow != "" {
				s.Allow = []string{c.allow}
			}
			r.run(t, s)
			if sent := len(r.tools.keys) > 0; sent != c.runs {
				t.Errorf("%s with --allow %q: sent %t", c.tool, c.allow, sent)
			}
		}
	}
}

// TestADeniedFamily takes away all of it that can be taken away.
func TestADeniedFamily(t *testing.T) {
	r := newRig(t, newRAMStore())
	r.backend.add("c", func(*prog) error { return nil })
	r.backend.add("p", func(p *prog) error {
		if _, err := p.call("proc.self", `{}`); err != nil {
			t.Errorf("proc.self: %v", err)
		}
		for op, args := range map[string]string{"proc.spawn": `{"source":"c"}`, "proc.wait": `{"pid":1}`, "state.get": `{"key":"k"}`, "tool.call": callTool("echo", `{}`)} {
			if _, err := p.call(op, args); agentkernel.CodeOf(err) != agentkernel.CodeDenied {
				t.Errorf("%s: %v", op, err)
			}
		}
		_, err := p.call("state.set", `{"key":"k","value":1}`)
		return err
	})
	s := spec("p")
	s.Deny = []string{"proc", "state.get", "tool"}
	if p, _ := r.run(t, s); p.State != agentkernel.StateExited {
		t.Errorf("%+v", p)
	}
}

// TestPermissionsThatMeanNothing are refused: who takes something away must not be told that it is gone when it is not.
func TestPermissionsThatMeanNothing(t *testing.T) {
	r := newRig(t, newRAMStore())
	r.backend.add("p", func(*prog) error { return nil })
	for what, change := range map[string]func(*agentkernel.Spec){
		`"proc.spwan"`: func(s *agentkernel.Spec) { s.Deny = []string{"state", "proc.spwan"} },
		`"proc.exit"`:  func(s *agentkernel.Spec) { s.Deny = []string{"proc.exit"} },
		`""`:           func(s *agentkernel.Spec) { s.Deny = []string{""} },
		`"state*"`:     func(s *agentkernel.Spec) { s.Deny = []string{"state*"} },
		`"fake.[a"`:    func(s *agentkernel.Spec) { s.Allow = []string{"fake.[a"} },
		`"a\\"`:        func(s *agentkernel.Spec) { s.Allow = []string{`a\`} },
	} {
		s := spec("p")
		change(&s)
		_, err := r.Spawn(t.Context(), s)
		if agentkernel.CodeOf(err) != agentkernel.CodeInvalid || !strings.Contains(fmt.Sprint(err), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
