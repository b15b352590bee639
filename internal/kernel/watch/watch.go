// Package watch holds what one reader of a process's events has not read yet.
package watch

import (
	"context"
	"slices"
	"sync"
	"time"

	"agentkernel"
)

// settleTime is how long output may wait for more before a commit is asked for on its behalf. A program
// that ends within it costs one commit in all.
const settleTime = time.Millisecond

// limit bounds what a slow reader may leave unread in memory; beyond it the reader is sent back to
// the journal.
const limit = 8 << 20

// Watcher is one reader of a process's events.
type Watcher struct {
	mu       sync.Mutex
	events   []agentkernel.Event
	size     int
	pos      agentkernel.Position
	lagged   bool
	err      error
	asks     bool // see Asks
	of       agentkernel.PID
	asked    map[question]bool
	poke     chan struct{} // something is there that should not wait for more
	timer    *time.Timer   // pokes when output has settled
	settling bool          // the timer runs
	held     bool          // it need not: whoever reads drives the process itself
}

// question is one that a process asks.
type question struct {
	pid agentkernel.PID
	id  int64
}

// usual is how many events a small program has: it is created, prints, and ends.
const usual = 3

// New returns a watcher. asks: its reader answers EventAsk.
func New(asks bool) *Watcher {
	return &Watcher{asks: asks, poke: make(chan struct{}, 1), events: make([]agentkernel.Event, 0, usual)}
}

// Asks says whether the reader answers EventAsk.
func (w *Watcher) Asks() bool { return w.asks }

// Add hands the reader an event, which is durable when everything up to pos is.
func (w *Watcher) Add(ev agentkernel.Event, pos agentkernel.Position) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.add(ev, pos)
}

// Catch is Add for a question that was asked before, unless the reader was handed it then.
func (w *Watcher) Catch(ev agentkernel.Event, pos agentkernel.Position) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.asked[question{ev.PID, ev.Ask.ID}] {
		w.add(ev, pos)
	}
}

func (w *Watcher) add(ev agentkernel.Event, pos agentkernel.Position) {
	w.pos = max(w.pos, pos)
	if ev.Kind == agentkernel.EventAsk {
		if w.asked == nil {
			w.asked = map[question]bool{}
		}
		w.asked[question{ev.PID, ev.Ask.ID}] = true
		if ev.PID != w.of { // it is in another journal
			ev.Seq = 0
		}
	}
	if w.size > limit && !w.lagged && ev.Kind != agentkernel.EventAsk {
		w.lag()
	}
	if !w.lagged || ev.Kind == agentkernel.EventAsk {
		w.events = append(w.events, ev)
		w.size += len(ev.Text) + 64
		if ev.Ask != nil {
			w.size += len(ev.Ask.Args)
		}
	}
	switch ev.Kind {
	case agentkernel.EventOutput, agentkernel.EventCreated, agentkernel.EventLog:
		w.settle()
	default:
		signal(w.poke)
	}
}

// lag sends the reader back to the journal. Questions stay: no journal has them; w.mu is held.
func (w *Watcher) lag() {
	w.events = slices.DeleteFunc(w.events, func(ev agentkernel.Event) bool { return ev.Kind != agentkernel.EventAsk })
	w.size, w.lagged = 0, true
	for _, ev := range w.events {
		w.size += len(ev.Ask.Args) + 64
	}
}

// settle wakes the reader in a while, so that what comes soon shares its commit; w.mu is held.
func (w *Watcher) settle() {
	switch {
	case w.settling || w.held:
		return
	case w.timer == nil:
		w.timer = time.AfterFunc(settleTime, func() { signal(w.poke) })
	default:
		w.timer.Reset(settleTime)
	}
	w.settling = true
}

// Hold lets output wait for a reader that will look by itself, until Release. A timer costs as much as a small program.
func (w *Watcher) Hold() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = true
}

// Release ends Hold.
func (w *Watcher) Release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = false
	if len(w.events) > 0 && len(w.poke) == 0 {
		w.settle()
	}
}

// Hurry wakes the reader now if there is something to read.
func (w *Watcher) Hurry() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.events) > 0 || w.lagged {
		signal(w.poke)
	}
}

// Fail ends the reading with an error.
func (w *Watcher) Fail(err error) {
	w.mu.Lock()
	if w.err == nil {
		w.err = err
	}
	w.mu.Unlock()
	signal(w.poke)
}

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// Wait returns when there is something worth a commit; who has left by then is not told of it.
func (w *Watcher) Wait(ctx context.Context) error {
	if err := ctx.Err(); err != nil { // select would toss a coin
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-w.poke:
		return nil
	}
}

// Take returns what the reader has not had. lagged: some of it is in the journal alone.
func (w *Watcher) Take() (events []agentkernel.Event, pos agentkernel.Position, lagged bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	events, lagged, pos = w.events, w.lagged, w.pos
	w.events, w.size, w.lagged = nil, 0, false
	if w.settling {
		w.timer.Stop()
		w.settling = false
	}
	return events, pos, lagged, w.err
}
