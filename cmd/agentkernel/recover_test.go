package main

import (
	"testing"

	"agentkernel"
)

// TestRecoveredText: what was paused before its kernel died stays so, and must not be said to go on.
func TestRecoveredText(t *testing.T) {
	running, paused := agentkernel.Process{PID: 1}, agentkernel.Process{PID: 2, Paused: true}
	for _, c := range []struct {
		list []agentkernel.Process
		want string
	}{
		{nil, "nothing is left to recover"},
		{[]agentkernel.Process{running}, "1 process goes on"},
		{[]agentkernel.Process{running, running}, "2 processes go on"},
		{[]agentkernel.Process{paused}, "1 stays paused: agentkernel resume 2"},
		{[]agentkernel.Process{paused, running, paused}, "1 process goes on, 2 stay paused: agentkernel resume 2 2"},
	} {
		if got := recoveredText(c.list); got != c.want {
			t.Errorf("recoveredText(%d) = %q; want %q", len(c.list), got, c.want)
		}
	}
}
