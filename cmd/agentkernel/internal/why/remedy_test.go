package why

import (
	"strings"
	"testing"

	"agentkernel"
)

// Each limit has a flag, since a rerun has the limits of the old process, whatever the settings of now are.
func TestEachLimitIsRaisedByAFlag(t *testing.T) {
	for _, d := range agentkernel.AllLimits() {
		r := created(`{"program":{"name":"report.py"}}`).ends(agentkernel.StateKilled, agentkernel.ExitKilled, agentkernel.LimitErrorf(d.Name, "reached")).report()
		if first := r.Next[0].Command; !strings.HasPrefix(first, "agentkernel rerun 12 "+d.Flag+" ") {
			t.Errorf("%s: %q", d.Name, first)
		}
	}
}

// A server whose answer did not come in time lives, and may do yet what it was asked for.
func TestWhoMayStillBeAtWork(t *testing.T) {
	for reason, still := range map[string]bool{`server "github" did not answer create in time`: true, "the kernel died while it was under way": false} {
		unknown := failure(agentkernel.CodeOutcomeUnknown, "tool.call", "github.create may or may not have happened: "+reason)
		r := created(`{"program":{"name":"report.py"}}`).tool(1, "github.create", agentkernel.EffectWrite).fails(1, unknown).
			raises("OSError", "outcome_unknown: "+unknown.Message()).report()
		if why := r.Next[0].Why; strings.Contains(why, "at work on it") != still {
			t.Errorf("%s: %q", reason, why)
		}
	}
}
