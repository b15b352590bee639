// Package rows is which processes are in memory: who uses one, who reads one back, and which may go. It counts those that are not
// there. It never looks into a process, and reads none: its callers do.
package rows

import (
	"context"
	"maps"
	"slices"
	"sync"

	"agentkernel"
	"agentkernel/internal/kernel/idle"
)

// Rows are the processes that a kernel has in memory, of some type whose zero value is none. Functions that are handed to its
// methods run while it is locked.
type Rows[P comparable] struct {
	mu         sync.Mutex
	procs      map[agentkernel.PID]P
	loading    map[agentkernel.PID][]chan P // see Claim
	pins       map[agentkernel.PID]int      // who uses a process, which stays in memory then
	idle       idle.List[P]                 // those that may be unloaded, in the order in which they were parked
	asleep     int                          // that this kernel carries and that are not in memory
	takesAll   bool                         // what other kernels have parked is this kernel's to wake
	unfinished int                          // left by earlier kernels, not taken up
	closed     bool                         // the kernel is stopping
	failure    *agentkernel.Error           // why the store failed; nil: it has not
}

// New returns an empty set, of a kernel that was left so many processes by earlier ones.
func New[P comparable](unfinished int) *Rows[P] {
	return &Rows[P]{procs: map[agentkernel.PID]P{}, loading: map[agentkernel.PID][]chan P{}, pins: map[agentkernel.PID]int{}, unfinished: unfinished}
}

// Lookup returns a process that is in memory; the zero value: none is with this PID.
func (r *Rows[P]) Lookup(pid agentkernel.PID) P {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.procs[pid]
}

// Refuses says why no process may be created.
func (r *Rows[P]) Refuses() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refusal()
}

// refusal is Refuses where r.mu is held.
func (r *Rows[P]) refusal() error {
	if r.failure != nil {
		return r.failure
	}
	if r.closed {
		return agentkernel.Errorf(agentkernel.CodeUnavailable, "kernel", "the kernel is stopping")
	}
	return nil
}

// Enter adds a new process. Nobody finds it before entered has returned. A kernel that is stopping has seen to all that are in
// memory, so it takes no more.
func (r *Rows[P]) Enter(pid agentkernel.PID, p P, entered func()) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.refusal(); err != nil {
		return err
	}
	r.procs[pid] = p
	entered()
	return nil
}

// Adopt adds a process that its caller has claimed and read: one that this kernel carried asleep, or one of an earlier kernel. Its caller unpins it.
// False: the kernel is stopping.
func (r *Rows[P]) Adopt(pid agentkernel.PID, p P, asleep bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refusal() != nil {
		return false
	}
	r.procs[pid] = p
	r.pins[pid]++
	if asleep {
		r.asleep--
	} else {
		r.unfinished = max(0, r.unfinished-1)
	}
	return true
}

// Leave notes that a process that its caller has claimed stays as it was left: it cannot be read now.
func (r *Rows[P]) Leave(asleep bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if asleep {
		r.asleep--
		r.unfinished++
	}
}

// Remove takes a process out that has ended.
func (r *Rows[P]) Remove(pid agentkernel.PID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.idle.Drop(pid)
	delete(r.procs, pid)
}

// Claim keeps a process in memory until Unpin, if it is there. Else first says that the caller is the one who reads it, and has
// to call Loaded at the end. Others who want it wait for that in the order in which they came: what comes of it is the same each
// time.
func (r *Rows[P]) Claim(ctx context.Context, pid agentkernel.PID) (p P, first bool, err error) {
	var none P
	r.mu.Lock()
	if p = r.procs[pid]; p != none {
		r.pins[pid]++
		r.mu.Unlock()
		return p, false, nil
	}
	queue, others := r.loading[pid]
	if !others {
		r.loading[pid] = nil
		r.mu.Unlock()
		return none, true, nil
	}
	turn := make(chan P, 1)
	r.loading[pid] = append(queue, turn)
	r.mu.Unlock()
	select {
	case p = <-turn:
		return p, p == none, nil
	case <-ctx.Done():
		r.leave(pid, turn)
		return none, false, ctx.Err()
	}
}

