package agentkernel

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// Code says what kind of thing went wrong. A code is part of the public contract: it survives the HTTP
// API, the guest boundary and the journal, and decides exit code, HTTP status and guest exception.
type Code string

// The codes. Each maps once to an HTTP status ([Code.HTTPStatus]), a guest exception
// ([Code.GuestException]) and an exit code ([Code.ExitCode]).
const (
	CodeInvalid        Code = "invalid_argument"  // the caller's arguments are wrong
	CodeSyntax         Code = "syntax_error"      // the program does not parse
	CodeUnsupported    Code = "unsupported"       // the backend cannot run this program; nothing ran
	CodeNotFound       Code = "not_found"         // no such process, tool, server, file
	CodeConflict       Code = "conflict"          // the thing exists already or is in another state
	CodeDenied         Code = "permission_denied" // a capability or an approval is missing
	CodeLimit          Code = "limit_exceeded"    // a limit of the process was hit
	CodeTimeout        Code = "timeout"           // an external call did not answer in time
	CodeUnavailable    Code = "unavailable"       // an engine, a server or the kernel cannot be reached
	CodeTool           Code = "tool_error"        // the tool answered with an error
	CodeAnswerLost     Code = "answer_lost"       // the call was made, and its answer cannot be given
	CodeOutcomeUnknown Code = "outcome_unknown"   // a write was begun and nobody knows whether it happened
	CodeSessionLost    Code = "session_lost"      // a server that keeps a session was restarted
	CodeInterrupted    Code = "interrupted"       // a signal asked the program to stop
	CodeKilled         Code = "killed"            // the process was ended from outside
	CodeProgram        Code = "program_error"     // an exception that the program did not catch
	CodeDiverged       Code = "diverged"          // replay did not repeat what the journal says
	CodeCrashed        Code = "crashed"           // the sandbox died under the program
	CodeCorrupt        Code = "corrupt"           // stored bytes are not what was written
	CodeVersion        Code = "version_mismatch"  // two versions that cannot work together met
	CodeStorage        Code = "storage_failed"    // the store could not write or read
	CodeFenced         Code = "fenced"            // another kernel holds the process's tree now, and continues it
	CodeCanceled       Code = "canceled"          // the caller gave up
	CodeInternal       Code = "internal"          // a defect of AgentKernel itself
)

// Known says whether c is one of the codes above.
func (c Code) Known() bool {
	switch c {
	case CodeInvalid, CodeSyntax, CodeUnsupported, CodeNotFound, CodeConflict, CodeDenied, CodeLimit, CodeTimeout, CodeUnavailable, CodeTool,
		CodeAnswerLost, CodeOutcomeUnknown, CodeSessionLost, CodeInterrupted, CodeKilled, CodeProgram, CodeDiverged, CodeCrashed, CodeCorrupt, CodeVersion,
		CodeStorage, CodeFenced, CodeCanceled, CodeInternal:
		return true
	}
	return false
}

// Error is the one error type that crosses package, process and network borders.
type Error struct {
	Code Code   // what kind of error
	Op   string // the operation that failed: a syscall ("tool.call"), a verb ("run"), a path in an API
	PID  PID    // the process concerned; 0 if none
	Err  error  // the cause; its text is the message
	// Hint is what to do next, one sentence or a command, for a person at the command line; may be empty. [Reader.Hint] says it to others.
	Hint string
	// Traceback is the program's own traceback, in the guest language's usual form, if it raised.
	Traceback string
	// Exception is the guest's exception type ("ValueError") if a program raised it; may be empty.
	Exception string
}

// Errorf makes an Error; the format works as in [fmt.Errorf], %w included.
func Errorf(code Code, op, format string, args ...any) *Error {
	return &Error{Code: code, Op: op, Err: fmt.Errorf(format, args...)}
}

// WithHint returns a copy of e that says what to do next.
func (e *Error) WithHint(format string, args ...any) *Error {
	c := *e
	c.Hint = fmt.Sprintf(format, args...)
	return &c
}

// WithRecover returns a copy of e that names the process and says how to continue it: for whoever loses the kernel while a
// process is under way. Running the program again would make its calls again. pid 0: it is not known whether there is a process.
func (e *Error) WithRecover(pid PID) *Error {
	if pid == 0 {
		return e.WithHint("the program may have begun: `agentkernel ps` shows it then, and `agentkernel recover` continues it; to run it again would do again what it did")
	}
	return e.WithPID(pid).WithHint("if it is unfinished, `agentkernel recover %d` continues it; to run the program again would do again what it did", pid)
}

// OrNil is the error as an interface: nil if e is, and not an interface that holds a nil pointer.
func (e *Error) OrNil() error {
	if e == nil {
		return nil
	}
	return e
}

// WithPID returns a copy of e that names the process.
func (e *Error) WithPID(pid PID) *Error {
	c := *e
	c.PID = pid
	return &c
}

// Message is the cause without code, operation and PID.
func (e *Error) Message() string {
	if e.Err == nil {
		return string(e.Code)
	}
	return e.Err.Error()
}

// Error is "op: message (pid N)"; [Error.GuestText] is the form a program sees.
func (e *Error) Error() string {
	var b strings.Builder
	if e.Op != "" {
		b.WriteString(e.Op)
		b.WriteString(": ")
	}
	b.WriteString(e.Message())
	if e.PID != 0 {
		fmt.Fprintf(&b, " (pid %d)", e.PID)
	}
	return b.String()
}

// GuestText is str(e) in every guest language: "code: message", with the hint behind it.
func (e *Error) GuestText() string { return e.TextFor(InProgram) }

