package kernel

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"agentkernel"
	"agentkernel/internal/bytesize"
	"agentkernel/internal/kernel/advice"
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
	if used <= p.spec.InForce.Disk {
		return nil
	}
	return limitError("disk", bytesize.Text(p.spec.InForce.Disk), bytesize.Text(used)).
		WithHint(advice.MoreDisk, p.pid)
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
	w := p.spec.Workspace
	_, err := k.cfg.Layers.Apply(context.WithoutCancel(k.ctx), p.pid, agentkernel.ApplyOptions{Volumes: w == nil || !w.Publish})
	if err == nil {
		return e
	}
	failure := agentkernel.AsError(err, agentkernel.CodeStorage, "publish")
	if failure.Code == agentkernel.CodeConflict {
		if c, cerr := k.cfg.Layers.Changes(p.pid); cerr == nil && c.State == agentkernel.LayerApplied {
			return e // the crash came after the last file
		}
	}
	f := agentkernel.Errorf(failure.Code, "publish", "the program exited with 0, but its files are not published: %w", failure)
	f.Hint = failure.Hint
	e = endingFor(f)
	e.state = agentkernel.StateFailed // also where a volume is full: the program did not hit a limit
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
	if note := k.driftNote(p); note != "" {
		p.mu.Lock()
		k.pause(p, 0, note)
		p.mu.Unlock()
	}
}

// driftNote says that the program may read something else now than it did in its first life; "": it will not.
func (k *Kernel) driftNote(p *process) string {
	list, err := k.cfg.Layers.Drift(p.pid)
	switch {
	case err != nil:
		return fmt.Sprintf(advice.WhenMended, agentkernel.AsError(err, agentkernel.CodeStorage, "workspace").Message(), p.pid)
	case len(list) == 0:
		return ""
	}
	const shown = 5
	names := strings.Join(list[:min(len(list), shown)], ", ")
	if len(list) > shown {
		names += " and more"
	}
	return fmt.Sprintf(advice.FolderChanged, names, p.pid)
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

// Changes says what a process has done to its folders.
func (k *Kernel) Changes(ctx context.Context, pid agentkernel.PID) (agentkernel.Changes, error) {
	live, err := k.hasFiles(ctx, pid)
	if err != nil {
		return agentkernel.Changes{}, err
	}
	if live { // one that has just ended is waited for: its sandbox may still be closing
		live = k.filesAtRest(ctx, "diff", pid) != nil
	}
	c, err := k.cfg.Layers.Changes(pid)
	if live && c.State == agentkernel.LayerKept {
		c.State = agentkernel.LayerOpen
	}
	return c, err
}

// Apply writes the changes of a process to its folders.
func (k *Kernel) Apply(ctx context.Context, pid agentkernel.PID, o agentkernel.ApplyOptions) (agentkernel.Applied, error) {
	if err := k.filesAtRest(ctx, "apply", pid); err != nil {
		return agentkernel.Applied{}, err
	}
	return k.cfg.Layers.Apply(ctx, pid, o)
}

// Discard throws the changes of a process away.
func (k *Kernel) Discard(ctx context.Context, pid agentkernel.PID) error {
	if err := k.filesAtRest(ctx, "discard", pid); err != nil {
		return err
	}
	return k.cfg.Layers.Discard(ctx, pid)
}

// OpenFile opens one file of a process.
func (k *Kernel) OpenFile(ctx context.Context, pid agentkernel.PID, name agentkernel.FileName) (agentkernel.File, error) {
	if _, err := k.hasFiles(ctx, pid); err != nil {
		return agentkernel.File{}, err
	}
	return k.cfg.Layers.Open(pid, name)
}

// hasFiles says whether a process with folders has not ended; CodeInvalid: it has none.
func (k *Kernel) hasFiles(ctx context.Context, pid agentkernel.PID) (live bool, err error) {
	rec, err := k.store.Process(ctx, pid)
	switch {
	case err != nil:
		return false, err
	case k.cfg.Layers == nil || !rec.Spec.HasFiles() && !k.cfg.Layers.Imported(pid):
		return false, agentkernel.Errorf(agentkernel.CodeInvalid, "workspace", "process %d has no workspace", pid).WithPID(pid).
			WithHint(advice.NoFolder, pid)
	}
	return !rec.State.Terminal() || k.lookup(pid) != nil, nil
}

// filesAtRest refuses to touch the files of a process that may still write them. One that has just ended is waited for.
func (k *Kernel) filesAtRest(ctx context.Context, verb string, pid agentkernel.PID) error {
	live, err := k.hasFiles(ctx, pid)
	if err != nil || !live {
		return err
	}
	e := agentkernel.Errorf(agentkernel.CodeConflict, verb, "process %d has not ended", pid).WithPID(pid)
	p := k.carried(ctx, pid)
	if p == nil {
		return e.WithHint(advice.RecoverOrKill, pid, pid)
	}
	defer k.release(p)
	p.mu.Lock()
	ended := p.state.Terminal()
	p.mu.Unlock()
	if !ended {
		return e.WithHint(advice.WaitOrKill, pid, pid)
	}
	select {
	case <-p.filesFree:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
