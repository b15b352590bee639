package kernel_test

import (
	"errors"
	"strings"
	"testing"

	"agentkernel"
	"agentkernel/internal/kernel"
)

// fort is a backend of which the boundary matters.
type fort struct {
	*judge
	isolation agentkernel.Isolation
}

func (f *fort) Info() agentkernel.BackendInfo {
	info := f.judge.Info()
	info.Isolation = f.isolation
	return info
}

// newForts gives a kernel with a weak backend that auto takes first, and a strong one.
func newForts(t *testing.T, programs map[string]func(*prog) error) *rig {
	t.Helper()
	weak := &fort{&judge{newGoBackend(), "weak", nil}, agentkernel.IsolationInterpreter}
	strong := &fort{&judge{newGoBackend(), "strong", nil}, agentkernel.IsolationProcess}
	for _, f := range []*fort{weak, strong} {
		for name, run := range programs {
			f.add(name, run)
		}
	}
	return newRig(t, newRAMStore(), func(c *kernel.Config) { c.Backends = []agentkernel.Backend{weak, strong} })
}

// The isolation of a Spec is a floor: what is below it is passed over, and refused where it is named.
func TestIsolationFloor(t *testing.T) {
	r := newForts(t, map[string]func(*prog) error{"plain": func(*prog) error { return nil }})
	for _, c := range []struct {
		floor   agentkernel.Isolation
		backend string
		want    string // the backend, or the error
		hint    string
	}{
		{"", "", "weak", ""},
		{"interpreter", "auto", "weak", ""},
		{"process", "", "strong", ""},
		{"process", "auto", "strong", ""},
		{"interpreter", "strong", "strong", ""},
		{"process", "weak", "the weak backend is below the isolation that is asked for: it has interpreter, wanted is process", "leave the backend out"},
		{"kernel", "", "no backend here reaches the isolation kernel; there are: weak (interpreter), strong (process)", "gVisor"},
		{"vm", "strong", "no backend here reaches the isolation vm", "virtual machines"},
		{"process", "hosted", "a hosted program runs outside the kernel", "leave the isolation out"},
		{"none", "", "this kernel runs no program without a boundary", "isolation_none"},
		{"thick", "", `isolation "thick" is not known: none, interpreter, process, kernel or vm`, ""},
	} {
		s := agentkernel.Spec{Backend: c.backend, Isolation: c.floor, Program: agentkernel.Program{Name: "plain", Source: "plain"}}
		p, err := r.Spawn(t.Context(), s)
		got, hint := p.Backend, ""
		if err != nil {
			e := agentkernel.AsError(err, "", "")
			got, hint = e.Message(), e.Hint
		}
		if !strings.Contains(got, c.want) || !strings.Contains(hint, c.hint) {
			t.Errorf("isolation %q, backend %q: %q (%q), want %q (%q)", c.floor, c.backend, got, hint, c.want, c.hint)
		}
	}
}

// None must be asked for, and is what is left where nothing stronger can run the program. Nobody gets it by being somebody's
// child.
func TestIsolationNone(t *testing.T) {
	nothing := func(*prog) error { return nil }
	for _, walls := range []bool{true, false} {
		missing := agentkernel.Errorf(agentkernel.CodeUnavailable, "strong", "no walls can stand here").WithHint("sysctl")
		unsupported := agentkernel.Errorf(agentkernel.CodeUnsupported, "weak", "no pandas here")
		weak := &fort{&judge{newGoBackend(), "weak", map[string]verdict{"pandas": {err: unsupported}, "parent": {err: unsupported}}}, agentkernel.IsolationInterpreter}
		strong := &fort{&judge{newGoBackend(), "strong", nil}, agentkernel.IsolationProcess}
		bare := &fort{&judge{newGoBackend(), "bare", nil}, agentkernel.IsolationNone}
		if !walls {
			strong.verdicts = map[string]verdict{"pandas": {err: missing}, "parent": {err: missing}}
		}
		var child string
		for _, f := range []*fort{weak, strong, bare} {
			f.add("plain", nothing)
			f.add("pandas", nothing)
			f.add("parent", func(p *prog) error {
				out, err := p.call("proc.spawn", `{"source":"pandas"}`)
				child = string(out)
				return err
			})
		}
		r := newRig(t, newRAMStore(), func(c *kernel.Config) { c.Backends = []agentkernel.Backend{weak, strong, bare} })
		start := func(s agentkernel.Spec, program string) string {
			s.Program = agentkernel.Program{Name: program, Source: program}
			p, err := r.Spawn(t.Context(), s)
			if err != nil {
				return string(agentkernel.CodeOf(err))
			}
			return p.Backend
		}
		otherwise := map[bool]string{true: "strong", false: "bare"}[walls]
		refused := map[bool]string{true: "strong", false: string(agentkernel.CodeUnavailable)}[walls]
		for _, c := range []struct {
			floor         agentkernel.Isolation
			backend, want string
			program       string
		}{
			{"none", "", "weak", "plain"}, {"none", "", otherwise, "pandas"}, {"", "", refused, "pandas"}, {"process", "", refused, "pandas"},
			{"", "bare", string(agentkernel.CodeDenied), "plain"}, {"none", "bare", "bare", "plain"}, {"process", "bare", string(agentkernel.CodeUnsupported), "plain"},
		} {
			if got := start(agentkernel.Spec{Isolation: c.floor, Backend: c.backend}, c.program); got != c.want {
				t.Errorf("walls %v: isolation %q, backend %q, %s: %s, want %s", walls, c.floor, c.backend, c.program, got, c.want)
			}
		}
		free, _ := r.run(t, agentkernel.Spec{Program: agentkernel.Program{Name: "plain", Source: "plain"}})
		if got := start(agentkernel.Spec{Parent: free.PID, Isolation: "none"}, "pandas"); got != refused {
			t.Errorf("walls %v: a child asks for less than its parent has, and gets %s", walls, got)
		}
		r.run(t, agentkernel.Spec{Isolation: "none", Program: agentkernel.Program{Name: "parent", Source: "parent"}})
		spawned, err := agentkernel.ParsePID(child)
		if err != nil {
			t.Fatal(err)
		}
		s, err := r.Spec(t.Context(), spawned)
		p, perr := r.Process(t.Context(), spawned)
		if err := errors.Join(err, perr); err != nil || s.Isolation != "none" || p.Backend != otherwise {
			t.Errorf("walls %v: a child of one that asked for none: isolation %q on %q, %v", walls, s.Isolation, p.Backend, err)
		}
	}
}

