package kernel

import (
	"context"
	"encoding/json"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/files"
	"agentkernel/internal/kernel/limits"
)

// createFiles prepares the folders of a process that gets this PID.
func (k *Kernel) createFiles(pid agentkernel.PID, s *agentkernel.Spec) error {
	if !s.NeedsFiles() {
		return nil
	}
	if k.cfg.Layers == nil {
		return agentkernel.Errorf(agentkernel.CodeUnsupported, "workspace", "this kernel gives programs no folders and no standard input")
	}
	return k.cfg.Layers.Create(pid, s)
}

// mounts gives what a fresh sandbox of a process sees of the host.
func (k *Kernel) mounts(p *process) ([]agentkernel.Mount, error) {
	if !p.spec.HasFiles() {
		return nil, nil
	}
	if k.cfg.Layers == nil {
		return nil, agentkernel.Errorf(agentkernel.CodeUnsupported, "workspace", "this kernel gives programs no folders")
	}
	return k.cfg.Layers.Begin(p.pid)
}

// stdin gives the path of a process's standard input; "": it has none.
func (k *Kernel) stdin(p *process) (string, error) {
	if p.spec.Stdin == "" || k.cfg.Layers == nil {
		return "", nil
	}
	return k.cfg.Layers.Stdin(p.pid)
}

// How often a layer is measured: the first time soon, then so that measuring takes no more than a tenth of the time.
const (
	diskLook  = 50 * time.Millisecond
	diskShare = 10
)

// watchDisk ends a process whose changes hold more than they may, as long as it has a sandbox.
func (k *Kernel) watchDisk(p *process) {
	if !p.spec.HasFiles() {
		return
	}
	ctx := p.context()
	go func() {
		for wait := diskLook; ; {
			timer := time.NewTimer(wait)
			select {
			case <-ctx.Done():
				timer.Stop()
				return
			case <-timer.C:
			}
			begun := time.Now()
			if full := k.diskFull(p); full != nil {
				k.killFor(p, full)
				return
			}
			wait = max(diskLook, diskShare*time.Since(begun))
		}
	}()
}

// diskFull is the limit that a process's changes have hit; nil: none.
func (k *Kernel) diskFull(p *process) *agentkernel.Error {
	used, err := k.cfg.Layers.Used(p.pid)
	if full := agentkernel.AsError(err, agentkernel.CodeStorage, ""); err != nil && full.Code == agentkernel.CodeLimit {
		return full
	}
	if err != nil {
		k.cfg.Logger.Warn("the changes of a process cannot be measured", "pid", p.pid, "err", err)
		return nil
	}
	p.mu.Lock()
	box := p.run.box
	p.mu.Unlock()
	if holder, ok := box.(agentkernel.Holder); ok {
		used += holder.Held(used)
	}
	return limits.Disk(&p.spec.InForce, used, p.pid)
}

// publication is the Data of an EntryPublish: how the process ends once its files are in place.
type publication struct {
	ExitCode int             `json:"exit_code"`
	Result   json.RawMessage `json:"result,omitempty"`
}

// settleFiles looks after the files of a program that has exited, before its process ends: nothing of its sandbox runs
// any more, its changes are measured a last time, and applied if that was asked for. The goroutine that drives the
// process calls it. The intent is durable before the first file is written: a crash in between leads to the same end.
func (k *Kernel) settleFiles(p *process, e ending) ending {
	if !p.spec.HasFiles() || p.run.verifies != nil {
		return e
	}
	p.mu.Lock()
	e = p.checkedEnding(e)
	box := p.run.box
	p.mu.Unlock()
	k.closeBox(p, box)
	if full := k.diskFull(p); full != nil {
		return endingFor(full)
	}
	if e.state != agentkernel.StateExited || e.exitCode != 0 || !p.spec.Publishes() {
		return e
	}
	data, err := json.Marshal(publication{e.exitCode, e.result})
	if err != nil {
		return endingFor(agentkernel.AsError(err, agentkernel.CodeInternal, "publish"))
	}
	p.mu.Lock()
	k.append(p, agentkernel.Entry{Kind: agentkernel.EntryPublish, Data: data})
	p.mu.Unlock()
	if err := k.flush(k.ctx, p); err != nil {
		k.notStored(p, err)
		return e // it cannot end any more; the next kernel finds the intent, or runs the program again
	}
	return k.publishFiles(p, e)
}

// publishFiles applies the changes of a process whose intent to do so is in the journal. A kernel that stops meanwhile
// does not cut it off: that would be an end of the process, where the next kernel can finish it.
func (k *Kernel) publishFiles(p *process, e ending) ending {
	if err := files.Publish(context.WithoutCancel(k.ctx), k.cfg.Layers, p.pid, p.spec.Workspace); err != nil {
		e = endingFor(err)
		e.state = agentkernel.StateFailed // also where a volume is full: the program did not hit a limit
	}
	return e
}

// publishAgain ends a process whose journal stops with the intent to publish: its program has exited. False: it has not.
func (k *Kernel) publishAgain(p *process, intent json.RawMessage) bool {
	var d publication
	if intent == nil || json.Unmarshal(intent, &d) != nil || k.cfg.Layers == nil {
		return false
	}
	e := ending{state: agentkernel.StateExited, exitCode: d.ExitCode, result: d.Result}
	p.dropReplay()
	p.mu.Lock()
	p.step(&stepDrive)
	p.mu.Unlock()
	k.finish(p, k.publishFiles(p, e))
	return true
}

// pauseOnDrift holds a process that was just taken up, and would run again over another folder than in its first life.
func (k *Kernel) pauseOnDrift(p *process) {
	if !p.spec.HasFiles() || k.cfg.Layers == nil {
		return
	}
	if note := files.Drifted(k.cfg.Layers, p.pid); note != "" {
		p.mu.Lock()
		k.pause(p, 0, note)
		p.mu.Unlock()
	}
}

// closeBox closes a sandbox and waits until nothing of it runs any more.
func (k *Kernel) closeBox(p *process, box agentkernel.Sandbox) {
	if box == nil {
		return
	}
	if err := box.Close(); err != nil {
		k.cfg.Logger.Warn("sandbox did not close", "pid", p.pid, "err", err)
	}
	ender, ok := box.(agentkernel.Ender)
	if !ok {
		return
	}
	late := time.NewTimer(goneWait)
	defer late.Stop()
	select {
	case <-ender.Gone():
	case <-late.C:
		k.cfg.Logger.Warn("a sandbox does not end", "pid", p.pid)
	}
}

// freeFiles lets whoever waits for it have the files of a process that has ended.
func (k *Kernel) freeFiles(p *process, box agentkernel.Sandbox) {
	if p.filesFree == nil {
		return
	}
	k.closeBox(p, box)
	close(p.filesFree)
}

// goneWait bounds how long the end of a killed sandbox is waited for.
const goneWait = 30 * time.Second

// InMemory says whether the kernel has a process in memory, for those who look at its files.
func (h *host) InMemory(pid agentkernel.PID) bool { return (*Kernel)(h).lookup(pid) != nil }

// AtRest says what has become of a process whose files somebody wants: a kernel runs it; it has ended; and when nothing writes
// to them any more.
func (h *host) AtRest(ctx context.Context, pid agentkernel.PID) (carried, ended bool, free <-chan struct{}) {
	k := (*Kernel)(h)
	p := k.carried(ctx, pid)
	if p == nil {
		return false, false, nil
	}
	defer k.release(p)
	p.mu.Lock()
	defer p.mu.Unlock()
	return true, p.state.Terminal(), p.filesFree
}
