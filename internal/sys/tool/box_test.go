package tool_test

import (
	"context"
	"strings"
	"testing"

	"agentkernel"
	"agentkernel/internal/sys/tool"
)

// hosts says of its tools that they are functions of a program that has ended, if it does.
type hosts struct {
	agentkernel.ToolSource
	err error
}

func (h hosts) Gone(context.Context) error { return h.err }

// TestLocalToolsAreMeant: a local tool that is misspelt is asked of no server, and what the writer may have meant is said.
func TestLocalToolsAreMeant(t *testing.T) {
	b := tool.New(nil, nil)
	spec := agentkernel.Spec{Program: agentkernel.Program{Language: agentkernel.Python, Modules: map[string]string{"tools.report.monthly": "", "tools.report.weekly": ""}}}
	for _, c := range []struct{ server, name, text, hint string }{
		{"report", "monthl", "there is no local tool tools/report/monthl.py", "did you mean monthly?"},
		{"repor", "monthly", `no tool server "repor"`, "did you mean report?"},
		{"fs", "read", `no tool server "fs"`, "--tools FILE"},
	} {
		_, ref, err := b.Bind(t.Context(), &spec, []agentkernel.ToolRef{{Server: c.server, Name: c.name}})
		e := agentkernel.AsError(err, "", "")
		if e == nil || e.Code != agentkernel.CodeNotFound || !strings.Contains(e.Message(), c.text) || !strings.Contains(e.Hint, c.hint) || ref.Server != c.server {
			t.Errorf("%s.%s: %v, hint %q, about %v", c.server, c.name, err, e.Hint, ref)
		}
	}
}

// What is an error of a program that has ended is told by its type, and not by its words, which another may say, too.
func TestGoneIsToldByItsType(t *testing.T) {
	for _, c := range []struct {
		err  error
		gone bool
	}{
		{nil, false},
		{agentkernel.Errorf(agentkernel.CodeUnavailable, "tool.start", `the tools of server "host" %w`, agentkernel.ErrOfProgram), true},
		{agentkernel.Errorf(agentkernel.CodeUnavailable, "tool.start", `server "a" did not start; its stderr ends with: they %s`, agentkernel.OfProgram), false},
	} {
		box := tool.New(func([]string) (agentkernel.ToolSource, error) { return hosts{err: c.err}, nil }, nil)
		gone := box.Gone(t.Context(), &agentkernel.Spec{Tools: []string{"/tools.json"}})
		if (gone != nil) != c.gone {
			t.Errorf("%v: gone is %v, want %v", c.err, gone != nil, c.gone)
		}
	}
}
