package main

import (
	"strings"
	"time"

	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/trace"
)

type traceCmd struct {
	PID        string `arg:"" help:"The process."`
	Full       bool   `help:"Whole arguments, results, output and tracebacks."`
	NoChildren bool   `help:"Without the processes that it spawned."`
	OpenWaits  bool   `help:"Only the calls that have no result: what is waited for, since when."`
	Format     string `placeholder:"FORM" enum:"text,chrome" default:"text" help:"text, or chrome: a file for chrome://tracing and ui.perfetto.dev."`
}

func (traceCmd) Help() string {
	return `Every line is a step: when (since the start), the call with its arguments, its effect and duration, and the
result after an arrow. Calls in parallel stand in a group; pauses, recoveries and output stand where they
happened. What a watched task does over and over (pieces of a stream, looks for a signal) is counted; --full has each.
Works without a running kernel too.

` + examples("agentkernel trace 12", "agentkernel trace 12 --full | less -R", "agentkernel trace 12 --open-waits", "agentkernel trace 12 --format chrome > trace.json",
		"agentkernel trace 12 --json | jq 'select(.op==\"tool.call\")'      journal entries, one a line")
}

func (c *traceCmd) Run(a *app) error {
	if c.OpenWaits && c.Format != "text" {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "usage", "--open-waits is a list; --format %s draws a whole run", c.Format).
			WithHint("agentkernel trace --help")
	}
	k, p, err := a.question(c.PID)
	if err != nil {
		return err
	}
	defer k.Close()
	tree, err := c.load(a, k, p)
	if err != nil {
		return err
	}
	o := trace.Options{Full: c.Full, Color: a.con.OutColor(), Now: time.Now()}
	var b strings.Builder
	switch {
	case c.OpenWaits:
		return a.printOpenWaits(p, trace.OpenWaits(tree, o.Now))
	case c.Format == "chrome":
		err = trace.Chrome(&b, tree, o)
	case a.cli.JSON:
		return a.printEntries(tree)
	default:
		err = trace.Render(&b, tree, o)
	}
	if err != nil {
		return err
	}
	a.con.Out(b.String())
	return a.outputError()
}

// printOpenWaits prints calls without a result, as a table or one object a line.
func (a *app) printOpenWaits(p agentkernel.Process, list []trace.OpenWait) error {
	if a.cli.JSON {
		for _, w := range list {
			if err := a.printJSON(w); err != nil {
				return err
			}
		}
		return nil
	}
	a.con.Out(trace.OpenText(list))
	if len(list) == 0 {
		a.con.Note("process %d waits for nothing: agentkernel why %d", p.PID, p.PID)
	}
	return a.outputError()
}

func (c *traceCmd) load(a *app, k agentkernel.Kernel, p agentkernel.Process) (*trace.Tree, error) {
	read := a.leanJournal
	if c.Full || a.cli.JSON || c.Format != "text" {
		read = func(k agentkernel.Kernel, pid agentkernel.PID) ([]agentkernel.Entry, error) {
			return k.Journal(a.ctx, pid, 1, 0)
		}
	}
	entries, err := read(k, p.PID)
	if err != nil {
		return nil, err
	}
	t := &trace.Tree{Process: p, Entries: entries, Children: map[agentkernel.PID]*trace.Tree{}}
	if c.NoChildren {
		return t, nil
	}
	for page, err := range agentkernel.Pages(a.ctx, k, agentkernel.Filter{Parent: p.PID}) {
		if err != nil {
			return nil, err
		}
		for _, child := range page {
			if t.Children[child.PID], err = c.load(a, k, child); err != nil {
				return nil, err
			}
		}
	}
	return t, nil
}

// printEntries prints the journal and then those of the children, one entry a line.
func (a *app) printEntries(t *trace.Tree) error {
	for _, e := range t.Entries {
		if err := a.printJSON(e); err != nil {
			return err
		}
	}
	for _, child := range trace.Order(t.Children) {
		if err := a.printEntries(child); err != nil {
			return err
		}
	}
	return nil
}
