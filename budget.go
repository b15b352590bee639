package agentkernel

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
)

// Budgets are what processes and all below them may spend.
type Budgets interface {
	// Budget says what the budget of a process is, and what is spent of it. CodeNotFound: there is no such process, or it has no budget.
	Budget(ctx context.Context, pid PID) (BudgetState, error)
	// AddBudget raises the budget of an unfinished process, durably, by what more says, and lets go on those below it (and itself) that
	// were paused because too little was left. CodeInvalid: the budget does not bound what is to be raised. CodeConflict: the process
	// has ended.
	AddBudget(ctx context.Context, pid PID, more Budget) (BudgetState, error)
	// Allowances says what the processes of a namespace may spend in the day and the month that it is, and have spent; "": of all
	// namespaces that have an allowance of their own, or have spent something of one for each since the kernel began. A namespace
	// without an allowance has none.
	Allowances(ctx context.Context, namespace string) ([]AllowanceState, error)
}

// What a budget bounds, as names of Amounts.
const (
	AmountUSD    = "usd"    // nano-dollars
	AmountTokens = "tokens" // of models, input and output
	AmountCalls  = "calls"  // that left the kernel: to tools, to models, to the network
	AmountTurns  = "turns"  // of models: answers that were asked for
	AmountTime   = "time"   // nanoseconds that programs ran, as Usage.Running counts them
)

// BudgetAmounts are the names of what a budget bounds, in the order in which people see them.
var BudgetAmounts = [...]string{AmountUSD, AmountTokens, AmountCalls, AmountTurns, AmountTime}

// ParseAmount reads so much of an amount as people write it: "0.05" of usd, "10m" of time, "200k" of the others. It is above zero.
func ParseAmount(name, text string) (n int64, err error) {
	switch name {
	case AmountUSD:
		var usd NanoUSD
		usd, err = ParseUSD(text)
		n = int64(usd)
	case AmountTime:
		var d Duration
		if bad := d.UnmarshalText([]byte(text)); bad != nil {
			err = errors.New(AsError(bad, CodeInvalid, "").Message())
		}
		n = int64(d)
	default:
		return ParseCount(text)
	}
	if err == nil && n <= 0 {
		err = fmt.Errorf("%q is not above zero; leave it out for no bound", text)
	}
	return n, err
}

// AmountText is so much of an amount as people read it: "$0.05", "10m0s", "200".
func AmountText(name string, n int64) string {
	switch name {
	case AmountUSD:
		return "$" + NanoUSD(n).String()
	case AmountTime:
		return time.Duration(n).String()
	}
	return strconv.FormatInt(n, 10)
}

// AmountPhrase is AmountText with the name, where the text alone does not say of what: "$0.05", "10m0s time", "50 calls", "1 call".
func AmountPhrase(name string, n int64) string {
	if name == AmountUSD {
		return AmountText(name, n)
	}
	if n == 1 && name != AmountTime {
		name = strings.TrimSuffix(name, "s")
	}
	return AmountText(name, n) + " " + name
}

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

// ParseCount reads a number of things above zero as people write it: 50, 200k, 1.5M, in thousands and millions.
func ParseCount(s string) (int64, error) {
	digits, unit := s, int64(1)
	for suffix, n := range map[string]int64{"k": 1e3, "K": 1e3, "m": 1e6, "M": 1e6} {
		if cut, ok := strings.CutSuffix(s, suffix); ok {
			digits, unit = cut, n
		}
	}
	r, ok := new(big.Rat).SetString(digits)
	if !ok || len(digits) > 20 || strings.Trim(digits, "0123456789.-") != "" {
		return 0, fmt.Errorf("%q is not a number: write 50, 200k or 1.5M", s)
	}
	switch r.Mul(r, new(big.Rat).SetInt64(unit)); {
	case r.Sign() <= 0:
		return 0, fmt.Errorf("%q is not above zero; leave it out for no bound", s)
	case !r.IsInt():
		return 0, fmt.Errorf("%q is not a whole number", s)
	case !r.Num().IsInt64():
		return 0, fmt.Errorf("%q is too large", s)
	}
	return r.Num().Int64(), nil
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

// Rounded is the number of dollars with so many digits behind the point, rounded to the nearest.
func (n NanoUSD) Rounded(places int) string {
	return new(big.Rat).SetFrac64(int64(n), int64(USD)).FloatString(places)
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
	USD    NanoUSD  `json:"usd,omitempty"`
	Tokens int64    `json:"tokens,omitempty"`
	Calls  int64    `json:"calls,omitempty"`
	Turns  int64    `json:"turns,omitempty"`
	Time   Duration `json:"time,omitempty"`
}

// field is where an amount is; nil: it is none of those that are bounded.
func (s *Spending) field(name string) *int64 {
	switch name {
	case AmountUSD:
		return (*int64)(&s.USD)
	case AmountTokens:
		return &s.Tokens
	case AmountCalls:
		return &s.Calls
	case AmountTurns:
		return &s.Turns
	case AmountTime:
		return (*int64)(&s.Time)
	}
	return nil
}

// SpendingOf is what of amounts a budget can bound.
func SpendingOf(a Amounts) (s Spending) {
	for _, name := range BudgetAmounts {
		*s.field(name) = a[name]
	}
	return s
}

// Amounts are the same by name, without those that are nothing.
func (s Spending) Amounts() Amounts {
	a := Amounts{}
	for _, name := range BudgetAmounts {
		if n := *s.field(name); n != 0 {
			a[name] = n
		}
	}
	return a
}

// Budget caps what a process and all below it spend together. What is 0 is not capped; a child's cap reserves nothing of its parent's.
type Budget Spending

// Or is b, with what more has in place of what is not capped.
func (b Budget) Or(more Budget) Budget {
	s, others := Spending(b), Spending(more)
	for _, name := range BudgetAmounts {
		*s.field(name) = cmp.Or(*s.field(name), *others.field(name))
	}
	return Budget(s)
}

// BoundsUSD says whether a budget bounds the money that a process spends: its own, or that of one above it.
func (s *Spec) BoundsUSD() bool { return s.Budget.USD != 0 || s.BudgetsUSD }

// BoundsTime says the same of the time that its program runs.
func (s *Spec) BoundsTime() bool { return s.Budget.Time != 0 || s.BudgetsTime }

// Amounts are the caps by name.
func (b Budget) Amounts() Amounts { return Spending(b).Amounts() }

// boundable is said where something else is to be bounded.
const boundable = "usd, tokens, calls, turns and time"

// UnmarshalJSON refuses caps of 0, which others would take for none, and names that are not known.
func (b *Budget) UnmarshalJSON(data []byte) error {
	var caps map[string]json.RawMessage
	if err := json.Unmarshal(data, &caps); err != nil {
		return Errorf(CodeInvalid, "budget", "a budget is an object such as {\"usd\": 2, \"tokens\": 200000, \"calls\": 50}")
	}
	var s Spending
	for name, n := range caps {
		var err error
		such := "a whole number such as 50"
		switch field := s.field(name); {
		case field == nil:
			return Errorf(CodeInvalid, "budget", "%.40q cannot be bounded: a budget has %s", name, boundable)
		case name == AmountUSD:
			err = json.Unmarshal(n, &s.USD)
		case name == AmountTime:
			err, such = json.Unmarshal(n, &s.Time), `a duration such as "10m"`
		default:
			err = json.Unmarshal(n, field)
		}
		if known, ok := errors.AsType[*Error](err); ok {
			return known
		}
		if err != nil {
			return Errorf(CodeInvalid, "budget", "%s must be %s, and not %.40s", name, such, n)
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
