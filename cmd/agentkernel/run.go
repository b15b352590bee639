package main

import "agentkernel"

type runCmd struct {
	programArgs
	specFlags
	boundFlags
	packageFlags
	NoWorkspace bool `group:"access" help:"Show a command behind -- nothing of the folder that you are in."`
	Quiet       bool `short:"q" group:"show" help:"No receipt, no progress: only what the program prints."`
}

func (runCmd) Help() string {
	return `Ctrl-C pauses the process and says how to continue it; a second Ctrl-C within a second kills it. A directory tools/ beside
the program (or here) holds local tools: tools/report/monthly.py is "from tools.report import monthly".
A tool that changes things needs --allow, or a yes at the terminal.

A program that reads its standard input gets that of this command, all of it and before it starts, if that is a file or
a pipe. Python and Node programs are looked at for it; all others get a file, and a pipe with --stdin - alone.

` + examples(
		"agentkernel run report.py",
		"agentkernel run report.py --tools mcp.json --allow 'filesystem.write_*'",
		"agentkernel run report.py -- --month 2026-11      arguments of the program stand behind --",
		"agentkernel run -c 'print(6*7)'",
		"generate | agentkernel run -                      a program that something else wrote",
		"agentkernel run analysis.py < data.csv            what the program reads on its standard input",
		"generate | agentkernel run --stdin - -- sort      a pipe, for a program that is not looked at",
		"agentkernel run report.py --timeout 5m --memory 512m",
		"agentkernel run report.py --deadline 2026-12-01T10:00:00Z    it is asked to stop then, wherever it stands",
		"agentkernel run report.py --budget-usd 2          it is paused before a call that would cost more",
		"agentkernel run app.mjs                           Node.js, with the node_modules beside it",
		"agentkernel run analysis.py --workspace ./data    the folder is safe: changes wait for apply",
		"agentkernel run main.go                           built by your Go, in a sandbox of its own; a directory works too",
		"agentkernel run ./script.sh                       by the interpreter in its first line, else sh",
		"agentkernel run -- git log --oneline              any executable, behind the same walls; it may read the folder that you are in",
		"agentkernel run --workspace . -- make             the same, and what it changes waits for apply",
		"agentkernel run --no-workspace -- git --version   the same, and it sees no folder",
		"agentkernel run --with 'polars>=1' report.py      with packages; a program may name them itself (PEP 723)",
		"agentkernel run report.py --json | jq .result",
	)
}

func (c *runCmd) Run(a *app) error {
	if c.NoWorkspace && c.Workspace != "" {
		return a.refuse(agentkernel.Errorf(agentkernel.CodeInvalid, "usage", "--workspace names a folder, and --no-workspace wants none").WithHint("leave one of them out"))
	}
	c.mayShowHere = !c.NoWorkspace
	spec, err := a.prepare(&c.programArgs, &c.specFlags, &c.packageFlags)
	if err == nil {
		err = c.set(&spec)
	}
	if err == nil && !c.NoWorkspace {
		err = a.showHere(&c.programArgs, &spec)
	}
	if err == nil {
		err = a.place(&c.programArgs, &spec)
	}
	if err != nil {
		return a.refuse(err)
	}
	if err := a.addPackages(&c.packageFlags, &spec.Program); err != nil {
		return a.refuse(err)
	}
	return a.runProgram(spec, nil)
}
