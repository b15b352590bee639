package main

import (
	"strings"
	"testing"
)

// Whoever types the command that is meant for an assistant sees that it waits, and for whom.
func TestMCPAtATerminalSaysWhatItWaitsFor(t *testing.T) {
	for _, tty := range []bool{true, false} {
		r := newRig(t)
		r.inTTY = tty
		if code := r.run("mcp"); code != 0 {
			t.Errorf("exit code %d: %s", code, r.err.String())
		}
		if said := strings.Contains(r.err.String(), "serving MCP on standard input, for an assistant"); said != tty || r.out.String() != "" {
			t.Errorf("terminal %t: %q, %q", tty, r.err.String(), r.out.String())
		}
	}
}
