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
	first := &judge{newGoBackend(), "first", map[string]verdict{
		"pandas": {err: unsupported}, "syntax": {err: syntax}, "sets": {differs: []string{"line 1: sets"}}, "sets only": {differs: []string{"line 1: sets"}},
		"nobody": {err: unsupported},
	}}
	second := &judge{newGoBackend(), "second", map[string]verdict{"sets only": {err: missing}, "nobody": {err: missing}}}
	for _, j := range []*judge{first, second} {
		for _, program := range []string{"plain", "pandas", "sets", "sets only"} {
			j.add(program, func(*prog) error { return nil })
		}
	}
	r := newRig(t, newRAMStore(), func(c *kernel.Config) { c.Backends = []agentkernel.Backend{first, second} })
	for program, want := range map[string]string{
		"plain": "first", "pandas": "second", "sets": "second", "sets only": "first",
		"syntax": "invalid syntax", "nobody": "no pandas here",
	} {
		p, err := r.Spawn(t.Context(), agentkernel.Spec{Program: agentkernel.Program{Name: program, Source: program}})
		got := p.Backend
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", program, got, want)
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