// late is a backend whose interpreter may be installed while the kernel runs.
type late struct {
	*fort
	installed bool
}

func (l *late) Info() agentkernel.BackendInfo {
	info := l.fort.Info()
	if info.Available = l.installed; !l.installed {
		info.Fingerprint = ""
	}
	return info
}

// A backend that becomes available while the kernel runs is used, and its processes name the engine that they ran on.
func TestBackendThatComesLater(t *testing.T) {
	l := &late{fort: &fort{&judge{newGoBackend(), "bare", nil}, agentkernel.IsolationNone}}
	l.add("plain", func(*prog) error { return nil })
	r := newRig(t, newRAMStore(), func(c *kernel.Config) { c.Backends = []agentkernel.Backend{l} })
	s := agentkernel.Spec{Isolation: "none", Program: agentkernel.Program{Name: "plain", Source: "plain"}}
	if p, err := r.Spawn(t.Context(), s); err == nil {
		t.Errorf("it runs in a backend that is not there: %+v", p)
	}
	l.installed = true
	p, _ := r.run(t, s)
	if rec, err := r.store.Process(t.Context(), p.PID); err != nil || rec.Fingerprint != "go-1" {
		t.Errorf("fingerprint %q, %v", rec.Fingerprint, err)
	}
}

// A child has the floor of its parent, whoever starts it, and may have a higher one.
func TestIsolationOfChildren(t *testing.T) {
	var child string
	r := newForts(t, map[string]func(*prog) error{
		"child": func(*prog) error { return nil },
		"parent": func(p *prog) error {
			out, err := p.call("proc.spawn", `{"source":"child"}`)
			child = string(out)
			return err
		},
	})
	start := func(s agentkernel.Spec) (agentkernel.Process, error) {
		s.Program = agentkernel.Program{Name: "child", Source: "child"}
		return r.Spawn(t.Context(), s)
	}
	parent, _ := r.run(t, agentkernel.Spec{Isolation: agentkernel.IsolationProcess, Program: agentkernel.Program{Name: "parent", Source: "parent"}})
	spawned, err := agentkernel.ParsePID(child)
	if err != nil {
		t.Fatal(err)
	}
	s, err := r.Spec(t.Context(), spawned)
	if p, perr := r.Process(t.Context(), spawned); err != nil || perr != nil || s.Isolation != agentkernel.IsolationProcess || p.Backend != "strong" {
		t.Errorf("the child that the program started: isolation %q on %q, %v %v", s.Isolation, p.Backend, err, perr)
	}
	for _, asked := range []agentkernel.Isolation{"", agentkernel.IsolationInterpreter} {
		p, err := start(agentkernel.Spec{Parent: parent.PID, Isolation: asked})
		if err != nil || p.Backend != "strong" {
			t.Errorf("a child that asks for %q runs on %q, %v", asked, p.Backend, err)
		}
	}
	if _, err := start(agentkernel.Spec{Parent: parent.PID, Backend: "weak"}); err == nil {
		t.Error("a child that names a backend below its parent's floor was started")
	}
	if _, err := start(agentkernel.Spec{Parent: parent.PID, Isolation: "thick"}); agentkernel.CodeOf(err) != agentkernel.CodeInvalid {
		t.Errorf("an isolation that is not known: %v", err)
	}
	free, _ := r.run(t, agentkernel.Spec{Program: agentkernel.Program{Name: "child", Source: "child"}})
	if p, err := start(agentkernel.Spec{Parent: free.PID, Isolation: agentkernel.IsolationProcess}); err != nil || p.Backend != "strong" {
		t.Errorf("a child with a higher floor than its parent's runs on %q, %v", p.Backend, err)
	}
}
