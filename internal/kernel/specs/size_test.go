package specs

import (
	"strings"
	"testing"

	"agentkernel"
)

// TestArgumentsCount: a great many arguments take memory however short they are, and there is a bound of them.
func TestArgumentsCount(t *testing.T) {
	s := &agentkernel.Spec{Program: agentkernel.Program{Name: "p.py", Language: agentkernel.Python, Source: "1", Args: make([]string, agentkernel.MaxArgs)}}
	if n := size(s); n < agentkernel.MaxArgs*40 {
		t.Errorf("%d arguments are said to take %d bytes", len(s.Program.Args), n)
	}
	if err := s.Program.Validate(); err != nil {
		t.Error(err)
	}
	s.Program.Args = append(s.Program.Args, "")
	if err := s.Program.Validate(); agentkernel.CodeOf(err) != agentkernel.CodeInvalid || !strings.Contains(err.Error(), "100001 arguments") {
		t.Error(err)
	}
}
