package sim

import (
	"slices"
	"sync"

	"agentkernel"
)

// held are the holds of which a client was told that they are there, and that nobody has tried to end: nothing that they are over
// may go on.
type held struct {
	mu   sync.Mutex
	tops map[agentkernel.PID]bool // 0: the kernel
}

func (h *held) add(tree agentkernel.PID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.tops == nil {
		h.tops = map[agentkernel.PID]bool{}
	}
	h.tops[tree] = true
}

func (h *held) drop(tree agentkernel.PID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.tops, tree)
}

// over says whether one of them is over the process of a row; nil: one that has none yet.
func (h *held) over(r *agentkernel.ProcessRecord) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.tops) == 0 {
		return false
	}
	return h.tops[0] || r != nil && (h.tops[r.PID] || slices.ContainsFunc(r.Spec.Ancestors, func(pid agentkernel.PID) bool { return h.tops[pid] }))
}

// heldNow are the holds that the store has.
func (d *disk) heldNow() []agentkernel.Hold {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.holds)
}

// standsStill says whether a hold is over the kernel: what is parked in the store alone is not looked at then.
func (d *disk) standsStill() bool {
	return slices.ContainsFunc(d.heldNow(), func(h agentkernel.Hold) bool { return h.Namespace == "" && h.Tree == 0 })
}

// halted says whether a process stands still by what the store has.
func (d *disk) halted(r *agentkernel.ProcessRecord) bool {
	return slices.ContainsFunc(d.heldNow(), func(h agentkernel.Hold) bool { return h.Covers(r.PID, r.Namespace, r.Spec.Ancestors) })
}
