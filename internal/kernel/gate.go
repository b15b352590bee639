package kernel

import (
	"sync"
	"time"
)

// gate counts the handlers that are outside the kernel, and lets none out once it is closed.
type gate struct {
	mu     sync.Mutex
	count  int
	closed bool
	empty  chan struct{} // closed whenever count is 0
}

func newGate() *gate {
	g := &gate{empty: make(chan struct{})}
	close(g.empty)
	return g
}

// enter says whether a handler may go out; if so it must leave.
func (g *gate) enter() bool {
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

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.count--; g.count == 0 {
		close(g.empty)
	}
}

func (g *gate) wait() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.empty
}

// await waits until nobody is outside, but not longer than grace.
func (g *gate) await(grace time.Duration) {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-g.wait():
	case <-timer.C:
	}
}

// close lets nobody out any more and waits for those who are.
func (g *gate) close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	<-g.wait()
}
