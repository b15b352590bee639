package eviction

import (
	"maps"
	"slices"
	"sync"

	"agentkernel"
)

// Residents are the processes with a sandbox in memory. The zero value is none.
type Residents[P any] struct {
	mu      sync.Mutex
	all     map[agentkernel.PID]P
	looking bool
}

// Add notes that a process has a sandbox.
func (r *Residents[P]) Add(pid agentkernel.PID, p P) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = map[agentkernel.PID]P{}
	}
	r.all[pid] = p
}

// Remove notes that a process has none, if gone says so, which is called with the lock held; nil: it has none.
func (r *Residents[P]) Remove(pid agentkernel.PID, gone func() bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if gone == nil || gone() {
		delete(r.all, pid)
	}
}

// Count is how many there are.
func (r *Residents[P]) Count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.all)
}

// First takes the one that goes first of those that rank says may go. False: none may, or take says that it does not any more.
func (r *Residents[P]) First(rank func(P) (Rank, bool), take func(P) bool) (first P, ok bool) {
	r.mu.Lock()
	all := slices.Collect(maps.Values(r.all)) // rank waits for the locks of processes, and nobody else should for that
	r.mu.Unlock()
	var best Rank
	for _, p := range all {
		if it, may := rank(p); may && (!ok || it.Before(best)) {
			first, best, ok = p, it, true
		}
	}
	return first, ok && take(first)
}

// Look says whether somebody has to look for idle ones in a while: there are some, and nobody is about to. Its caller is, until Looked.
func (r *Residents[P]) Look() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.looking || len(r.all) == 0 {
		return false
	}
	r.looking = true
	return true
}

// Looked says that its caller has looked.
func (r *Residents[P]) Looked() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.looking = false
}
