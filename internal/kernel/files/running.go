package files

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/limits"
)

// How often a layer is measured: the first time soon, then so that measuring takes no more than a tenth of the time.
const (
	look  = 50 * time.Millisecond
	share = 10
)

// goneWait bounds how long the end of a killed sandbox is waited for.
const goneWait = 30 * time.Second

// Create prepares the folders of a process that gets this PID.
func Create(layers agentkernel.Layers, pid agentkernel.PID, s *agentkernel.Spec) error {
	if !s.NeedsFiles() {
		return nil
	}
	if layers == nil {
		return agentkernel.Errorf(agentkernel.CodeUnsupported, "workspace", "this kernel gives programs no folders and no standard input")
	}
	return layers.Create(pid, s)
}

// Begin gives what a fresh sandbox of a process sees of the host, and the path of its standard input; "": it has none.
func Begin(layers agentkernel.Layers, pid agentkernel.PID, s *agentkernel.Spec) (mounts []agentkernel.Mount, stdin string, err error) {
	if s.HasFiles() {
		if layers == nil {
			return nil, "", agentkernel.Errorf(agentkernel.CodeUnsupported, "workspace", "this kernel gives programs no folders")
		}
		if mounts, err = layers.Begin(pid); err != nil {
			return nil, "", err
		}
	}
	if s.Stdin != "" && layers != nil {
		stdin, err = layers.Stdin(pid)
	}
	return mounts, stdin, err
}

// Watch calls full again and again, until it says true or ctx ends.
func Watch(ctx context.Context, full func() bool) {
	for wait := look; ; {
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		begun := time.Now()
		if full() {
			return
		}
		wait = max(look, share*time.Since(begun))
	}
}

// Full is the limit that a process's changes have hit, those included that its sandbox holds (nil: it has none); nil: none. What
// cannot be measured is logged, and ends nothing.
func Full(layers agentkernel.Layers, pid agentkernel.PID, l *agentkernel.Limits, box func() agentkernel.Sandbox, log *slog.Logger) *agentkernel.Error {
	used, err := layers.Used(pid)
	if full := agentkernel.AsError(err, agentkernel.CodeStorage, ""); err != nil && full.Code == agentkernel.CodeLimit {
		return full
	}
	if err != nil {
		log.Warn("the changes of a process cannot be measured", "pid", pid, "err", err)
		return nil
	}
	if holder, ok := box().(agentkernel.Holder); ok {
		used += holder.Held(used)
	}
	return limits.Disk(l, used, pid)
}

// Intent is the Data of an EntryPublish: how the process ends once its files are in place.
type Intent struct {
	ExitCode int             `json:"exit_code"`
	Result   json.RawMessage `json:"result,omitempty"`
}

// Encode is the Intent as it is journalled.
func (i Intent) Encode() (json.RawMessage, *agentkernel.Error) {
	data, err := json.Marshal(i)
	return data, agentkernel.AsError(err, agentkernel.CodeInternal, "publish")
}

// ParseIntent reads what Encode gave. False: there is none.
func ParseIntent(data json.RawMessage) (i Intent, ok bool) {
	return i, data != nil && json.Unmarshal(data, &i) == nil
}

// Close closes a sandbox and waits until nothing of it runs any more: what it has written is final then.
func Close(box agentkernel.Sandbox, pid agentkernel.PID, log *slog.Logger) {
	if box == nil {
		return
	}
	if err := box.Close(); err != nil {
		log.Warn("sandbox did not close", "pid", pid, "err", err)
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
		log.Warn("a sandbox does not end", "pid", pid)
	}
}
