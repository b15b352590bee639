// Package clock is the family of time: time.now and time.sleep.
package clock

import (
	"math"
	"time"

	"agentkernel"
	"agentkernel/internal/journal"
	"agentkernel/internal/sys"
)

// Family is the family of time.
func Family() sys.Family {
	return sys.Family{Name: "time", Ops: []sys.Op{
		{Rerun: sys.Free, Now: now, Syscall: agentkernel.Syscall{
			Name: "time.now", Guest: "now", Effect: agentkernel.EffectPure, Capability: "time", Advances: true,
			Doc:    "Seconds since 1970, UTC. time.time and datetime.now are the same call.",
			Result: "number"}},
		{Rerun: sys.Free, Begin: sleep, Syscall: agentkernel.Syscall{
			Name: "time.sleep", Guest: "sleep", Effect: agentkernel.EffectPure, Capability: "time",
			Doc:    "Waits without using a sandbox slot; the process may be parked and survives a crash.",
			Args:   []agentkernel.Param{{Name: "seconds", Type: "number", Doc: "0 or more"}},
			Result: "null"}},
		{Rerun: sys.Free, Begin: sleepUntil, Syscall: agentkernel.Syscall{
			Name: "time.sleep_until", Guest: "sleep_until", Effect: agentkernel.EffectPure, Capability: "time",
			Doc:    "Waits like sleep until a moment; one that is past is no wait.",
			Args:   []agentkernel.Param{{Name: "when", Type: "number", Doc: "seconds since 1970, UTC, as now() says them; at most ten years ahead"}},
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

// furthest is how far ahead a moment may be; sleep of a longer time means as much.
const furthest = 10 * 365 * 24 * time.Hour

func sleepUntil(c *sys.Call) (sys.Wait, error) {
	var a struct {
		When float64 `json:"when"`
	}
	if err := c.Decode(&a); err != nil {
		return sys.Wait{}, err
	}
	ahead := a.When - float64(c.Since.UnixMicro())/1e6
	if math.IsNaN(a.When) || ahead > furthest.Seconds() {
		return sys.Wait{}, c.Invalid("when is seconds since 1970, at most ten years ahead; it is %v", a.When)
	}
	return sys.Wait{Until: c.Since.Add(sys.Seconds(max(ahead, 0))), Result: sys.Null}, nil
}
