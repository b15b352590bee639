package kernel_test

import (
	"strings"
	"testing"

	"agentkernel"
)

// TestALocalToolDoesNotShadowAServer: an error names both.
func TestALocalToolDoesNotShadowAServer(t *testing.T) {
	r := newRig(t, newRAMStore())
	r.backend.add("p", func(*prog) error { return nil })
	for module, says := range map[string]string{
		"tools.fake.append": `tools/fake/append.py and the server "fake"`, "tools.fake.deep.er": "tools/fake/deep/er.py", "tools.fake": "tools/fake.py",
		"tools.fakes.append": "", "skills.fake": "", "fake": "",
	} {
		s := spec("p")
		s.Program.Modules = map[string]string{module: "x = 1", "tools.other.thing": ""}
		_, err := r.Run(t.Context(), s, func(agentkernel.Event) error { return nil })
		switch {
		case says == "" && err != nil:
			t.Errorf("%s: %v", module, err)
		case says != "" && (agentkernel.CodeOf(err) != agentkernel.CodeInvalid || !strings.Contains(err.Error(), says)):
			t.Errorf("%s: %v", module, err)
		}
		s.Tools = nil // without servers there is nothing to shadow
		if _, err := r.Run(t.Context(), s, func(agentkernel.Event) error { return nil }); err != nil {
			t.Errorf("%s alone: %v", module, err)
		}
	}
}

// TestACellDoesNotShadowAServer either.
func TestACellDoesNotShadowAServer(t *testing.T) {
	r := sessionRig(t, newRAMStore())
	pid := r.begin(t)
	_, err := r.Feed(t.Context(), pid, agentkernel.Cell{Source: "x", Modules: map[string]string{"tools.fake.append": ""}}, func(agentkernel.Event) error { return nil })
	if agentkernel.CodeOf(err) != agentkernel.CodeInvalid || !strings.Contains(err.Error(), "tools/fake/append.py") {
		t.Error(err)
	}
}
