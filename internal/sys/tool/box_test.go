package tool_test

import (
	"context"
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
