package agentkernel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strings"
)

// Budgets are what processes and all below them may spend.
type Budgets interface {
	// Budget says what the budget of a process is, and what is spent of it. CodeNotFound: there is no such process, or it has no budget.
	Budget(ctx context.Context, pid PID) (BudgetState, error)
	// AddBudget raises the budget of an unfinished process, durably, by what more says, and lets go on those below it (and itself) that
	// were paused because too little was left. CodeInvalid: the budget does not bound what is to be raised. CodeConflict: the process
	// has ended.
	AddBudget(ctx context.Context, pid PID, more Budget) (BudgetState, error)
}

// What a budget bounds, as names of Amounts.
const (
	AmountUSD    = "usd"    // nano-dollars
	AmountTokens = "tokens" // of models, input and output
	AmountCalls  = "calls"  // that left the kernel: to tools, to the network
)

// NanoUSD is money: billionths of a US dollar. JSON and people write dollars.
type NanoUSD int64

// USD is one dollar.
const USD NanoUSD = 1e9

// ParseUSD reads dollars as people write them, "2" or "0.0015"; what is smaller than a nano-dollar is rounded up.
func ParseUSD(text string) (NanoUSD, error) {
	clean := strings.TrimPrefix(strings.TrimSpace(text), "$")
	r, ok := new(big.Rat).SetString(clean)
	if !ok || len(clean) > 40 || strings.ContainsAny(clean, "/_xXpP") || exponentTooLarge(clean) {
		return 0, Errorf(CodeInvalid, "budget", "%.60q is no number of dollars: write 2 or 0.05", text)
	}
	r.Mul(r, new(big.Rat).SetInt64(int64(USD)))
	n, rest := new(big.Int).QuoRem(r.Num(), r.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		n.Add(n, big.NewInt(1))
	}
	if !n.IsInt64() {
		return 0, Errorf(CodeInvalid, "budget", "%.60q dollars are too many: the most is %s", text, NanoUSD(math.MaxInt64))
	}
	return NanoUSD(n.Int64()), nil
}

// exponentTooLarge says whether a number in scientific notation would take much memory to write out.
func exponentTooLarge(text string) bool {
	_, exp, found := strings.Cut(strings.ToLower(text), "e")
	return found && len(strings.TrimLeft(exp, "+-0")) > 2
}

// String is the number of dollars, with as many digits as it needs and at least two behind the point: "2.00", "0.0015".
func (n NanoUSD) String() string {
	sign, abs := "", uint64(n) //nolint:gosec // the smallest number has no positive counterpart in int64
	if n < 0 {
		sign, abs = "-", -abs
	}
	cents, rest := fmt.Sprintf("%02d", abs%uint64(USD)/1e7), strings.TrimRight(fmt.Sprintf("%07d", abs%1e7), "0")
	return fmt.Sprintf("%s%d.%s%s", sign, abs/uint64(USD), cents, rest)
}

// MarshalJSON writes dollars as a number.
func (n NanoUSD) MarshalJSON() ([]byte, error) { return []byte(n.String()), nil }

// UnmarshalJSON reads dollars: a number, or a text with one.
func (n *NanoUSD) UnmarshalJSON(b []byte) (err error) {
	*n, err = ParseUSD(strings.Trim(string(b), `"`))
	return err
}

// Spending is what is spent, or may be. What is 0 is nothing.
type Spending struct {
	USD    NanoUSD `json:"usd,omitempty"`
	Tokens int64   `json:"tokens,omitempty"`
	Calls  int64   `json:"calls,omitempty"`
}

// SpendingOf is what of amounts a budget can bound.
func SpendingOf(a Amounts) Spending {
	return Spending{USD: NanoUSD(a[AmountUSD]), Tokens: a[AmountTokens], Calls: a[AmountCalls]}
}

