package sim

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

// gate is where every effect waits for its release.
type gate struct {
	mu         sync.Mutex
	generation int // effects of earlier ones come to nothing
	waiting    []*effect
}

// effect is something that a goroutine of the kernel is about to do, or to be told.
type effect struct {
	name    string    // the same in every run of a seed
	after   time.Time // it is not released before
	release chan release
}

// release lets an effect happen.
type release struct {
	roll uint64 // by which the model decides what the outcome is
	dead bool   // its generation has crashed: nothing happens
}

// pass waits until the driver releases the effect, at the earliest after a delay. Not ok: the generation of the caller is gone,
// and nothing that the caller does may change the world.
func (g *gate) pass(generation int, name string, delay time.Duration) (roll uint64, ok bool) {
	e := g.enter(generation, name, delay)
	if e == nil {
		return 0, false
	}
	r := <-e.release
	return r.roll, !r.dead
}

// enter lets an effect wait; nil: its generation is gone.
func (g *gate) enter(generation int, name string, delay time.Duration) *effect {
	g.mu.Lock()
	defer g.mu.Unlock()
	if generation != g.generation {
		return nil
	}
	e := &effect{name: name, release: make(chan release, 1)}
	if delay > 0 {
		e.after = time.Now().Add(delay)
	}
	g.waiting = append(g.waiting, e)
	return e
}

// wait is pass for something that is given up when ctx ends; that is an effect, too.
func (g *gate) wait(ctx context.Context, generation int, name string, delay time.Duration) (roll uint64, ok bool, err error) {
	e := g.enter(generation, name, delay)
	if e == nil {
		return 0, false, nil
	}
	select {
	case r := <-e.release:
		return r.roll, !r.dead, nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	i := slices.Index(g.waiting, e)
	if i >= 0 {
		g.waiting = slices.Delete(g.waiting, i, i+1)
	}
	g.mu.Unlock()
	if i < 0 { // it was released at the same moment
		r := <-e.release
		return r.roll, !r.dead, nil
	}
	roll, ok = g.pass(generation, "give up "+name, 0)
	return roll, ok, ctx.Err()
}

// alive says whether a generation is the present one.
func (g *gate) alive(generation int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return generation == g.generation
}

// ready lists the effects that may be released now, by name. next is when another may be; zero: none waits for its time.
func (g *gate) ready(now time.Time) (list []*effect, next time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, e := range g.waiting {
		switch {
		case !e.after.After(now):
			list = append(list, e)
		case next.IsZero() || e.after.Before(next):
			next = e.after
		}
	}
	slices.SortStableFunc(list, func(a, b *effect) int { return cmp.Compare(a.name, b.name) })
	return list, next
}

// let releases an effect together with all others of its name that are ready: nothing distinguishes them but which goroutine
// came first.
func (g *gate) let(chosen *effect, now time.Time, roll uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = slices.DeleteFunc(g.waiting, func(e *effect) bool {
		out := e.name == chosen.name && !e.after.After(now)
		if out {
			e.release <- release{roll: roll}
		}
		return out
	})
}

// crash ends the generation: whoever waits is told that nothing happens.
func (g *gate) crash() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.generation++
	for _, e := range g.waiting {
		e.release <- release{dead: true}
	}
	g.waiting = nil
}

// names lists what waits.
func (g *gate) names() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []string
	for _, e := range g.waiting {
		out = append(out, e.name)
	}
	slices.Sort(out)
	return out
}
