package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"agentkernel"
	"agentkernel/internal/bytesize"
	"agentkernel/internal/sandbox/confine"
)

// Exit codes of programs that could not be started, as shells have them.
const (
	exitNotExecutable = 126
	exitNotFound      = 127
	exitSignal        = 128 // and the signal's number
)

// heapIsFull says whether Node has ended itself for --max-old-space-size.
func (w *whole) heapIsFull(exit confine.Exit) bool {
	aborted := exit.Status.Signaled() && exit.Status.Signal() == unix.SIGABRT || exit.Status.ExitStatus() == exitSignal+int(unix.SIGABRT)
	return aborted && w.req.Program.Language == agentkernel.Node && strings.Contains(w.said.String(), "JavaScript heap out of memory")
}

// notStarted is the turn for a program that the system did not take.
func (w *whole) notStarted(err error) (agentkernel.Turn, error) {
	_ = w.cell.Close() // again, at most
	w.mu.Lock()
	cause := w.cause
	w.mu.Unlock()
	if cause != nil {
		return w.ended(confine.Exit{}, cause)
	}
	e := agentkernel.AsError(err, agentkernel.CodeUnavailable, "process")
	turn := failTurn(e)
	switch e.Code {
	case agentkernel.CodeNotFound:
		turn.ExitCode = exitNotFound
	case agentkernel.CodeDenied, agentkernel.CodeUnsupported, agentkernel.CodeInvalid:
		turn.ExitCode = exitNotExecutable
	default:
		return agentkernel.Turn{}, err
	}
	return turn, nil
}

// ended is the turn for a program that has ended; cause is why it was killed, if it was.
func (w *whole) ended(exit confine.Exit, cause error) (agentkernel.Turn, error) {
	ran := w.ran + time.Since(w.begun)
	if err := w.out.end(); err != nil {
		return agentkernel.Turn{}, w.tooMuch(err)
	}
	var told *message
	if w.door != nil {
		w.door.settle()
		told = w.door.result
	}
	switch {
	case exit.Limit != "":
		return agentkernel.Turn{}, w.wallLimit(exit)
	case cause != nil:
		return agentkernel.Turn{}, w.whyKilled(cause, ran)
	case !exit.Known:
		return agentkernel.Turn{}, agentkernel.Errorf(agentkernel.CodeCrashed, "process", "the sandbox was ended from outside")
	case told != nil && told.Type == "fail":
		if told.Limit == "tmp" && !w.tmpFull(exit) {
			told.Limit = ""
		}
		turn := programFailed(told, w.limits(), ran)
		turn.ExitCode = cmp.Or(exit.Status.ExitStatus(), 1)
		return turn, nil
	case w.heapIsFull(exit):
		// V8 met its limit before the walls did theirs: all processes together need not have come to that.
		return agentkernel.Turn{}, limitError("memory", "the objects of JavaScript needed more than four fifths of %s; the rest is for buffers and Node itself", bytesize.InMiB(w.req.Limits.Memory))
	case exit.Status.Signaled():
		return w.signalled(exit)
	}
	if limit := struckLimit(w.struck(exit), w.limits()); limit != nil {
		return agentkernel.Turn{}, limit
	}
	turn := agentkernel.Turn{Kind: agentkernel.TurnExit, ExitCode: exit.Status.ExitStatus()}
	if told != nil {
		turn.Result = told.Result
	}
	return turn, nil
}

// whyKilled is the error for a program that was killed on our side.
func (w *whole) whyKilled(cause error, ran time.Duration) error {
	switch {
	case errors.Is(cause, errLate):
		return timeLimit(w.req.Limits, ran)
	case errors.Is(cause, errSandboxClosed), errors.Is(cause, errClosed):
		return errSandboxClosed
	case errors.Is(cause, context.Canceled), errors.Is(cause, context.DeadlineExceeded):
		return cause
	}
	return agentkernel.AsError(cause, agentkernel.CodeCrashed, "process")
}

// wallLimit is the error for a limit of the sandbox that ended it.
func (w *whole) wallLimit(exit confine.Exit) error {
	if own := sandboxLimit(exit.Limit, w.req.Limits); own != nil {
		return own
	}
	if exit.Limit == "memory" {
		seen := ""
		if n := exit.Usage.Memory; n >= w.req.Limits.Memory/2 { // less: nobody knows what all its processes had together
			seen = " (last seen: " + bytesize.InMiB(n) + ")"
		}
		return limitError("memory", "the program and what it started needed more than %s%s", bytesize.InMiB(w.req.Limits.Memory), seen)
	}
	if w.req.Limits.CPUTime > 0 {
		return cpuLimit(w.req.Limits)
	}
	return unseenTime(w.req.Limits, w.cell.Config.Limits.CPUTime)
}

// signalled is the turn for a program that a signal has ended.
func (w *whole) signalled(exit confine.Exit) (agentkernel.Turn, error) {
	sig := exit.Status.Signal()
	if sig == unix.SIGTERM && w.isAsked() {
		return failTurn(agentkernel.Errorf(agentkernel.CodeInterrupted, "stop", "SIGTERM ended it")), nil
	}
	if limit := struckLimit(limitOfSignal[sig], w.limits()); limit != nil {
		return agentkernel.Turn{}, limit
	}
	if err := w.out.write(1, fmt.Appendf(nil, "%s: killed by signal %d (%s)\n", w.req.Program.Name, int(sig), sig)); err != nil {
		return agentkernel.Turn{}, w.tooMuch(err)
	}
	return agentkernel.Turn{Kind: agentkernel.TurnExit, ExitCode: exitSignal + int(sig)}, nil
}
