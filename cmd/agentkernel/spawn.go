package main

import (
	"fmt"

	"agentkernel"
)

type spawnCmd struct {
	programArgs
	specFlags
	boundFlags
	packageFlags
	Each    string `placeholder:"FILE" group:"durable" help:"One process for each line of a file (-: standard input), a JSON value: its argument, or an array of them."`
	EachKey string `name:"key" placeholder:"PREFIX" group:"durable" help:"With --each: the idempotency key of line N is PREFIX/N, so that the same command again spawns only what is missing."`
}

func (spawnCmd) Help() string {
	return `Prints the PID as soon as the process is durable: it goes on when this terminal is closed. There is nobody
to ask, so whatever may change things is named with --allow.

With --each the PIDs are those of the lines, in order, printed as they become durable. An argument that is text is given as it is,
any other value as its JSON; all come behind the program's own. Each line is looked at before the first process is spawned.

` + examples(
		"agentkernel spawn crawl.py --tools mcp.json --allow 'filesystem.write_*'",
		"pid=$(agentkernel spawn crawl.py); agentkernel wait $pid",
		"agentkernel spawn visit.py --each urls.jsonl --key crawl-7",
		"agentkernel spawn nightly.py --idempotency-key nightly-2026-11-21    a second time gives the same PID",
	)
}

func (c *spawnCmd) Run(a *app) error {
	if a.cli.Embedded {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "spawn", "a spawned process outlives the command, and with --embedded its kernel would not").
			WithHint("leave --embedded out, or use run")
	}
	c.verb = "spawn"
	var each *eachFile
	if c.Each != "" {
		var err error
		if each, err = c.openEach(a); err != nil {
			return err
		}
		defer each.close()
	} else if c.EachKey != "" {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "usage", "--key belongs to --each").WithHint("of one process: --idempotency-key KEY")
	}
	spec, err := a.prepare(&c.programArgs, &c.specFlags, &c.packageFlags)
	if err != nil {
		return err
	}
	if err := c.set(&spec); err != nil {
		return err
	}
	if err := a.place(&c.programArgs, &spec); err != nil {
		return err
	}
	if err := a.addPackages(&c.packageFlags, &spec.Program); err != nil {
		return err
	}
	k, err := a.kernel()
	if err != nil {
		return err
	}
	defer k.Close()
	a.warnUnconfined(&spec)
	a.tellUnpriced(&spec)
	if each != nil {
		return (&spawnEach{a: a, k: k, spec: spec, file: each, key: c.EachKey}).run()
	}
	p, err := k.Spawn(a.ctx, spec)
	if err != nil {
		return underKey(err, spec.IdempotencyKey, findsOrStarts)
	}
	if a.cli.JSON {
		return a.printJSON(public(p))
	}
	a.con.Out(fmt.Sprintf("%d\n", p.PID))
	if a.con.Interactive() {
		a.con.Note("follow: agentkernel logs -f %d · wait: agentkernel wait %d", p.PID, p.PID)
	}
	a.mentionVariables(k, &spec)
	a.mentionAllow(k, &spec)
	a.mentionUnfinished(k)
	return a.outputError()
}

// openEach reads the lines of --each.
func (c *spawnCmd) openEach(a *app) (*eachFile, error) {
	switch {
	case c.Key != "":
		return nil, agentkernel.Errorf(agentkernel.CodeInvalid, "usage", "--idempotency-key is the key of one process").WithHint("with --each: --key PREFIX; line N has the key PREFIX/N")
	case c.Each == "-" && (c.File == "-" || c.Stdin == "-"):
		return nil, agentkernel.Errorf(agentkernel.CodeInvalid, "usage", "standard input is something else already").WithHint("name a file: --each FILE")
	}
	return a.openEach(c.Each)
}

// prepare makes the Spec of a program from the command line.
func (a *app) prepare(p *programArgs, f *specFlags, packages *packageFlags) (agentkernel.Spec, error) {
	p.folder, p.packages = f.Workspace, packages.Python != "" || len(packages.With) > 0
	p.tools = f.Tools
	p.mayShowHere = p.mayShowHere && f.Workspace == "" && len(f.Volume) == 0
	prog, err := a.program(p)
	if err != nil {
		return agentkernel.Spec{}, err
	}
	spec, err := a.spec(f, prog)
	if err != nil {
		return agentkernel.Spec{}, err
	}
	if err := a.addStdin(p, &spec); err != nil {
		return spec, err
	}
	return spec, spec.Validate()
}

// refuse reports an error before anything ran in the shape that run --json has.
func (a *app) refuse(err error) error {
	return (&watch{a: a}).report(agentkernel.Process{}, err)
}
