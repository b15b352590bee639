package trace

import (
	"errors"
	"strings"
	"testing"

	"agentkernel"
)

// A recording that somebody else made may have line ends in any name; none of them begins a line of the tree.
func TestNamesForgeNoLine(t *testing.T) {
	const evil = "x\nforged"
	j := newJournal(12).call(1, "tool.call", agentkernel.EffectRead, file("a")).fails(1, evil, "no")
	j.put(agentkernel.Entry{Kind: agentkernel.EntryTerminal, Err: &agentkernel.Error{Code: evil, Err: errors.New("no")}})
	tree := j.tree(agentkernel.Process{PID: 12, Name: evil, Backend: evil, State: agentkernel.StateFailed, Created: start})
	for _, full := range []bool{false, true} {
		var b strings.Builder
		if err := Render(&b, tree, Options{Full: full, Now: j.now}); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if strings.HasPrefix(strings.TrimLeft(line, " │"), "forged") {
				t.Errorf("full %v:\n%s", full, b.String())
			}
		}
	}
}
