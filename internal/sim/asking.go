package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"agentkernel"
	"agentkernel/internal/llm"
	"agentkernel/internal/llm/router"
)

// engine is the router of the product as one generation of kernels has it. Where several calls may go on at one moment, because their
// turn has come or somebody was answered, each waits at the gate.
type engine struct {
	w          *World
	generation int
	router     *router.Router

	mu   sync.Mutex
	live []*asking // those that wait, or ask
}

// newEngine makes the router of a kernel.
func newEngine(w *World, generation int) *engine {
	e := &engine{w: w, generation: generation}
	w.market.kernelBegins()
	chance := &dice{rng: rand.New(rand.NewPCG(w.rng.Uint64(), 2))} //nolint:gosec // a seed has to give the same numbers again
	n := 0
	r, err := router.New(router.Config{Models: w.market.declared, Rand: chance.float,
		Provider: func(string, llm.Options) (llm.Provider, error) { // they are made in the order of the setting
			n++
			return &provider{e, &w.market.declared[n-1]}, nil
		}})
	if err != nil {
		w.failf("the router did not start: %v", err)
	}
	e.router = r
	return e
}

// Plan is that of the router.
func (e *engine) Plan(q *llm.Query) (llm.Plan, error) {
	p, err := e.router.Plan(q)
	if err != nil {
		return nil, err
	}
	return &asking{Plan: p, e: e, name: q.ID, capped: q.Capped}, nil
}

// Check is that of the router.
func (e *engine) Check(declared []string) error { return e.router.Check(declared) }

// asking is a call of a model on its way.
type asking struct {
	llm.Plan
	e      *engine
	name   string // "5/3"
	capped bool

	// Guarded by e.mu.
	sent int       // requests
	turn time.Time // when it was its turn for the first of them; zero: that was given back
}

// askingKey is under which the contexts of requests have their asking.
type askingKey struct{}

// Wait is that of the plan.
func (a *asking) Wait(ctx context.Context) error {
	w := a.e.w
	if _, ok := w.gate.pass(a.e.generation, "queue "+a.name, 0); !ok {
		return crashed()
	}
	a.e.begins(a)
	err := a.Plan.Wait(ctx)
	a.e.ends(a)
	a.e.mu.Lock()
	if err == nil {
		a.turn = time.Now()
	}
	a.e.mu.Unlock()
	if _, ok := w.gate.pass(a.e.generation, "turn "+a.name, 0); !ok {
		return crashed()
	}
	return err
}

// Ready is that of the plan for some calls. The others wait at the gate: what may happen meanwhile is looked for.
func (a *asking) Ready() bool {
	if a.name[len(a.name)-1]%3 != 0 || !a.Plan.Ready() {
		return false
	}
	a.e.mu.Lock()
	defer a.e.mu.Unlock()
	a.turn = time.Now()
	return true
}

// Drop is that of the plan.
func (a *asking) Drop() {
	a.e.mu.Lock()
	a.turn = time.Time{}
	a.e.mu.Unlock()
	a.Plan.Drop()
}

// Ask is that of the plan.
func (a *asking) Ask(ctx context.Context, tell func(llm.Delta) error) (*llm.Result, agentkernel.Amounts, error) {
	a.e.begins(a)
	r, used, err := a.Plan.Ask(context.WithValue(ctx, askingKey{}, a), tell)
	a.e.ends(a)
	if _, ok := a.e.w.gate.pass(a.e.generation, "asked "+a.name, 0); !ok {
		return nil, nil, crashed()
	}
	return r, used, err
}

// next names the next request, and says since when it may be sent.
func (a *asking) next() (name string, turn time.Time) {
	a.e.mu.Lock()
	defer a.e.mu.Unlock()
	a.sent++
	turn, a.turn = a.turn, time.Time{}
	if turn.IsZero() {
		turn = time.Now()
	}
	return fmt.Sprintf("%s.%d", a.name, a.sent), turn
}

func (e *engine) begins(a *asking) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.live = append(e.live, a)
}

func (e *engine) ends(a *asking) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if i := slices.Index(e.live, a); i >= 0 {
		e.live = slices.Delete(e.live, i, i+1)
	}
}

// asks says whether a call waits for its turn, or for an answer.
func (e *engine) asks(pid agentkernel.PID, call int64) bool {
	if e == nil {
		return false
	}
	name := fmt.Sprintf("%d/%d", pid, call)
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.ContainsFunc(e.live, func(a *asking) bool { return a.name == name })
}

// waiting is how many calls wait, or ask.
func (e *engine) waiting() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.live)
}
