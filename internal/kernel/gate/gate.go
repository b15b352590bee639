// Package gate counts the goroutines of a kernel that its end waits for, such as handlers outside, and lets none begin once it is closed.
package gate

import (
	"context"
	"sync"
	"time"
)

// Gate counts goroutines, and lets none begin once it is closed.
type Gate struct {
	// Ending ends when Await is called: nobody has to wait for a goroutine that has done nothing outside yet.
	Ending context.Context //nolint:containedctx // it is what this gate has of an end
	end    context.CancelFunc

	next chan func()   // to a goroutine that has nothing to do
	over chan struct{} // closed by Close

	mu     sync.Mutex
	count  int
	idle   int // goroutines that wait for next
	closed bool
	empty  chan struct{} // closed whenever count is 0
}

// mostIdle is how many goroutines are kept for what goes out next. A new one has a small stack, which is copied several times until it is
// large enough for a commit.
const mostIdle = 8

// New returns an open gate.
func New() *Gate {
	g := &Gate{next: make(chan func()), over: make(chan struct{}), empty: make(chan struct{})}
	g.Ending, g.end = context.WithCancel(context.Background())
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
	select {
	case g.next <- fn:
	default:
		go g.serve(fn)
	}
	return true
}

// serve runs fn, and whatever there is for it after that.
func (g *Gate) serve(fn func()) {
	for ok := true; ok; {
		func() {
			defer g.Leave()
			fn()
		}()
		fn, ok = g.another()
	}
}

// another waits for something to do. False: there are enough others who do, or the gate is closed.
func (g *Gate) another() (fn func(), ok bool) {
	g.mu.Lock()
	if ok = g.idle < mostIdle && !g.closed; ok {
		g.idle++
	}
	g.mu.Unlock()
	if !ok {
		return nil, false
	}
	select {
	case fn = <-g.next:
	case <-g.over:
		ok = false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.idle--
	return fn, ok
}

func (g *Gate) wait() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.empty
}

// Await waits until nobody is outside, but not longer than grace.
func (g *Gate) Await(ctx context.Context, grace time.Duration) {
	g.end()
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
	first := !g.closed
	g.closed = true
	g.mu.Unlock()
	<-g.wait()
	if first {
		close(g.over)
	}
}
