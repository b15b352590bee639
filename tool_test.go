package agentkernel_test

import (
	"testing"

	"agentkernel"
)

// TestAPatternMeansOneTool: whatever dots and wildcards names have, a permission for one tool is none for another.
func TestAPatternMeansOneTool(t *testing.T) {
	tool := func(server, name string) *agentkernel.Tool {
		return &agentkernel.Tool{Server: server, PythonServer: server, Name: name, PythonName: name}
	}
	tools := []*agentkernel.Tool{tool("a", "b"), tool("a", "b.c"), tool("a.b", "c"), tool("a.b", "d"), tool("a", "*"), tool("a", `[b].c`), tool("a", `b\.c`), tool("*", "c"), tool("a.b.c", "*")}
	for i, one := range tools {
		pattern := agentkernel.ExactPattern(one.Server, one.Name)
		for j, other := range tools {
			if got := other.AllowedBy(pattern); got != (i == j) {
				t.Errorf("%s, the pattern of %q %q, allows %q %q: %t", pattern, one.Server, one.Name, other.Server, other.Name, got)
			}
		}
	}
	for pattern, want := range map[string][]bool{ // of a b, a b.c, a.b c, a.b d
		"a.b":     {true, false, false, false},
		"a":       {true, true, false, false},
		"a.*":     {true, true, false, false},
		"a.b.c":   {false, false, true, false},
		"a.b.*":   {false, false, true, true},
		"a.b[.]c": {false, true, false, false},
		"a[.]b":   {false, false, true, true},
		"*":       {true, true, true, true},
		"":        {false, false, false, false},
	} {
		for i, w := range want {
			if got := tools[i].AllowedBy(pattern); got != w {
				t.Errorf("--allow '%s' allows %q %q: %t", pattern, tools[i].Server, tools[i].Name, got)
			}
		}
	}
}
