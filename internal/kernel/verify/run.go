package verify

import (
	"sync"

	"agentkernel"
	"agentkernel/internal/kernel/ends"
)

// Run makes a process repeat a journal and do nothing else: no call is made, nothing is journalled, and whatever the journal does not
// have ends it as a divergence. It is not in the process table.
type Run struct {
	Cut     bool               // the journal does not show the program's own end
	Last    int64              // number of the last recorded call
	Stop    *agentkernel.Error // ends a process that has repeated all of a journal that was cut
	Done    chan struct{}      // closed when the process has ended
	Outcome ends.Ending

	once sync.Once
}

// Ended takes how the process ended.
func (r *Run) Ended(e ends.Ending) {
	r.once.Do(func() {
		r.Outcome = e
		close(r.Done)
	})
}
