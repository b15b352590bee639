package main

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"agentkernel"
	"agentkernel/internal/shellword"
)

type stopCmd struct {
	PIDs   []string      `arg:"" name:"pid" help:"Processes."`
	Grace  time.Duration `default:"10s" placeholder:"SPAN" help:"How long they may take to end before they are killed (10s)."`
	Tree   bool          `help:"Also the children that were detached."`
	NoWait bool          `help:"Return as soon as they are asked."`
}

func (stopCmd) Help() string {
	return `The program is interrupted, as by KernelInterrupt, in the call that it waits for or else in its next one, and so are
its children. What it does then is up to it; what has not ended when the time is over is killed, also if the kernel
stops meanwhile. A program in another language than Python that waits for no call gets SIGTERM. A process that is paused, or
in Python makes no calls, is not heard and has only the time.

` + examples("agentkernel stop 12", "agentkernel stop 12 13 --grace 1m", "agentkernel stop --tree 12 --no-wait")
}

func (c *stopCmd) Run(a *app) error {
	opt := agentkernel.SignalOptions{Grace: agentkernel.Duration(c.Grace), Tree: c.Tree}
	return a.signalAll(c.PIDs, sending{Signal: agentkernel.SignalStop, SignalOptions: opt, await: !c.NoWait})
}

type signalCmd struct {
	PID     string `arg:"" name:"pid" help:"The process."`
	Signal  string `arg:"" name:"signal" help:"user, interrupt, stop, pause, resume or kill."`
	Payload string `arg:"" optional:"" name:"payload" help:"With user: what the program is handed, as JSON; a text that is no JSON is taken as a text."`
	Tree    bool   `help:"Also all children."`
}

func (signalCmd) Help() string {
	return `interrupt raises KernelInterrupt in the program, at the call that it waits for or else at its next one. user puts a payload
before the program, which takes it with signals.wait() from the module kernel; it is kept until then. The others have commands
of their own.

` + examples("agentkernel signal 12 interrupt", `agentkernel signal 12 user '{"reload": true}'`, "agentkernel signal 12 user reload")
}

func (c *signalCmd) Run(a *app) error {
	opt := agentkernel.SignalOptions{Tree: c.Tree}
	if _, err := agentkernel.ParsePID(c.PID); err != nil && isSignal(c.PID) {
		if _, err := agentkernel.ParsePID(c.Signal); err == nil {
			return agentkernel.Errorf(agentkernel.CodeInvalid, "usage", "the PID stands before the signal").
				WithHint("agentkernel signal %s", shellword.Join(slices.DeleteFunc([]string{c.Signal, c.PID, c.Payload}, func(s string) bool { return s == "" })))
		}
	}
	if known, ok := unixSignal(c.Signal); ok {
		c.Signal = string(known)
	}
	opt.Payload = json.RawMessage(c.Payload)
	switch {
	case c.Payload == "":
		opt.Payload = nil
	case json.Valid(opt.Payload):
	case strings.ContainsAny(c.Payload[:1], "{[\""):
		return agentkernel.Errorf(agentkernel.CodeInvalid, "usage", "the payload begins as JSON does, and is none: %.40s", c.Payload).
			WithHint(`quote it for the shell: '{"reload": true}'; a text of that kind is sent as JSON: '"{...}"'`)
	default:
		opt.Payload, _ = json.Marshal(c.Payload) // a text always is JSON
	}
	return a.signalAll([]string{c.PID}, sending{Signal: agentkernel.Signal(c.Signal), SignalOptions: opt})
}

// isSignal says whether a word is a signal here or elsewhere.
func isSignal(word string) bool {
	_, ok := unixSignal(word)
	return ok || agentkernel.Signal(word).Validate() == nil
}

// unixSignal is the signal that other systems know by this name or number, and that does the same here.
func unixSignal(word string) (s agentkernel.Signal, ok bool) {
	s, ok = unixSignals[strings.TrimPrefix(strings.ToUpper(word), "SIG")]
	return s, ok
}

// unixSignals are the names that other systems have for signals.
var unixSignals = map[string]agentkernel.Signal{
	"TERM": agentkernel.SignalStop, "STOP": agentkernel.SignalStop, "INT": agentkernel.SignalInterrupt, "INTERRUPT": agentkernel.SignalInterrupt,
	"KILL": agentkernel.SignalKill, "PAUSE": agentkernel.SignalPause, "TSTP": agentkernel.SignalPause, "CONT": agentkernel.SignalResume,
	"RESUME": agentkernel.SignalResume, "USER": agentkernel.SignalUser, "USR1": agentkernel.SignalUser, "USR2": agentkernel.SignalUser, "HUP": agentkernel.SignalUser,
	"2": agentkernel.SignalInterrupt, "9": agentkernel.SignalKill, "15": agentkernel.SignalStop,
}
