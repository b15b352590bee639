package agentkernel

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Shortage is why a call is not made of whose budget, or of whose namespace's allowance, too little is left. Its text is the error, and
// stands in the note of a pause because of it.
type Shortage struct {
	Budget    PID    // the process whose budget it is; 0: it is an allowance
	Namespace string // of an allowance
	Period    Period
	Until     time.Time // when the allowance begins anew
	Amount    string    // one of BudgetAmounts
	// Wants is what the call may cost at most; of time what the program has run for already.
	Wants, Limit, Spent, Held int64
}

// The words of a shortage.
const (
	pausedFor   = "budget: " // begins the notes of pauses because of one
	theCall     = "the call costs "
	hasRunFor   = "it has run for "
	runMore     = " more"
	ofProcess   = ", and the budget of process "
	ofNamespace = ", and the allowance of namespace "
	heldByCalls = ", held by calls under way "
	begins      = "; it begins anew at "
	minute      = "2006-01-02 15:04 UTC"
)

func (s *Shortage) String() string {
	text := theCall + quantity(s.Amount, s.Wants)
	spent := quantity(s.Amount, s.Spent)
	if s.Amount == AmountTime {
		text = hasRunFor + time.Duration(s.Wants).Round(time.Millisecond).String() + runMore
		spent = time.Duration(s.Spent).Round(time.Millisecond).String()
	}
	if s.Budget != 0 {
		text += ofProcess + s.Budget.String()
	} else {
		text += fmt.Sprintf("%s%s for the %s", ofNamespace, s.Namespace, s.Period)
	}
	text += fmt.Sprintf(" is %s: spent %s", quantity(s.Amount, s.Limit), spent)
	if s.Held > 0 {
		text += heldByCalls + quantity(s.Amount, s.Held)
	}
	if s.Budget == 0 {
		text += begins + s.Until.UTC().Format(minute)
	}
	return text
}

// PauseNote is the note of a pause because of it.
func (s *Shortage) PauseNote() string { return pausedFor + s.String() }

// ParseShortage reads the note of a pause; nil: it is about none.
func ParseShortage(note string) *Shortage {
	text, paused := strings.CutPrefix(note, pausedFor)
	if !paused {
		return nil
	}
	s := &Shortage{}
	text, until, _ := strings.Cut(text, begins)
	text, held, _ := strings.Cut(text, heldByCalls)
	text, spent, _ := strings.Cut(text, ": spent ")
	wants, of, budget := strings.Cut(text, ofProcess)
	if !budget {
		wants, of, _ = strings.Cut(text, ofNamespace)
	}
	whose, limit, known := strings.Cut(of, " is ")
	wants, call := strings.CutPrefix(wants, theCall)
	switch _, unit, _ := strings.Cut(wants, " "); {
	case !call:
		s.Amount, wants = AmountTime, strings.TrimSuffix(strings.TrimPrefix(wants, hasRunFor), runMore)
	case strings.HasPrefix(wants, "$"):
		s.Amount = AmountUSD
	default:
		s.Amount = strings.TrimSuffix(unit, "s") + "s" // one call, two calls
	}
	if budget {
		n, err := ParsePID(whose)
		s.Budget, known = n, known && err == nil
	} else {
		namespace, period, _ := strings.Cut(whose, " for the ")
		s.Namespace, s.Period = namespace, Period(period)
		at, err := time.Parse(minute, until)
		s.Until, known = at, known && err == nil
	}
	for n, text := range map[*int64]string{&s.Wants: wants, &s.Limit: limit, &s.Spent: spent, &s.Held: held} {
		var read bool
		*n, read = parseQuantity(s.Amount, text)
		known = known && (read || text == "")
	}
	if !known {
		return nil
	}
	return s
}

// quantity is an amount as people read it, with its unit.
func quantity(name string, n int64) string {
	text := AmountText(name, n)
	switch {
	case name == AmountUSD, name == AmountTime:
		return text
	case n == 1:
		name = strings.TrimSuffix(name, "s")
	}
	return text + " " + name
}

// parseQuantity reads what quantity writes.
func parseQuantity(name, text string) (int64, bool) {
	switch name {
	case AmountUSD:
		n, err := ParseUSD(text)
		return int64(n), err == nil
	case AmountTime:
		d, err := time.ParseDuration(text)
		return int64(d), err == nil
	}
	digits, _, _ := strings.Cut(text, " ")
	n, err := strconv.ParseInt(digits, 10, 64)
	return n, err == nil
}

// More is by how much the limit is too small: with so much more the call can be made. 0: nobody knows, since a program runs as long as it
// runs, or there is enough.
func (s *Shortage) More() int64 {
	if s.Amount == AmountTime {
		return 0
	}
	return max(0, s.Wants+s.Spent+s.Held-s.Limit)
}

// RaiseBudget is the command that raises the budget of a process by so much; 0: by as much as whoever types it says.
func RaiseBudget(pid PID, amount string, by int64) string {
	return fmt.Sprintf("agentkernel budget add %d --%s %s", pid, amount, typed(amount, by))
}

// RerunBudget is the command that begins a process anew when it has ended, which then goes on from what it did, with a budget of so much; 0:
// of as much as whoever types it says.
func RerunBudget(pid PID, amount string, of int64) string {
	return fmt.Sprintf("agentkernel rerun %d --budget-%s %s", pid, amount, typed(amount, of))
}

// typed is an amount as flags take it; N: whoever types it says it.
func typed(amount string, n int64) string {
	if n <= 0 {
		return "N"
	}
	return strings.TrimPrefix(AmountText(amount, n), "$")
}

// RaiseAllowance says how a process goes on that is paused for an allowance.
const RaiseAllowance = "wait until then; or raise it in the setting allowances, and `kill -HUP` the kernel, whose process `agentkernel doctor` names"

// Shortage is that for which the process is paused; nil: it is paused for none.
func (p *Process) Shortage() *Shortage {
	if !p.Paused || p.State.Terminal() {
		return nil
	}
	return ParseShortage(p.PauseNote)
}

// RaiseBudget is the command that raises the budget for which a process is paused; "": it is paused for none.
func (p *Process) RaiseBudget() string {
	if s := p.Shortage(); s != nil && s.Budget != 0 {
		return RaiseBudget(s.Budget, s.Amount, s.More())
	}
	return ""
}

// EndsShortage is what to do about the budget or the allowance for which a process is paused; "": it is paused for none.
func (p *Process) EndsShortage() string {
	if p.AllowanceAgain() != "" {
		return RaiseAllowance
	}
	return p.RaiseBudget()
}

// AllowanceAgain is when the allowance begins anew for which the process is paused: then it goes on by itself. "": it is paused for none.
func (p *Process) AllowanceAgain() string {
	if s := p.Shortage(); s != nil && s.Budget == 0 {
		return s.Until.Format(minute)
	}
	return ""
}
