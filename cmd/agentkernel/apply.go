package main

import (
	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/console"
)

type applyCmd struct {
	PID   string `arg:"" help:"A process that worked in a folder and has ended."`
	Force bool   `help:"Replace also what has changed in the folder meanwhile."`
}

func (applyCmd) Help() string {
	return `Writes what the process changed to the folder. Each file is replaced in one step. If anything that would be replaced
has changed in the folder since the process was created, nothing is written and the conflicts are listed.

Symbolic links that lead out of the folder, pipes and sockets are left out and told. Files never get setuid bits, and
nobody else may write them who could not before.

` + examples("agentkernel apply 12", "agentkernel apply 12 --force", "agentkernel diff 12 --patch                       look first")
}

func (c *applyCmd) Run(a *app) error {
	pid, err := agentkernel.ParsePID(c.PID)
	if err != nil {
		return err
	}
	k, err := a.kernel()
	if err != nil {
		return err
	}
	defer k.Close()
	if _, err := a.find(k, pid); err != nil {
		return err
	}
	done, err := k.Apply(a.ctx, pid, agentkernel.ApplyOptions{Force: c.Force})
	if err != nil {
		return err
	}
	if a.cli.JSON {
		return a.printJSON(done)
	}
	where := "the volumes of pid " + pid.String()
	if done.Folder != "" {
		where = a.relative(done.Folder)
	}
	a.con.Note("%s in %s · %s written", countText(done.Added, done.Changed, done.Deleted), where, console.Bytes(done.Bytes))
	for i := range done.LeftOut {
		a.con.Say("left out: %s, %s", fileText(done.LeftOut[i].Name()), done.LeftOut[i].LeftOut)
	}
	return a.outputError()
}
