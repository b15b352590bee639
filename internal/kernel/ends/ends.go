// Package ends says how processes end.
package ends

import (
	"encoding/json"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/limits"
)

// Ending is how a process ends.
type Ending struct {
	State    agentkernel.State
	ExitCode int
	Result   json.RawMessage
	Err      *agentkernel.Error
	UnderWay []string  // writes, where there is no error to name them
	Left     []string  // files that went with the sandbox
	At       time.Time // set when it has happened
}

// For says how an error ends a process: a limit or a signal kills it, anything else is a failure.
func For(err *agentkernel.Error) Ending {
	if err == nil {
		err = agentkernel.Errorf(agentkernel.CodeInternal, "sandbox", "the program failed without an error")
	}
	e := Ending{State: agentkernel.StateFailed, ExitCode: limits.ExitCode(err), Err: err}
	if err.Code == agentkernel.CodeLimit || err.Code == agentkernel.CodeKilled {
		e.State = agentkernel.StateKilled
	}
	return e
}
