package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"agentkernel"
	"agentkernel/internal/shellword"
)

type rerunCmd struct {
	PID   string   `arg:"" help:"The process whose calls are taken over; it has ended."`
	With  string   `placeholder:"FILE" help:"Another program, usually the same one mended; - reads standard input."`
	From  int64    `placeholder:"N" help:"Take over only the calls before call N."`
	Again []string `sep:"none" placeholder:"PATTERN" help:"What to make again although the old process made it: writes, idempotent and paid calls; repeatable."`
	specFlags
	boundFlags
	Quiet bool `short:"q" group:"show" help:"No receipt, no progress: only what the program prints, and where it goes live."`

	bad []agentkernel.PID // children of the old process that ended badly with it, the oldest first
}

func (rerunCmd) Help() string {
	return `Makes a new process with the old one as its past. As long as the program makes the calls that the old one made, in
the same order with the same arguments, they are answered from the old journal: nothing is paid or done twice, and
the clock and chance say the same. The first call that differs, or whose failure ended the old process, and all after
it are made. A write that the old process made is not made again even there, unless --again names it.

The new process has the program, arguments, tools, permissions, limits and budget (anew) of the old one where no flag
says otherwise, but not its deadline; --allow adds to what it might do. Arguments of the program stand behind --.

` + examples(
		"agentkernel rerun 12 --with fixed.py",
		"agentkernel rerun 12                          try the call again that failed",
		"agentkernel rerun 12 --allow 'github.create_issue'",
		"agentkernel rerun 12 --with fixed.py --from 20 -- --month 2026-12",
	)
}

func (c *rerunCmd) Run(a *app) error {
	spec, err := c.spec(a)
	if err != nil {
		return a.refuse(err)
	}
	w := &watch{}
	return a.runShown(spec, w, func(k agentkernel.Kernel, p *agentkernel.Process) {
		if not := c.notAgain(a, k, p); not != "" { // also when it is to be quiet, as where it goes live
			a.con.Say("%s", not)
			w.past = append(w.past, not)
		}
	})
}

// endedBadly are the children of an old process that did not come to its end which ended badly with it, the oldest first.
func endedBadly(a *app, k agentkernel.Kernel, old *agentkernel.Process) (bad []agentkernel.PID, err error) {
	if old.State == agentkernel.StateExited {
		return nil, nil
	}
	for page, err := range agentkernel.Pages(a.ctx, k, agentkernel.Filter{Parent: old.PID}) {
		if err != nil {
			return nil, err
		}
		for _, p := range page {
			if p.State.Terminal() && (p.State != agentkernel.StateExited || p.ExitCode != 0) {
				bad = append(bad, p.PID)
			}
		}
	}
	slices.Reverse(bad) // the newest is listed first
	return bad, nil
}

// notAgain says which of the children that ended badly a rerun has not started again, since the calls that did were answered from the past:
// it may well exit with 0. "": there are none.
func (c *rerunCmd) notAgain(a *app, k agentkernel.Kernel, p *agentkernel.Process) string {
	if len(c.bad) == 0 {
		return ""
	}
	entries, err := k.Journal(a.ctx, p.PID, 1, 0)
	if err != nil {
		return fmt.Sprintf("which children were not started again is not known: %s", asError(err).Message())
	}
	made := map[int64]*agentkernel.OriginCall{}              // calls that start children, and were answered from the past
	spawned := map[agentkernel.PID]*agentkernel.OriginCall{} // by the child of the old process
	for _, e := range entries {
		if e.Kind == agentkernel.EntryCall && e.Op == "proc.spawn" && e.TakenOver() {
			made[e.Call] = e.Origin
		}
		var child agentkernel.PID
		if o := made[e.Call]; o != nil && (e.Done || e.Kind == agentkernel.EntryResult) && json.Unmarshal(e.Data, &child) == nil {
			spawned[child] = o
		}
	}
	var from int64
	var not []string
	for _, child := range c.bad {
		if o := spawned[child]; o != nil {
			not = append(not, child.String())
			from = min(cmp.Or(from, o.Call), o.Call)
		}
	}
	if len(not) == 0 {
		return ""
	}
	which, was := "process "+not[0], "was"
	if len(not) > 1 {
		const most = 3
		which, was = "processes "+strings.Join(not[:min(len(not), most)], ", "), "were"
		if len(not) > most {
			which += fmt.Sprintf(" and %d more", len(not)-most)
		}
	}
	return fmt.Sprintf("%s of process %s failed or %s killed, and %s not started again: what came of that is taken over · start again what call %d started, and all after it: the same command with --from %d",
		which, c.PID, was, was, from, from)
}

