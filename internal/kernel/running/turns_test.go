package running_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel/internal/kernel/running"
)

// TestTurns: a turn has its own time, whatever those before it took, and one that is late takes nothing from the next.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := running.New()
		turns := c.Turns()
		for i := range 3 {
			ctx := turns.Begin(10 * time.Millisecond)
			time.Sleep(9 * time.Millisecond)
			if err := ctx.Err(); err != nil {
				t.Fatalf("turn %d, 1 ms before its end: %v", i, err)
			}
			if turns.End() {
				t.Errorf("turn %d was not late", i)
			}
			time.Sleep(time.Second) // between turns no time passes
		}
		late := turns.Begin(10 * time.Millisecond)
		told := make(chan error, 1)
		context.AfterFunc(late, func() { told <- late.Err() })
		time.Sleep(11 * time.Millisecond)
		if err := <-told; err != context.DeadlineExceeded || late.Err() != context.DeadlineExceeded { //nolint:errorlint // what backends look for
			t.Errorf("a late turn: %v", err)
		}
		if !turns.End() {
			t.Error("nobody says that the turn was late")
		}
		if next := turns.Begin(time.Minute); next.Err() != nil || turns.End() {
			t.Errorf("the turn behind a late one: %v", next.Err())
		}
		if none := turns.Begin(0); none.Err() != context.DeadlineExceeded || !turns.End() { //nolint:errorlint // as above
			t.Errorf("a turn without time: %v", none.Err())
		}
		last := turns.Begin(time.Minute)
		c.End(nil)
		<-last.Done()
		if last.Err() != context.Canceled || turns.End() { //nolint:errorlint // as above
			t.Errorf("a turn of a process that was ended: %v", last.Err())
		}
		if after := turns.Begin(time.Minute); after.Err() != context.Canceled || turns.End() { //nolint:errorlint // as above
			t.Errorf("a turn after that: %v", after.Err())
		}
	})
}
