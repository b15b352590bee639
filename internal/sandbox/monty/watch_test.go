package monty

import (
	"context"
	"errors"
	"testing"
	"time"

	"agentkernel"
)

// bitten is a worker's process that only counts how often it is killed.
type bitten struct{ kills chan struct{} }

func (b bitten) kill()                   { b.kills <- struct{}{} }
func (bitten) wait() string              { return "" }
func (bitten) bury()                     {}
func (bitten) pid() int                  { return 0 }
func (bitten) walls() []agentkernel.Wall { return nil }

// TestTheWatchdogHearsOfOneContext: it goes on hearing of the context of the last turn, kills only during a turn, and never for the end of
// a context that another turn has.
func TestTheWatchdogHearsOfOneContext(t *testing.T) {
	b := bitten{kills: make(chan struct{}, 8)}
	w := &worker{body: b, clock: systemClock{}}
	first, end := context.WithCancel(t.Context())
	for range 3 {
		w.watch(first, time.Hour)
		w.disarm()
	}
	end() // between two turns
	second, endSecond := context.WithCancel(t.Context())
	w.watch(second, time.Hour)
	w.over(first) // as one that was on its way does
	if len(b.kills) > 0 {
		t.Fatal("killed for the end of the context of a turn before")
	}
	endSecond()
	<-b.kills
	if cause := w.killedFor(); !errors.Is(cause, context.Canceled) {
		t.Errorf("killed for %v", cause)
	}
	w.disarm()

	w = &worker{body: b, clock: systemClock{}}
	third, endThird := context.WithCancel(t.Context())
	w.watch(third, time.Hour)
	w.disarm()
	endThird()
	w.watch(third, time.Hour) // it has ended while nobody was watched
	<-b.kills
	w.disarm()
	w.unbind()
	if w.under != nil || w.deaf != nil {
		t.Error("a worker without a program keeps a context")
	}
}
