package why

import (
	"cmp"
	"fmt"
	"strings"

	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/console"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/shellword"
)

// ended explains a process that has a terminal entry.
func (c *inquiry) ended() {
	e := c.p.Error
	if e == nil {
		c.exited()
		return
	}
	c.cause.Code, c.cause.Message = e.Code, e.Message()
	c.cause.Line = userLine(e.Traceback, c.p.Name)
	switch e.Code {
	case agentkernel.CodeLimit:
		c.limitHit(e)
	case agentkernel.CodeKilled:
		c.killed()
	case agentkernel.CodeDiverged:
		c.say(Diverged, "%s", firstLine(e.Message()))
		c.step(c.cmd("trace %d --full"), "what the journal has")
		c.step(c.cmd("rerun %d"), "begin again: what was recorded is answered from the journal up to the difference")
	case agentkernel.CodeCrashed:
		first, rest := cutWords(e.Message())
		c.cause.LastWord = rest
		c.say(Crashed, "its sandbox died: %s%s", first, lastWords(rest))
		hint := "finished calls are not made again"
		if strings.Contains(first, "signal: killed") {
			hint += "; if nobody killed it, dmesg says whether the machine was out of memory"
		}
		c.step(c.cmd("rerun %d"), hint)
	case agentkernel.CodeProgram:
		c.raised(e)
	default:
		c.otherError(e)
	}
}

func (c *inquiry) say(kind Kind, format string, args ...any) {
	state := string(c.p.State)
	if c.p.Paused && !c.p.State.Terminal() {
		state = "paused"
	}
	c.cause.Kind = kind
	c.cause.Sentence = console.Line(state + ": " + fmt.Sprintf(format, args...))
}

// cmd is a command about this process.
func (c *inquiry) cmd(format string) string {
	return "agentkernel " + fmt.Sprintf(format, c.p.PID)
}

// exited: there is no error; the program may have chosen an exit code.
func (c *inquiry) exited() {
	if c.p.ExitCode == 0 {
		c.say(Finished, "it ended well after %s%s", count(c.cause.Calls, "call"), c.inDoubt())
		c.step(c.cmd("logs %d"), "what it printed")
		c.step(c.cmd("trace %d"), "what it did")
		return
	}
	how := fmt.Sprintf("with code %d", c.p.ExitCode)
	if n := len(c.calls); n > 0 && c.calls[n-1].Op == "proc.exit" {
		c.cause.Call = ref(&c.calls[n-1])
		how += fmt.Sprintf(", by its own choice (%s)", c.number(&c.calls[n-1]))
	}
	if words := c.lastStderr(); words != "" {
		c.cause.LastWord = words
		how += lastWords(words)
	}
	c.say(ExitCode, "%s%s", how, c.inDoubt())
	c.step(c.cmd("logs %d --stderr"), "what it said")
	c.step(c.cmd("trace %d"), "what it did")
}

// raised: an exception that nobody caught. Where it is the error of a call, the call is the cause.
func (c *inquiry) raised(e *agentkernel.Error) {
	failed, passed := c.culprit(e.Message())
	if failed == nil {
		c.say(Exception, "%s%s, after %s%s", oneLine(e.Message()), c.where(), count(c.cause.Calls, "call"), c.before())
		c.mend()
		return
	}
	c.cause.Call, c.cause.Code = ref(failed), failed.Err.Code
	place := fmt.Sprintf(" (%s%s)", c.number(failed), c.at())
	if !passed {
		place = fmt.Sprintf(" (%s), and the program raised %s%s", c.number(failed), cmp.Or(e.Exception, "an exception"), c.where())
	}
	name, message := failed.Name(), failed.Err.Message()
	if c.remedied(failed, place) {
		return
	}
	first, rest := cutWords(message)
	c.cause.LastWord = rest
	switch failed.Err.Code {
	case agentkernel.CodeDenied:
		c.refused(failed, place)
	case agentkernel.CodeOutcomeUnknown:
		c.say(Unknown, "nobody knows whether %s happened: %s%s%s", name, afterColon(first), lastWords(rest), place)
		c.step(c.cmd("trace %d --full"), lookAt(failed.Err))
		c.step(c.cmd("rerun %d --with ")+c.file(), "with a program that looks before it does it again: finished calls are not made again")
	case agentkernel.CodeUnavailable, agentkernel.CodeTimeout, agentkernel.CodeSessionLost:
		c.unanswered(failed, fmt.Sprintf("%s got no answer: %s%s%s", name, first, lastWords(rest), place))
	case agentkernel.CodeTool:
		c.say(ToolFailed, "%s answered with an error: %s%s%s", name, first, lastWords(rest), place)
		c.mend()
	default:
		c.say(kindOf(failed, ToolFailed), "%s: %s%s%s", name, first, lastWords(rest), place)
		if family(failed) == "llm" {
			c.cause.Hint = failed.Err.Hint
		}
		c.mend()
	}
}

