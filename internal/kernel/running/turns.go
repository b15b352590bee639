package running

import (
	"context"
	"sync/atomic"
	"time"
)

// Turns gives each turn of a program its time. Most turns take microseconds: the context and the timer of one serve the next, since to make
// them costs as much as a small call. Used by whoever drives the process.
type Turns struct {
	of   context.Context
	turn *turn // nil: the next turn needs a new one
}

// turn is the context of a turn: ended with the context of its process, or context.DeadlineExceeded when the time is up.
type turn struct {
	context.Context
	cancel context.CancelFunc
	timer  *time.Timer
	late   atomic.Bool
}

// Begin gives the context for a turn that may take so long.
func (t *Turns) Begin(left time.Duration) context.Context {
	if t.turn != nil && left > 0 {
		t.turn.timer.Reset(left)
		return t.turn
	}
	n := &turn{}
	n.Context, n.cancel = context.WithCancel(t.of)
	if n.timer = time.AfterFunc(left, n.expire); left <= 0 { // and not a moment later
		n.expire()
	}
	t.turn = n
	return n
}

// End ends the turn. late: its time was up before.
func (t *Turns) End() (late bool) {
	n := t.turn
	if n.timer.Stop() && n.Context.Err() == nil {
		return false
	}
	t.turn = nil // its timer may still be at it
	n.expire()
	return n.late.Load()
}

// expire is what the timer does; only the first call counts, and none once the process was ended.
func (n *turn) expire() {
	if n.Context.Err() == nil {
		n.late.Store(true)
	}
	n.cancel()
}

func (n *turn) Err() error {
	if n.late.Load() {
		return context.DeadlineExceeded
	}
	return n.Context.Err()
}
