// Package logs is the family of the process's log: log.write. A line lives in the journal as the call that wrote it.
package logs

import (
	"encoding/json"

	"agentkernel"
	"agentkernel/internal/clip"
	"agentkernel/internal/sys"
)

// Family is the family of the process's log.
func Family() sys.Family {
	return sys.Family{Name: "log", Ops: []sys.Op{
		{Rerun: sys.Own, Now: write, Syscall: agentkernel.Syscall{
			Name: "log.write", Guest: "log", Effect: agentkernel.EffectPure, Capability: "log", Event: agentkernel.EventLog,
			Doc: "Writes a line to the process's log; it shows in logs and trace, not in the output.",
			Args: []agentkernel.Param{
				{Name: "message", Type: "any", Doc: "text, or a value that is written as JSON"},
				{Name: "level", Type: "string", Optional: true, Default: "'info'", Doc: "debug, info, warning or error"},
			},
			Result: "null"}},
	}}
}

func write(c *sys.Call) (sys.Outcome, error) {
	var a struct {
		Message json.RawMessage `json:"message"`
		Level   string          `json:"level"`
	}
	if err := c.Decode(&a); err != nil {
		return sys.Outcome{}, err
	}
	switch a.Level {
	case "", "debug", "info", "warning", "error":
	default:
		return sys.Outcome{}, c.Invalid("level %q is not known: debug, info, warning or error", clip.Short(a.Level))
	}
	return sys.Outcome{Result: sys.Null}, nil
}
