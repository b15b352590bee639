package api

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// callerPatience is how long a caller who stays connected may think between two requests, at least: whoever
// has just said hello is about to ask for something.
const callerPatience = 10 * time.Second

// idle finds out when nobody needs the kernel any more.
type idle struct {
	after time.Duration // negative: never
	busy  func(context.Context) bool

	mu        sync.Mutex
	active    int // requests under way
	connected int // callers, thinking or not
	last      time.Time
	over      bool
	ended     chan struct{}
	left      chan struct{} // capacity 1: a caller has gone
}

func newIdle(after time.Duration, busy func(context.Context) bool) *idle {
	return &idle{after: after, busy: busy, last: time.Now(), ended: make(chan struct{}), left: make(chan struct{}, 1)}
}

// connection is told what becomes of connections (http.Server.ConnState).
func (i *idle) connection(_ net.Conn, state http.ConnState) {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch state {
	case http.StateNew:
		i.connected++
		i.last = time.Now()
	case http.StateHijacked, http.StateClosed:
		i.connected--
		select {
		case i.left <- struct{}{}:
		default:
		}
	}
}

// patience is how long nobody must have asked for anything; i.mu is held.
func (i *idle) patience() time.Duration {
	if i.connected > 0 {
		return max(i.after, callerPatience)
	}
	return i.after
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
		case <-i.left:
		}
		left := i.remaining()
		if left <= 0 && i.busy(ctx) {
			i.mu.Lock()
			i.last = time.Now()
			i.mu.Unlock()
		}
		if left = i.remaining(); left <= 0 && i.finish() {
			return
		}
		timer.Reset(max(left, time.Millisecond))
	}
}

// remaining is how long it takes until the time is over, if nothing happens.
func (i *idle) remaining() time.Duration {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.active > 0 {
		return i.after
	}
	return i.patience() - time.Since(i.last)
}

// finish decides: from now on every request is refused. A request that came in meanwhile wins.
func (i *idle) finish() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.active > 0 || time.Since(i.last) < i.patience() {
		return false
	}
	if !i.over {
		i.over = true
		close(i.ended)
	}
	return true
}
