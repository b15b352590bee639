package kernel

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/eviction"
	"agentkernel/internal/kernel/gate"
)

// table is the process table: the processes that this kernel carries. The store has all others.
type table struct {
	mu         sync.Mutex
	procs      map[agentkernel.PID]*process
	resident   map[agentkernel.PID]*process // those with a sandbox in memory
	unfinished int                          // left by earlier kernels, not taken up
	removed    atomic.Int64                 // how many processes were taken off the table
	closed     bool                         // the kernel is stopping
	failure    *agentkernel.Error           // why the store failed; nil: it has not
	timer      *time.Timer                  // see schedule
	recovering *gate.Gate                   // recoveries that are under way
	recovered  func()                       // the first of all processes has ended
}

func newTable(unfinished int, recovers bool) *table {
	t := &table{procs: map[agentkernel.PID]*process{}, resident: map[agentkernel.PID]*process{}, unfinished: unfinished, recovering: gate.New(), recovered: func() {}}
	if recovers && t.recovering.Enter() {
		t.recovered = sync.OnceFunc(t.recovering.Leave)
	}
	return t
}

// lookup returns a process that the table has; nil: it has none with this PID.
func (t *table) lookup(pid agentkernel.PID) *process {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.procs[pid]
}

// refuses says why no process may be created.
func (t *table) refuses() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.refusal()
}

// refusal is refuses where t.mu is held.
func (t *table) refusal() error {
	if t.failure != nil {
		return t.failure
	}
	if t.closed {
		return agentkernel.Errorf(agentkernel.CodeUnavailable, "kernel", "the kernel is stopping")
	}
	return nil
}

// enter adds a new process, and locks it: whoever finds it here finds it created. A kernel that is stopping has seen to all
// that are in the table, so it takes no more.
func (t *table) enter(p *process) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.refusal(); err != nil {
		return err
	}
	t.procs[p.pid] = p
	p.mu.Lock()
	return nil
}

// adopt adds a process of an earlier kernel, whose row was read when so many had been removed. False: the table has it, or has
// had it since, or the kernel is stopping.
func (t *table) adopt(p *process, removed int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.procs[p.pid] != nil || t.closed || t.removed.Load() != removed {
		return false
	}
	t.procs[p.pid] = p
	t.unfinished = max(0, t.unfinished-1)
	return true
}

// remove takes a process that has ended off the table.
func (t *table) remove(pid agentkernel.PID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.procs, pid)
	delete(t.resident, pid)
	t.removed.Add(1)
}

// below returns the descendants of a process, also where one between has ended.
func (t *table) below(pid agentkernel.PID) []*process {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.DeleteFunc(t.all(), func(p *process) bool { return !descends(&p.spec.Spec, pid) })
}

// all are the processes of the table, by PID, so that what is done to each is done in the same order each time; t.mu is held.
func (t *table) all() []*process {
	return slices.SortedFunc(maps.Values(t.procs), func(a, b *process) int { return cmp.Compare(a.pid, b.pid) })
}

// counts says how many processes there are, and how many of earlier kernels nobody has taken up.
func (t *table) counts() (carried, unfinished int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.procs), t.unfinished
}

// fail notes why the store failed, and returns all processes. False: it had failed before.
func (t *table) fail(why *agentkernel.Error) ([]*process, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failure != nil {
		return nil, false
	}
	t.failure = why
	return t.all(), true
}

// failed is why the store failed; nil: it has not.
func (t *table) failed() *agentkernel.Error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failure
}

// close lets no process in any more, and returns all. False: it was closed before.
func (t *table) close() ([]*process, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, false
	}
	t.closed = true
	if t.timer != nil {
		t.timer.Stop()
	}
	return t.all(), true
}

// isClosed says whether close was called.
func (t *table) isClosed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed
}

// settle notes that a process has a sandbox.
func (t *table) settle(p *process) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.resident[p.pid] = p
}

// unsettle notes that a process has no sandbox, if it has none.
func (t *table) unsettle(p *process) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run.box == nil {
		delete(t.resident, p.pid)
	}
}

// full says whether there are so many sandboxes.
func (t *table) full(limit int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.resident) >= limit
}

// idlest returns the process whose sandbox should go first of those that may, and owns it for its caller; nil: none may. A
// process that is ready again but has no slot may give way too: whoever has the slot may be waiting for its place.
func (t *table) idlest(may func(*process) bool) *process {
	t.mu.Lock()
	defer t.mu.Unlock()
	var best *process
	var rank eviction.Rank // of best, whose lock is not held
	for _, p := range t.resident {
		p.mu.Lock()
		if p.evictable() && may(p) {
			if r := p.eviction(); best == nil || r.Before(rank) {
				best, rank = p, r
			}
		}
		p.mu.Unlock()
	}
	if best == nil {
		return nil
	}
	best.mu.Lock()
	defer best.mu.Unlock()
	if !best.evictable() {
		return nil
	}
	best.step(&stepReserve)
	return best
}

// schedule arranges that fn is called after a time, if there are sandboxes and no such call is arranged yet.
func (t *table) schedule(after time.Duration, fn func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer != nil || t.closed || len(t.resident) == 0 {
		return
	}
	t.timer = time.AfterFunc(after, fn)
}

// scheduled notes that the call was made.
func (t *table) scheduled() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timer = nil
}
