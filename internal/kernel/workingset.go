package kernel

import (
	"encoding/json"

	"agentkernel"
)

// workingSet is the working set of a process for a handler. It is in memory while its process uses it.
type workingSet struct {
	k *Kernel
	p *process
}

// Change runs fn on the working set, reading it first if it is not in memory.
func (w workingSet) Change(fn func(keys map[string]json.RawMessage) error) error {
	k, p := w.k, w.p
	p.mu.Lock()
	loaded := p.work != nil
	p.mu.Unlock()
	if !loaded {
		work, err := k.store.State(p.context(), p.pid)
		if err != nil {
			return err
		}
		if work == nil {
			work = map[string]json.RawMessage{}
		}
		p.mu.Lock()
		if p.work == nil {
			p.work = work
		}
		p.mu.Unlock()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.work == nil {
		return agentkernel.Errorf(agentkernel.CodeCanceled, "state", "the process was parked meanwhile")
	}
	return fn(p.work)
}
