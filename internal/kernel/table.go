package kernel

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"agentkernel"
	"agentkernel/internal/kernel/eviction"
	"agentkernel/internal/kernel/gate"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/kernel/idle"
	"agentkernel/internal/kernel/inbox"
	"agentkernel/internal/kernel/locals"
	"agentkernel/internal/kernel/steps"
	"agentkernel/internal/kernel/streams"
	"agentkernel/internal/sys"
)

// table is the process table: the processes that this kernel carries. The store has all others.
type table struct {
	mu         sync.Mutex
	procs      map[agentkernel.PID]*process
	resident   map[agentkernel.PID]*process        // those with a sandbox in memory
	loading    map[agentkernel.PID][]chan *process // see claim
	pins       map[agentkernel.PID]int             // who uses a process, which stays in memory then
	looks      inbox.Looks
	senders    inbox.Senders
	locals     *locals.Set
	streams    *streams.Registry
	attached   sync.Map            // by PID: hosted programs whose Syscaller is held
	idle       idle.List[*process] // those that may be unloaded, in the order in which they were parked
	asleep     int                 // that this kernel carries and that are not in memory
	takesAll   bool                // what other kernels have parked is this kernel's to wake
	unfinished int                 // left by earlier kernels, not taken up
	closed     bool                // the kernel is stopping
	failure    *agentkernel.Error  // why the store failed; nil: it has not
	parking    bool                // see schedule
	recovering *gate.Gate          // recoveries that are under way
	recovered  func()              // the first of all processes has ended
}

func newTable(unfinished int, recovers bool, families []sys.Family) *table {
	t := &table{
		locals: locals.New(families),
		procs:  map[agentkernel.PID]*process{}, resident: map[agentkernel.PID]*process{}, loading: map[agentkernel.PID][]chan *process{}, pins: map[agentkernel.PID]int{}, unfinished: unfinished, recovering: gate.New(), recovered: func() {},
	}
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

// adopt adds a process that its caller has claimed and read: one that this kernel carried asleep, or one of an earlier kernel. Its caller unpins it.
// False: the kernel is stopping.
func (t *table) adopt(p *process, asleep bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.refusal() != nil {
		return false
	}
	t.procs[p.pid] = p
	t.pins[p.pid]++
	if asleep {
		t.asleep--
	} else {
		t.unfinished = max(0, t.unfinished-1)
	}
	return true
}

// remove takes a process that has ended off the table.
func (t *table) remove(pid agentkernel.PID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.idle.Drop(pid)
	t.looks.End(pid)
	t.attached.Delete(pid)
	delete(t.procs, pid)
	delete(t.resident, pid)
}

// claim keeps a process in memory until unpin, if it is there. Else first says that the caller is the one who reads it, and has
// to call loaded at the end. Others who want it wait for that in the order in which they came: what comes of it is the same each
// time.
func (t *table) claim(ctx context.Context, pid agentkernel.PID) (p *process, first bool, err error) {
	t.mu.Lock()
	if p = t.procs[pid]; p != nil {
		t.pins[pid]++
		t.mu.Unlock()
		return p, false, nil
	}
	queue, others := t.loading[pid]
	if !others {
		t.loading[pid] = nil
		t.mu.Unlock()
		return nil, true, nil
	}
	turn := make(chan *process, 1)
	t.loading[pid] = append(queue, turn)
	t.mu.Unlock()
	select {
	case p = <-turn:
		return p, p == nil, nil
	case <-ctx.Done():
		t.leave(pid, turn)
		return nil, false, ctx.Err()
	}
}

// leave ends the wait of a caller of claim who does not want the process any more.
func (t *table) leave(pid agentkernel.PID, turn chan *process) {
	t.mu.Lock()
	i := slices.Index(t.loading[pid], turn)
	if i >= 0 {
		t.loading[pid] = slices.Delete(t.loading[pid], i, i+1)
	}
	t.mu.Unlock()
	if i >= 0 {
		return
	}
	if p := <-turn; p != nil {
		t.unpin(p)
		return
	}
	t.loaded(pid)
}

// loaded ends what claim began for the first: those who wait have the process, or the next of them is to read it.
func (t *table) loaded(pid agentkernel.PID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	queue, p := t.loading[pid], t.procs[pid]
	switch {
	case p != nil:
		t.pins[pid] += len(queue)
		for _, turn := range queue {
			turn <- p
		}
		delete(t.loading, pid)
	case len(queue) > 0:
		queue[0] <- nil
		t.loading[pid] = queue[1:]
	default:
		delete(t.loading, pid)
	}
}

// unpin ends pin.
func (t *table) unpin(p *process) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pins[p.pid]--; t.pins[p.pid] > 0 {
		return
	}
	delete(t.pins, p.pid)
	if t.procs[p.pid] == p {
		t.idle.Put(p.pid, p)
	}
}