// refused: a call that was not allowed, by the permissions or by deny.
func (c *inquiry) refused(failed *history.Call, place string) {
	c.say(Refused, "%s%s", failed.Err.Message(), place)
	if accept, ok := strings.CutPrefix(failed.Err.Hint, "agentkernel tools accept "); ok {
		c.step("agentkernel tools accept "+accept+c.toolsFlags(), "if the tool may be as it is now")
		c.step(c.cmd("rerun %d"), "then: finished calls are not made again")
		return
	}
	if host, ok := strings.CutPrefix(failed.Err.Hint, "allow it with --allow-host "); ok && family(failed) == "http" {
		c.step(c.cmd("rerun %d --allow-host ")+host, "finished calls are not made again")
		return
	}
	if family(failed) == "http" || family(failed) == "llm" {
		c.cause.Hint = failed.Err.Hint
	}
	if failed.Op != "tool.call" || !strings.Contains(failed.Err.Hint, "--allow") {
		c.step(c.cmd("inspect %d"), "what was taken away from it (may not)")
		return
	}
	c.cause.Allow = failed.Name()
	c.step(fmt.Sprintf("agentkernel rerun %d --allow %s", c.p.PID, shellword.Quoted(c.cause.Allow)), "finished calls are not made again")
}

// file is the name of the program's file as one types it, or an invented one where it has more than words that need quotes.
func (c *inquiry) file() string {
	if words := strings.ReplaceAll(c.p.Name, " ", ""); strings.HasPrefix(shellword.File(words), "'") {
		return "fixed.py"
	}
	return shellword.File(c.p.Name)
}

// mend is what to do about a program that is wrong.
func (c *inquiry) mend() {
	if c.p.Parent != 0 && c.p.Backend != hosted { // its program is a text that the parent made: no file has it
		c.step(fmt.Sprintf("agentkernel trace %d --full", c.p.Parent), "the process that started it, with the program that it gave it")
		c.step(c.cmd("trace %d"), "what it did")
		return
	}
	c.step(c.cmd("rerun %d --with ")+c.file(), "with the program mended: finished calls are not made again")
	c.step(c.cmd("trace %d"), "what it did")
}

func (c *inquiry) serverSteps(server string) {
	command := "agentkernel tools list"
	if server != "" {
		command += " " + server
	}
	c.step(command+c.toolsFlags(), "whether the server starts now")
	c.step(c.cmd("rerun %d"), "finished calls are not made again")
}

// toolsFlags names the tools files of the process to another command.
func (c *inquiry) toolsFlags() string {
	flags := ""
	for _, file := range c.spec.Tools {
		flags += " --tools " + shellword.File(file)
	}
	return flags
}

func (c *inquiry) killed() {
	switch op := c.p.Error.Op; op {
	case "stop":
		c.say(Killed, "%s (agentkernel stop)%s", c.p.Error.Message(), c.under())
	case agentkernel.OpDeadline, agentkernel.OpImport:
		c.say(Killed, "%s%s", c.p.Error.Message(), c.under())
	default:
		c.say(Killed, "ended from outside (agentkernel kill)%s", c.under())
	}
	c.step(c.cmd("trace %d"), "what it had done")
	c.step(c.cmd("rerun %d"), "finished calls are not made again")
}

// inDoubt names the writes that were under way when the process exited.
func (c *inquiry) inDoubt() string {
	text := ""
	for _, o := range c.open() {
		if o.InDoubt() {
			text += "; " + agentkernel.InDoubt(fmt.Sprintf("%s (%s)", o.Name(), c.number(o)))
		}
	}
	return text
}

// under names the calls that were under way when the process ended.
func (c *inquiry) under() string {
	open := c.open()
	if len(open) == 0 {
		return ""
	}
	c.cause.Call = ref(open[0])
	text := fmt.Sprintf(", while it waited for %s (%s)", open[0].Name(), c.number(open[0]))
	for _, o := range open {
		c.cause.WaitsFor = append(c.cause.WaitsFor, *ref(o))
		if o.InDoubt() {
			text += fmt.Sprintf("; whether %s happened is unknown", o.Name())
		}
	}
	return text
}

// otherError: the process could not start, its backend is gone, or the like.
func (c *inquiry) otherError(e *agentkernel.Error) {
	first, rest := cutWords(e.Message())
	c.cause.LastWord = rest
	kind := Failed
	if e.Op == "tool.start" || rest != "" {
		kind = Server
	}
	c.say(kind, "%s%s%s", first, lastWords(rest), c.where())
	switch {
	case c.unset(e.Message()):
	case strings.Contains(first, agentkernel.OfProgram):
		c.step(c.cmd("trace %d"), "what it did; that program, run again, starts a new process, and this one cannot call its functions any more")
	case kind == Server:
		c.serverSteps(between(first, `server "`, `"`))
	case e.Code == agentkernel.CodeSyntax || e.Code == agentkernel.CodeUnsupported:
		c.mend()
	case e.Code == agentkernel.CodeUnavailable:
		c.step("agentkernel doctor", "what is missing here")
	default:
		c.step(c.cmd("inspect %d"), "all that is known of it")
	}
}
