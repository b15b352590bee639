package budget

import (
	"context"
	"math"
	"slices"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/history"
)

// OfCall is what each call out of the kernel costs: a call, and the time that its program ran since the one before.
func (l *Ledger) OfCall(s *agentkernel.Spec, ran time.Duration, a *history.Amounts) agentkernel.Amounts {
	cost := agentkernel.Amounts{agentkernel.AmountCalls: 1}
	if more := l.Uncounted(s, ran, a); more > 0 {
		cost[agentkernel.AmountTime] = int64(more)
	}
	return cost
}

// Uncounted is how much of the time that a program ran its journal does not count yet; 0: nothing, or nothing bounds it. A program that
// runs again after a crash has less behind it than what counts already, for a while.
func (l *Ledger) Uncounted(s *agentkernel.Spec, ran time.Duration, a *history.Amounts) time.Duration {
	if !l.Bounds(s, agentkernel.AmountTime) {
		return 0
	}
	spent, _ := a.Used()
	return max(ran-time.Duration(spent[agentkernel.AmountTime]), 0)
}

// theTime is the place of AmountTime in names.
var theTime = slices.Index(names[:], agentkernel.AmountTime)

// reread is how long a program runs before its books are opened: most programs call or end before.
const reread = 100 * time.Millisecond

// RunsUntil is how long a program may run on, which runs now, and whose journal lacks so much of what it ran; zero: for ever. The error is
// a refusal, and says that it may not: it stands still until there is more.
func (l *Ledger) RunsUntil(nodes []agentkernel.PID, uncounted time.Duration) (until time.Time, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	const forever = math.MaxInt64
	left := time.Duration(forever)
	for _, pid := range nodes {
		b := l.books[pid]
		switch {
		case !b.open():
			if left = min(left, reread); b == nil && uncounted >= reread {
				l.src.At(l.src.Now(), func() { _ = l.open(context.Background(), pid) }) // one that cannot be read is tried again
			}
		case b.caps[theTime]:
			n := time.Duration(max(0, b.limit[theTime]-b.spent[theTime]-b.held[theTime]))
			if n <= uncounted {
				return until, l.refusal(b, pid, theTime, int64(uncounted)).hinted("")
			}
			left = min(left, n-uncounted)
		}
	}
	if left < forever {
		until = l.src.Now().Add(left)
	}
	return until, nil
}
