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

// First takes the one that goes first of those that rank says may go, and of which take, too, says that it still does. False: none may.
func (r *Residents[P]) First(rank func(P) (Rank, bool), take func(P) bool) (first P, ok bool) {
	r.mu.Lock()
	all := slices.Collect(maps.Values(r.all)) // rank waits for the locks of processes, and nobody else should for that
	r.mu.Unlock()
	for {
		var best Rank
		at := -1
		for i, p := range all {
			if it, may := rank(p); may && (at < 0 || it.Before(best)) {
				at, best = i, it
			}
		}
		if at < 0 {
			return first, false
		}
		if take(all[at]) {
			return all[at], true
		}
		all = slices.Delete(all, at, at+1) // somebody else has been quicker
	}
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
