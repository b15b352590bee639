package permit_test

import (
	"testing"

	"agentkernel/internal/kernel/permit"
)

func TestNoSyscall(t *testing.T) {
	ops := map[string]int{"llm.ask": 1, "state.get": 2, "proc.wait": 3}
	if err := permit.NoSyscall("llm.aks", ops); err.Message() != `there is no syscall "llm.aks"` || err.Hint != "did you mean llm.ask?" {
		t.Errorf("%v, hint %q", err, err.Hint)
	}
	if err := permit.NoSyscall("xyzzy", ops); err.Hint != "" {
		t.Errorf("hint %q", err.Hint)
	}
}
