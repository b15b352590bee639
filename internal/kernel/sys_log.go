package kernel

import (
	"encoding/json"

	"agentkernel"
	"agentkernel/internal/kernel/history"
)

// logCalls is the family of the process's log. A line lives in the journal as the call that wrote it.
var logCalls = map[string]handler{"log.write": {now: logWrite}}

type logArgs struct {
	Message json.RawMessage `json:"message"`
	Level   string          `json:"level"`
}

func logWrite(k *Kernel, p *process, f *inflight) (json.RawMessage, error) {
	var a logArgs
	if err := decodeArgs(f, &a); err != nil {
		return nil, err
	}
	switch a.Level {
	case "", "debug", "info", "warning", "error":
	default:
		return nil, agentkernel.Errorf(agentkernel.CodeInvalid, f.op, "level %q is not known: debug, info, warning or error", clip(a.Level))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.watchers) > 0 {
		// The entry is appended right after this by the same goroutine; the event names its position.
		k.publishAt(p, p.seq+1, agentkernel.Event{Kind: agentkernel.EventLog, Text: history.LogLine(f.args)})
	}
	return json.RawMessage("null"), nil
}
