package agentkernel

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Period is how long an Allowance lasts, by the calendar in UTC.
type Period string

// What begins anew with each day, at midnight, or with the first day of each month.
const (
	PeriodDay   Period = "day"
	PeriodMonth Period = "month"
)

// Around is the one of the periods in which a time lies: from since until a moment before until.
func (p Period) Around(now time.Time) (since, until time.Time) {
	y, m, d := now.UTC().Date()
	if p == PeriodMonth {
		since = time.Date(y, m, 1, 0, 0, 0, 0, time.UTC)
		return since, since.AddDate(0, 1, 0)
	}
	since = time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
	return since, since.AddDate(0, 0, 1)
}

// Allowance bounds what all processes of a namespace spend together in each period. It is a setting of the kernel.
type Allowance struct {
	Namespace string   `json:"namespace"` // AnyNamespace: of each that has no allowance of its own for this period and amount
	Period    Period   `json:"period"`
	Limit     Spending `json:"limit"` // what is 0 is not bounded
}

// AnyNamespace is written where an Allowance is for each namespace, by itself.
const AnyNamespace = "*"

// Allowances are all that there are.
type Allowances []Allowance

// ParseAllowances reads allowances as people write them: "team day usd 5", "team month tokens 2M", "* day calls 1000". CodeInvalid: one
// is none, or bounds what another does.
func ParseAllowances(texts []string) (all Allowances, err error) {
	for _, text := range texts {
		a, err := ParseAllowance(text)
		if err != nil {
			return nil, err
		}
		for _, name := range a.Limit.Amounts().Names() {
			if all.own(a.Namespace, a.Period)[name] != 0 {
				return nil, Errorf(CodeInvalid, "config", "two allowances are of namespace %s for %s in each %s", a.Namespace, name, a.Period)
			}
		}
		all = append(all, a)
	}
	return all, nil
}

// ParseAllowance reads one.
func ParseAllowance(text string) (a Allowance, err error) {
	words := strings.Fields(text)
	if len(words) != 4 {
		return a, Errorf(CodeInvalid, "config", "%.100q is no allowance: write a namespace, day or month, what it bounds, and how much: team day usd 5", text)
	}
	a.Namespace, a.Period = words[0], Period(words[1])
	if a.Namespace != AnyNamespace {
		err = ValidateNamespace(a.Namespace)
	}
	if err == nil && a.Period != PeriodDay && a.Period != PeriodMonth {
		err = fmt.Errorf("%.40q is not day or month", words[1])
	}
	if err == nil {
		if field := a.Limit.field(words[2]); field != nil {
			*field, err = ParseAmount(words[2], words[3])
		} else {
			err = fmt.Errorf("%.40q cannot be bounded: %s can", words[2], boundable)
		}
	}
	if err != nil {
		return a, Errorf(CodeInvalid, "config", "%.100q is no allowance: %s", text, AsError(err, CodeInvalid, "").Message())
	}
	return a, nil
}

// own is what allowances of a namespace itself bound.
func (all Allowances) own(namespace string, p Period) (limit Amounts) {
	for _, a := range all {
		if a.Namespace == namespace && a.Period == p {
			limit = limit.Plus(a.Limit.Amounts())
		}
	}
	return limit
}

// Of is what a namespace may spend in each such period; what is 0 is not bounded.
func (all Allowances) Of(namespace string, p Period) Spending {
	own, others := SpendingOf(all.own(namespace, p)), SpendingOf(all.own(AnyNamespace, p))
	return Spending(Budget(own).Or(Budget(others)))
}

// Bounds says whether one bounds an amount that a namespace spends.
func (all Allowances) Bounds(namespace, amount string) bool {
	return slices.ContainsFunc(all, func(a Allowance) bool { // asked at each turn of a program
		n := a.Limit.field(amount)
		return (a.Namespace == namespace || a.Namespace == AnyNamespace) && n != nil && *n != 0
	})
}

// Since is when the longest of the periods has begun that allowances of a namespace have: what its processes have spent since then still
// counts. Zero: it has none.
func (all Allowances) Since(namespace string, now time.Time) (since time.Time) {
	for _, p := range []Period{PeriodDay, PeriodMonth} {
		if all.Of(namespace, p) != (Spending{}) {
			since, _ = p.Around(now)
		}
	}
	return since
}

// Namespaces are those with an allowance of their own, sorted.
func (all Allowances) Namespaces() (names []string) {
	for _, a := range all {
		if a.Namespace != AnyNamespace {
			names = append(names, a.Namespace)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// AllowanceState is an allowance and what has become of it in the period that has begun. What calls that are under way hold is not
// spent yet, and cannot be spent by others.
type AllowanceState struct {
	Allowance
	Spent Spending  `json:"spent"`
	Held  Spending  `json:"held"`
	Since time.Time `json:"since"`
	Until time.Time `json:"until"` // it begins anew then
}
