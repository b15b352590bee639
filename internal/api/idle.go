package api

import (
	"context"
	"sync"
	"time"
)

// idle finds out when nobody needs the kernel any more.
type idle struct {
	after time.Duration // negative: never
	busy  func(context.Context) bool

	mu     sync.Mutex
	active int // requests under way
	last   time.Time
	over   bool
	ended  chan struct{}
}

func newIdle(after time.Duration, busy func(context.Context) bool) *idle {
	return &idle{after: after, busy: busy, last: time.Now(), ended: make(chan struct{})}
}

// begin counts a request; false if the kernel has just decided to end.
func (i *idle) begin() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.active++
	return !i.over
}

func (i *idle) end() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.active--
	i.last = time.Now()
}

// watch closes ended once nothing has been asked and nothing has run for the time; a process that runs
// counts as a caller, so the time starts anew when the last one has ended.
func (i *idle) watch(ctx context.Context) {
	if i.after < 0 {
		return
	}
	timer := time.NewTimer(i.after)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-i.ended:
			return
		case <-timer.C:
		}
		left := i.left()
		if left <= 0 && i.busy(ctx) {
			i.mu.Lock()
			i.last = time.Now()
			i.mu.Unlock()
		}
		if left = i.left(); left <= 0 && i.finish() {
			return
		}
		timer.Reset(max(left, time.Millisecond))
	}
}

// left is how long it takes until the time is over, if nothing happens.
func (i *idle) left() time.Duration {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.active > 0 {
		return i.after
	}
	return i.after - time.Since(i.last)
}

// finish decides: from now on every request is refused. A request that came in meanwhile wins.
func (i *idle) finish() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.active > 0 || time.Since(i.last) < i.after {
		return false
	}
	if !i.over {
		i.over = true
		close(i.ended)
	}
	return true
}
