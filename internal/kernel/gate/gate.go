// Package gate counts what is under way outside, and lets nothing out once it is closed.
package gate

import (
	"context"
	"sync"
	"time"
)

// Gate counts the handlers that are outside the kernel, and lets none out once it is closed.
type Gate struct {
	mu     sync.Mutex
	count  int
	closed bool
	empty  chan struct{} // closed whenever count is 0
}

// New returns an open gate.
func New() *Gate {
	g := &Gate{empty: make(chan struct{})}
	close(g.empty)
	return g
}

// Enter says whether a handler may go out; if so it must Leave.
func (g *Gate) Enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	if g.count == 0 {
		g.empty = make(chan struct{})
	}
	g.count++
	return true
}

// Leave ends Enter.
func (g *Gate) Leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.count--; g.count == 0 {
		close(g.empty)
	}
}

// Go runs fn in a goroutine of its own, which is outside until fn returns. False: the gate is closed, and fn does not run.
func (g *Gate) Go(fn func()) bool {
	if !g.Enter() {
		return false
	}
	go func() {
		defer g.Leave()
		fn()
	}()
	return true
}

func (g *Gate) wait() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.empty
}

// Await waits until nobody is outside, but not longer than grace.
func (g *Gate) Await(ctx context.Context, grace time.Duration) {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-g.wait():
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Close lets nobody out any more and waits for those who are.
func (g *Gate) Close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	<-g.wait()
}
