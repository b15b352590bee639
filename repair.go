package agentkernel

import (
	"context"
	"encoding/json"
)

// Repairs is for runs that went wrong.
type Repairs interface {
	// Resolve decides about a write whose outcome nobody knows, of a process that is paused for it
	// (UnknownPause). When nothing is left to decide the process goes on. The decision is durable when
	// Resolve returns. Errors: CodeNotFound (no such process or call), CodeConflict (the process has ended,
	// or there is nothing to decide about this call), CodeInvalid.
	Resolve(ctx context.Context, pid PID, call int64, r Resolution) error
}

// Decision is what a human found out about a write whose outcome nobody knew.
type Decision string

const (
	DecisionDone  Decision = "done"  // it happened; Resolution.Result is what it answered
	DecisionRetry Decision = "retry" // it did not happen, or may happen twice: make the call again
	DecisionFail  Decision = "fail"  // it did not happen and is not wanted any more; Resolution.Message says why
)

// Resolution is a decision with what belongs to it.
type Resolution struct {
	Decision Decision        `json:"decision"`
	Result   json.RawMessage `json:"result,omitempty"`  // DecisionDone: plain JSON, as the tool would have answered
	Message  string          `json:"message,omitempty"` // DecisionFail: the program gets it as a ToolError
}

// Validate says what is wrong with a Resolution.
func (r *Resolution) Validate() error {
	switch r.Decision {
	case DecisionDone:
		if !json.Valid(r.Result) {
			return Errorf(CodeInvalid, "resolve", "the result is not JSON: `%.80s`", r.Result).
				WithHint(`a text is written with quotes: '"done"'; no result is null`)
		}
	case DecisionFail:
		if r.Message == "" {
			return Errorf(CodeInvalid, "resolve", "the message is empty; the program is told nothing else")
		}
	case DecisionRetry:
	default:
		return Errorf(CodeInvalid, "resolve", "decision %q is not known: done, retry or fail", string(r.Decision))
	}
	return nil
}

// Past makes a process a rerun of another: calls that it makes in the order of the other, with the same
// operation and arguments, are answered from the other's journal; the first difference and everything after it
// is live. The answered calls are copied, so that the new journal is complete by itself. A write that the
// other process made is not made again, wherever it comes, unless Again says so. Users know the other process as
// the past of the rerun; in code it is its origin.
type Past struct {
	PID  PID   `json:"pid"`            // has ended, and is of the same namespace
	From int64 `json:"from,omitempty"` // calls of it from this number on are not answered; 0: all are
	// Again are patterns, as in Spec.Allow, of calls that are made again beyond the first difference although the past made them: writes,
	// idempotent and paid ones. A pattern may name a system call, too: "llm.ask".
	Again []string `json:"again,omitempty"`
}
