// Package files is the role of the kernel that shows, applies and discards what processes did to folders. It asks the kernel
// whether a process may still write to them, and never changes a process.
package files

import (
	"context"
	"fmt"
	"strings"

	"agentkernel"
	"agentkernel/internal/kernel/advice"
)

// Host is the kernel as the files of its processes see it.
type Host interface {
	// Live says whether the kernel has a process in memory.
	Live(pid agentkernel.PID) bool
	// AtRest says whether a kernel runs a process, whether it has ended, and when nothing writes to its files any more.
	AtRest(ctx context.Context, pid agentkernel.PID) (carried, ended bool, free <-chan struct{})
}

// Files implements agentkernel.Workspaces.
type Files struct {
	store  agentkernel.StoreReader
	layers agentkernel.Layers // nil: no process has folders
	host   Host

	Disk *Disk
}

// New returns the role on what the store and the layers of a Disk have.
func New(disk *Disk, host Host) *Files {
	return &Files{disk.store, disk.layers, host, disk}
}

// Changes says what a process has done to its folders.
func (f *Files) Changes(ctx context.Context, pid agentkernel.PID) (agentkernel.Changes, error) {
	live, err := f.has(ctx, pid)
	if err != nil {
		return agentkernel.Changes{}, err
	}
	if live { // one that has just ended is waited for: its sandbox may still be closing
		live = f.atRest(ctx, "diff", pid) != nil
	}
	c, err := f.layers.Changes(pid)
	if live && c.State == agentkernel.LayerKept {
		c.State = agentkernel.LayerOpen
	}
	return c, err
}

// Apply writes the changes of a process to its folders.
func (f *Files) Apply(ctx context.Context, pid agentkernel.PID, o agentkernel.ApplyOptions) (agentkernel.Applied, error) {
	if err := f.atRest(ctx, "apply", pid); err != nil {
		return agentkernel.Applied{}, err
	}
	defer f.Disk.Changed(pid)
	return f.layers.Apply(ctx, pid, o)
}

// Discard throws the changes of a process away.
func (f *Files) Discard(ctx context.Context, pid agentkernel.PID) error {
	if err := f.atRest(ctx, "discard", pid); err != nil {
		return err
	}
	defer f.Disk.Changed(pid)
	return f.layers.Discard(ctx, pid)
}

// OpenFile opens one file of a process.
func (f *Files) OpenFile(ctx context.Context, pid agentkernel.PID, name agentkernel.FileName) (agentkernel.File, error) {
	if _, err := f.has(ctx, pid); err != nil {
		return agentkernel.File{}, err
	}
	return f.layers.Open(pid, name)
}

// has says whether a process with folders has not ended; CodeInvalid: it has none.
func (f *Files) has(ctx context.Context, pid agentkernel.PID) (live bool, err error) {
	rec, err := f.store.Process(ctx, pid)
	switch {
	case err != nil:
		return false, err
	case f.layers == nil || !rec.Spec.HasFiles() && !f.layers.Imported(pid):
		return false, agentkernel.Errorf(agentkernel.CodeInvalid, "workspace", "process %d has no workspace", pid).WithPID(pid).
			WithHint(advice.NoFolder, pid)
	}
	return !rec.State.Terminal() || f.host.Live(pid), nil
}

// atRest refuses to touch the files of a process that may still write them. One that has just ended is waited for.
func (f *Files) atRest(ctx context.Context, verb string, pid agentkernel.PID) error {
	live, err := f.has(ctx, pid)
	if err != nil || !live {
		return err
	}
	e := agentkernel.Errorf(agentkernel.CodeConflict, verb, "process %d has not ended", pid).WithPID(pid)
	carried, ended, free := f.host.AtRest(ctx, pid)
	switch {
	case !carried:
		// It may have ended since its row was read: nothing writes to its files any more when it is in no memory.
		if live, err := f.has(ctx, pid); err != nil || !live {
			return err
		}
		return e.WithHint(advice.RecoverOrKill, pid, pid)
	case !ended:
		return e.WithHint(advice.WaitOrKill, pid, pid)
	}
	select {
	case <-free:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Publish applies the changes of a process that has exited: those of its workspace, if it publishes them, and of its volumes.
func Publish(ctx context.Context, layers agentkernel.Layers, pid agentkernel.PID, w *agentkernel.Workspace) *agentkernel.Error {
	_, err := layers.Apply(ctx, pid, agentkernel.ApplyOptions{Volumes: w == nil || !w.Publish})
	if err == nil {
		return nil
	}
	failure := agentkernel.AsError(err, agentkernel.CodeStorage, "publish")
	if failure.Code == agentkernel.CodeConflict {
		if c, cerr := layers.Changes(pid); cerr == nil && c.State == agentkernel.LayerApplied {
			return nil // the crash came after the last file
		}
	}
	e := agentkernel.Errorf(failure.Code, "publish", "the program exited with 0, but its files are not published: %w", failure)
	e.Hint = failure.Hint
	return e
}

// Changed says why a program would not find what it found in its first life: gone says that the functions are not there which it has as
// tools (nil: they are), or its folders have drifted. "": it will.
func Changed(layers agentkernel.Layers, pid agentkernel.PID, s *agentkernel.Spec, gone *agentkernel.Error) string {
	if gone != nil {
		return fmt.Sprintf(advice.HostGone, gone.Message(), pid, pid)
	}
	if !s.HasFiles() || layers == nil {
		return ""
	}
	return Drifted(layers, pid)
}

// Drifted says that a program may read something else in its folders now than it did in its first life; "": it will not.
func Drifted(layers agentkernel.Layers, pid agentkernel.PID) string {
	list, err := layers.Drift(pid)
	switch {
	case err != nil:
		return fmt.Sprintf(advice.WhenMended, agentkernel.AsError(err, agentkernel.CodeStorage, "workspace").Message(), pid)
	case len(list) == 0:
		return ""
	}
	const shown = 5
	names := strings.Join(list[:min(len(list), shown)], ", ")
	if len(list) > shown {
		names += " and more"
	}
	return fmt.Sprintf(advice.FolderChanged, names, pid)
}
