package kernel

import (
	"context"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/backends"
	"agentkernel/internal/sys"
)

// bindTimeout bounds how long a process waits for the servers whose tools it imports.
const bindTimeout = time.Minute

// bind finds the tools that a program imports. It may start servers.
func (k *Kernel) bind(p *process) (*sys.Binding, error) {
	p.mu.Lock()
	b, rc := p.run.bound, p.runContext()
	p.mu.Unlock()
	if b != nil {
		return b, nil
	}
	needs, b, err := k.boundFor(p.run.backend, &p.spec.Spec)
	if b != nil || err != nil {
		return b, err
	}
	ctx, cancel := context.WithTimeout(rc.Context, bindTimeout)
	defer cancel()
	rc.Binds.Store(true)
	defer rc.Binds.Store(false)
	b, ref, err := k.cfg.Tools.Bind(ctx, &p.spec.Spec, needs.Tools)
	if err != nil {
		return nil, sys.Unbound{Err: sys.AtImport(p.spec.Program.Name, ref, err)}
	}
	return b, nil
}

// boundFor is bind without asking a server, for a process that need not be there yet; nil: one has to be asked.
func (k *Kernel) boundFor(b *backends.Backend, s *agentkernel.Spec) (agentkernel.Needs, *sys.Binding, error) {
	needs, err := b.Check(s.Program)
	if err != nil {
		return needs, nil, err
	}
	return needs, k.cfg.Tools.Bound(s, needs.Tools), nil
}

// noteTools journals what the program's imports of tools mean, once: a replay elsewhere has no servers that could be asked.
func (k *Kernel) noteTools(p *process, b *sys.Binding) {
	if len(b.Tools) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.standing.Noted || p.state.Terminal() {
		return
	}
	k.append(p, agentkernel.Entry{Kind: agentkernel.EntryTools, Data: b.Noted()})
}
