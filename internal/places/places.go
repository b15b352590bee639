// Package places lets only so many calls be under way at once. Further ones wait, in the order in which they asked.
package places

import (
	"container/list"
	"context"
	"fmt"
	"sync"
	"time"
)

// Places are a fixed number of places.
type Places struct {
	of string // whose they are, for people
	n  int

	mu      sync.Mutex
	free    int
	waiting list.List // of *Turn
}

// New makes n places. of says in few words what has them: `server "files"`.
func New(n int, of string) *Places { return &Places{of: of, n: n, free: n} }

// pass hands free places over; p.mu is held.
func (p *Places) pass() {
	for first := p.waiting.Front(); first != nil && p.free > 0; first = p.waiting.Front() {
		t := p.waiting.Remove(first).(*Turn)
		t.at, t.has, t.waited, t.since = nil, true, time.Since(t.since), time.Time{}
		p.free--
		close(t.granted)
	}
}

// Turn is the place of one call. It may be used from several goroutines.
type Turn struct {
	places *Places
	limit  time.Duration
	failed func(ctx context.Context) error

	// Guarded by the mutex of the places.
	has     bool
	at      *list.Element // among those that wait; nil: it does not
	granted chan struct{} // closed when it has its place for which it waits
	since   time.Time     // when it began to wait; zero: it does not
	waited  time.Duration // for the place that it has
}

// Turn is the place of a call that waits for it no longer than limit; 0: for any time. failed is the error of the call if its context ends
// before; the cause is then a [*TimeUp] if that was the limit.
func (p *Places) Turn(limit time.Duration, failed func(ctx context.Context) error) *Turn {
	return &Turn{places: p, limit: limit, failed: failed}
}

// TimeUp is the cause of a context that ended because a limit of time was over.
type TimeUp struct{ After time.Duration }

func (t *TimeUp) Error() string { return "the time limit of " + t.After.String() + " is over" }

// Ready takes the place if one is free and nobody waits for it. Else the call waits for one from now on.
func (t *Turn) Ready() bool {
	p := t.places
	p.mu.Lock()
	defer p.mu.Unlock()
	if !t.has && t.at == nil {
		t.at, t.granted, t.since = p.waiting.PushBack(t), make(chan struct{}), time.Now()
		p.pass()
	}
	return t.has
}

// Wait waits for the place.
func (t *Turn) Wait(ctx context.Context) error {
	if t.Ready() {
		return nil
	}
	if t.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, t.limit, &TimeUp{t.limit})
		defer cancel()
	}
	t.places.mu.Lock()
	granted := t.granted
	t.places.mu.Unlock()
	select {
	case <-granted:
		return nil
	case <-ctx.Done():
	}
	t.places.mu.Lock()
	defer t.places.mu.Unlock()
	if t.has { // it was handed over in the same moment
		return nil
	}
	t.leave()
	return t.failed(ctx)
}

// leave gives up waiting; the mutex of the places is held.
func (t *Turn) leave() {
	if t.at != nil {
		t.places.waiting.Remove(t.at)
	}
	t.at, t.since = nil, time.Time{}
}

// Waited is how long the call has waited for the place that it has.
func (t *Turn) Waited() time.Duration {
	t.places.mu.Lock()
	defer t.places.mu.Unlock()
	return t.waited
}

// Waiting says why Wait has not returned: `queued 2.1 s: 16 calls of server "files" under way`; "": it has.
func (t *Turn) Waiting() string {
	t.places.mu.Lock()
	defer t.places.mu.Unlock()
	if t.since.IsZero() {
		return ""
	}
	return fmt.Sprintf("queued %.1f s: %s of %s under way", time.Since(t.since).Seconds(), calls(t.places.n), t.places.of)
}

func calls(n int) string {
	if n == 1 {
		return "a call"
	}
	return fmt.Sprintf("%d calls", n)
}

// Drop gives the place back, if the call has it, and does not wait for it any more.
func (t *Turn) Drop() {
	p := t.places
	p.mu.Lock()
	defer p.mu.Unlock()
	t.leave()
	if t.has {
		t.has = false
		p.free++
		p.pass()
	}
}