// Amounts are the same by name, without those that are nothing.
func (s Spending) Amounts() Amounts {
	a := Amounts{}
	for name, n := range map[string]int64{AmountUSD: int64(s.USD), AmountTokens: s.Tokens, AmountCalls: s.Calls} {
		if n != 0 {
			a[name] = n
		}
	}
	return a
}

// Budget caps what a process and all below it spend together. What is 0 is not capped; a child's cap reserves nothing of its parent's.
type Budget Spending

// BoundsUSD says whether a budget bounds the money that a process spends: its own, or that of one above it.
func (s *Spec) BoundsUSD() bool { return s.Budget.USD != 0 || s.BudgetsUSD }

// Amounts are the caps by name.
func (b Budget) Amounts() Amounts { return Spending(b).Amounts() }

// UnmarshalJSON refuses caps of 0, which others would take for none, and names that are not known.
func (b *Budget) UnmarshalJSON(data []byte) error {
	var caps map[string]json.RawMessage
	if err := json.Unmarshal(data, &caps); err != nil {
		return Errorf(CodeInvalid, "budget", "a budget is an object such as {\"usd\": 2, \"tokens\": 200000, \"calls\": 50}")
	}
	var s Spending
	for name, n := range caps {
		var err error
		switch name {
		case AmountUSD:
			err = json.Unmarshal(n, &s.USD)
		case AmountTokens:
			err = json.Unmarshal(n, &s.Tokens)
		case AmountCalls:
			err = json.Unmarshal(n, &s.Calls)
		default:
			return Errorf(CodeInvalid, "budget", "%.40q cannot be bounded: a budget has usd, tokens and calls", name)
		}
		if known, ok := errors.AsType[*Error](err); ok {
			return known
		}
		if err != nil {
			return Errorf(CodeInvalid, "budget", "%s must be a whole number such as 50, and not %.40s", name, n)
		}
	}
	for name := range caps {
		if s.Amounts()[name] == 0 {
			return Errorf(CodeInvalid, "budget", "%s is 0, with which nothing could be spent: leave out what is not to be capped", name)
		}
	}
	*b = Budget(s)
	return b.Validate()
}

// Validate refuses caps that are negative.
func (b Budget) Validate() error {
	for name, n := range b.Amounts() {
		if n < 0 {
			return Errorf(CodeInvalid, "budget", "%s is negative: a budget is what may be spent", name)
		}
	}
	return nil
}

// BudgetState is a budget and what has become of it. What calls that are under way hold is not spent yet, and cannot be spent by others.
type BudgetState struct {
	PID   PID      `json:"pid"`
	Limit Spending `json:"limit"`
	Spent Spending `json:"spent"`
	Held  Spending `json:"held"`
}

// OnBudget says what happens to a process that makes a call for which too little is left.
type OnBudget string

// What can happen.
const (
	BudgetPause OnBudget = "pause" // it is paused before the call, which is made when the budget was raised (default)
	BudgetRaise OnBudget = "raise" // the program is handed the error
	BudgetKill  OnBudget = "kill"
)

// Validate refuses what is not known.
func (o OnBudget) Validate() error {
	if o != "" && o != BudgetPause && o != BudgetRaise && o != BudgetKill {
		return Errorf(CodeInvalid, "spec", "on-budget %q is not known: pause, raise or kill", o)
	}
	return nil
}

// RaiseBudget is the command that raises the budget for which a process is paused; "": it is paused for none.
func (p *Process) RaiseBudget() string {
	rest, paused := strings.CutPrefix(p.PauseNote, "budget: the call costs ")
	cost, rest, said := strings.Cut(rest, ", and the budget of process ")
	of, _, whose := strings.Cut(rest, " is ")
	if !p.Paused || p.State.Terminal() || !paused || !said || !whose {
		return ""
	}
	name := AmountUSD
	if !strings.HasPrefix(cost, "$") {
		_, name, _ = strings.Cut(cost, " ")
		name = strings.TrimSuffix(name, "s") + "s" // one call, two calls
	}
	return fmt.Sprintf("agentkernel budget add %s --%s N", of, name)
}
