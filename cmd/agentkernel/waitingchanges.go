package main

import (
	"time"

	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/console"
)

const (
	// shownWaiting is how many runs are named that wait with changes, and searchedWaiting among how many of the newest they are looked for.
	shownWaiting, searchedWaiting = 10, 200
)

// whichPID is the error of a command about the changes of a run where no PID was given, or none that is one (wrong): it lists the runs that wait
// with changes, the newest first, each as the command that is meant.
func (a *app) whichPID(command string, wrong error) error {
	rows := a.waitingRuns(command)
	e := agentkernel.Errorf(agentkernel.CodeInvalid, "usage", "missing: PID")
	if wrong != nil {
		e = asError(wrong)
	}
	if len(rows) == 0 {
		return e.WithHint("no run waits with changes; agentkernel ps -a lists all")
	}
	if !a.cli.JSON {
		a.con.Err(console.Table(rows))
	}
	return e.WithHint("these runs wait with changes, the newest first: %s; agentkernel diff PID shows them", rows[0][0])
}

// waitingRuns are rows of a command, what the run has changed, what it is called, and when it began. What cannot be read is left out.
func (a *app) waitingRuns(command string) (rows [][]string) {
	k, _, err := a.readable()
	if err != nil {
		return nil
	}
	defer k.Close()
	all, err := k.List(a.ctx, agentkernel.Filter{Limit: searchedWaiting})
	if err != nil {
		return nil
	}
	for i := range all {
		p := &all[i]
		if !p.State.Terminal() || len(rows) == shownWaiting {
			continue
		}
		c, err := k.Changes(a.ctx, p.PID)
		if err != nil || c.State != agentkernel.LayerKept || len(c.Changes) == 0 {
			continue
		}
		rows = append(rows, []string{"agentkernel " + command + " " + p.PID.String(), countChanges(&c) + " in " + a.folderText(c.Folder, waiting(&c)), p.Name, console.Age(time.Since(p.Created)) + " ago"})
	}
	return rows
}
