package agentkernel_test

import (
	"strings"
	"testing"
	"time"

	"agentkernel"
)

func TestWakeCauses(t *testing.T) {
	at := time.Now()
	for _, c := range []struct {
		p    agentkernel.Process
		want string
	}{
		{agentkernel.Process{State: agentkernel.StateExited, WaitsFor: []string{"time.sleep"}}, ""},
		{agentkernel.Process{State: agentkernel.StateRunning}, ""},
		{agentkernel.Process{State: agentkernel.StateUnfinished}, "recover"},
		{agentkernel.Process{State: agentkernel.StateUnfinished, Paused: true}, "resume"},
		{agentkernel.Process{State: agentkernel.StateUnfinished, Paused: true, PauseNote: "budget: the call costs $1.00, and the budget of process 3 is $2.00: spent $2.00"}, "recover"},
		{agentkernel.Process{State: agentkernel.StateWaiting, WaitsFor: []string{"time.sleep"}, WakeAt: at}, "timer"},
		{agentkernel.Process{State: agentkernel.StateWaiting, WaitsFor: []string{"proc.wait 12", "signals.wait"}, WakeAt: at}, "the end of process 12, a signal, timer"},
		{agentkernel.Process{State: agentkernel.StateWaiting, WaitsFor: []string{"tool.call fs.read", "tool.call fs.read"}}, "the answer of fs.read"},
		{agentkernel.Process{State: agentkernel.StateWaiting, WaitsFor: []string{agentkernel.YourAnswer + "fs.write"}}, "your answer"},
		{agentkernel.Process{State: agentkernel.StateWaiting, WaitsFor: []string{"llm.ask fast" + agentkernel.WaitsForKey + ": so it is given", "llm.ask slow, queued 1.0 s: why"}}, "key, the answer of slow"},
		{agentkernel.Process{State: agentkernel.StateWaiting, WaitsFor: []string{"proc.next"}, WakeAt: at}, "the next cell, timer"},
		{agentkernel.Process{State: agentkernel.StateWaiting, Paused: true, WaitsFor: []string{"http.fetch GET a"}}, "resume, the answer of GET a"},
		{agentkernel.Process{State: agentkernel.StateWaiting, Paused: true, PauseNote: "budget: the call costs $1.00, and the budget of process 3 is $2.00: spent $2.00"}, "a larger budget"},
		{agentkernel.Process{State: agentkernel.StateWaiting, Paused: true, PauseNote: "budget: the call costs 1 call, and the allowance of namespace a for the day is 5 calls: spent 5 calls; it begins anew at 2026-12-01 00:00 UTC"},
			"the next day, a larger allowance"},
		{agentkernel.Process{State: agentkernel.StateWaiting, Halted: "the kernel"}, "thaw"},
	} {
		if got := strings.Join(c.p.WakeCauses(), ", "); got != c.want {
			t.Errorf("%+v: %q, want %q", c.p, got, c.want)
		}
	}
	p := agentkernel.Process{WakeAt: at.Add(time.Minute)}
	if p.WakesIn(at) != time.Minute || p.WakesIn(at.Add(time.Hour)) <= 0 || (&agentkernel.Process{}).WakesIn(at) != 0 {
		t.Error("WakesIn")
	}
}
