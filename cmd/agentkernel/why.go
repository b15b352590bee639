package main

import (
	"slices"
	"time"

	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/why"
	"agentkernel/userland/agent"
)

type whyCmd struct {
	PID string `arg:"" help:"The process."`
}

func (whyCmd) Help() string {
	return `One sentence says what ended the process or what it waits for: the exception with your line, the limit and what
was used, the call that was refused and the flag that allows it, the last words of a server that died. Below it
where the time went, and what to type next. Works for processes that run, wait, are paused, have ended or were cut
off, and without a running kernel too.

` + examples("agentkernel why 12", "agentkernel why 12 --json | jq -r .cause.kind", "agentkernel why 12 --json | jq -r '.next[0].command'")
}

func (c *whyCmd) Run(a *app) error {
	k, p, err := a.question(c.PID)
	if err != nil {
		return err
	}
	defer k.Close()
	entries, err := a.leanJournal(k, p.PID)
	if err != nil {
		return err
	}
	in := why.Input{Process: p, Entries: entries, Now: time.Now()}
	spec, err := k.Spec(a.ctx, p.PID)
	if err == nil {
		in.Talks = agent.Talks(&spec.Program)
	}
	if p.State.Terminal() && spec.HasFiles() {
		c, err := k.Changes(a.ctx, p.PID)
		in.Kept = err == nil && c.State == agentkernel.LayerKept && len(c.Changes) > 0
	}
	if p.State == agentkernel.StateReady && !p.Paused {
		for page, err := range agentkernel.Pages(a.ctx, k, agentkernel.Filter{Active: true}) {
			if err != nil {
				return err
			}
			in.Running = append(in.Running, slices.DeleteFunc(page, func(o agentkernel.Process) bool { return o.State != agentkernel.StateRunning })...)
		}
	}
	if p.State == agentkernel.StateUnfinished {
		info, err := k.Info(a.ctx)
		if err != nil {
			return err
		}
		in.Before, in.Hidden = info.Before, k.hidden
	}
	r := why.Of(in)
	for i := range r.Next {
		r.Next[i].Command, r.Next[i].Why = a.withHome(r.Next[i].Command), a.withHome(r.Next[i].Why)
	}
	if a.cli.JSON {
		return a.printJSON(r)
	}
	a.con.Out(r.Text(a.con.OutColor()))
	return a.outputError()
}
