// Package why says in one sentence why a process stands where it stands: what ended it, or what it waits for;
// where its time went; and what to type next. It is made from the process's row and its journal alone, so it
// has an answer for processes that run, are paused, have ended or were cut off, with and without a kernel.
//
// The package holds pure functions: it must never ask a kernel or a store, and never guess. What the journal
// does not say is said to be unknown.
package why

import (
	"slices"
	"strings"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/history"
)

// Input is what is known of a process.
type Input struct {
	Process agentkernel.Process
	Entries []agentkernel.Entry   // its whole journal
	Running []agentkernel.Process // who has a slot, if it has none; nil: nobody knows
	Now     time.Time             // for what has not ended
	// Before is the kernel that ran last, for a process that no kernel carries on.
	Before agentkernel.KernelLife
	// Hidden is a kernel that may run it and cannot be asked; nil: there is none.
	Hidden *agentkernel.Error
	// Talks says that it is a conversation, which somebody can go on with.
	Talks bool
	// Kept says that it has ended and that its changes to files wait to be applied.
	Kept bool
}

// Report is the answer.
type Report struct {
	PID   agentkernel.PID `json:"pid"`
	Name  string          `json:"name"`
	State string          `json:"state"` // of the process, or "paused"
	Cause Cause           `json:"cause"`
	Time  Split           `json:"time"`
	Next  []Step          `json:"next"` // commands, the most useful first
}

// Kind sorts causes, for programs that read a report.
type Kind string

// The kinds of causes.
const (
	Finished   Kind = "finished"        // ended well
	ExitCode   Kind = "exit_code"       // the program chose another exit code than 0
	Exception  Kind = "exception"       // raised and not caught
	ToolFailed Kind = "tool_error"      // a tool said no, and the program did not catch it
	Refused    Kind = "refused"         // a call was not allowed
	Server     Kind = "server"          // a server died, did not start or did not answer
	Model      Kind = "model"           // a model could not be asked, or did not answer
	Host       Kind = "host"            // a host did not answer http.fetch
	Unknown    Kind = "outcome_unknown" // a write of which nobody knows whether it happened
	LimitHit   Kind = "limit"
	Killed     Kind = "killed"
	Diverged   Kind = "diverged"
	Crashed    Kind = "crashed" // the sandbox died
	Failed     Kind = "failed"  // any other error

	Paused     Kind = "paused"
	Unfinished Kind = "unfinished" // no kernel carries it on
	Asking     Kind = "asking"     // a human is to allow a call, or its server is about to start
	Key        Kind = "key"        // somebody is to give the key of a model
	Waiting    Kind = "waiting"
	Asleep     Kind = "asleep"
	Running    Kind = "running"
	Ready      Kind = "ready"
)

// Cause is why the process stands where it stands.
type Cause struct {
	Kind     Kind             `json:"kind"`
	Sentence string           `json:"sentence"`
	Code     agentkernel.Code `json:"code,omitempty"`
	Message  string           `json:"message,omitempty"` // the whole of it
	Call     *Call            `json:"call,omitempty"`    // the call that matters
	Hint     string           `json:"hint,omitempty"`    // what helps against the error of that call, where no command does
	Calls    int64            `json:"calls"`             // how many there were
	Line     *Line            `json:"line,omitempty"`    // where the program stood
	Limit    *Limit           `json:"limit,omitempty"`
	Allow    string           `json:"allow,omitempty"`      // what --allow would have let through
	LastWord string           `json:"last_words,omitempty"` // of a server or a sandbox that died
	WaitsFor []Call           `json:"waits_for,omitempty"`  // calls under way
	// Behind are those who have the slots for which it waits, the one that has computed for longest first.
	Behind []agentkernel.PID `json:"behind,omitempty"`
}

// Call is a call as a report names it.
type Call struct {
	Number int64              `json:"number"`
	Name   string             `json:"name"` // "github.create_issue", "time.sleep"
	Effect agentkernel.Effect `json:"effect,omitempty"`
	Seq    int64              `json:"seq,omitempty"`
	Since  time.Time          `json:"since,omitzero"`
	Until  time.Time          `json:"until,omitzero"` // a sleep's end
	Child  agentkernel.PID    `json:"child,omitempty"`
}

// Limit is a limit that was hit.
type Limit struct {
	Name  string `json:"name"`  // "time": limits.time in the settings
	Limit string `json:"limit"` // as the settings write it
	Used  string `json:"used,omitempty"`
	Flag  string `json:"flag,omitempty"`
}

// Step is a command to type.
type Step struct {
	Command string `json:"command"`
	Why     string `json:"why,omitempty"`
}

// Of makes the report.
func Of(in Input) Report {
	list := history.Calls(in.Entries)
	c := &inquiry{in: in, p: &in.Process, calls: list, history: history.Fold(history.Base{}, in.Entries)}
	c.spec, _ = history.Created(in.Entries)
	r := Report{PID: c.p.PID, Name: c.p.Name, State: string(c.p.State)}
	c.cause.Calls = max(c.p.Usage.Syscalls, int64(len(list)))
	if c.p.State.Terminal() {
		c.ended()
		if in.Kept {
			c.step(c.cmd("diff %d"), "its changes wait; "+c.cmd("apply %d")+" keeps them, "+c.cmd("discard %d")+" throws them away")
		}
	} else {
		if c.p.Paused {
			r.State = "paused"
		}
		c.alive()
		c.deadline()
		c.budget()
	}
	r.Cause, r.Next = c.cause, c.next
	r.Time = split(in, list)
	return r
}

// inquiry is a report in the making.
type inquiry struct {
	in    Input
	p     *agentkernel.Process
	spec  agentkernel.Spec
	calls []history.Call
	// history is what the journal says; the kernel goes by the same.
	history *history.History
	cause   Cause
	next    []Step
}

func (c *inquiry) step(command, reason string) {
	if c.p.Backend == hosted && strings.Contains(command, "agentkernel rerun ") {
		c.runAgain()
		return
	}
	c.next = append(c.next, Step{Command: command, Why: reason})
}

// hosted is the backend of programs that run outside of the kernel, which cannot begin them again.
const hosted = "hosted"

// runAgain is what to do instead of a rerun about a program that is not the kernel's to run.
func (c *inquiry) runAgain() {
	command := c.cmd("inspect %d")
	if !slices.ContainsFunc(c.next, func(s Step) bool { return s.Command == command }) {
		c.next = append(c.next, Step{Command: command, Why: "it is a part of a program of yours: run that again, with another key; this shows the key that it had"})
	}
}

// ref is a call as the report names it.
func ref(c *history.Call) *Call {
	r := &Call{Number: c.Number, Name: c.Name(), Effect: c.Effect, Seq: c.Seq, Since: c.Start}
	switch c.Op {
	case "time.sleep":
		if s, ok := seconds(c.Args); ok {
			r.Until = c.Start.Add(s)
		}
	case "proc.wait":
		r.Child = childOf(c.Args)
	}
	return r
}

// open lists the calls without a result.
func (c *inquiry) open() []*history.Call {
	var out []*history.Call
	for i := range c.calls {
		if c.calls[i].Open() {
			out = append(out, &c.calls[i])
		}
	}
	return out
}
