package kernel

import (
	"encoding/json"
	"math"
	"time"

	"agentkernel"
	"agentkernel/internal/journal"
)

// timeCalls is the family of time.
var timeCalls = map[string]handler{
	"time.now":   {now: timeNow},
	"time.sleep": {begin: timeSleep},
}

func timeNow(k *Kernel, _ *process, f *inflight) (json.RawMessage, error) {
	return journal.AppendFloat(nil, float64(f.since.UnixMicro())/1e6), nil
}

// timeSleep counts from the moment at which the call was first issued, so that a crash does not prolong it.
func timeSleep(k *Kernel, p *process, f *inflight) error {
	var a struct {
		Seconds float64 `json:"seconds"`
	}
	if err := decodeArgs(f, &a); err != nil {
		return err
	}
	if a.Seconds < 0 || math.IsNaN(a.Seconds) {
		return agentkernel.Errorf(agentkernel.CodeInvalid, f.op, "sleep length must be 0 or more")
	}
	left := f.since.Add(seconds(a.Seconds)).Sub(k.cfg.Now())
	if left <= 0 {
		k.complete(p, f, json.RawMessage("null"), "", nil)
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	f.timer = time.AfterFunc(left, func() { k.complete(p, f, json.RawMessage("null"), "", nil) })
	return nil
}

// seconds converts without overflow: ten years stand for any longer time.
func seconds(s float64) time.Duration {
	const tenYears = 10 * 365 * 24 * 3600
	return time.Duration(min(s, tenYears) * float64(time.Second))
}
