package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"agentkernel"
)

// What ps picks by state and name.
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

// Where those that have ended are listed, ps lists the newest 100 and says how many more there are; -n says how many, and counts what
// was picked. More than one page is one table and one array.
func TestPsListsByPages(t *testing.T) {
	const all = agentkernel.PageSize + 250
	home := t.TempDir()
	fillStore(t, home, all, 1)
	for _, c := range []struct {
		args string
		want int
		says string
	}{
		{"ps", 0, ""},
		{"ps -a", 100, "the newest 100 are listed; 1150 more: --limit N lists so many, --limit 0 all"},
		{"ps --state failed", 100, "the newest 100 are listed; older ones match, too: --limit N lists so many, --limit 0 all"},
		{"ps --state exited", 0, ""},
		{"ps -a -n 3", 3, ""},
		{"ps -a -n 1100", 1100, ""},
		{"ps -a -n 0", all, ""},
		{"ps -a -n 5000", all, ""},
		{"ps -a --name big* -n 1001", 1001, ""},
	} {
		text, notes := outputOf(t, home, strings.Fields(c.args)...)
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		if len(lines) != c.want+1 || !strings.HasPrefix(strings.TrimSpace(lines[0]), "PID") || strings.Contains(strings.Join(lines[1:], "\n"), "PID") {
			t.Errorf("%s: %d lines, the first is %q, want %d processes", c.args, len(lines), lines[0], c.want)
		}
		if strings.Contains(notes, "are listed") != (c.says != "") || !strings.Contains(notes, c.says) {
			t.Errorf("%s says %q, want %q", c.args, notes, c.says)
		}
		text, _ = outputOf(t, home, append(strings.Fields(c.args), "--json")...)
		var list []agentkernel.Process
		if err := json.Unmarshal([]byte(text), &list); err != nil || len(list) != c.want {
			t.Fatalf("%s --json: %d processes, %v, want %d", c.args, len(list), err, c.want)
		}
		pids := []agentkernel.PID{}
		for i := range list {
			pids = append(pids, list[i].PID)
		}
		slices.Sort(pids)
		for i, pid := range pids {
			if want := agentkernel.PID(all - c.want + 1 + i); pid != want {
				t.Fatalf("%s --json: pid %d where %d is expected", c.args, pid, want)
			}
		}
	}
}
