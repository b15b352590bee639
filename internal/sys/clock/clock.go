// Package clock is the family of time: time.now and time.sleep.
package clock

import (
	"math"

	"agentkernel"
	"agentkernel/internal/journal"
	"agentkernel/internal/sys"
)

// Family is the family of time.
func Family() sys.Family {
	return sys.Family{Name: "time", Ops: []sys.Op{
		{Rerun: sys.Free, Now: now, Syscall: agentkernel.Syscall{
			Name: "time.now", Guest: "now", Effect: agentkernel.EffectPure, Capability: "time",
			Doc:    "Seconds since 1970, UTC. time.time and datetime.now are the same call.",
			Result: "number"}},
		{Rerun: sys.Free, Begin: sleep, Syscall: agentkernel.Syscall{
			Name: "time.sleep", Guest: "sleep", Effect: agentkernel.EffectPure, Capability: "time",
			Doc:    "Waits without using a sandbox slot; the process may be parked and survives a crash.",
			Args:   []agentkernel.Param{{Name: "seconds", Type: "number", Doc: "0 or more"}},
			Result: "null"}},
	}}
}

func now(c *sys.Call) (sys.Outcome, error) {
	return sys.Outcome{Result: journal.AppendFloat(nil, float64(c.Since.UnixMicro())/1e6)}, nil
}

// sleep counts from the moment at which the call was first made, so that a crash does not prolong it.
func sleep(c *sys.Call) (sys.Wait, error) {
	var a struct {
		Seconds float64 `json:"seconds"`
	}
	if err := c.Decode(&a); err != nil {
		return sys.Wait{}, err
	}
	if a.Seconds < 0 || math.IsNaN(a.Seconds) {
		return sys.Wait{}, c.Invalid("sleep length must be 0 or more")
	}
	return sys.Wait{Until: c.Since.Add(sys.Seconds(a.Seconds)), Result: sys.Null}, nil
}
