package why

import (
	"fmt"
	"strings"

	"agentkernel"
	"agentkernel/internal/journal"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/shellword"
)

// family is what a call belongs to: "llm" of llm.ask.
func family(call *history.Call) string {
	name, _, _ := strings.Cut(call.Op, ".")
	return name
}

// kindOf is the kind of a call that failed, which is ofTool for one of a tool.
func kindOf(call *history.Call, ofTool Kind) Kind {
	switch family(call) {
	case "tool":
		return ofTool
	case "llm":
		return Model
	}
	return Exception // the kernel answered, and the program did not catch it
}

// unanswered explains a call that got no answer. What helps depends on who owed it: the error of a model or a host says that itself.
func (c *inquiry) unanswered(failed *history.Call, sentence string) {
	message := failed.Err.Message()
	kind := kindOf(failed, Server)
	if family(failed) == "http" {
		kind = Host
	}
	c.say(kind, "%s", sentence)
	if kind != Server {
		c.cause.Hint = failed.Err.Hint
	}
	if kind == Model && c.unset(message) {
		c.cause.Hint = "" // the same, once more
		return
	}
	if kind == Model && strings.Contains(c.cause.Hint, "agentkernel doctor") { // nobody listens: patience does not help
		c.step("agentkernel doctor", "whether the server of the model can be reached")
		c.step(c.cmd("rerun %d"), "finished calls are not made again")
		return
	}
	if failed.Err.Code == agentkernel.CodeTimeout && kind != Exception {
		wait := c.spec.Limits.WithDefaults(agentkernel.DefaultLimits()).CallWait
		c.step(fmt.Sprintf("agentkernel rerun %d --call-timeout %s", c.p.PID, wait*4), "with more patience: finished calls are not made again")
	}
	switch {
	case strings.Contains(message, agentkernel.OfProgram):
		c.step(c.cmd("trace %d"), "what it did; that program, run again, starts a new process, and this one cannot call its functions any more")
	case kind == Server:
		c.serverSteps(failed.Server)
	case kind == Model:
		c.modelSteps(failed)
	case kind == Host:
		c.step(c.cmd("rerun %d"), "finished calls are not made again")
		c.step(c.cmd("trace %d --full"), "what was asked for")
	default:
		c.mend()
	}
}

// modelSteps look whether a model answers, or, where its declaration is at fault, what is declared.
func (c *inquiry) modelSteps(failed *history.Call) {
	if hint := c.cause.Hint; strings.Contains(hint, "setting models") || strings.Contains(hint, "price=") {
		c.step("agentkernel llm list", "the models that are declared, and what they cost")
		c.step(c.cmd("rerun %d"), "when that is mended: finished calls are not made again")
		return
	}
	test := "agentkernel llm test"
	if alias, _ := journal.TextOf(failed.Args, "model"); alias != "" {
		test += " " + shellword.Names(alias)
	}
	c.step(test, "whether the model answers now")
	c.step(c.cmd("rerun %d"), "finished calls are not made again")
}

// unset says what helps where a message names an environment variable that the kernel has not, if it does.
func (c *inquiry) unset(message string) bool {
	name := agentkernel.UnsetVariable(message)
	if name == "" {
		return false
	}
	c.step("agentkernel shutdown", "where "+name+" is set: the next command starts a kernel with the environment of its terminal")
	c.step(c.cmd("rerun %d"), "then: finished calls are not made again")
	return true
}
