package holds

import (
	"slices"
	"time"
)

// Call is a call that has waited until its process goes on.
type Call struct {
	Made time.Time // first
	Make func()
}

// Make makes calls one after the other, in the order in which they were made first.
func Make(calls []Call) {
	slices.SortStableFunc(calls, func(a, b Call) int { return a.Made.Compare(b.Made) })
	for _, c := range calls {
		c.Make()
	}
}
