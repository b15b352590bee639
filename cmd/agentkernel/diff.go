package main

import (
	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/diff"
)

type diffCmd struct {
	A     string      `arg:"" optional:"" help:"A process; without one, those are listed that wait with changes."`
	B     optionalPID `arg:"" optional:"" help:"The process to compare it with; without it, what A did to files."`
	Patch bool        `short:"p" help:"Files: the changed lines of small texts, as diff -u shows them."`
	All   bool        `help:"Show each of the calls that are the same, too."`
	Full  bool        `help:"Whole arguments and results."`
	Exact bool        `help:"Compare what differs each time, too: the clock, random bytes, PIDs of children."`
}

func (diffCmd) Help() string {
	return `Two runs, call by call, aligned by what was called with which arguments:
  =  the same call with the same result       ~  the same tool with other arguments
  !  the same call with another result        -  only in A        +  only in B
Below them where the output begins to differ, and how the ends differ. The exit code is 0 if calls, output and end
are equal, 1 if they are not. What the two were created with is shown and does not count.

With one process: the files that it added (+), changed (~) and deleted (-) in its workspace and volumes. The exit code
is 0 if there are none.

` + examples("agentkernel diff 12 15", "agentkernel diff 12", "agentkernel diff 12 --patch", "agentkernel diff 12 15 --all --full | less -R", "agentkernel diff 12 15 --json | jq '.calls[] | select(.kind != \"same\")'")
}

func (c *diffCmd) Run(a *app) error {
	switch {
	case c.A == "":
		return a.listWaiting("diff")
	case c.B == "":
		return c.fileDiff(a)
	}
	pidB, err := agentkernel.ParsePID(string(c.B))
	if err != nil {
		return err
	}
	k, p, err := a.question(c.A)
	if err != nil {
		return err
	}
	defer k.Close()
	q, err := a.find(k, pidB)
	if err != nil {
		return err
	}
	var runs []diff.Run
	for _, p := range []agentkernel.Process{p, q} {
		entries, err := k.Journal(a.ctx, p.PID, 1, 0)
		if err != nil {
			return err
		}
		spec, err := k.Spec(a.ctx, p.PID)
		if err != nil {
			return err
		}
		runs = append(runs, diff.Run{Process: p, Entries: entries, Source: spec.Program.Source})
	}
	d := diff.Of(runs[0], runs[1], diff.Options{Exact: c.Exact})
	if a.cli.JSON {
		err = a.printJSON(d)
	} else {
		a.con.Out(d.Text(diff.TextOptions{Color: a.con.OutColor(), All: c.All, Full: c.Full}))
		err = a.outputError()
	}
	if err == nil && !d.Equal {
		err = exitCode(agentkernel.ExitFailed)
	}
	return err
}
