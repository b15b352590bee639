package kernel

import (
	"agentkernel"
	"agentkernel/internal/kernel/workingset"
	"agentkernel/internal/sys"
)

// workingSet is the working set of a process for the handler of a call (op). It is in memory while its process uses it.
type workingSet struct {
	k  *Kernel
	p  *process
	op string
}

// Change reads the working set first if it is not in memory.
func (w workingSet) Change(use sys.Use) error {
	p := w.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.work == nil {
		p.mu.Unlock()
		work, err := workingset.Load(p.context(), w.k.store, p.pid, w.op, &w.k.forest.Total)
		p.mu.Lock()
		switch {
		case err != nil:
			return err
		case p.state.Terminal():
			work.Drop()
			return agentkernel.Errorf(agentkernel.CodeCanceled, "state", "the process has ended")
		case p.work != nil: // another call has read it
			work.Drop()
		default:
			p.work = work
		}
	}
	return p.work.Change(w.op, use)
}

// dropWork takes the working set out of memory; p.mu is held.
func (p *process) dropWork() {
	p.work.Drop()
	p.work = nil
}
