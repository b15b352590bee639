package cells

import (
	"encoding/json"

	"agentkernel"
	"agentkernel/internal/journal"
)

const staysMade = "the session has the variables from before it, and the calls that it made stay made"

// Stopped is the error of a cell that a signal has stopped while it computed.
func Stopped() *agentkernel.Error {
	return agentkernel.Errorf(agentkernel.CodeInterrupted, agentkernel.OpCell, "it was stopped while it computed; "+staysMade)
}

// Idle is what a session says that waits for its next cell, as the last one was aborted for this reason.
func Idle(why *agentkernel.Error) json.RawMessage {
	args, err := json.Marshal(agentkernel.Idle{Error: why})
	if err == nil {
		args, err = journal.Canonical(args)
	}
	if err != nil { // an error always encodes
		return json.RawMessage("{}")
	}
	return args
}

// Broke is the error of a cell whose sandbox has ended with it.
func Broke(err *agentkernel.Error) *agentkernel.Error {
	why := agentkernel.Errorf(err.Code, agentkernel.OpCell, "%s; "+staysMade, err.Message())
	why.Hint = err.Hint
	return why
}

// InDoubt is the error of a cell that was aborted while a write was under way: nobody will tell what became of it.
func InDoubt(call string, why *agentkernel.Error) *agentkernel.Error {
	return agentkernel.Errorf(agentkernel.CodeOutcomeUnknown, agentkernel.OpCell, "%s may or may not have happened: %s", call, why.Message())
}

// Alone says whether an error that ended a sandbox need not end its session.
func Alone(e *agentkernel.Error) bool {
	switch limit, _ := e.Limit(); limit {
	case "memory", "all_memory", "hidden_memory", "watches", "locks", "open_files", "recursion":
		return true
	}
	return e.Code == agentkernel.CodeCrashed
}
