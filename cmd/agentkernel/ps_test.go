package main

import (
	"fmt"
	"testing"

	"agentkernel"
)

// What ps picks by state and name is counted by -n after it is picked.
func TestPsPicks(t *testing.T) {
	list := []agentkernel.Process{
		{PID: 6, Name: "report.py", State: agentkernel.StateRunning},
		{PID: 5, Name: "report.py", State: agentkernel.StateWaiting, Paused: true},
		{PID: 4, Name: "report_2.py", State: agentkernel.StateWaiting},
		{PID: 3, Name: "other.py", State: agentkernel.StateFailed, Paused: true},
		{PID: 2, Name: "other.py", State: agentkernel.StateExited},
	}
	for _, c := range []struct {
		cmd   psCmd
		want  string
		ended bool
	}{
		{psCmd{State: []string{"waiting"}}, "[4]", false},
		{psCmd{State: []string{"paused", "running"}}, "[6 5]", false},
		{psCmd{State: []string{"paused", "running"}, Limit: 1}, "[6]", false},
		{psCmd{State: []string{"failed", "ready"}}, "[3]", true},
		{psCmd{Name: "report*"}, "[6 5 4]", false},
		{psCmd{Name: "report*", State: []string{"waiting"}}, "[4]", false},
		{psCmd{Name: "report"}, "[]", false},
	} {
		got := []agentkernel.PID{}
		for _, p := range c.cmd.pick(append([]agentkernel.Process(nil), list...)) {
			got = append(got, p.PID)
		}
		if fmt.Sprint(got) != c.want || c.cmd.ended() != c.ended || !c.cmd.picks() {
			t.Errorf("%+v: %v, want %s; ended %v", c.cmd, got, c.want, c.cmd.ended())
		}
	}
}
