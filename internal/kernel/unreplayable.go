package kernel

import (
	"cmp"

	"agentkernel"
	"agentkernel/internal/kernel/advice"
	"agentkernel/internal/sys"
)

// Programs of most languages cannot be repeated from their journal. What is different about them is here: that they
// have begun is durable before they do, and after the death of their kernel they fail or begin anew (Spec.Restart).
// They also go on by themselves while results are under way, and say so (StartRequest.Wake).

// noteStart makes it durable that a program which cannot be replayed is about to run.
func (k *Kernel) noteStart(p *process, b *sys.Binding) error {
	p.mu.Lock()
	if p.standing.Noted || p.state.Terminal() {
		p.mu.Unlock()
		return nil
	}
	k.append(p, agentkernel.Entry{Kind: agentkernel.EntryTools, Data: b.Noted()})
	pos := p.pos
	p.mu.Unlock()
	return k.store.Flush(p.context(), pos)
}

// restoreOnce makes ready a process that cannot be replayed: to begin, if it had not, or to begin anew. What it did
// stays in the journal, and its next call has the next number. The error is why it cannot go on.
func (k *Kernel) restoreOnce(p *process) *agentkernel.Error {
	begun := p.standing.Noted
	p.standing.Noted, p.run.fingerprint, p.run.calls = false, "", p.standing.Account.Calls
	if !begun || p.spec.Restart == agentkernel.RestartOnCrash {
		return nil
	}
	return agentkernel.Errorf(agentkernel.CodeCrashed, "recover", "the kernel died while the program ran, and a program in %s cannot be replayed",
		cmp.Or(p.spec.Program.Language, agentkernel.Python)).
		WithHint(advice.LookFirst, p.pid)
}

// suspend stops or continues the program itself where its sandbox can; p.mu is held.
func (k *Kernel) suspend(p *process, stop bool) {
	s, ok := p.run.box.(agentkernel.Suspender)
	if !ok || p.state.Terminal() {
		return
	}
	if err := s.Suspend(stop); err != nil {
		k.cfg.Logger.Warn("a program cannot be stopped or continued", "pid", p.pid, "err", err)
	}
	if !stop && !p.replayable() { // it may have something to say
		p.run.hasOutput = true
	}
}

// stopProgram has the sandbox ask the program to end that waits for no call in which it could be told; p.mu is held. False: it cannot.
func (k *Kernel) stopProgram(p *process) bool {
	s, ok := p.run.box.(agentkernel.Stopper)
	return ok && p.standing.Account.Masks == 0 && s.Stop() == nil
}
