package history_test

import (
	"encoding/json"
	"testing"

	"agentkernel/internal/kernel/history"
)

func TestBudgetWarningText(t *testing.T) {
	for limit, want := range map[string]string{"1": "its budget of 1 turn is spent", "10": "1 of its budget of 10 turns are spent"} {
		w := history.BudgetWarning{Budget: history.Nearly{Amount: "turns", Spent: json.RawMessage("1"), Limit: json.RawMessage(limit)}}
		if got := w.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
