package kernel_test

import (
	"strings"
	"testing"

	"agentkernel"
	"agentkernel/internal/kernel"
)

// judge is a backend of which only the judgement matters: what it says of each program.
type judge struct {
	*goBackend
	name     string
	verdicts map[string]verdict
}

type verdict struct {
	differs []string
	err     error
}

func (j *judge) Info() agentkernel.BackendInfo {
	info := j.goBackend.Info()
	info.Name = j.name
	return info
}

func (j *judge) Check(p agentkernel.Program) (agentkernel.Needs, error) {
	v := j.verdicts[p.Source]
	return agentkernel.Needs{Differs: v.differs}, v.err
}

// auto takes the first backend that runs the program as its language does, and says why if there is none.
func TestChoice(t *testing.T) {
	unsupported := agentkernel.Errorf(agentkernel.CodeUnsupported, "first", "no pandas here")
	syntax := agentkernel.Errorf(agentkernel.CodeSyntax, "first", "invalid syntax")
	missing := agentkernel.Errorf(agentkernel.CodeUnavailable, "second", "no python3").WithHint("apt install python3")
	absent := agentkernel.Errorf(agentkernel.CodeUnsupported, "second", "pandas is not installed").WithHint("--with pandas")
	engine := agentkernel.Errorf(agentkernel.CodeUnavailable, "first", "the engine is not installed").WithHint("agentkernel setup")
	first := &judge{newGoBackend(), "first", map[string]verdict{
		"pandas": {err: unsupported}, "syntax": {err: syntax}, "sets": {differs: []string{"line 1: sets"}}, "sets only": {differs: []string{"line 1: sets"}},
		"nobody": {err: unsupported}, "hidden syntax": {err: unsupported}, "not installed": {err: unsupported}, "advised": {err: unsupported.WithHint("use a tool")},
		"no engine": {err: engine},
	}}
	second := &judge{newGoBackend(), "second", map[string]verdict{"sets only": {err: missing}, "nobody": {err: missing},
		"hidden syntax": {err: syntax}, "not installed": {err: absent}, "advised": {err: absent}, "no engine": {err: missing}}}
	for _, j := range []*judge{first, second} {
		for _, program := range []string{"plain", "pandas", "sets", "sets only"} {
			j.add(program, func(*prog) error { return nil })
		}
	}
	r := newRig(t, newRAMStore(), func(c *kernel.Config) { c.Backends = []agentkernel.Backend{first, second} })
	hints := map[string]string{"hidden syntax": "", "not installed": "--with pandas", "advised": "use a tool", "no engine": "agentkernel setup; or apt install python3"}
	for program, want := range map[string]string{
		"plain": "first", "pandas": "second", "sets": "second", "sets only": "first",
		"syntax": "invalid syntax", "nobody": "no pandas here", "hidden syntax": "invalid syntax", "not installed": "pandas is not installed",
		"advised": "pandas is not installed", "no engine": "the engine is not installed, and no python3",
	} {
		p, err := r.Spawn(t.Context(), agentkernel.Spec{Program: agentkernel.Program{Name: program, Source: program}})
		got := p.Backend
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", program, got, want)
		}
		if hint, ok := hints[program]; ok && agentkernel.AsError(err, "", "").Hint != hint {
			t.Errorf("%s: %v advises %q, want %q", program, err, agentkernel.AsError(err, "", "").Hint, hint)
		}
		if program == "nobody" {
			e := agentkernel.AsError(err, "", "")
			if e.Code != agentkernel.CodeUnavailable || !strings.Contains(e.Message(), "no python3") || e.Hint != "apt install python3" {
				t.Errorf("%+v does not say why the second backend is no way out", e)
			}
		}
	}
	s := agentkernel.Spec{Backend: "first", Program: agentkernel.Program{Name: "sets", Source: "sets"}}
	if p, err := r.Spawn(t.Context(), s); err != nil || p.Backend != "first" {
		t.Errorf("a backend that is named is taken: %q, %v", p.Backend, err)
	}
}
