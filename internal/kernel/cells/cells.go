// Package cells is what a kernel knows of sessions beside their processes: the sources of their cells, as far as somebody has
// fed one in this kernel, the idempotency keys of these, and who is feeding at the moment. It never reads a journal by itself,
// and knows no process.
package cells

import (
	"context"
	"sync"

	"agentkernel"
	"agentkernel/internal/kernel/history"
)

// Registry is of the sessions of one kernel.
type Registry struct {
	mu      sync.Mutex
	feeding map[agentkernel.PID]chan struct{} // closed when somebody else may
	sources map[agentkernel.PID]Sources
	keys    map[agentkernel.PID]map[string]bool // of the cells that this kernel knows of
}

// Sources are those of the cells that ran, and of the program before them.
type Sources struct {
	Texts []string // but for the plain ones
	Cells int
	Key   string           // of the last cell
	Bind  *agentkernel.Key // the same, if no other process may have it
}

// And adds a cell.
func (s Sources) And(text string, plain bool) Sources {
	s.Cells++
	if !plain {
		s.Texts = append(s.Texts, text)
	}
	return s
}

// New returns a Registry that knows of no session.
func New() *Registry {
	return &Registry{feeding: map[agentkernel.PID]chan struct{}{}, sources: map[agentkernel.PID]Sources{}, keys: map[agentkernel.PID]map[string]bool{}}
}

// Take makes the caller the one who feeds a session; wait: after whoever does so now, who may be feeding the same cell. False:
// somebody else feeds it.
func (r *Registry) Take(ctx context.Context, pid agentkernel.PID, wait bool) (bool, error) {
	for {
		r.mu.Lock()
		other := r.feeding[pid]
		if other == nil {
			r.feeding[pid] = make(chan struct{})
		}
		r.mu.Unlock()
		if other == nil || !wait {
			return other == nil, nil
		}
		select {
		case <-other:
		case <-ctx.Done():
			return false, agentkernel.AsError(ctx.Err(), agentkernel.CodeCanceled, "session")
		}
	}
}

// Release ends Take.
func (r *Registry) Release(pid agentkernel.PID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.feeding[pid])
	delete(r.feeding, pid)
}

// Remember keeps what a session has been fed.
func (r *Registry) Remember(pid agentkernel.PID, fed Sources) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sources[pid] = fed
	if fed.Key != "" {
		r.addKey(pid, fed.Key)
	}
}

// Known is what Remember was given last.
func (r *Registry) Known(pid agentkernel.PID) (fed Sources, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fed, ok = r.sources[pid]
	return fed, ok
}

// Forget drops what a cell that was aborted has changed.
func (r *Registry) Forget(pid agentkernel.PID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.sources, pid)
}

// Ended drops everything of a session.
func (r *Registry) Ended(pid agentkernel.PID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.sources, pid)
	delete(r.keys, pid)
}

// Sessions is how many there are whose sources are kept.
func (r *Registry) Sessions() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.sources)
}

// HasKey says whether a session has had a cell with a key. whole: its keys are all known, because all of its cells were fed in
// this kernel; else they are read, once.
func (r *Registry) HasKey(pid agentkernel.PID, key string, whole bool, read func() ([]history.Handed, error)) (bool, error) {
	r.mu.Lock()
	keys, loaded := r.keys[pid]
	known := keys[key]
	if whole || loaded {
		r.mu.Unlock()
		return known, nil
	}
	r.keys[pid] = map[string]bool{} // others add to it meanwhile
	r.mu.Unlock()
	cells, err := read()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, had := range cells {
		known = known || had.Key == key
		r.addKey(pid, had.Key)
	}
	if err != nil { // it is read once more
		delete(r.keys, pid)
	}
	return known, err
}

func (r *Registry) addKey(pid agentkernel.PID, key string) {
	if r.keys[pid] == nil {
		r.keys[pid] = map[string]bool{}
	}
	r.keys[pid][key] = true
}