// TextFor is "code: message (hint)", the hint as r can use it.
func (e *Error) TextFor(r Reader) string {
	s := string(e.Code) + ": " + e.Message()
	switch {
	case e.Hint == "":
	case strings.Contains(s, "\n"): // the last line is another's: of a diff, or of what a server printed
		s += "\n(" + r.Hint(e.Hint) + ")"
	default:
		s += " (" + r.Hint(e.Hint) + ")"
	}
	return s
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// wireError is Error as JSON, in journals, API answers and guest frames alike.
type wireError struct {
	Code      Code   `json:"code"`
	Message   string `json:"message"`
	Op        string `json:"op,omitempty"`
	PID       PID    `json:"pid,omitempty"`
	Hint      string `json:"hint,omitempty"`
	Traceback string `json:"traceback,omitempty"`
	Exception string `json:"exception,omitempty"`
}

// MarshalJSON writes {"code","message","op","pid","hint","traceback","exception"}.
func (e *Error) MarshalJSON() ([]byte, error) {
	return json.Marshal(wireError{e.Code, e.Message(), e.Op, e.PID, e.Hint, e.Traceback, e.Exception})
}

// UnmarshalJSON is the reverse of MarshalJSON; the cause becomes a plain text error.
func (e *Error) UnmarshalJSON(b []byte) error {
	var w wireError
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	*e = Error{Code: w.Code, Op: w.Op, PID: w.PID, Err: errors.New(w.Message), Hint: w.Hint,
		Traceback: w.Traceback, Exception: w.Exception}
	return nil
}

// CodeOf is the code of the first *Error in err's chain, CodeInternal for any other error, "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return CodeInternal
}

// OpKernel is the Op of an error of code CodeUnavailable that says that the kernel itself went away, or is going: what was
// asked of it may have been done.
const OpKernel = "kernel"

// KernelGone says whether err has an error of OpKernel in its chain.
func KernelGone(err error) bool {
	for err != nil {
		e, ok := errors.AsType[*Error](err)
		if !ok {
			return false
		}
		if e.Code == CodeUnavailable && e.Op == OpKernel {
			return true
		}
		err = e.Err
	}
	return false
}

// AsError gives err as an *Error: itself if it is one, else wrapped with the given code and operation.
func AsError(err error, code Code, op string) *Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Code: code, Op: op, Err: err}
}

// HTTPStatus is the status with which the API answers an error of this code.
func (c Code) HTTPStatus() int {
	switch c {
	case CodeInvalid, CodeSyntax, CodeUnsupported:
		return http.StatusBadRequest
	case CodeNotFound:
		return http.StatusNotFound
	case CodeConflict, CodeDiverged, CodeOutcomeUnknown, CodeSessionLost, CodeFenced:
		return http.StatusConflict
	case CodeDenied:
		return http.StatusForbidden
	case CodeLimit:
		return http.StatusTooManyRequests
	case CodeTimeout:
		return http.StatusGatewayTimeout
	case CodeUnavailable, CodeStorage:
		return http.StatusServiceUnavailable
	case CodeVersion:
		return http.StatusUpgradeRequired
	default:
		return http.StatusInternalServerError
	}
}

// GuestException is the exception that a reply with this code raises in a program. The names and
// their base classes are one table for all guests (docs/errors.md).
func (c Code) GuestException() string {
	switch c {
	case CodeDenied:
		return "PermissionError"
	case CodeLimit:
		return "LimitError"
	case CodeOutcomeUnknown:
		return "OutcomeUnknown"
	case CodeSessionLost:
		return "SessionLost"
	case CodeInterrupted:
		return "KernelInterrupt"
	case CodeTimeout:
		return "TimeoutError"
	case CodeInvalid:
		return "TypeError"
	default:
		return "ToolError"
	}
}

// GuestBase is the builtin exception that one of the kernel's own ([Code.GuestException]) is derived from; "" for any other
// name. A guest that cannot have types of its own raises the builtin in its place.
func GuestBase(exception string) string {
	switch exception {
	case "ToolError":
		return "RuntimeError"
	case "LimitError":
		return "MemoryError"
	case "OutcomeUnknown", "SessionLost":
		return "OSError"
	case "KernelInterrupt":
		return "KeyboardInterrupt"
	default:
		return ""
	}
}

// Exit codes of the agentkernel command. A program's own exit code (kernel.exit, sys.exit) passes through.
const (
	ExitOK          = 0
	ExitFailed      = 1   // the program raised, or the command failed
	ExitUsage       = 2   // bad flags, bad program text, bad configuration
	ExitUnavailable = 69  // an engine, a kernel or a server is missing (EX_UNAVAILABLE)
	ExitStorage     = 74  // the data directory cannot be read or written (EX_IOERR)
	ExitDenied      = 77  // permission denied (EX_NOPERM)
	ExitTimeLimit   = 124 // a time limit ended the program, as timeout(1)
	ExitInterrupted = 130 // Ctrl-C: the process is paused and can go on
	ExitKilled      = 137 // the process was killed, or ended by a limit other than time
)

// ExitCode is the exit code of a command that fails with this code.
func (c Code) ExitCode() int {
	switch c {
	case "":
		return ExitOK
	case CodeInvalid, CodeSyntax, CodeUnsupported:
		return ExitUsage
	case CodeUnavailable, CodeVersion, CodeFenced:
		return ExitUnavailable
	case CodeStorage, CodeCorrupt:
		return ExitStorage
	case CodeDenied:
		return ExitDenied
	case CodeTimeout:
		return ExitTimeLimit
	case CodeInterrupted, CodeCanceled:
		return ExitInterrupted
	case CodeKilled, CodeLimit, CodeCrashed:
		return ExitKilled
	default:
		return ExitFailed
	}
}
