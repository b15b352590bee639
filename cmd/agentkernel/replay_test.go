package main

import (
	"testing"

	"agentkernel"
)

// Whoever has another engine than the recording is told both names, whatever came out.
func TestVerdictsNameTheEngines(t *testing.T) {
	v := agentkernel.Verdict{Name: "p.py", Calls: 2, State: agentkernel.StateExited, Difference: "call 2 is another", Engine: "monty 9", Recorded: "monty 8"}
	const engines = "the engine here is monty 9, the recording was made with monty 8\n"
	for _, equal := range []bool{true, false} {
		v.Equal = equal
		want := map[bool]string{true: "equal · p.py · 2 calls · 0 B printed · exited as recorded\n", false: "differs · p.py · at call 2: call 2 is another\n"}[equal]
		if got := verdictText(v); got != want+engines {
			t.Errorf("%q, want %q", got, want+engines)
		}
	}
	v.Recorded = v.Engine
	if got := verdictText(v); got != "differs · p.py · at call 2: call 2 is another\n" {
		t.Errorf("the same engine: %q", got)
	}
}
