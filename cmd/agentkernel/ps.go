package main

import (
	"fmt"
	"path"
	"slices"
	"time"

	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/console"
)

type psCmd struct {
	All       bool     `short:"a" help:"Also those that have ended."`
	Limit     int      `short:"n" placeholder:"N" zero:"all" help:"At most so many, newest first (0: all)." default:"0"`
	Namespace string   `placeholder:"NAME" help:"Only this tenant's."`
	Parent    string   `placeholder:"PID" help:"Only the children of this process."`
	State     []string `enum:"ready,running,waiting,paused,unfinished,exited,failed,killed" placeholder:"STATE" help:"Only those in one of these states: ready, running, waiting, paused, unfinished; exited, failed or killed (implies --all)."`
	Name      string   `placeholder:"PATTERN" help:"Only those whose name matches: 'report*'."`
}

func (psCmd) Help() string {
	return examples("agentkernel ps", "agentkernel ps -a -n 20", "agentkernel ps --state failed,killed -n 5", "agentkernel ps --name 'report*' --json")
}

func (c *psCmd) Run(a *app) error {
	if _, err := path.Match(c.Name, ""); err != nil {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "ps", "--name %q is no pattern: %w", c.Name, err).WithHint("* stands for any text, ? for one character, [ab] for a or b")
	}
	filter := agentkernel.Filter{Namespace: c.Namespace, Unfinished: !c.All && !c.ended(), Limit: c.Limit}
	if c.picks() {
		filter.Limit = 0 // of those that are picked
	}
	if c.Parent != "" {
		pid, err := agentkernel.ParsePID(c.Parent)
		if err != nil {
			return err
		}
		filter.Parent = pid
	}
	list := []agentkernel.Process{}
	k, err := a.reading()
	switch {
	case isNothingYet(err):
	case err != nil:
		return err
	default:
		defer k.Close()
		if list, err = k.List(a.ctx, filter); err != nil {
			return err
		}
	}
	if c.picks() {
		list = c.pick(list)
	}
	if a.cli.JSON {
		return a.printProcesses(list)
	}
	a.con.Out(processTable(list, time.Now()))
	if len(list) == 0 && !c.All && !c.picks() && a.con.Interactive() {
		a.con.Note("nothing runs; agentkernel ps -a shows what has ended")
	}
	return a.outputError()
}

// picks says whether the states and names of processes matter.
func (c *psCmd) picks() bool { return len(c.State) > 0 || c.Name != "" }

// ended says whether processes that have ended are asked for by their state.
func (c *psCmd) ended() bool {
	return slices.ContainsFunc(c.State, func(s string) bool { return agentkernel.State(s).Terminal() })
}

func (c *psCmd) pick(list []agentkernel.Process) []agentkernel.Process {
	list = slices.DeleteFunc(list, func(p agentkernel.Process) bool {
		state := string(p.State)
		if p.Paused && !p.State.Terminal() {
			state = "paused"
		}
		matches, _ := path.Match(c.Name, p.Name) // the pattern is known to be one
		return len(c.State) > 0 && !slices.Contains(c.State, state) || c.Name != "" && !matches
	})
	if c.Limit > 0 && len(list) > c.Limit {
		list = list[:c.Limit]
	}
	return list
}

// public is a process as commands print it: values in plain form.
func public(p agentkernel.Process) agentkernel.Process {
	if len(p.Result) > 0 {
		p.Result = plain(p.Result)
	}
	return p
}

func processTable(list []agentkernel.Process, now time.Time) string {
	last := "WAITING FOR"
	if slices.ContainsFunc(list, func(p agentkernel.Process) bool { return p.Error != nil }) {
		last += " / ERROR"
	}
	rows := [][]string{{"PID", "PARENT", "PRI", "STATE", "AGE", "TIME", "CALLS", "NAME", last}}
	for _, p := range list {
		parent := "-"
		if p.Parent != 0 {
			parent = p.Parent.String()
		}
		rows = append(rows, []string{p.PID.String(), parent, fmt.Sprint(p.Priority), stateText(p), console.Age(now.Sub(p.Created)),
			ranFor(p), fmt.Sprint(p.Usage.Syscalls), p.Name, remark(p)})
	}
	return console.Table(rows, 0, 1, 2, 4, 5, 6)
}

// ranFor is how long a process has run. Of one whose kernel died the journal does not say it; its image does, if it was parked.
func ranFor(p agentkernel.Process) string {
	if p.State == agentkernel.StateUnfinished && p.Usage.Running == 0 {
		return "-"
	}
	return console.Span(p.Usage.Running)
}

func stateText(p agentkernel.Process) string {
	switch {
	case p.Paused && !p.State.Terminal():
		return "paused"
	case p.State == agentkernel.StateExited && p.ExitCode != 0:
		return fmt.Sprintf("exited %d", p.ExitCode)
	}
	return string(p.State)
}

// remark is the last column: what a process waits for, or why it is not running.
func remark(p agentkernel.Process) string {
	const width = 60
	text := ""
	switch {
	case p.Paused && !p.State.Terminal():
		text = p.PauseNote
	case p.Error != nil:
		text = firstLine(p.Error.Message())
	case len(p.WaitsFor) > 0:
		text = p.WaitsFor[0]
		if n := len(p.WaitsFor) - 1; n > 0 {
			text += fmt.Sprintf(" +%d", n)
		}
	case p.State == agentkernel.StateReady:
		text = "its turn" // why says who has it
	}
	if r := []rune(text); len(r) > width {
		text = string(r[:width-1]) + "…"
	}
	return text
}
