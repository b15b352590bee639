package agentkernel

import (
	"context"
	"encoding/json"
)

// Sessions is for programs that are handed their source piece by piece and keep their variables in between
// (Program.Session): notebooks, assistants. SignalInterrupt to one that computes gives up its piece: the session then has
// the variables from before it.
type Sessions interface {
	// Feed hands the session pid its next piece and reports its events until the piece has run; the last
	// event is EventIdle, EventEnd or (paused) EventState. If fn returns an error or ctx ends, Feed returns
	// and the piece runs on. A piece whose key the session has had is not run again: its events are reported from its
	// beginning, also of a session that has ended. Errors: CodeConflict (it is not waiting for a piece, or has ended; the key is that of another piece), CodeInvalid
	// (it is no session), CodeSyntax, CodeUnsupported and CodeNotFound as in Spawn; the session goes on then
	// as if nothing had been fed.
	Feed(ctx context.Context, pid PID, p Piece, fn func(Event) error) (PieceEnd, error)
	// EndSession lets a session that waits for a piece exit, with the value of its last expression.
	// CodeConflict if it is not waiting.
	EndSession(ctx context.Context, pid PID) (Process, error)
}

// Piece is one piece of a session's source.
type Piece struct {
	Name    string            `json:"name"` // for tracebacks: "piece 3"
	Source  string            `json:"source"`
	Modules map[string]string `json:"modules,omitempty"` // as in Program
	// Key makes the piece the same one when it is fed again; "": each is another.
	Key string `json:"key,omitempty"`
	// Shared says that the key is one of the session's namespace, as that of a Spec is: whoever else has it, another
	// session or a process, is named by the error (CodeConflict, OpKey), and the piece is not run.
	Shared bool `json:"shared,omitempty"`
	// Backend is that which is to run the piece; "" or "auto": the session's own.
	Backend string `json:"backend,omitempty"`
}

// PieceEnd is how a piece ended. A piece that raised does not end its session.
type PieceEnd struct {
	Process Process         `json:"process"` // as it stands now
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *Error          `json:"error,omitempty"` // what the piece, or the process, failed with
	Ended   bool            `json:"ended,omitempty"` // the session is over
}

// NextPiece is what the kernel answers to proc.next: a piece with the tools that it imports, or the end.
type NextPiece struct {
	Piece Piece  `json:"piece,omitzero"`
	Tools []Tool `json:"tools,omitempty"`
	End   bool   `json:"end,omitempty"`
}

// OpKey is the Op of a CodeConflict about an idempotency key that another process has: PID.
const OpKey = "key"

// OpPiece is the Op of an error that answers proc.next in place of a piece: the piece that was handed over there was given up,
// and has left nothing in the session. The sandbox reports it as that piece's end.
const OpPiece = "piece"

// Idle is what EventIdle reports: the piece that has just run.
type Idle struct {
	Result json.RawMessage `json:"result,omitempty"`
	Error  *Error          `json:"error,omitempty"`
}
