package kernel

import (
	"fmt"

	"agentkernel/internal/kernel/steps"
)

// step moves a process to another state or another owner; p.mu is held. A step that the table does not have is a defect of
// the kernel, and to continue would corrupt the process.
func (p *process) step(s *steps.Step) {
	state, owned, err := s.Take(p.state, p.owned)
	if err != nil {
		panic(fmt.Sprintf("kernel: pid %d: %v", p.pid, err))
	}
	p.state, p.owned = state, owned
}

// release ends the caller's ownership, unless the end of the process has done so; p.mu is held.
func (p *process) release() {
	if p.owned {
		p.step(steps.Release)
	}
}
