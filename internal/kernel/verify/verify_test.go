package verify_test

import (
	"encoding/json"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/backends"
	"agentkernel/internal/kernel/verify"
)

// fake is a backend whose programs import a tool if they say so.
type fake struct {
	agentkernel.Backend
	info agentkernel.BackendInfo
}

func (f *fake) Info() agentkernel.BackendInfo { return f.info }

func (f *fake) Check(p agentkernel.Program) (n agentkernel.Needs, err error) {
	switch p.Source {
	case "import tool":
		n.Tools = []agentkernel.ToolRef{{}}
	case "(":
		err = agentkernel.Errorf(agentkernel.CodeSyntax, "check", "no program")
	}
	return n, err
}

var here = backends.New([]agentkernel.Backend{
	&fake{info: agentkernel.BackendInfo{Name: "real", Replayable: true}},
	&fake{info: agentkernel.BackendInfo{Name: "once"}},
})

func recording(backend, source string) *agentkernel.Verification {
	v := &agentkernel.Verification{Backend: backend}
	v.Spec.Program = agentkernel.Program{Source: source, Language: agentkernel.Python}
	v.Spec.Namespace, v.Spec.Backend, v.Spec.Deny, v.Spec.Allow = "n", "auto", []string{"x"}, []string{"a.*"}
	return v
}

// TestNew: a recorded program runs in a namespace of its own, and with nothing but what it did; one that cannot be repeated
// here is refused.
func TestNew(t *testing.T) {
	other := recording("real", "1")
	other.Spec.Program.Language = agentkernel.Go
	for name, c := range map[string]struct {
		v    *agentkernel.Verification
		code agentkernel.Code
		none bool
	}{
		"one that can be":          {v: recording("real", "1")},
		"outside the kernel":       {v: recording("hosted", "1"), code: agentkernel.CodeUnsupported, none: true},
		"on what is not here":      {v: recording("moon", "1"), code: agentkernel.CodeUnsupported, none: true},
		"that repeats nothing":     {v: recording("once", "1"), code: agentkernel.CodeUnsupported, none: true},
		"in another language":      {v: other, code: agentkernel.CodeUnsupported, none: true},
		"that is none":             {v: recording("real", "("), code: agentkernel.CodeSyntax, none: true},
		"whose tools are not told": {v: recording("real", "import tool"), none: true},
	} {
		p, err := verify.New(c.v, here, agentkernel.DefaultLimits())
		if (p == nil) != c.none || agentkernel.CodeOf(err) != c.code {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
		if p != nil && (p.Spec.Namespace != verify.Namespace || p.Spec.Backend != "real" || p.Backend.Name != "real" || p.Spec.Allow != nil || len(p.Spec.Deny) != 1) {
			t.Errorf("%s: %+v", name, p.Spec)
		}
	}
}

// TestTools: the tools of a program are those that its journal names, and no server is asked.
func TestTools(t *testing.T) {
	v := recording("real", "import tool")
	v.Journal = []agentkernel.Entry{{Seq: 1, Kind: agentkernel.EntryCreated}, {Seq: 2, Kind: agentkernel.EntryTools, Data: json.RawMessage(`[{"name":"f"}]`)}}
	p, err := verify.New(v, here, agentkernel.DefaultLimits())
	if err != nil || p == nil || len(p.Tools) != 1 || p.Tools[0].Name != "f" || p.History.Seq != 2 {
		t.Errorf("%+v, %v", p, err)
	}
}

// TestLimits: a recording takes no more of this machine than is granted, and no wall limit ends it.
func TestLimits(t *testing.T) {
	defaults := agentkernel.DefaultLimits()
	v := recording("real", "1")
	v.Spec.Limits = agentkernel.Limits{Time: agentkernel.Duration(time.Hour), Memory: 1 << 20, Wall: agentkernel.Duration(time.Second), Calls: 3}
	v.Time, v.Memory = agentkernel.Duration(time.Minute), 1<<30
	p, err := verify.New(v, here, defaults)
	if err != nil {
		t.Fatal(err)
	}
	if l := p.Spec.Limits; time.Duration(l.Time) != time.Minute || l.Memory != 1<<20 || l.Wall != 0 || l.Calls != 3 {
		t.Errorf("%+v", l)
	}
	v.Time = 0
	if p, err = verify.New(v, here, defaults); err != nil || p.Spec.Limits.Time != defaults.Time {
		t.Errorf("nothing is granted: %v, %v", p.Spec.Limits.Time, err)
	}
}
