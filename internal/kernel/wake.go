package kernel

import (
	"agentkernel"
	"agentkernel/internal/kernel/steps"
)

// wake makes a waiting process ready if there is something for it; p.mu is held.
func (k *Kernel) wake(p *process) {
	if p.owned || p.state != agentkernel.StateWaiting || !p.deliverable() {
		return
	}
	k.observeWait(p)
	p.step(steps.Wake)
	k.queue.Push(p)
}

// stirred is told by a sandbox whose program, which waits, has something to say.
func (k *Kernel) stirred(p *process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.run.hasOutput = true
	k.wake(p)
}

// launch lets a created or recovered process go.
func (k *Kernel) launch(p *process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k.begins(p)
	if p.state != agentkernel.StateReady {
		return
	}
	if p.run.backend == nil || p.standsStill() {
		// A hosted program is always somewhere else; a paused one is driven when it is resumed.
		p.step(steps.Hold)
		return
	}
	k.queue.Push(p)
}