// parked notes that a process was parked a moment ago.
func (t *table) parked(p *process) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.procs[p.pid] == p {
		t.idle.Put(p.pid, p)
	}
}

// surplus returns a process to unload if more than limit are listed, and owns it for its caller; nil: there is none.
func (t *table) surplus(limit int, may func(*process) bool) *process {
	t.mu.Lock()
	defer t.mu.Unlock()
	for p, more := t.idle.Take(limit); more; p, more = t.idle.Take(limit) {
		if t.pins[p.pid] > 0 {
			continue // unpin lists it again
		}
		p.mu.Lock()
		ok := may(p)
		if ok {
			p.step(steps.Reserve)
		}
		p.mu.Unlock()
		if ok {
			return p
		}
	}
	return nil
}

// evict takes a process that the caller owns out of the table, with its timers. False: it is in use, or its row does not say
// any more that it is parked.
func (t *table) evict(p *process) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if t.pins[p.pid] > 0 || p.parked == nil || len(p.watchers) > 0 || p.deliverable() || p.runEnded() || t.closed {
		return false
	}
	p.wall.Stop()
	for _, f := range p.inflight {
		f.timer.Stop()
	}
	p.inflight = nil // a timer that rings at this moment finds nothing to answer
	delete(t.procs, p.pid)
	t.asleep++
	return true
}

// untaken says whether there are processes of earlier kernels that nobody has taken up.
func (t *table) untaken() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.unfinished > 0
}

// sleepers is how many this kernel carries that are not in memory.
func (t *table) sleepers() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.asleep
}

// carryAll makes all processes that other kernels have parked, so many, this kernel's to wake.
func (t *table) carryAll(parked int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.takesAll {
		t.takesAll = true
		t.asleep += parked
		t.unfinished = max(0, t.unfinished-parked)
	}
}

// carriesAll says whether carryAll was called.
func (t *table) carriesAll() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.takesAll
}

// below returns the descendants of a process, also where one between has ended.
func (t *table) below(pid agentkernel.PID) []*process {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.DeleteFunc(t.each(), func(p *process) bool { return !history.Descends(&p.spec.Spec, pid) })
}

// each are the processes of the table, by PID, so that what is done to each is done in the same order each time; t.mu is held.
func (t *table) each() []*process {
	return slices.SortedFunc(maps.Values(t.procs), func(a, b *process) int { return cmp.Compare(a.pid, b.pid) })
}

// all are the processes in memory, by PID.
func (t *table) all() []*process {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.each()
}

// counts says how many processes there are, and how many of earlier kernels nobody has taken up.
func (t *table) counts(i *agentkernel.KernelInfo) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i.Processes, i.Resident, i.Parked, i.Unfinished = len(t.procs)+t.asleep, len(t.resident), t.asleep, t.unfinished
}

// fail notes why the store failed, and returns all processes. False: it had failed before.
func (t *table) fail(why *agentkernel.Error) ([]*process, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failure != nil {
		return nil, false
	}
	t.failure = why
	return t.each(), true
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
	return t.each(), true
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
	best.step(steps.Reserve)
	return best
}

// schedule says whether idle sandboxes have to be looked for in a while: there are some, and nobody is about to. Its caller is, from
// then on, until scheduled.
func (t *table) schedule() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.parking || t.closed || len(t.resident) == 0 {
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
