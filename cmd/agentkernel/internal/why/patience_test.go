package why

import (
	"testing"

	"agentkernel"
	"agentkernel/internal/kernel/history"
)

// TestPatience: of a call that waits for a limit or for its turn it is not said when it is given up, since that time does not count.
func TestPatience(t *testing.T) {
	for reason, bounded := range map[string]bool{
		"queued 3.0 s: tokens/min of key a, 3 ahead":                                false,
		"no answer yet, HTTP 429: too many, tried once, queued 11.0 s: Retry-After": false,
		"no answer yet, HTTP 429: too many, tried 2 times, again in 0.4 s":          false,
		"no answer yet, HTTP 503: overloaded, tried once, again in 0.4 s":           true,
		"no answer yet, connection refused, tried 2 times, again in 1.4 s":          true,
		"no answer yet, HTTP 429: too many, tried 2 times, asked again 1.0 s ago":   true,
	} {
		c := &inquiry{p: &agentkernel.Process{WaitsFor: []string{"llm.complete fast, " + reason}}}
		if got := c.patience(&history.Call{Op: "llm.complete", Effect: agentkernel.EffectPaid, Unsent: true}); got != "" != bounded {
			t.Errorf("%s: %q", reason, got)
		}
	}
}
