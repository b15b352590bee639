package kernel

import "context"

// life is the context of a process while something runs for it. A parked process has none: with what the
// contexts made from it hang on it, one costs more than all else that the kernel keeps of the process.
type life struct {
	ctx context.Context
	end context.CancelFunc
}

// context ends with the process.
func (p *process) context() context.Context {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.life == nil {
		p.life = newLife()
		if p.over {
			p.life.end()
		}
	}
	return p.life.ctx
}

// newLife gives a context that is no child of the kernel's, whose list of children would grow with the process table:
// Close ends each process itself.
func newLife() *life {
	ctx, end := context.WithCancel(context.Background())
	return &life{ctx, end}
}

// endLife ends all that runs for the process; p.mu is held.
func (p *process) endLife() {
	p.over = true
	if p.life != nil {
		p.life.end()
	}
}

// lifeOver says whether endLife was called.
func (p *process) lifeOver() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.over
}

// rest forgets the context if nothing runs under it: no sandbox, and no call outside; p.mu is held.
func (p *process) rest() {
	if p.box != nil {
		return
	}
	for _, f := range p.inflight {
		if f.cancel != nil {
			return
		}
	}
	p.life = nil
}
