package main

import "agentkernel"

type discardCmd struct {
	PIDs []string `arg:"" name:"pid" help:"Processes that worked in a folder and have ended."`
}

func (discardCmd) Help() string {
	return `Throws away what the processes changed and frees the disk. The folders stay as they are.

` + examples("agentkernel discard 12", "agentkernel discard 12 13 14")
}

// discarded is what discard --json prints for each process.
type discarded struct {
	PID   agentkernel.PID    `json:"pid"`
	Error *agentkernel.Error `json:"error,omitempty"`
}

func (c *discardCmd) Run(a *app) error {
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
	var out []discarded
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
			a.con.Note("the changes of pid %d are gone", pid)
		}
		out = append(out, d)
	}
	switch {
	case a.cli.JSON:
		if err := a.printJSON(out); err != nil {
			return err
		}
	case len(pids) == 1:
		return failed
	}
	if failed != nil {
		return exitCode(asError(failed).Code.ExitCode())
	}
	return a.outputError()
}
