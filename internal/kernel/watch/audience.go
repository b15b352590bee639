package watch

import (
	"slices"
	"sync"

	"agentkernel"
)

// Audience is everybody who answers questions. Who answers those of a process answers those of all below it, too. The zero value is ready.
type Audience struct {
	mu sync.Mutex
	of map[agentkernel.PID][]*Watcher
}

// Join says that w, if it answers questions, answers those of pid from now on.
func (a *Audience) Join(pid agentkernel.PID, w *Watcher) {
	if !w.asks {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of == nil {
		a.of = map[agentkernel.PID][]*Watcher{}
	}
	w.mu.Lock()
	w.of = pid
	w.mu.Unlock()
	a.of[pid] = append(a.of[pid], w)
}

// Leave ends Join.
func (a *Audience) Leave(pid agentkernel.PID, w *Watcher) {
	if !w.asks {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.of[pid] = slices.DeleteFunc(a.of[pid], func(other *Watcher) bool { return other == w })
	if len(a.of[pid]) == 0 {
		delete(a.of, pid)
	}
}

// Hears says whether anybody answers what the process pid asks; above are its ancestors.
func (a *Audience) Hears(pid agentkernel.PID, above []agentkernel.PID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.of[pid]) > 0 || slices.ContainsFunc(above, func(pid agentkernel.PID) bool { return len(a.of[pid]) > 0 })
}

// Ask puts a question of a process to all who answer those of it and of its ancestors.
func (a *Audience) Ask(ev agentkernel.Event, above []agentkernel.PID, pos agentkernel.Position) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range a.of[ev.PID] {
		w.Add(ev, pos)
	}
	for _, pid := range above {
		for _, w := range a.of[pid] {
			w.Add(ev, pos)
		}
	}
}
