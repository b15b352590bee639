package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"agentkernel"
	"agentkernel/internal/kernel/history"
)

type resolveCmd struct {
	PID    string  `arg:"" help:"The process."`
	Call   string  `arg:"" help:"The number of the call; inspect and why say it."`
	Done   *string `placeholder:"JSON" help:"It happened, and this is what it answered (null: nothing)."`
	Retry  bool    `help:"Make the call again."`
	Fail   *string `placeholder:"MESSAGE" help:"It did not happen and is not to: the program gets a ToolError."`
	Follow bool    `short:"f" help:"Show the output from here on and wait for the end."`
}

func (resolveCmd) Help() string {
	return `A write that was cut off is not made again, because nobody knows whether it happened. A process with
--on-unknown pause then waits until you have looked and say: it was done, make it again, or it failed. The decision is
in the journal before anything follows from it. "resume" instead hands the program OutcomeUnknown.

` + examples("agentkernel resolve 12 9 --done '{\"id\": 7}'", "agentkernel resolve 12 9 --retry -f", "agentkernel resolve 12 9 --fail 'the order was cancelled by phone'")
}

// resolved is what resolve --json prints.
type resolved struct {
	PID      agentkernel.PID      `json:"pid"`
	Call     int64                `json:"call"`
	Decision agentkernel.Decision `json:"decision"`
	Paused   bool                 `json:"paused"` // another call is to be decided
}

func (c *resolveCmd) Run(a *app) error {
	pid, err := agentkernel.ParsePID(c.PID)
	if err != nil {
		return err
	}
	call, err := strconv.ParseInt(c.Call, 10, 64)
	if err != nil || call < 1 {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "resolve", "%q is not the number of a call: they count from 1", c.Call).
			WithHint("agentkernel inspect %d says which call is to be decided", pid)
	}
	r, err := c.resolution()
	if err != nil {
		return err
	}
	if err := a.resolvable(pid); err != nil {
		return err
	}
	if c.Follow || a.cli.Embedded {
		return a.followFrom(pid, func(ctx context.Context, k agentkernel.Kernel) error { return k.Resolve(ctx, pid, call, r) })
	}
	k, err := a.kernel()
	if err != nil {
		return err
	}
	defer k.Close()
	if err := k.Resolve(a.ctx, pid, call, r); err != nil {
		return err
	}
	p, err := k.Process(a.ctx, pid)
	if err != nil {
		return err
	}
	switch {
	case a.cli.JSON:
		return a.printJSON(resolved{pid, call, r.Decision, p.Paused})
	case p.Paused && !p.State.Terminal():
		a.con.Say("%s", pausedLine(p))
	default:
		a.con.Note("%s", signalNote(pid, agentkernel.SignalResume))
	}
	return nil
}

func (c *resolveCmd) resolution() (agentkernel.Resolution, error) {
	var r agentkernel.Resolution
	given := 0
	if c.Done != nil {
		given++
		r = agentkernel.Resolution{Decision: agentkernel.DecisionDone, Result: json.RawMessage(*c.Done)}
	}
	if c.Retry {
		given++
		r = agentkernel.Resolution{Decision: agentkernel.DecisionRetry}
	}
	if c.Fail != nil {
		given++
		r = agentkernel.Resolution{Decision: agentkernel.DecisionFail, Message: *c.Fail}
	}
	if given != 1 {
		return r, agentkernel.Errorf(agentkernel.CodeInvalid, "resolve", "say what happened: --done JSON, --retry or --fail MESSAGE, one of them").
			WithHint("agentkernel resolve --help")
	}
	return r, r.Validate()
}

// resolvable refuses processes that are not there or have ended, before a kernel is started for them.
func (a *app) resolvable(pid agentkernel.PID) error {
	k, p, err := a.question(pid.String())
	if err != nil {
		return err
	}
	defer k.Close()
	if p.State.Terminal() {
		return agentkernel.Errorf(agentkernel.CodeConflict, "resolve", "process %d has ended already: %s", pid, stateText(p)).
			WithHint("agentkernel rerun %d makes a new process that goes on from what this one did", pid)
	}
	return nil
}

// decisions are the commands that decide about the calls for which a process is paused.
func decisions(p agentkernel.Process, entries []agentkernel.Entry) []string {
	if !p.Paused || p.State.Terminal() {
		return nil
	}
	var out []string
	for _, q := range history.Fold(history.Base{}, entries).Unresolved.Questions() {
		out = append(out, fmt.Sprintf("agentkernel resolve %d %d --done JSON | --retry | --fail MESSAGE", p.PID, q.Call))
	}
	return out
}
