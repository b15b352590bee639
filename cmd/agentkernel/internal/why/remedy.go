package why

import (
	"fmt"

	"agentkernel"
	"agentkernel/internal/kernel/history"
)

// remedied explains an exception that was the error of a call of which the journal says what mends it. False: it does not.
func (c *inquiry) remedied(failed *history.Call, place string) bool {
	first := oneLine(failed.Err.Message())
	if name, ok := failed.Err.Limit(); ok { // it was refused, and the process might have gone on
		if d, found := agentkernel.FindLimit(name); found {
			set := c.spec.Limits.WithDefaults(agentkernel.DefaultLimits())
			is, raised := inForce(&d, &set)
			c.cause.Limit = &Limit{Name: name, Flag: d.Flag, Limit: is}
			c.say(LimitHit, "%s: %s; limits.%s is %s%s", failed.Name(), first, name, is, place)
			c.step(fmt.Sprintf("agentkernel rerun %d %s %s", c.p.PID, d.Flag, raised), "with a greater limit: finished calls are not made again")
			c.mend()
			return true
		}
	}
	if from := c.fromChild(failed); from > 0 {
		c.say(ToolFailed, "%s: %s%s", failed.Name(), first, place)
		c.step(fmt.Sprintf("agentkernel rerun %d --with %s --from %d", c.p.PID, c.file(), from), "with a child of its own: what call "+fmt.Sprint(from)+" started, and all after it, is done again")
		c.step(c.cmd("trace %d"), "what it did")
		return true
	}
	return false
}

// fromChild is the call from which on a rerun has to make all itself, where a call has failed because the child that it is about is
// none of this store: an answer from a recording has named it. 0: that is not why.
func (c *inquiry) fromChild(failed *history.Call) int64 {
	child := childOf(failed.Args)
	if c.spec.Past == nil || failed.Op != "proc.wait" || failed.Err.Code != agentkernel.CodeNotFound || child == 0 {
		return 0
	}
	var children history.Children
	for i := range c.calls {
		if call := &c.calls[i]; call.Op == "proc.spawn" && !call.Open() && call.Err == nil {
			children.Started(call.Number, call.Result)
		}
	}
	for i := range c.calls {
		children.Named(c.calls[i].Number, c.calls[i].Args)
	}
	return children.From(child)
}

// lookAt is what to look at where nobody knows whether a write happened.
func lookAt(unknown *agentkernel.Error) string {
	if history.StillAtWork(unknown) {
		return "the arguments of the call; look at its server whether it happened, once that cannot be at work on it any more: only the wait was given up"
	}
	return "the arguments of the call; look at its server whether it happened"
}
