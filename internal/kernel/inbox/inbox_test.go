package inbox

import (
	"context"
	"runtime"
	"sync"
	"testing"

	"agentkernel"
)

// One looks at a time; whoever comes meanwhile makes that one look once more.
func TestLooks(t *testing.T) {
	var l Looks
	if l.Looking(1) || !l.Begin(1) || !l.Looking(1) || l.Looking(2) || !l.Begin(2) {
		t.Fatal("nobody looked")
	}
	if l.Again(1) || l.Begin(1) || l.Begin(1) || !l.Again(1) || l.Again(1) || l.Again(2) {
		t.Error("two came meanwhile: it is to look once more")
	}
	l.End(1)
	if l.Looking(1) || l.Again(1) || !l.Begin(1) {
		t.Error("it has ended")
	}
}

// counting is a store of which only Waiting is asked.
type counting struct {
	agentkernel.Store
	n int
}

func (c *counting) Waiting(context.Context, agentkernel.PID, string) (int, error) {
	n := c.n
	runtime.Gosched()
	return n, nil
}

// However many put signals into an inbox at the same time, no more come than there is room for.
func TestSenders(t *testing.T) {
	store := &counting{n: agentkernel.MaxSignalsWaiting - 5}
	var s Senders
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() {
			end, err := s.Enter(t.Context(), store, 7)
			if err != nil {
				if agentkernel.CodeOf(err) != agentkernel.CodeLimit {
					t.Error(err)
				}
				return
			}
			store.n++
			end()
		})
	}
	group.Wait()
	if store.n != agentkernel.MaxSignalsWaiting {
		t.Errorf("%d wait", store.n)
	}
}
