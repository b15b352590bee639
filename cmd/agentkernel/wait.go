package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"agentkernel"
)

type waitCmd struct {
	PIDs    []string      `arg:"" name:"pid" help:"Processes to wait for."`
	Timeout time.Duration `placeholder:"SPAN" help:"Give up after this time (exit code 124); the processes go on."`
}

func (waitCmd) Help() string {
	return "The exit code is that of the last process named, as if it had been run here.\n\n" +
		examples("agentkernel wait 12", "agentkernel wait 12 13 14 --timeout 10m", "agentkernel wait 12 --json | jq .result")
}

func (c *waitCmd) Run(a *app) error {
	pids, err := parsePIDs(c.PIDs)
	if err != nil {
		return err
	}
	k, err := a.reading()
	if err != nil {
		return err
	}
	defer k.Close()
	ctx := a.ctx
	if c.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.Timeout, errWaitedEnough)
		defer cancel()
	}
	code := 0
	for _, pid := range pids {
		p, err := a.await(ctx, k, pid)
		if err != nil && errors.Is(context.Cause(ctx), errWaitedEnough) {
			return agentkernel.Errorf(agentkernel.CodeTimeout, "wait", "process %d has not ended within %s", pid, c.Timeout)
		}
		if err != nil {
			return err
		}
		code = exitOf(p)
		if a.cli.JSON {
			err = a.printJSON(public(p))
		} else {
			a.reportEnded(k, p)
			err = a.outputError()
		}
		if err != nil {
			return err
		}
	}
	return exitCode(code)
}

var errWaitedEnough = errors.New("waited enough")

func (a *app) reportEnded(k *session, p agentkernel.Process) {
	if p.Error != nil {
		a.reportError(p.Error)
	}
	if p.Paused && !p.State.Terminal() {
		a.con.Out(pausedLine(p) + "\n")
		return
	}
	a.con.Out(p.Receipt() + "\n")
	a.noteKept(k, p)
}

// noteKept says what a process did to files, as run does. Not to know is no failure.
func (a *app) noteKept(k *session, p agentkernel.Process) {
	spec, err := k.Spec(a.ctx, p.PID)
	if err != nil || !spec.HasFiles() {
		return
	}
	w := &watch{a: a, k: k}
	w.noteFiles(&spec, p)
	w.mentionFiles(p)
}

// await waits for one process, with progress. One that no kernel carries on would never end.
func (a *app) await(ctx context.Context, k *session, pid agentkernel.PID) (agentkernel.Process, error) {
	p, err := k.Process(ctx, pid)
	if err != nil || p.State.Terminal() || p.Paused {
		return p, err
	}
	if p.State == agentkernel.StateUnfinished || k.inProcess && !a.cli.Embedded {
		return p, k.lost(&p)
	}
	err = a.withProgress(ctx, fmt.Sprintf("waiting for process %d", pid), func(ctx context.Context) error {
		return a.whileAwaited(ctx, k, pid, "", func() error {
			p, err = k.Wait(ctx, pid)
			return err
		})
	})
	return p, err
}

// withProgress runs something that may take long under a progress line.
func (a *app) withProgress(ctx context.Context, what string, do func(context.Context) error) error {
	return a.withStatus(ctx, func() string { return what }, do)
}

// withStatus is withProgress where what is shown changes.
func (a *app) withStatus(ctx context.Context, status func() string, do func(context.Context) error) error {
	spin, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.con.Spin(spin, func(context.Context) string { return status() })
	}()
	err := do(ctx)
	stop()
	<-done
	return err
}

func parsePIDs(words []string) ([]agentkernel.PID, error) {
	var pids []agentkernel.PID
	for _, w := range words {
		pid, err := agentkernel.ParsePID(w)
		if err != nil {
			return nil, asError(err).WithHint("agentkernel ps -a lists the processes")
		}
		pids = append(pids, pid)
	}
	return pids, nil
}
