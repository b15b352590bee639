package history_test

import (
	"slices"
	"testing"
	"testing/synctest"

	"agentkernel"
	"agentkernel/internal/kernel/history"
)

// TestAhead: what a few readers read is taken in the order of the rows, whoever is ready first, and no reader is far ahead.
func TestAhead(t *testing.T) {
	all := make([]agentkernel.ProcessRecord, 200)
	var pids []agentkernel.PID
	for i := range all {
		all[i].PID = agentkernel.PID(i + 1)
		pids = append(pids, all[i].PID)
	}
	synctest.Test(t, func(t *testing.T) {
		first := make(chan struct{})
		begun := make(chan agentkernel.PID, len(all))
		var taken []agentkernel.PID
		done := make(chan struct{})
		go func() {
			defer close(done)
			history.Ahead(4, all, func(rec *agentkernel.ProcessRecord) agentkernel.PID {
				begun <- rec.PID
				if rec.PID == 1 { // the others overtake it
					<-first
				}
				return rec.PID
			}, func(pid agentkernel.PID) { taken = append(taken, pid) })
		}()
		synctest.Wait()
		if n := len(begun); n < 4 || n >= len(all)/2 || len(taken) != 0 {
			t.Errorf("%d are read and %d taken while the first is being read", n, len(taken))
		}
		close(first)
		<-done
		if !slices.Equal(taken, pids) {
			t.Errorf("taken in the order %v", taken)
		}
	})
}

// TestAheadAlone: with one reader nothing is read before what comes earlier was taken.
func TestAheadAlone(t *testing.T) {
	all := make([]agentkernel.ProcessRecord, 10)
	read, taken := 0, 0
	history.Ahead(1, all, func(*agentkernel.ProcessRecord) int { read++; return read }, func(n int) {
		if taken++; n != taken || read != taken {
			t.Errorf("number %d is taken as number %d, %d are read", n, taken, read)
		}
	})
	if taken != len(all) {
		t.Errorf("%d are taken", taken)
	}
}
