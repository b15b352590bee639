package files

import (
	"encoding/json"
	"log/slog"
	"time"

	"agentkernel"
)

// goneWait bounds how long the end of a killed sandbox is waited for.
const goneWait = 30 * time.Second

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
