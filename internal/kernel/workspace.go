package kernel

import (
	"context"
	"encoding/json"

	"agentkernel"
	"agentkernel/internal/kernel/ends"
	"agentkernel/internal/kernel/files"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/kernel/steps"
)

// watchDisk ends a process whose changes hold more than they may, as long as it has a sandbox.
func (k *Kernel) watchDisk(p *process) {
	if p.spec.HasFiles() {
		go k.Disk.Watch(p.context(), p.pid, &p.spec.Spec, p.sandbox, func(full *agentkernel.Error) { k.killFor(p, full) })
	}
}

// settleFiles looks after the files of a program that has exited, before its process ends: nothing of its sandbox runs
// any more, its changes are measured a last time, and applied if that was asked for. The goroutine that drives the
// process calls it. The intent is durable before the first file is written: a crash in between leads to the same end.
func (k *Kernel) settleFiles(p *process, e ends.Ending) ends.Ending {
	if !p.spec.HasFiles() || p.run.verifies != nil {
		return e
	}
	p.mu.Lock()
	e = p.checkedEnding(e)
	p.mu.Unlock()
	files.Close(p.sandbox(), p.pid, k.cfg.Logger)
	if full := k.Disk.Ended(k.ctx, p.pid, &p.spec.Spec, p.sandbox); full != nil {
		return ends.For(full)
	}
	if e.State != agentkernel.StateExited || e.ExitCode != 0 || !p.spec.Publishes() {
		return e
	}
	data, bad := files.Intent{ExitCode: e.ExitCode, Result: e.Result}.Encode()
	if bad != nil {
		return ends.For(bad)
	}
	p.mu.Lock()
	k.append(p, agentkernel.Entry{Kind: agentkernel.EntryPublish, Data: data})
	p.mu.Unlock()
	if err := k.flush(context.WithoutCancel(k.ctx), p); err != nil {
		k.notStored(p, err)
		return e // it cannot end any more; the next kernel finds the intent, or runs the program again
	}
	return k.publishFiles(p, e)
}

// publishFiles applies the changes of a process whose intent to do so is in the journal. A kernel that stops meanwhile
// does not cut it off: that would be an end of the process, where the next kernel can finish it.
func (k *Kernel) publishFiles(p *process, e ends.Ending) ends.Ending {
	if err := files.Publish(context.WithoutCancel(k.ctx), k.cfg.Layers, p.pid, p.spec.Workspace); err != nil {
		e = ends.For(err)
		e.State = agentkernel.StateFailed // also where a volume is full: the program did not hit a limit
	}
	return e
}

// publishAgain ends a process whose journal stops with the intent to publish: its program has exited. False: it has not.
func (k *Kernel) publishAgain(p *process, intent json.RawMessage) bool {
	d, ok := files.ParseIntent(intent)
	if !ok || k.cfg.Layers == nil {
		return false
	}
	e := ends.Ending{State: agentkernel.StateExited, ExitCode: d.ExitCode, Result: d.Result}
	p.dropReplay()
	p.mu.Lock()
	p.step(steps.Drive)
	p.mu.Unlock()
	k.finish(p, k.publishFiles(p, e))
	return true
}

// pauseIfChanged holds a process that was just taken up, and would run again over another folder than in its first life, or without the
// program whose functions it calls.
func (k *Kernel) pauseIfChanged(p *process) {
	if note := files.Changed(k.cfg.Layers, p.pid, &p.spec.Spec, k.cfg.Tools.Gone(k.ctx, &p.spec.Spec)); note != "" {
		p.mu.Lock()
		k.pause(p, 0, history.Pause{Note: note})
		p.mu.Unlock()
	}
}

// freeFiles lets whoever waits for it have the files of a process that has ended.
func (k *Kernel) freeFiles(p *process, box agentkernel.Sandbox) {
	if p.filesFree == nil {
		return
	}
	files.Close(box, p.pid, k.cfg.Logger)
	close(p.filesFree)
}

// AtRest says what has become of a process whose files somebody wants: a kernel runs it; it has ended; and when nothing writes
// to them any more.
func (h *host) AtRest(ctx context.Context, pid agentkernel.PID) (carried, ended bool, free <-chan struct{}) {
	k := (*Kernel)(h)
	p := k.carried(ctx, pid)
	if p == nil {
		return false, false, nil
	}
	defer k.unpin(p)
	p.mu.Lock()
	defer p.mu.Unlock()
	return true, p.state.Terminal(), p.filesFree
}
