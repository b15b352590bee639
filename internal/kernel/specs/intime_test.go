package specs_test

import (
	"testing"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/specs"
)

// A deadline that passed within this second is told from now.
func TestInTimeTellsMomentsApart(t *testing.T) {
	now := time.Date(2026, 11, 26, 6, 48, 33, 900_000_000, time.UTC)
	err := specs.InTime(&agentkernel.Spec{Deadline: now.Add(-800 * time.Millisecond)}, now)
	if got, want := agentkernel.AsError(err, "", "").Message(), "the deadline 2026-11-26T06:48:33.1Z has passed: it is 2026-11-26T06:48:33.9Z"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
