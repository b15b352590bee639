package tool

import (
	"math/bits"
	"time"
)

// How a server that keeps failing is treated: a short growing pause before each new start, and after
// maxFailures in a row no start at all for a while.
const (
	maxFailures  = 5
	firstBackoff = 100 * time.Millisecond
	maxBackoff   = 5 * time.Second
	coolDown     = 30 * time.Second
)

// breaker counts the failures of one server: starts that did not succeed, and deaths before any call was
// answered. It is pure: the caller passes the time and holds the lock.
type breaker struct {
	failures int
	last     time.Time
	cause    error
}

// fail notes a failure.
func (b *breaker) fail(now time.Time, cause error) {
	b.failures++
	b.last, b.cause = now, cause
}

// ok notes that the server answered a call.
func (b *breaker) ok() { *b = breaker{} }

// wait says how long to wait before the next start, or that there shall be none for now (open), after
// which a single start is tried.
func (b *breaker) wait(now time.Time) (pause time.Duration, open bool) {
	switch {
	case b.failures == 0:
		return 0, false
	case b.failures >= maxFailures:
		left := coolDown - now.Sub(b.last)
		return max(left, 0), left > 0
	}
	// 100 ms, 200 ms, 400 ms ...
	backoff := min(firstBackoff<<min(b.failures-1, bits.Len(uint(maxBackoff/firstBackoff))), maxBackoff)
	return max(backoff-now.Sub(b.last), 0), false
}
