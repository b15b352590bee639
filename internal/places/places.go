// Package places lets only so many calls be under way at once. Further ones wait: of each flow (a tenant) in the order in which they were
// first made, and flows take turns.
package places

import (
	"container/list"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Places are a fixed number of places.
type Places struct {
	of string // whose they are, for people
	n  int

	mu    sync.Mutex
	free  int
	flows []*flow // those that wait: the first has the next place
}

// flow is what waits of one flow.
type flow struct {
	name    string
	waiting list.List // of *Turn, by since
}

// New makes n places. of says in few words what has them: `server "files"`.
func New(n int, of string) *Places { return &Places{of: of, n: n, free: n} }

// join lets a turn wait; p.mu is held.
func (p *Places) join(t *Turn) {
	i := slices.IndexFunc(p.flows, func(f *flow) bool { return f.name == t.name })
	if i < 0 {
		i = len(p.flows)
		p.flows = append(p.flows, &flow{name: t.name})
	}
	t.flow, t.granted, t.since = p.flows[i], make(chan struct{}), time.Now()
	before := t.flow.waiting.Back()
	for before != nil && before.Value.(*Turn).made.After(t.made) {
		before = before.Prev()
	}
	if before == nil {
		t.at = t.flow.waiting.PushFront(t)
	} else {
		t.at = t.flow.waiting.InsertAfter(t, before)
	}
}

// leave lets a turn wait no more; p.mu is held.
func (p *Places) leave(t *Turn) {
	if t.at == nil {
		return
	}
	if t.flow.waiting.Remove(t.at); t.flow.waiting.Len() == 0 {
		p.flows = slices.DeleteFunc(p.flows, func(f *flow) bool { return f == t.flow })
	}
	t.at, t.flow, t.since = nil, nil, time.Time{}
}

// pass hands free places over; p.mu is held.
func (p *Places) pass() {
	for p.free > 0 {
		i := slices.IndexFunc(p.flows, func(f *flow) bool { return f.waiting.Front().Value.(*Turn).ready })
		if i < 0 {
			return
		}
		f := p.flows[i]
		t := f.waiting.Front().Value.(*Turn)
		t.has, t.waited = true, time.Since(t.since)
		p.leave(t)
		p.free--
		close(t.granted)
		if f.waiting.Len() > 0 { // it is the turn of the others
			p.flows = append(slices.Delete(p.flows, i, i+1), f)
		}
	}
}

// Turn is the place of one call. It may be used from several goroutines.
type Turn struct {
	places *Places
	name   string    // of its flow
	made   time.Time // when its call was first made
	limit  time.Duration
	failed func(ctx context.Context) error

	// Guarded by the mutex of the places.
	has     bool
	ready   bool          // it may have a place
	flow    *flow         // in which it waits, and where; nil: it does not
	at      *list.Element //
	granted chan struct{} // closed when it has its place for which it waits
	since   time.Time     // when it began to wait; zero: it does not
	waited  time.Duration // for the place that it has
}

// Turn is the place of a call of a flow that was first made at a time, and waits for it no longer than limit; 0: for any time. failed is the
// error of the call if its context ends before; the cause is then a [*TimeUp] if that was the limit.
func (p *Places) Turn(flow string, made time.Time, limit time.Duration, failed func(ctx context.Context) error) *Turn {
	return &Turn{places: p, name: flow, made: made, limit: limit, failed: failed}
}

// TimeUp is the cause of a context that ended because a limit of time was over.
type TimeUp struct{ After time.Duration }

func (t *TimeUp) Error() string { return "the time limit of " + t.After.String() + " is over" }

// Ready takes the place if one is free and nobody waits for it. Else the call waits for one from now on.
func (t *Turn) Ready() bool { return t.wait(true) }

// Join lets the call wait from now on, before it can have a place: Ready or Wait follows, or Drop. Of its flow, none that was made later
// has one before.
func (t *Turn) Join() { t.wait(false) }

func (t *Turn) wait(ready bool) bool {
	p := t.places
	p.mu.Lock()
	defer p.mu.Unlock()
	if !t.has {
		if t.ready = ready; t.at == nil {
			p.join(t)
		}
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
	t.places.leave(t)
	t.places.pass() // it may have kept others from a place
	return t.failed(ctx)
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
	p.leave(t)
	if t.has {
		t.has = false
		p.free++
	}
	p.pass()
}
