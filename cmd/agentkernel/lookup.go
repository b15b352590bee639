package main

import (
	"agentkernel"
	"agentkernel/internal/lazy"
)

// question reads a PID and finds its process, for commands that only ask. The caller closes the session.
func (a *app) question(text string) (*session, agentkernel.Process, error) {
	pid, err := agentkernel.ParsePID(text)
	if err != nil {
		return nil, agentkernel.Process{}, err
	}
	k, err := a.reading()
	if err != nil {
		return nil, agentkernel.Process{}, err
	}
	p, err := a.find(k, pid)
	if err != nil {
		_ = k.Close() // it was only read from
		return nil, agentkernel.Process{}, err
	}
	return k, p, nil
}

// noProcess is what a kernel says of a PID that it does not know.
var noProcess = lazy.Regexp(`^there is no process (\d+)$`)

// missingPID is the PID that is not there according to an error; 0: it is about something else.
func missingPID(e *agentkernel.Error) agentkernel.PID {
	m := noProcess().FindStringSubmatch(e.Message())
	if m == nil || e.Code != agentkernel.CodeNotFound || e.Op == agentkernel.OpPruned {
		return 0
	}
	pid, err := agentkernel.ParsePID(m[1])
	if err != nil {
		return 0
	}
	return pid
}

// aboutNewest says what find says of a PID that is not there, whichever command was given it.
func (a *app) aboutNewest(e *agentkernel.Error, pid agentkernel.PID) *agentkernel.Error {
	k, _, err := a.readable()
	if err != nil {
		return e
	}
	defer k.Close()
	if _, err = a.find(k, pid); agentkernel.CodeOf(err) == agentkernel.CodeNotFound {
		return asError(err)
	}
	return e
}

// find is Process with an answer for PIDs that are not there. A process that was pruned the kernel knows.
func (a *app) find(k agentkernel.Kernel, pid agentkernel.PID) (agentkernel.Process, error) {
	p, err := k.Process(a.ctx, pid)
	if agentkernel.CodeOf(err) != agentkernel.CodeNotFound || asError(err).Op == agentkernel.OpPruned {
		return p, err
	}
	newest, lerr := k.List(a.ctx, agentkernel.Filter{Limit: 1})
	switch {
	case lerr != nil:
		return p, err
	case len(newest) == 0:
		return p, agentkernel.Errorf(agentkernel.CodeNotFound, "process", "there is no process %d: the store has none", pid).
			WithHint("agentkernel run -c 'print(6*7)' runs the first one")
	case pid < newest[0].PID:
		return p, agentkernel.Errorf(agentkernel.CodeNotFound, "process",
			"there is no process %d: its number was used up by a run that did not start", pid).
			WithHint("agentkernel ps --all lists those that are there; the pid of a run stands at the end of its last line")
	}
	return p, agentkernel.Errorf(agentkernel.CodeNotFound, "process", "there is no process %d: the newest is %d", pid, newest[0].PID).
		WithHint("agentkernel ps --all lists them")
}
