package history

import (
	"encoding/json"

	"agentkernel"
)

// Children are those that a process has started, with the calls that name them.
type Children struct {
	started map[agentkernel.PID]int64 // by which call
	named   map[agentkernel.PID]int64 // by which call last
}

// Started notes that a call has started a child: result is its PID.
func (c *Children) Started(call int64, result json.RawMessage) {
	var child agentkernel.PID
	if json.Unmarshal(result, &child) != nil || child == 0 {
		return
	}
	if c.started == nil {
		c.started, c.named = map[agentkernel.PID]int64{}, map[agentkernel.PID]int64{}
	}
	c.started[child] = call
}

// Named notes a call which is about a child, if it is.
func (c *Children) Named(call int64, args json.RawMessage) {
	var a struct {
		PID agentkernel.PID `json:"pid"`
	}
	if json.Unmarshal(args, &a) == nil && c.started[a.PID] != 0 {
		c.named[a.PID] = max(c.named[a.PID], call)
	}
}

// From is the call from which on a rerun makes all itself, so that it has a child of its own in the place of this one; 0: no call has started
// it. A child that the process started earlier and named later is started again, too: the rerun would ask for one that is not its own.
func (c *Children) From(child agentkernel.PID) int64 {
	from := c.started[child]
	for again := from > 0; again; {
		again = false
		for other, call := range c.started {
			if call < from && c.named[other] >= from {
				from, again = call, true
			}
		}
	}
	return from
}
