package devllm

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Clock is the time that the server lives in. Limits, caches, latencies and the log go by it.
type Clock interface {
	Now() time.Time
	// Sleep returns nil when d has passed, and the context's error if that ends first. It returns at once if d <= 0.
	Sleep(ctx context.Context, d time.Duration) error
}

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

func (systemClock) Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Manual is a clock that moves only when it is told to, for tests. Its methods may be called by many goroutines.
type Manual struct {
	mu       sync.Mutex
	now      time.Time
	sleepers []*sleeper
	changed  chan struct{} // closed when the number of sleepers has changed
}

type sleeper struct {
	until time.Time
	awake chan struct{}
}

// NewManual returns a clock that stands at start.
func NewManual(start time.Time) *Manual {
	return &Manual{now: start, changed: make(chan struct{})}
}

// Now implements Clock.
func (m *Manual) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// Sleep implements Clock: it returns when Advance has moved the clock far enough.
func (m *Manual) Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	m.mu.Lock()
	s := &sleeper{m.now.Add(d), make(chan struct{})}
	m.sleepers = append(m.sleepers, s)
	m.tell()
	m.mu.Unlock()
	select {
	case <-s.awake:
		return nil
	case <-ctx.Done():
		m.mu.Lock()
		defer m.mu.Unlock()
		m.sleepers = slices.DeleteFunc(m.sleepers, func(other *sleeper) bool { return other == s })
		m.tell()
		return ctx.Err()
	}
}

// Advance moves the clock and wakes whoever has slept long enough.
func (m *Manual) Advance(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = m.now.Add(d)
	m.sleepers = slices.DeleteFunc(m.sleepers, func(s *sleeper) bool {
		if s.until.After(m.now) {
			return false
		}
		close(s.awake)
		return true
	})
	m.tell()
}

// Await returns when at least n goroutines sleep, or when ctx ends.
func (m *Manual) Await(ctx context.Context, n int) error {
	for {
		m.mu.Lock()
		enough, changed := len(m.sleepers) >= n, m.changed
		m.mu.Unlock()
		if enough {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// tell wakes those in Await; the caller holds the lock.
func (m *Manual) tell() {
	close(m.changed)
	m.changed = make(chan struct{})
}
