package kernel

import (
	"context"
	"slices"
	"sync"

	"agentkernel"
	"agentkernel/internal/kernel/budget"
	"agentkernel/internal/kernel/eviction"
	"agentkernel/internal/kernel/gate"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/kernel/inbox"
	"agentkernel/internal/kernel/locals"
	"agentkernel/internal/kernel/rows"
	"agentkernel/internal/kernel/steps"
	"agentkernel/internal/kernel/streams"
	"agentkernel/internal/sys"
)

// table is the process table: the processes that this kernel carries. The store has all others.
type table struct {
	rows       *rows.Rows[*process]
	looks      inbox.Looks
	senders    inbox.Senders
	locals     *locals.Set
	streams    *streams.Registry
	ledger     *budget.Ledger
	attached   sync.Map   // by PID: hosted programs whose Syscaller is held
	recovering *gate.Gate // recoveries that are under way
	recovered  func()     // the first of all processes has ended

	mu       sync.Mutex
	resident map[agentkernel.PID]*process // those with a sandbox in memory
	parking  bool                         // see schedule
}

func newTable(unfinished int, recovers bool, families []sys.Family) *table {
	t := &table{
		rows: rows.New[*process](unfinished), locals: locals.New(families), recovering: gate.New(), recovered: func() {},
		resident: map[agentkernel.PID]*process{},
	}
	if recovers && t.recovering.Enter() {
		t.recovered = sync.OnceFunc(t.recovering.Leave)
	}
	return t
}

// What the rows say and do without a look into a process.

func (t *table) lookup(pid agentkernel.PID) *process            { return t.rows.Lookup(pid) }
func (t *table) all() []*process                                { return t.rows.All() }
func (t *table) refuses() error                                 { return t.rows.Refuses() }
func (t *table) close() ([]*process, bool)                      { return t.rows.Close() }
func (t *table) isClosed() bool                                 { return t.rows.Closed() }
func (t *table) fail(why *agentkernel.Error) ([]*process, bool) { return t.rows.Fail(why) }
func (t *table) failed() *agentkernel.Error                     { return t.rows.Failed() }
func (t *table) adopt(p *process, asleep bool) bool             { return t.rows.Adopt(p.pid, p, asleep) }
func (t *table) loaded(pid agentkernel.PID)                     { t.rows.Loaded(pid) }
func (t *table) unpin(p *process)                               { t.rows.Unpin(p.pid, p) }
func (t *table) parked(p *process)                              { t.rows.Parked(p.pid, p) }
func (t *table) carriesAll() bool                               { return t.rows.CarriesAll() }

func (t *table) claim(ctx context.Context, pid agentkernel.PID) (p *process, first bool, err error) {
	return t.rows.Claim(ctx, pid)
}

// enter adds a new process, and locks it: whoever finds it here finds it created.
func (t *table) enter(p *process) error { return t.rows.Enter(p.pid, p, p.mu.Lock) }

// remove takes a process that has ended off the table.
func (t *table) remove(pid agentkernel.PID) {
	t.looks.End(pid)
	t.attached.Delete(pid)
	t.mu.Lock()
	delete(t.resident, pid)
	t.mu.Unlock()
	t.rows.Remove(pid)
}

// surplus returns a process to unload if more than limit are listed, and owns it for its caller; nil: there is none.
func (t *table) surplus(limit int, may func(*process) bool) *process {
	return t.rows.Surplus(limit, func(p *process) bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		ok := may(p)
		if ok {
			p.step(steps.Reserve)
		}
		return ok
	})
}

// evict takes a process that the caller owns out of the table, with its timers. False: it is in use, or its row does not say
// any more that it is parked.
func (t *table) evict(p *process) bool {
	return t.rows.Evict(p.pid, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.parked == nil || len(p.watchers) > 0 || p.deliverable() || p.runEnded() {
			return false
		}
		p.wall.Stop()
		for _, f := range p.inflight {
			f.timer.Stop()
		}
		p.inflight = nil // a timer that rings at this moment finds nothing to answer
		return true
	})
}

// untaken says whether there are processes of earlier kernels that nobody has taken up.
func (t *table) untaken() bool {
	_, _, unfinished := t.rows.Counts()
	return unfinished > 0
}

// below returns the descendants of a process, also where one between has ended.
func (t *table) below(pid agentkernel.PID) []*process {
	return slices.DeleteFunc(t.all(), func(p *process) bool { return !history.Descends(&p.spec.Spec, pid) })
}

// counts says how many processes there are, and how many of earlier kernels nobody has taken up.
func (t *table) counts(i *agentkernel.KernelInfo) {
	t.mu.Lock()
	i.Resident = len(t.resident)
	t.mu.Unlock()
	loaded, asleep, unfinished := t.rows.Counts()
	i.Processes, i.Parked, i.Unfinished = loaded+asleep, asleep, unfinished
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
	best.step(steps.Reserve)
	return best
}

// schedule says whether idle sandboxes have to be looked for in a while: there are some, and nobody is about to. Its caller is, from
// then on, until scheduled.
func (t *table) schedule() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.parking || t.isClosed() || len(t.resident) == 0 {
		return false
	}
	t.parking = true
	return true
}

// scheduled notes that they were looked for.
func (t *table) scheduled() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.parking = false
}
