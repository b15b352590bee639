package kernel

import (
	"context"
	"sync/atomic"

	"agentkernel"
)

// runContext is the context under which everything for a process runs: its sandbox, and its calls outside the kernel. A parked
// process has none: with what the contexts made from it hang on it, one costs more than all else that the kernel keeps of
// the process.
type runContext struct {
	ctx    context.Context
	cancel context.CancelFunc
	ended  bool
	binds  atomic.Bool        // servers of the tools that the program imports are asked, and may have to start
	cause  *agentkernel.Error // why the kernel ends the sandbox: a limit, a signal; nil: for no reason of the process's own
}

// newRunContext returns a context that is no child of the kernel's, whose list of children would grow with the process
// table: Close ends each process itself.
func newRunContext() *runContext {
	ctx, cancel := context.WithCancel(context.Background())
	return &runContext{ctx: ctx, cancel: cancel}
}

// context ends with the process.
func (p *process) context() context.Context {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.runContext().ctx
}

// runContext returns the context of a process, and makes it if there is none; p.mu is held.
func (p *process) runContext() *runContext {
	if p.rc == nil {
		p.rc = newRunContext()
	}
	return p.rc
}

// endRun ends all that runs for the process, for a cause unless there was one before; p.mu is held. The goroutine that drives its
// sandbox sees Next fail and finishes the process with the cause.
func (p *process) endRun(cause *agentkernel.Error) {
	rc := p.runContext()
	if rc.cause == nil {
		rc.cause = cause
	}
	rc.ended = true
	rc.cancel()
}

// runEnded says whether endRun was called; p.mu is held.
func (p *process) runEnded() bool { return p.rc != nil && p.rc.ended }

// cause is why the kernel ends the process's sandbox; nil: it does not, or not for the process's sake; p.mu is held.
func (p *process) cause() *agentkernel.Error {
	if p.rc == nil {
		return nil
	}
	return p.rc.cause
}

// contextEnded is runEnded for those who do not hold p.mu.
func (p *process) contextEnded() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.runEnded()
}

// dropContext forgets the context if nothing runs under it: no sandbox, and no call outside; p.mu is held.
func (p *process) dropContext() {
	if p.run.box != nil || p.runEnded() {
		return
	}
	for _, f := range p.inflight {
		if f.cancel != nil {
			return
		}
	}
	p.rc = nil
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
