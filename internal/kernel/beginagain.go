package kernel

import (
	"agentkernel"
	"agentkernel/internal/kernel/files"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/kernel/steps"
)

// beginAgain lets a process whose sandbox is gone stand where its image does, or at its beginning, and go on from there unless
// it is paused: its journal brings it back to where it was.
func (k *Kernel) beginAgain(p *process) {
	ctx := p.context()
	from, err := k.loadOrigin(ctx, &p.spec.Spec)
	if err != nil {
		k.sandboxFailed(p, err)
		return
	}
	var base history.Base
	if p.imaged && from == nil && p.run.backend != nil && p.replayable() { // what an origin was taken for since the image cannot be told apart
		base = history.UsableImage(ctx, k.store, p.pid, p.run.backend.Now().Fingerprint, k.cfg.Logger)
	}
	entries, err := k.lockWithJournal(ctx, p)
	if err != nil {
		k.sandboxFailed(p, err)
		return
	}
	if p.state != agentkernel.StateRunning || p.runEnded() {
		p.mu.Unlock()
		k.sandboxFailed(p, agentkernel.Errorf(agentkernel.CodeCanceled, "sandbox", "the sandbox was closed"))
		return
	}
	box := p.takeBox()
	k.newRun(p, from, history.Fold(base, entries), entries)
	p.step(steps.Rewind)
	p.mu.Unlock()
	if p.spec.HasFiles() { // nothing may write to them when it begins again
		files.Close(box, p.pid, k.cfg.Logger)
	}
	k.discard(p, box)
	k.pauseIfChanged(p)
	p.mu.Lock()
	p.release()
	if p.paused() {
		k.announce(p)
	}
	k.wake(p) // it may have been resumed meanwhile
	p.mu.Unlock()
}
