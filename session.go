package agentkernel

import (
	"context"
	"encoding/json"
)

// Sessions is for programs that are handed their source cell by cell and keep their variables in between
// (Program.Session): notebooks, assistants. SignalInterrupt to one that computes aborts its cell: the session then has
// the variables from before it.
type Sessions interface {
	// Feed hands the session pid its next cell and reports its events until the cell has run; the last
	// event is EventIdle, EventEnd or (paused) EventState. If fn returns an error or ctx ends, Feed returns
	// and the cell runs on. A cell whose key the session has had is not run again: its events are reported from its
	// beginning, also of a session that has ended. Errors: CodeConflict (it is not waiting for a cell, or has ended; the key is that of another cell), CodeInvalid
	// (it is no session), CodeSyntax, CodeUnsupported and CodeNotFound as in Spawn; the session goes on then
	// as if nothing had been fed.
	Feed(ctx context.Context, pid PID, p Cell, fn func(Event) error) (CellEnd, error)
	// EndSession lets a session that waits for a cell exit, with the value of its last expression.
	// CodeConflict if it is not waiting.
	EndSession(ctx context.Context, pid PID) (Process, error)
}

// Cell is one cell of a session's source.
type Cell struct {
	Name    string            `json:"name"` // for tracebacks: "cell 3"
	Source  string            `json:"source"`
	Modules map[string]string `json:"modules,omitempty"` // as in Program
	// Key makes the cell the same one when it is fed again; "": each is another.
	Key string `json:"key,omitempty"`
	// Shared says that the key is one of the session's namespace, as that of a Spec is: whoever else has it, another
	// session or a process, is named by the error (CodeConflict, OpKey), and the cell is not run.
	Shared bool `json:"shared,omitempty"`
	// Backend is that which is to run the cell; "" or "auto": the session's own.
	Backend string `json:"backend,omitempty"`
}

// CellEnd is how a cell ended. A cell that raised does not end its session.
type CellEnd struct {
	Process Process         `json:"process"` // as it stands now
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *Error          `json:"error,omitempty"` // what the cell, or the process, failed with
	Ended   bool            `json:"ended,omitempty"` // the session is over
}

// NextCell is what the kernel answers to proc.next: a cell with the tools that it imports, or the end.
type NextCell struct {
	Cell  Cell   `json:"piece,omitzero"`
	Tools []Tool `json:"tools,omitempty"`
	End   bool   `json:"end,omitempty"`
}

// OpKey is the Op of a CodeConflict about an idempotency key that another process has: PID.
const OpKey = "key"

// OpCell is the Op of an error that answers proc.next in place of a cell: the cell that was handed over there was aborted,
// and has left nothing in the session. The sandbox reports it as that cell's end.
const OpCell = "piece"

// Idle is what EventIdle reports: the cell that has just run.
type Idle struct {
	Result json.RawMessage `json:"result,omitempty"`
	Error  *Error          `json:"error,omitempty"`
}
