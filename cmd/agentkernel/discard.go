package main

import (
	"fmt"
	"strings"

	"agentkernel"
)

type discardCmd struct {
	PIDs []string `arg:"" optional:"" name:"pid" help:"Processes that worked in a folder and have ended; without any, those are listed that wait with changes."`
	Tree bool     `help:"Those of all processes below them, too: of a task with sub-agents."`
}

func (discardCmd) Help() string {
	return `Throws away what the processes changed and was not applied, and frees the disk. The folders stay as they are. An
apply that was cut off in the middle is finished first: then nothing is left, and the answer says so.

` + examples("agentkernel discard 12", "agentkernel discard 12 13 14", "agentkernel discard --tree 12")
}

// discarded is what discard --json prints for each process.
type discarded struct {
	PID   agentkernel.PID    `json:"pid"`
	Error *agentkernel.Error `json:"error,omitempty"`
}

func (c *discardCmd) Run(a *app) error {
	if len(c.PIDs) == 0 {
		return a.listWaiting("discard")
	}
	var pids []agentkernel.PID
	for _, text := range c.PIDs {
		pid, err := agentkernel.ParsePID(text)
		if err != nil {
			return err
		}
		pids = append(pids, pid)
	}
	k, err := a.kernel()
	if err != nil {
		return err
	}
	defer k.Close()
	if c.Tree {
		if pids, err = a.waitingBelow(k, pids); err != nil {
			return err
		}
	}
	out := []discarded{}
	var failed error
	for _, pid := range pids {
		d := discarded{PID: pid}
		_, err := a.find(k, pid)
		if err == nil {
			err = k.Discard(a.ctx, pid)
		}
		if err != nil {
			d.Error, failed = asError(err), err
		}
		switch {
		case a.cli.JSON:
		case err != nil && len(pids) > 1:
			a.reportError(d.Error)
		case err == nil:
			a.con.Note("%s", a.goneText(k, pid))
		}
		out = append(out, d)
	}
	switch {
	case a.cli.JSON:
		if err := a.printJSON(out); err != nil {
			return err
		}
	case len(pids) == 0:
		a.con.Note("nothing waits below it")
	case len(pids) == 1:
		return failed
	}
	if failed != nil {
		return exitCode(asError(failed).Code.ExitCode())
	}
	return a.outputError()
}

// goneText says what was thrown away, and what is in the folders all the same.
func (a *app) goneText(k agentkernel.Kernel, pid agentkernel.PID) string {
	if c, err := k.Changes(a.ctx, pid); err == nil {
		if where := a.publishedTo(&c); where != "" {
			var names []string
			for i := range c.Changes {
				if c.Changes[i].Applied && len(names) < shownWithheld {
					names = append(names, fileText(c.Changes[i].Name()))
				}
			}
			return fmt.Sprintf("the rest of the changes of process %d is gone; %s has what was applied before: %s%s",
				pid, where, strings.Join(names, ", "), more(len(c.Changes)-len(names)))
		}
	}
	return fmt.Sprintf("the changes of process %d are gone", pid)
}

func more(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf(" and %d more", n)
}
