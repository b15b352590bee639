package agentkernel

import (
	"strings"
	"time"
)

// WakeCauses says in words what would let a process go on that stands still or waits: "timer", "process 12 ends", "a signal". None: it
// does not wait.
func (p *Process) WakeCauses() (causes []string) {
	if p.State.Terminal() {
		return nil
	}
	add := func(cause string) {
		for _, known := range causes {
			if known == cause {
				return
			}
		}
		causes = append(causes, cause)
	}
	switch {
	case p.State == StateUnfinished && (!p.Paused || p.Shortage() != nil): // one that somebody has paused, recover leaves paused
		return []string{"recover"}
	case p.Repeats(): // the call that WaitsFor names was not made
		return []string{"resume"}
	case p.Paused && p.RaiseBudget() != "": // resume alone pauses it again
		return []string{"a larger budget"}
	case p.Paused && p.AllowanceAgain() != "":
		return []string{"the next " + string(p.Shortage().Period), "a larger allowance"}
	case p.Paused:
		add("resume")
	case p.Halted != "":
		add("thaw")
	}
	for _, call := range p.WaitsFor {
		if cause := wakeCause(call); cause != "" {
			add(cause)
		}
	}
	if !p.WakeAt.IsZero() {
		add("timer")
	}
	return causes
}

// wakeCause says what answers a call that WaitsFor names; "": the clock alone.
func wakeCause(call string) string {
	call, _, _ = strings.Cut(call, ", queued ") // why it waits its turn
	call, _, key := strings.Cut(call, WaitsForKey)
	name, about, _ := strings.Cut(call, " ")
	family, _, _ := strings.Cut(name, ".")
	switch {
	case strings.HasPrefix(call, YourAnswer):
		return "your answer"
	case key && family == "llm": // others are about what a program has written
		return "key"
	case call == ItsHost:
		return "a host"
	case call == ItsServers:
		return call
	case name == "proc.wait":
		return "the end of process " + about
	case name == "proc.next":
		return "the next cell"
	case family == "signals":
		return "a signal"
	case family == "time":
		return ""
	case about != "":
		return "the answer of " + about
	}
	return "the answer to " + name
}

// WakesIn is how long the clock lets the process wait, as seen at a moment; 0: it does not.
func (p *Process) WakesIn(now time.Time) time.Duration {
	if p.WakeAt.IsZero() {
		return 0
	}
	return max(p.WakeAt.Sub(now), time.Millisecond)
}
