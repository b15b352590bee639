package main

import (
	"errors"
	"slices"
	"strconv"

	"agentkernel"
)

// waitingBelow are those of processes and all below them whose changes wait: each process before those that it started, these in the order in which it
// started them.
func (a *app) waitingBelow(k agentkernel.Kernel, pids []agentkernel.PID) (waiting []agentkernel.PID, err error) {
	seen := map[agentkernel.PID]bool{}
	var visit func(p *agentkernel.Process) error
	visit = func(p *agentkernel.Process) error {
		if seen[p.PID] {
			return nil
		}
		seen[p.PID] = true
		switch c, err := k.Changes(a.ctx, p.PID); {
		case agentkernel.CodeOf(err) == agentkernel.CodeInvalid: // it has no folder
		case err != nil:
			return err
		case (c.State == agentkernel.LayerKept || c.State == agentkernel.LayerOpen) && len(c.Changes) > 0: // one that has not ended is refused, and named
			waiting = append(waiting, p.PID)
		}
		var children []agentkernel.Process
		for page, err := range agentkernel.Pages(a.ctx, k, agentkernel.Filter{Parent: p.PID}) {
			if err != nil {
				return err
			}
			children = append(children, page...)
		}
		for i := range slices.Backward(children) { // the newest is listed first
			if err := visit(&children[i]); err != nil {
				return err
			}
		}
		return nil
	}
	for _, pid := range pids {
		p, err := a.find(k, pid)
		if err == nil {
			err = visit(&p)
		}
		if err != nil {
			return nil, err
		}
	}
	return waiting, nil
}

// applyTree applies what a process and all below it changed, in the order of waitingBelow, up to the first that cannot be.
func (c *applyCmd) applyTree(a *app, k agentkernel.Kernel, root agentkernel.PID) error {
	pids, err := a.waitingBelow(k, []agentkernel.PID{root})
	if err != nil {
		return err
	}
	all := []agentkernel.Applied{}
	for i, pid := range pids {
		done, err := k.Apply(a.ctx, pid, agentkernel.ApplyOptions{Force: c.Force, GitConfigs: a.gitConfigs()})
		if err != nil {
			e := asError(err)
			if a.cli.JSON { // who reads it has to know which are in the folder now
				return errors.Join(a.printJSON(all), e)
			}
			if rest := len(pids) - i; len(pids) > 1 {
				a.con.Say("%d of %d are applied; process %d could not be, so %s", i, len(pids), pid, counted(int64(rest), "waits", "wait"))
			}
			return e
		}
		all = append(all, done)
		if !a.cli.JSON {
			a.con.Note("process %d:", pid)
			a.sayApplied(pid, &done)
		}
	}
	switch {
	case a.cli.JSON:
		return a.printJSON(all)
	case len(pids) == 0:
		a.con.Note("nothing waits in process %d or below it", root)
	}
	return a.outputError()
}

// oneAtATime explains an apply to which a further process was named, where a file could be.
func (a *app) oneAtATime(k agentkernel.Kernel, pid agentkernel.PID, paths []string, err error) error {
	if agentkernel.CodeOf(err) != agentkernel.CodeInvalid {
		return err
	}
	for _, name := range paths {
		other, perr := agentkernel.ParsePID(name)
		if perr != nil || strconv.FormatInt(int64(other), 10) != name {
			continue
		}
		if _, perr := k.Process(a.ctx, other); perr == nil {
			return asError(err).WithHint("behind the process stand files; one process at a time: agentkernel apply %d && agentkernel apply %d; a task and its sub-agents: agentkernel apply --tree %d", pid, other, pid)
		}
	}
	return err
}
