package history

import (
	"cmp"
	"slices"
	"time"

	"agentkernel"
)

// Date is a day in UTC, by its number since 1970.
type Date int

// DateOf is the day of a time.
func DateOf(at time.Time) Date {
	const seconds = 24 * 60 * 60
	n := at.Unix()
	if n < 0 {
		n -= seconds - 1
	}
	return Date(n / seconds)
}

// oldest is the first day that is kept when d is the newest: that of the month before.
func (d Date) oldest() Date {
	y, m, _ := time.Unix(int64(d)*24*60*60, 0).UTC().Date()
	return DateOf(time.Date(y, m-1, 1, 0, 0, 0, 0, time.UTC))
}

// Day is what was spent by calls that began on a day.
type Day struct {
	Day   Date                `json:"day"`
	Spent agentkernel.Amounts `json:"spent"`
}

// spentOn is days, with more spent by calls that began on a day. What it is given is not changed.
func spentOn(days []Day, day Date, more agentkernel.Amounts) []Day {
	if len(more) == 0 || len(days) > 0 && day < days[len(days)-1].Day.oldest() {
		return days
	}
	at, found := slices.BinarySearchFunc(days, day, func(d Day, day Date) int { return cmp.Compare(d.Day, day) })
	switch {
	case found:
		days = slices.Clone(days)
		days[at].Spent = days[at].Spent.Plus(more)
	case at < len(days):
		days = slices.Insert(slices.Clone(days), at, Day{day, more})
	default: // a new day: what is too old is forgotten
		first, _ := slices.BinarySearchFunc(days, day.oldest(), func(d Day, day Date) int { return cmp.Compare(d.Day, day) })
		days = append(slices.Clone(days[first:]), Day{day, more})
	}
	return days
}

// Between is what calls have spent and hold that began on a day from first on and before another.
func (a *Amounts) Between(first, before Date) (spent, held agentkernel.Amounts) {
	if a == nil {
		return nil, nil
	}
	for _, d := range a.Days {
		if d.Day >= first && d.Day < before {
			spent = spent.Plus(d.Spent)
		}
	}
	for _, h := range a.Held {
		if h.Day >= first && h.Day < before {
			held = held.Plus(h.Amounts)
		}
	}
	return spent, held
}
