package kernel

import (
	"context"
	"slices"

	"agentkernel"
	"agentkernel/internal/kernel/running"
)

// context ends with the process.
func (p *process) context() context.Context {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.runContext().Context
}

// runContext returns the context of a process, and makes it if there is none; p.mu is held.
func (p *process) runContext() *running.Context {
	if p.rc == nil {
		p.rc = running.New()
	}
	return p.rc
}

// endRun ends all that runs for the process, for a cause unless there was one before; p.mu is held. The goroutine that drives its
// sandbox sees Next fail and finishes the process with the cause.
func (p *process) endRun(cause *agentkernel.Error) { p.runContext().End(cause) }

// runEnded says whether endRun was called; p.mu is held.
func (p *process) runEnded() bool { return p.rc.Ended() }

// cause is why the kernel ends the process's sandbox; nil: it does not, or not for the process's sake; p.mu is held.
func (p *process) cause() *agentkernel.Error { return p.rc.Cause() }

// contextEnded is runEnded for those who do not hold p.mu.
func (p *process) contextEnded() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.runEnded()
}

// dropContext forgets the context if nothing runs under it: no sandbox, and no call outside; p.mu is held.
func (p *process) dropContext() {
	if p.run.box == nil && !p.runEnded() && !slices.ContainsFunc(p.inflight, func(f *inflight) bool { return f.cancel != nil }) {
		p.rc = nil
	}
}

// stopped is the kernel's reason to end the program, if it found one while the program ran.
func (p *process) stopped() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if cause := p.cause(); cause != nil {
		return cause
	}
	return p.run.abort.OrNil()
}
