package main

import (
	"strings"
	"testing"

	"agentkernel"
)

// Whatever cuts a watch short, the error names the process and how it goes on.
func TestLostKernelNamesTheProcess(t *testing.T) {
	for _, e := range []*agentkernel.Error{
		agentkernel.Errorf(agentkernel.CodeInternal, "events", "the answer ends in the middle"),
		agentkernel.Errorf(agentkernel.CodeStorage, "store", "the disk is full").WithHint("free space, then: agentkernel recover"),
		agentkernel.Errorf(agentkernel.CodeUnavailable, "attach", "the kernel is ending").WithRecover(7),
	} {
		got := asError(lostKernel(e, 7))
		if got.PID != 7 || !strings.Contains(got.Hint, "agentkernel recover") || e.PID == 0 && !strings.Contains(got.Hint, "agentkernel recover 7") ||
			!strings.HasPrefix(got.Hint, e.Hint) || got.Code != e.Code {
			t.Errorf("%v: %v, pid %d, hint %q", e, got, got.PID, got.Hint)
		}
	}
	answer := agentkernel.Errorf(agentkernel.CodeConflict, "run", "the key is another's").WithHint("choose another")
	if got := asError(lostKernel(answer, 7)); got.Hint != answer.Hint {
		t.Errorf("an answer of the kernel became %q", got.Hint)
	}
}

// A program whose kernel went away before it answered may have begun: nobody says that it was refused.
func TestWhatBecameOfAProgramIsNotKnown(t *testing.T) {
	gone := agentkernel.Errorf(agentkernel.CodeUnavailable, agentkernel.OpKernel, "the kernel went away before it answered").WithRecover(0)
	ending := agentkernel.Errorf(agentkernel.CodeUnavailable, "attach", "the kernel is ending")
	if got := withoutPID(gone); got != "unknown" {
		t.Errorf("a kernel that went away: %s", got)
	}
	if got := withoutPID(ending); got != "refused" {
		t.Errorf("a kernel that took nothing any more: %s", got)
	}
	if !strings.Contains(gone.Hint, "agentkernel ps") {
		t.Errorf("how to look: %q", gone.Hint)
	}
}

// Under an idempotency key the same command may be run again, and the hint does not say otherwise.
func TestAKeyMakesRunningAgainSafe(t *testing.T) {
	gone := agentkernel.Errorf(agentkernel.CodeUnavailable, agentkernel.OpKernel, "the kernel went away before it answered").WithRecover(0)
	if got := asError(underKey(gone, "crawl", findsOrStarts)).Hint; !strings.Contains(got, "run the same command again") || strings.Contains(got, "do again") {
		t.Errorf("with a key: %q", got)
	}
	if got := asError(underKey(gone, "", findsOrStarts)).Hint; got != gone.Hint {
		t.Errorf("without one: %q", got)
	}
}
