// Package running is what all that runs for a process runs under: its sandbox, and its calls outside the kernel.
package running

import (
	"context"
	"sync/atomic"

	"agentkernel"
)

// Context is the context of a process. A parked one has none: with what the contexts made from it hang on it, one costs more than all else
// that the kernel keeps of the process. It is guarded by the lock of its process, but for Binds.
type Context struct {
	context.Context
	Binds  atomic.Bool // servers of the tools that the program imports are asked, and may have to start
	cancel context.CancelFunc
	turns  Turns
	ended  bool
	cause  *agentkernel.Error
}

// New returns a context that is no child of the kernel's, whose list of children would grow with the process table: the kernel ends each
// by itself.
func New() *Context {
	ctx, cancel := context.WithCancel(context.Background())
	return &Context{Context: ctx, cancel: cancel, turns: Turns{of: ctx}}
}

// Turns gives the turns of its program their time.
func (c *Context) Turns() *Turns { return &c.turns }

// End ends all that runs, for a cause unless there was one before.
func (c *Context) End(cause *agentkernel.Error) {
	if c.cause == nil {
		c.cause = cause
	}
	c.ended = true
	c.cancel()
}

// Ended says whether End was called; a nil one was not ended.
func (c *Context) Ended() bool { return c != nil && c.ended }

// Cause is why the kernel ends what runs: a limit, a signal; nil: it does not, or for no reason of the process's own.
func (c *Context) Cause() *agentkernel.Error {
	if c == nil {
		return nil
	}
	return c.cause
}

// Forget forgets the cause: another may end what runs.
func (c *Context) Forget() { c.cause = nil }