// leave ends the wait of a caller of Claim who does not want the process any more.
func (r *Rows[P]) leave(pid agentkernel.PID, turn chan P) {
	r.mu.Lock()
	i := slices.Index(r.loading[pid], turn)
	if i >= 0 {
		r.loading[pid] = slices.Delete(r.loading[pid], i, i+1)
	}
	r.mu.Unlock()
	if i >= 0 {
		return
	}
	var none P
	if p := <-turn; p != none {
		r.Unpin(pid, p)
		return
	}
	r.Loaded(pid)
}

// Loaded ends what Claim began for the first: those who wait have the process, or the next of them is to read it.
func (r *Rows[P]) Loaded(pid agentkernel.PID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var none P
	queue, p := r.loading[pid], r.procs[pid]
	switch {
	case p != none:
		r.pins[pid] += len(queue)
		for _, turn := range queue {
			turn <- p
		}
		delete(r.loading, pid)
	case len(queue) > 0:
		queue[0] <- none
		r.loading[pid] = queue[1:]
	default:
		delete(r.loading, pid)
	}
}

// Unpin ends Claim, and Adopt.
func (r *Rows[P]) Unpin(pid agentkernel.PID, p P) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pins[pid]--; r.pins[pid] > 0 {
		return
	}
	delete(r.pins, pid)
	if r.procs[pid] == p {
		r.idle.Put(pid, p)
	}
}

// Parked notes that a process was parked a moment ago.
func (r *Rows[P]) Parked(pid agentkernel.PID, p P) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.procs[pid] == p {
		r.idle.Put(pid, p)
	}
}

// Surplus returns a process to unload if more than limit are listed, of those that nobody uses and that may go; the zero value:
// there is none.
func (r *Rows[P]) Surplus(limit int, may func(P) bool) (none P) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for pid, p, more := r.idle.Take(limit); more; pid, p, more = r.idle.Take(limit) {
		if r.pins[pid] > 0 {
			continue // Unpin lists it again
		}
		if may(p) {
			return p
		}
	}
	return none
}

// Evict takes a process out that goes to sleep. False: it is in use, or may not go any more.
func (r *Rows[P]) Evict(pid agentkernel.PID, may func() bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pins[pid] > 0 || r.closed || !may() {
		return false
	}
	delete(r.procs, pid)
	r.asleep++
	return true
}

// CarryAll makes all processes that other kernels have parked, so many, this kernel's to wake.
func (r *Rows[P]) CarryAll(parked int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.takesAll {
		r.takesAll = true
		r.asleep += parked
		r.unfinished = max(0, r.unfinished-parked)
	}
}

// CarriesAll says whether CarryAll was called.
func (r *Rows[P]) CarriesAll() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.takesAll
}

// Counts says how many processes are in memory, how many this kernel carries that are not, and how many of earlier kernels nobody
// has taken up.
func (r *Rows[P]) Counts() (loaded, asleep, unfinished int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.procs), r.asleep, r.unfinished
}

// All are the processes in memory, by PID, so that what is done to each is done in the same order each time.
func (r *Rows[P]) All() []P {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all()
}

// all is All where r.mu is held.
func (r *Rows[P]) all() []P {
	list := make([]P, 0, len(r.procs))
	for _, pid := range slices.Sorted(maps.Keys(r.procs)) {
		list = append(list, r.procs[pid])
	}
	return list
}

// Fail notes why the store failed, and returns all processes. False: it had failed before.
func (r *Rows[P]) Fail(why *agentkernel.Error) ([]P, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failure != nil {
		return nil, false
	}
	r.failure = why
	return r.all(), true
}

// Failed is why the store failed; nil: it has not.
func (r *Rows[P]) Failed() *agentkernel.Error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failure
}

// Close lets no process in any more, and returns all. False: it was closed before.
func (r *Rows[P]) Close() ([]P, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, false
	}
	r.closed = true
	return r.all(), true
}

// Closed says whether Close was called.
func (r *Rows[P]) Closed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed
}