// spec is the Spec of the old process, with what the flags change.
func (c *rerunCmd) spec(a *app) (agentkernel.Spec, error) {
	none := agentkernel.Spec{}
	// The old process may have a budget.
	if err := cmp.Or(c.check(), c.set(&agentkernel.Spec{Budget: agentkernel.Budget{Calls: 1}})); err != nil {
		return none, err
	}
	k, p, err := a.question(c.PID)
	if err != nil {
		return none, err
	}
	defer k.Close()
	old, err := k.Spec(a.ctx, p.PID)
	if err != nil {
		return none, err
	}
	if old.Program.Session && c.With == "" {
		return none, agentkernel.Errorf(agentkernel.CodeUnsupported, "rerun", "process %d is a session, whose code came cell by cell", p.PID).
			WithHint("agentkernel rerun %d --with FILE takes its calls over into a whole program", p.PID)
	}
	program, err := c.program(a, old.Program)
	if err != nil {
		return none, err
	}
	if err := c.inherit(a, p.PID, old); err != nil {
		return none, err
	}
	if c.bad, err = endedBadly(a, k, &p); err != nil {
		return none, err
	}
	if w := old.Workspace; w != nil && c.Workspace == "" {
		c.Workspace, c.Publish = w.Path, c.Publish || w.Publish
	}
	spec, err := a.spec(&c.specFlags, program)
	if err != nil {
		return none, err
	}
	if len(c.Volume) == 0 {
		spec.Volumes = old.Volumes
	}
	if err := c.sameTools(p.PID, old, spec); err != nil {
		return none, err
	}
	spec.Stdin, spec.Budget, spec.OnBudget = old.Stdin, old.Budget, old.OnBudget
	spec.Past = &agentkernel.Past{PID: p.PID, From: c.From, Again: c.Again}
	return spec, cmp.Or(c.set(&spec), spec.Validate()) // the deadline of the old process was for that one
}

// mostReruns is among how many of the newest processes that have not ended a rerun is looked for: each is asked for its Spec.
const mostReruns = 20

// reruns are the processes that run one again and have not ended, by that one, the newest of each.
func (a *app) reruns(k agentkernel.Kernel) map[agentkernel.PID]agentkernel.PID {
	found := map[agentkernel.PID]agentkernel.PID{}
	for page, err := range agentkernel.Pages(a.ctx, k, agentkernel.Filter{Unfinished: true, Limit: mostReruns}) {
		if err != nil {
			break
		}
		for i := range page {
			spec, err := k.Spec(a.ctx, page[i].PID)
			if err == nil && spec.Past != nil && found[spec.Past.PID] == 0 {
				found[spec.Past.PID] = page[i].PID
			}
		}
	}
	return found
}

// sameTools refuses tool files that are taken over and hold something else by now: what they start was agreed to for
// the old process, and only that.
func (c *rerunCmd) sameTools(pid agentkernel.PID, old, spec agentkernel.Spec) error {
	if len(c.Tools) > 0 {
		return nil // named now
	}
	for file, digest := range old.ToolDigests {
		if now, ok := spec.ToolDigests[file]; ok && now != digest {
			return agentkernel.Errorf(agentkernel.CodeDenied, "rerun", "the tools file %s has changed since process %d was created with it", file, pid).
				WithHint("read it, then name it: agentkernel rerun %d --tools %s", pid, shellword.File(file))
		}
	}
	return nil
}

// program is the mended program, or the old one, with the arguments behind --, or the old ones.
func (c *rerunCmd) program(a *app, old agentkernel.Program) (agentkernel.Program, error) {
	args := old.Args
	if len(a.rest) > 0 {
		args = a.rest
	}
	if c.With == "" {
		old.Args = args
		return withPackages(a, old)
	}
	a.rest = nil
	p, err := a.program(&programArgs{File: c.With})
	if err != nil {
		return p, err
	}
	p.Args = args
	if p.Modules == nil { // there is no folder tools beside it
		p.Modules = old.Modules
	}
	if p.Host == "" && p.Language == old.Language {
		p.Host = old.Host
	}
	return withPackages(a, p)
}

// withPackages adds the packages that a program names in its first comments, where no environment is known: one that was
// imported has lost its own.
func withPackages(a *app, p agentkernel.Program) (agentkernel.Program, error) {
	if p.Host != "" {
		return p, nil
	}
	err := a.addPackages(&packageFlags{}, &p)
	return p, err
}

// inherit puts the old process in the place of the configuration: flags are laid over it as ever.
func (c *rerunCmd) inherit(a *app, pid agentkernel.PID, old agentkernel.Spec) error {
	set, err := a.settings()
	if err != nil {
		return err
	}
	cfg := *set
	cfg.Tools, cfg.Deny, cfg.Namespace, cfg.Backend, cfg.Priority = nil, old.Deny, old.Namespace, old.Backend, old.Priority
	cfg.OnUnknown, cfg.Durability, cfg.Limits, cfg.Allow = old.OnUnknown, old.Durability, old.Limits, old.Allow
	cfg.AllowHosts, cfg.Isolation = old.AllowHosts, old.Isolation
	if len(c.Allow) > 0 {
		c.Allow = slices.Concat(old.Allow, c.Allow)
	}
	if len(c.AllowHost) > 0 {
		c.AllowHost = slices.Concat(old.AllowHosts, c.AllowHost)
	}
	a.cfg = &cfg
	if len(c.BringModel) == 0 {
		c.BringModel = old.Models
	}
	if len(old.Tools) == 0 {
		return nil
	}
	return a.cfg.SetFlag("tools", fmt.Sprintf("pid %d", pid), old.Tools...)
}
