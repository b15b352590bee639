package history

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"agentkernel"
)

// BudgetWarning is the payload of the user signal that says that most of a budget is spent.
type BudgetWarning struct {
	Budget Nearly `json:"budget"`
}

// Nearly is what of an amount is spent, dollars for "usd", and held by calls under way.
type Nearly struct {
	Amount string          `json:"amount"`
	Held   json.RawMessage `json:"held"`
	Limit  json.RawMessage `json:"limit"`
	Spent  json.RawMessage `json:"spent"`
}

// WarningOf is the warning that an entry is; false: it is another entry.
func WarningOf(e *agentkernel.Entry) (w BudgetWarning, ok bool) {
	if e.Kind != agentkernel.EntrySignal || e.Signal != agentkernel.SignalUser {
		return w, false
	}
	d := SignalOf(e)
	return w, len(d.Warns) > 0 && json.Unmarshal(d.Payload, &w) == nil
}

// String is the warning for people: "$1.85 of its budget of $2.00 are spent".
func (w BudgetWarning) String() string {
	text := fmt.Sprintf("%s of its budget of %s are spent", w.Budget.quantity(w.Budget.Spent, ""), w.Budget.quantity(w.Budget.Limit, " "+w.Budget.Amount))
	if string(w.Budget.Limit) == "1" && w.Budget.Amount != agentkernel.AmountUSD { // the one that it has is spent
		text = fmt.Sprintf("its budget of 1 %s is spent", strings.TrimSuffix(w.Budget.Amount, "s"))
	}
	if held := string(w.Budget.Held); strings.Trim(held, "0.") != "" {
		text += ", and calls under way hold " + w.Budget.quantity(w.Budget.Held, "")
	}
	return text
}

func (n *Nearly) quantity(of json.RawMessage, unit string) string {
	if usd, err := agentkernel.ParseUSD(string(of)); err == nil && n.Amount == agentkernel.AmountUSD {
		return "$" + usd.String()
	}
	return string(of) + unit
}

// warned are the limits of which was warned, with those of an entry.
func (a *Account) warned(of agentkernel.Amounts) {
	if len(of) == 0 {
		return
	}
	all := maps.Clone(a.Warned)
	if all == nil {
		all = agentkernel.Amounts{}
	}
	maps.Copy(all, of)
	a.Warned = all
}
