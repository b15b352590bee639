package gate_test

import (
	"sync"
	"testing"
	"testing/synctest"

	"agentkernel/internal/kernel/gate"
)

// TestGo: all runs, at the same time, however many goroutines wait for something to do, and none is left when the gate is closed.
func TestGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which fails where a goroutine is left
		g := gate.New()
		for round := range 3 {
			var done sync.WaitGroup
			together := make(chan struct{})
			for range 20 {
				done.Add(1)
				if !g.Go(func() {
					defer done.Done()
					<-together
				}) {
					t.Error("the gate is closed")
				}
			}
			synctest.Wait()
			close(together)
			done.Wait()
			synctest.Wait()
			if round == 1 { // one after the other
				for range 20 {
					ran := make(chan struct{})
					g.Go(func() { close(ran) })
					<-ran
				}
			}
		}
		g.Close()
		g.Close()
		if g.Go(func() { t.Error("it ran") }) || g.Enter() {
			t.Error("the gate is open")
		}
	})
}
