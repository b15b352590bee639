package main

import (
	"fmt"
	"strings"

	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/console"
)

type toolsSearchCmd struct {
	Query  []string `arg:"" help:"What you want to do, in your own words."`
	Server string   `placeholder:"NAME" help:"Only this server's tools."`
	Limit  int      `short:"n" default:"10" help:"How many at most."`
	toolFiles
}

func (toolsSearchCmd) Help() string {
	return `Ranks all tools by the words of their names, descriptions and parameters, best first. Servers are started
to ask them; one that is not ready in five seconds is named and left out.

` + examples("agentkernel tools search read a text file --tools mcp.json",
		"agentkernel tools search 'send a message' -n 3 --json | jq .tools[].signature")
}

func (c *toolsSearchCmd) Run(a *app) error {
	files, err := a.toolFiles(&c.toolFiles)
	if err != nil {
		return err
	}
	modules := a.localToolsFor("")
	if len(files) == 0 && len(modules) == 0 {
		return errNoTools()
	}
	k, err := a.kernel()
	if err != nil {
		return err
	}
	defer k.Close()
	found, err := k.SearchTools(a.ctx, files, agentkernel.ToolQuery{Text: strings.Join(c.Query, " "), Server: c.Server, Limit: c.Limit, Modules: modules})
	if err != nil {
		return err
	}
	if a.cli.JSON {
		return a.printJSON(found)
	}
	rows := [][]string{{"TOOL", "EFFECT", "DESCRIPTION"}}
	for _, t := range found.Tools {
		first, _, _ := strings.Cut(strings.TrimSpace(t.Description), "\n")
		rows = append(rows, []string{t.PythonServer + "." + t.PythonName, string(t.Effect), first})
	}
	if len(found.Tools) > 0 {
		a.con.Out(console.Table(rows))
	}
	for _, p := range found.Problems {
		a.con.Error(p, "")
	}
	switch {
	case len(found.Tools) > 0:
		return a.outputError()
	case len(found.Problems) > 0:
		return exitCode(agentkernel.ExitUnavailable)
	}
	return agentkernel.Errorf(agentkernel.CodeNotFound, "tools", "none of %d tools has anything of %q", found.Total, strings.Join(c.Query, " ")).
		WithHint("say it in other words, or: agentkernel tools list")
}

type toolsAcceptCmd struct {
	Server string   `arg:"" help:"The server."`
	Names  []string `arg:"" optional:"" name:"tools" help:"Only these tools of it."`
	toolFiles
}

func (toolsAcceptCmd) Help() string {
	return `A tool is remembered as it was when it was first seen. If its server later says something else of it, search
and "tools show" mark it as changed, until you accept it as it is now.

` + examples("agentkernel tools accept github --tools mcp.json", "agentkernel tools accept github create_issue --tools mcp.json")
}

func (c *toolsAcceptCmd) Run(a *app) error {
	files, err := a.toolFiles(&c.toolFiles)
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return errNoTools()
	}
	k, err := a.kernel()
	if err != nil {
		return err
	}
	defer k.Close()
	n, err := k.AcceptTools(a.ctx, files, c.Server, c.Names)
	if err != nil {
		return err
	}
	if a.cli.JSON {
		return a.printJSON(map[string]int{"changed": n})
	}
	a.con.Note("%s", fmt.Sprintf("%d tools of %s had changed; they are accepted as they are now", n, c.Server))
	return nil
}

// writeObserved adds what is known of a tool beside what its server says.
func writeObserved(b *strings.Builder, t agentkernel.Tool) {
	if o := t.Observed; o != nil {
		fmt.Fprintf(b, "\nobserved in %d results (version %d)\n%s", o.Results, o.Version, o.Type)
		if o.Text != "" {
			fmt.Fprintf(b, ", JSON text of %s", o.Text)
		}
		b.WriteString("\n")
		if o.Members != "" {
			b.WriteString(o.Members + "\n")
		}
	}
	if c := t.Changed; c != nil {
		fmt.Fprintf(b, "\nCHANGED since it was accepted on %s: %s. Look at it, then: agentkernel tools accept %s %s\n",
			c.Accepted.Format("2006-01-02"), strings.Join(c.What, ", "), t.Server, t.Name)
	}
}
