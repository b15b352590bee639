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
	waiting list.List // of chan struct{}, closed when the place is handed over
}

// New makes n places. of says in few words what has them: `server "files"`.
func New(n int, of string) *Places { return &Places{of: of, n: n, free: n} }

// Try takes a place if one is free and nobody waits.
func (p *Places) Try() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.free == 0 || p.waiting.Len() > 0 {
		return false
	}
	p.free--
	return true
}

// Take waits for a place or for the end of ctx.
func (p *Places) Take(ctx context.Context) error {
	if p.Try() {
		return nil
	}
	p.mu.Lock()
	turn := make(chan struct{})
	at := p.waiting.PushBack(turn)
	p.pass()
	p.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-turn: // handed over in the same moment: pass it on
		p.free++
		p.pass()
	default:
		p.waiting.Remove(at)
	}
	return ctx.Err()
}

// Give gives a place to the one that waits longest.
func (p *Places) Give() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free++
	p.pass()
}

// pass hands free places over; p.mu is held.
func (p *Places) pass() {
	for first := p.waiting.Front(); first != nil && p.free > 0; first = p.waiting.Front() {
		close(p.waiting.Remove(first).(chan struct{}))
		p.free--
	}
}

// Turn is the place of one call. It may be used from several goroutines.
type Turn struct {
	places *Places
	limit  time.Duration
	failed func(ctx context.Context) error

	mu     sync.Mutex
	has    bool
	since  time.Time // when it began to wait; zero: it does not
	waited time.Duration
}

// Turn is the place of a call that waits for it no longer than limit. failed is the error of the call if its context ends before; the
// cause is then a [*TimeUp] if that was the limit.
func (p *Places) Turn(limit time.Duration, failed func(ctx context.Context) error) *Turn {
	return &Turn{places: p, limit: limit, failed: failed}
}

// TimeUp is the cause of a context that ended because a limit of time was over.
type TimeUp struct{ After time.Duration }

func (t *TimeUp) Error() string { return "the time limit of " + t.After.String() + " is over" }

// Ready takes the place if one is free and nobody waits for it.
func (t *Turn) Ready() bool { return t.got(t.places.Try(), 0) }

// got notes that the call has its place, for which it has waited, or has it not.
func (t *Turn) got(ok bool, waited time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.has, t.since, t.waited = ok, time.Time{}, waited
	return ok
}

// Wait waits for the place.
func (t *Turn) Wait(ctx context.Context) error {
	since := time.Now()
	t.mu.Lock()
	t.since = since
	t.mu.Unlock()
	ctx, cancel := context.WithTimeoutCause(ctx, t.limit, &TimeUp{t.limit})
	defer cancel()
	if !t.got(t.places.Take(ctx) == nil, time.Since(since)) {
		return t.failed(ctx)
	}
	return nil
}

// Waited is how long the call has waited for the place that it has.
func (t *Turn) Waited() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.waited
}

// Waiting says why Wait has not returned: `queued 2.1 s: 16 calls of server "files" are under way`; "": it has.
func (t *Turn) Waiting() string {
	t.mu.Lock()
	defer t.mu.Unlock()
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

// Drop gives the place back, if the call has it.
func (t *Turn) Drop() {
	t.mu.Lock()
	had := t.has
	t.has = false
	t.mu.Unlock()
	if had {
		t.places.Give()
	}
}
