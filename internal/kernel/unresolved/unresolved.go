// Package unresolved is about writes whose outcome nobody knows: what a human's decision about one means in a journal, and why
// there is nothing to decide about a call. It reads journals, and never decides anything or changes a process.
package unresolved

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"agentkernel"
	"agentkernel/internal/journal"
	"agentkernel/internal/kernel/advice"
	"agentkernel/internal/kernel/history"
)

// Unknown is the answer for a write of which nobody knows whether it happened; cause is why, nil: its kernel died.
func Unknown(op, brief string, cause error) *agentkernel.Error {
	why := "the kernel died while it was under way"
	if cause != nil {
		e := agentkernel.AsError(cause, agentkernel.CodeInternal, "")
		if why = e.Message(); e.Code == agentkernel.CodeTimeout {
			why = history.Overdue(why)
		}
	}
	return agentkernel.Errorf(agentkernel.CodeOutcomeUnknown, op, "%s may or may not have happened: %s", brief, why)
}

// Failure is what a call outside the kernel has ended with, by the error of its handler. settled: that is how it ended. Else what comes
// after its time is no answer.
func Failure(ctx context.Context, op, label string, err error, settled bool) *agentkernel.Error {
	e := agentkernel.AsError(err, agentkernel.CodeUnavailable, op)
	late := errors.Is(err, context.DeadlineExceeded) || !settled && ctx.Err() == context.DeadlineExceeded
	if late && e.Code != agentkernel.CodeTimeout { // an answer that came is what counts, however late it is now
		e = agentkernel.Errorf(agentkernel.CodeTimeout, op, "%s did not answer in time", label)
	}
	return e
}

// Leaves says whether the failure of a call leaves open whether it happened, and gives it as the program would be told. One that was made again
// leaves open what the first time did, unless the tool itself answered. brief names the call.
func Leaves(failure *agentkernel.Error, op string, again bool, brief func() string) (*agentkernel.Error, bool) {
	switch {
	case failure == nil:
		return nil, false
	case failure.Code == agentkernel.CodeOutcomeUnknown:
		return failure, true
	case again && failure.Code != agentkernel.CodeTool && failure.Code != agentkernel.CodeAnswerLost:
		return Unknown(op, brief(), failure), true
	}
	return failure, false
}

// Note is what a process that is paused for a call says of it.
func Note(pid agentkernel.PID, call int64, label string) string {
	return fmt.Sprintf(advice.Unresolved, call, label, pid, call)
}

// Entries are a decision about a call as entries of its journal: the decision, and the result that it gives the call, if any.
// returned is how the call settles if it has not happened; see history.Amounts.
func Entries(call int64, r agentkernel.Resolution, returned agentkernel.Amounts) []agentkernel.Entry {
	decided := []agentkernel.Entry{{Kind: agentkernel.EntryResolve, Call: call, Decision: r.Decision}}
	switch r.Decision {
	case agentkernel.DecisionDone:
		result, err := journal.FromPlain(r.Result)
		if err != nil { // Validate has read it
			result = json.RawMessage("null")
		}
		return append(decided, agentkernel.Entry{Kind: agentkernel.EntryResult, Call: call, Data: result})
	case agentkernel.DecisionFail:
		return append(decided, agentkernel.Entry{Kind: agentkernel.EntryResult, Call: call, Settle: returned,
			Err: agentkernel.Errorf(agentkernel.CodeTool, "resolve", "%s", r.Message)})
	}
	return decided
}

// Told adds to the error that ends a process the writes that are under way; without an error it gives them.
func Told(err *agentkernel.Error, calls []string) (*agentkernel.Error, []string) {
	if err == nil || len(calls) == 0 {
		return err, calls
	}
	var hints []string
	for _, label := range calls {
		hints = append(hints, agentkernel.InDoubt(label))
	}
	if err.Hint != "" {
		hints = append(hints, err.Hint)
	}
	return err.WithHint("%s", strings.Join(hints, "; ")), nil
}

// Open says that a process which no kernel carries has a call to decide about.
func Open(rec *agentkernel.ProcessRecord, entries []agentkernel.Entry, call int64) bool {
	return !rec.State.Terminal() && rec.Spec.OnUnknown == agentkernel.UnknownPause && history.OpenWrite(entries, call)
}

// Why says why there is nothing to decide about a call. label names a call of a journal.
func Why(ctx context.Context, store agentkernel.StoreReader, pid agentkernel.PID, call int64, label func(*agentkernel.Entry) string) error {
	rec, err := store.Process(ctx, pid)
	if err != nil {
		return err
	}
	conflict := func(format string, args ...any) *agentkernel.Error {
		return agentkernel.Errorf(agentkernel.CodeConflict, "resolve", format, args...).WithPID(pid)
	}
	if rec.State.Terminal() {
		return conflict("process %d has ended already: %s", pid, rec.State).
			WithHint(advice.Rerun, pid)
	}
	entries, err := store.Entries(ctx, pid, 1, 0)
	if err != nil {
		return err
	}
	made := history.CallOf(entries, call)
	if made == nil {
		return agentkernel.Errorf(agentkernel.CodeNotFound, "resolve", "process %d has made no call %d", pid, call).WithPID(pid).
			WithHint(advice.WhichCall, pid)
	}
	name := label(&agentkernel.Entry{Op: made.Op, Args: made.Args})
	switch {
	case !made.Instant() && made.Err != nil && made.Err.Code == agentkernel.CodeOutcomeUnknown:
		return conflict("the program has been handed OutcomeUnknown for call %d (%s) already", call, name).
			WithHint(advice.PauseInstead)
	case !made.Open():
		return conflict("call %d (%s) has its result already", call, name).WithHint(advice.Trace, pid)
	case made.Unsent:
		return conflict("call %d (%s) waits for its turn, and was not sent", call, name)
	case made.Effect != agentkernel.EffectWrite:
		return conflict("call %d (%s) is no write: a kernel that finds it cut off makes it again", call, name)
	case rec.Spec.OnUnknown != agentkernel.UnknownPause:
		return conflict("process %d hands unknown outcomes to its program; nobody is asked", pid).
			WithHint(advice.PauseInstead)
	}
	return conflict("call %d (%s) is under way", call, name).WithHint("wait until it has ended, or its server has died")
}
