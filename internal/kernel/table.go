package kernel

import (
	"slices"
	"sync"

	"agentkernel"
	"agentkernel/internal/kernel/budget"
	"agentkernel/internal/kernel/eviction"
	"agentkernel/internal/kernel/gate"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/kernel/hosting"
	"agentkernel/internal/kernel/inbox"
	"agentkernel/internal/kernel/locals"
	"agentkernel/internal/kernel/rows"
	"agentkernel/internal/kernel/steps"
	"agentkernel/internal/kernel/streams"
	"agentkernel/internal/kernel/timers"
	"agentkernel/internal/kernel/watch"
	"agentkernel/internal/sys"
)

// table is the process table: the processes that this kernel carries. The store has all others.
type table struct {
	*rows.Rows[*process]
	looks      inbox.Looks
	senders    inbox.Senders
	locals     *locals.Set
	streams    *streams.Registry
	ledger     *budget.Ledger
	hosts      hosting.Seats
	recovering *gate.Gate // recoveries that are under way
	recovered  func()     // the first of all processes has ended
	audience   watch.Audience
	foreign    timers.Retries // the waits of reruns for children of others, by these
	residents  eviction.Residents[*process]
}

func newTable(unfinished int, recovers bool, families []sys.Family) *table {
	t := &table{
		Rows: rows.New[*process](unfinished), locals: locals.New(families), recovering: gate.New(), recovered: func() {},
	}
	if recovers && t.recovering.Enter() {
		t.recovered = sync.OnceFunc(t.recovering.Leave)
	}
	return t
}

// enter adds a new process, and locks it: whoever finds it here finds it created.
func (t *table) enter(p *process) error { return t.Enter(p.pid, p, p.mu.Lock) }

// remove takes a process that has ended off the table.
func (t *table) remove(pid agentkernel.PID) {
	t.looks.End(pid)
	t.hosts.Vacate(pid, nil)
	t.residents.Remove(pid, nil)
	t.Remove(pid)
}

// surplus returns a process to unload if more than limit are listed, and owns it for its caller; nil: there is none.
func (t *table) surplus(limit int, may func(*process) bool) *process {
	return t.Surplus(limit, func(p *process) bool {
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
	return t.Evict(p.pid, func() bool {
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
	_, _, unfinished := t.Counts()
	return unfinished > 0
}

// below returns the descendants of a process, also where one between has ended.
func (t *table) below(pid agentkernel.PID) []*process {
	return slices.DeleteFunc(t.All(), func(p *process) bool { return !history.Descends(&p.spec.Spec, pid) })
}

// counts says how many processes there are, and how many of earlier kernels nobody has taken up.
func (t *table) counts(i *agentkernel.KernelInfo) {
	i.Resident = t.residents.Count()
	loaded, asleep, unfinished := t.Counts()
	i.Processes, i.Parked, i.Unfinished = loaded+asleep, asleep, unfinished
}

// unsettle notes that a process has no sandbox, if it has none.
func (t *table) unsettle(p *process) {
	t.residents.Remove(p.pid, func() bool { return p.sandbox() == nil })
}

// idlest returns the process whose sandbox should go first of those that may, and owns it for its caller; nil: none may. A
// process that is ready again but has no slot may give way too: whoever has the slot may be waiting for its place.
func (t *table) idlest(may func(*process) bool) *process {
	rank := func(p *process) (eviction.Rank, bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.eviction(), p.evictable() && may(p)
	}
	p, ok := t.residents.First(rank, func(p *process) bool { // its lock was not held
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.evictable() {
			return false
		}
		p.step(steps.Reserve)
		return true
	})
	if !ok {
		return nil
	}
	return p
}
