package mcpserver

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// The time that a human takes is not the program's.
func TestClockStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, clock, stop := bounded(t.Context(), 10*time.Second)
		defer stop()
		ended := make(chan time.Time, 1)
		defer context.AfterFunc(ctx, func() { ended <- time.Now() })()
		begun := time.Now()
		<-time.After(4 * time.Second)
		clock.hold()
		clock.hold() // a second question at the same time
		<-time.After(time.Hour)
		clock.release()
		<-time.After(time.Hour)
		clock.release()
		if got := (<-ended).Sub(begun); got != 2*time.Hour+10*time.Second {
			t.Errorf("it ended after %s", got)
		}
		if cause := context.Cause(ctx); !errors.Is(cause, errTimeout) {
			t.Errorf("because %v", cause)
		}
	})
}

// A program that ends in time ends for no such reason, and one without a clock may be asked, too.
func TestClockIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, clock, stop := bounded(t.Context(), time.Second)
		clock.hold()
		stop()
		clock.release()
		<-time.After(time.Minute)
		if errors.Is(context.Cause(ctx), errTimeout) || ctx.Err() == nil {
			t.Errorf("%v, %v", ctx.Err(), context.Cause(ctx))
		}
		var none *clockKind
		none.hold()
		none.release()
	})
}

type clockKind = clock // the variable above hides the type
