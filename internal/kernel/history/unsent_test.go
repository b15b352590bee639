package history_test

import (
	"maps"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/history"
)

// TestUnsent: a call that is in the journal before it may be sent costs nothing, however it ends, and its first retry begins it: what that has
// reserved is charged by the second, which may not be followed by a third.
func TestUnsent(t *testing.T) {
	at := time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC)
	stands := agentkernel.Entry{Kind: agentkernel.EntryCall, At: at, Call: 1, Op: "llm.ask", Reserve: agentkernel.Amounts{agentkernel.AmountUnsent: 1}}
	sends := agentkernel.Entry{Kind: agentkernel.EntryRetry, At: at, Call: 1, Reserve: agentkernel.Amounts{agentkernel.AmountTokens: 5}}
	refused := agentkernel.Entry{Kind: agentkernel.EntryResult, At: at, Call: 1, Err: agentkernel.Errorf(agentkernel.CodeInterrupted, "llm.ask", "no")}
	answered := agentkernel.Entry{Kind: agentkernel.EntryResult, At: at, Call: 1, Settle: agentkernel.Amounts{agentkernel.AmountTokens: 2}}
	ends := agentkernel.Entry{Kind: agentkernel.EntryTerminal, At: at}
	for name, c := range map[string]struct {
		entries []agentkernel.Entry
		spent   agentkernel.Amounts
		again   bool
		unknown int // charges of which nobody knows what was used
	}{
		"waits":              {[]agentkernel.Entry{stands}, nil, false, 0},
		"interrupted":        {[]agentkernel.Entry{stands, refused}, nil, false, 0},
		"ends with its wait": {[]agentkernel.Entry{stands, ends}, nil, false, 0},
		"sent":               {[]agentkernel.Entry{stands, sends}, nil, false, 0},
		"answered":           {[]agentkernel.Entry{stands, sends, answered}, agentkernel.Amounts{agentkernel.AmountTokens: 2}, false, 0},
		"sent twice":         {[]agentkernel.Entry{stands, sends, sends}, agentkernel.Amounts{agentkernel.AmountTokens: 5}, true, 1},
		"failed":             {[]agentkernel.Entry{stands, sends, refused}, agentkernel.Amounts{agentkernel.AmountTokens: 5}, false, 1},
	} {
		var a *history.Amounts
		unknown := 0
		for i := range c.entries {
			for charge := range a.Charges(&c.entries[i]) {
				if !charge.Known {
					unknown++
				}
			}
			a = a.Add(&c.entries[i])
		}
		spent, _ := a.Used()
		if !maps.Equal(spent, c.spent) || a.Again(1) != c.again || unknown != c.unknown {
			t.Errorf("%s: spent %v, again %t, %d unknown", name, spent, a.Again(1), unknown)
		}
	}
}
