// Package signals is the family with which a program takes user signals and holds signals back.
package signals

import (
	"math"

	"agentkernel"
	"agentkernel/internal/sys"
)

// Family is the family of signals.
func Family() sys.Family {
	return sys.Family{Name: "signals", Ops: []sys.Op{
		{Begin: wait, Syscall: agentkernel.Syscall{
			Name: "signals.wait", Guest: "signals.wait", Effect: agentkernel.EffectPure, Capability: "signals",
			Doc:    "Waits for a user signal (`agentkernel signal PID user PAYLOAD`) and takes it, the oldest first; those that came before are waiting.",
			Args:   []agentkernel.Param{{Name: "timeout", Type: "number", Optional: true, Default: "None", Doc: "seconds; then TimeoutError. 0 takes what is there"}},
			Result: "any", ResultDoc: "the payload"}},
		{Now: null, Syscall: agentkernel.Syscall{
			Name: "signals.mask", Guest: "signals.mask", Effect: agentkernel.EffectPure, Capability: "signals", Mask: 1,
			Doc:    "Holds back user signals and interrupts until signals.unmask was called as often. Pause and kill are not held back, and the grace time of stop goes on.",
			Result: "null"}},
		{Now: null, Syscall: agentkernel.Syscall{
			Name: "signals.unmask", Guest: "signals.unmask", Effect: agentkernel.EffectPure, Capability: "signals", Mask: -1,
			Doc:    "Undoes one signals.mask. An interrupt that came meanwhile is raised by the next call.",
			Result: "null"}},
	}}
}

// wait counts from the moment at which the call was first made, so that a crash does not prolong it.
func wait(c *sys.Call) (sys.Wait, error) {
	var a struct {
		Timeout *float64 `json:"timeout"`
	}
	if err := c.Decode(&a); err != nil {
		return sys.Wait{}, err
	}
	w := sys.Wait{Kind: agentkernel.PostSignal}
	if a.Timeout == nil {
		return w, nil
	}
	if *a.Timeout < 0 || math.IsNaN(*a.Timeout) {
		return w, c.Invalid("timeout must be 0 or more")
	}
	w.Until = c.Since.Add(sys.Seconds(*a.Timeout))
	w.Err = c.Errorf(agentkernel.CodeTimeout, "no signal came within %v s", *a.Timeout)
	return w, nil
}

func null(*sys.Call) (sys.Outcome, error) { return sys.Outcome{Result: sys.Null}, nil }
