package agentkernel_test

import (
	"testing"
	"time"

	"agentkernel"
)

// The notes of pauses are read back as they were written: they say what to do.
func TestShortage(t *testing.T) {
	until := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		s           agentkernel.Shortage
		note, raise string
	}{
		{agentkernel.Shortage{Budget: 3, Amount: "usd", Wants: 8_206_500, Limit: 1_000_000},
			"budget: the call costs $0.0082065, and the budget of process 3 is $0.001: spent $0.00", "agentkernel budget add 3 --usd 0.0072065"},
		{agentkernel.Shortage{Budget: 4, Amount: "usd", Wants: 125_000_000, Limit: 200_000_000, Spent: 125_000_000},
			"budget: the call costs $0.125, and the budget of process 4 is $0.20: spent $0.125", "agentkernel budget add 4 --usd 0.05"},
		{agentkernel.Shortage{Budget: 3, Amount: "calls", Wants: 1, Limit: 2, Spent: 2},
			"budget: the call costs 1 call, and the budget of process 3 is 2 calls: spent 2 calls", "agentkernel budget add 3 --calls 1"},
		{agentkernel.Shortage{Budget: 3, Amount: "tokens", Wants: 500, Limit: 1000, Spent: 600, Held: 300},
			"budget: the call costs 500 tokens, and the budget of process 3 is 1000 tokens: spent 600 tokens, held by calls under way 300 tokens", "agentkernel budget add 3 --tokens 400"},
		{agentkernel.Shortage{Budget: 12, Amount: "time", Wants: int64(321 * time.Millisecond), Limit: int64(300 * time.Millisecond)},
			"budget: it has run for 321ms more, and the budget of process 12 is 300ms: spent 0s", "agentkernel budget add 12 --time N"},
		{agentkernel.Shortage{Namespace: "team", Period: agentkernel.PeriodMonth, Until: until, Amount: "turns", Wants: 1, Limit: 1, Spent: 1},
			"budget: the call costs 1 turn, and the allowance of namespace team for the month is 1 turn: spent 1 turn; it begins anew at 2026-12-01 00:00 UTC", ""},
	} {
		if note := c.s.PauseNote(); note != c.note {
			t.Errorf("%q, want %q", note, c.note)
		}
		p := agentkernel.Process{State: agentkernel.StateWaiting, Paused: true, PauseNote: c.note}
		if s := p.Shortage(); s == nil || *s != c.s {
			t.Errorf("%q is read as %+v", c.note, s)
		}
		if raise := p.RaiseBudget(); raise != c.raise {
			t.Errorf("%q: %q, want %q", c.note, raise, c.raise)
		}
	}
	for _, note := range []string{"", "budget: ", "by hand", "budget: the call costs 1 call, and the budget of process x is 2 calls: spent 2 calls",
		"the call costs 1 call, and the budget of process 3 is 2 calls: spent 2 calls"} {
		if s := agentkernel.ParseShortage(note); s != nil {
			t.Errorf("%q is read as %+v", note, s)
		}
	}
}
