package kernel

import (
	"agentkernel"
	"agentkernel/internal/kernel/ends"
	"agentkernel/internal/kernel/steps"
	"agentkernel/internal/kernel/trees"
)

// Another kernel may take over a tree that this one still runs: see agentkernel.Fencer. What this one does for it from then on
// is lost, so it stops, and says so to whoever waits. All other trees go on.

// notStored deals with what the store has not taken of a process: the tree stops, or the kernel.
func (k *Kernel) notStored(p *process, err error) {
	if trees.UnlessFenced(err) == nil {
		k.fenced(p.place().Root())
		return
	}
	k.storageFailed(err)
}

// fenced lets go of a tree that another kernel holds.
func (k *Kernel) fenced(root agentkernel.PID) {
	for _, p := range append(k.table.below(root), k.lookup(root)) {
		if p != nil {
			k.dropFenced(p, agentkernel.Errorf(agentkernel.CodeFenced, "kernel", "another kernel has taken process %d over", p.pid).WithPID(p.pid))
		}
	}
}

// dropFenced takes a process off the table: killed in memory, so that nothing is done for it any more. Its journal is elsewhere.
func (k *Kernel) dropFenced(p *process, why *agentkernel.Error) {
	p.mu.Lock()
	if p.state.Terminal() {
		p.mu.Unlock()
		return
	}
	p.step(steps.Kill)
	p.ending, p.pausing, p.run.replay = &ends.Ending{State: p.state, Err: why, At: k.cfg.Now()}, nil, p.run.replay.Drop()
	box := p.takeBox()
	p.dropInflight(why)
	k.table.hosts.Vacate(p.pid, why)
	p.wall.Stop()
	if m := p.migration; m != nil {
		p.migration = nil
		m.End(why)
	}
	p.endRun(why)
	for _, w := range p.watchers {
		w.Fail(why)
	}
	p.mu.Unlock()
	k.forget(p)
	k.discard(p, box)
	k.freeFiles(p, box)
}
