package main

import (
	"fmt"
	"slices"
	"strings"

	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/console"
	"agentkernel/internal/shellword"
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
		a.con.Out(console.Table(rows) + changedTools(found.Tools, a.toolsFlags()))
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
	return agentkernel.Errorf(agentkernel.CodeNotFound, "tools", "none of %s has anything of %q", count(int64(found.Total), "tool"), strings.Join(c.Query, " ")).
		WithHint("say it in other words, or: agentkernel tools list")
}

type toolsAcceptCmd struct {
	Server string   `arg:"" help:"The server."`
	Names  []string `arg:"" optional:"" name:"tools" help:"Only these tools of it."`
	toolFiles
}

func (toolsAcceptCmd) Help() string {
	return `A tool is remembered as it was when its server was first seen. If the server later says something else of it, the tool
keeps the stricter of its effects, and is refused where it may change things, also if --allow names it, until you accept it as
it is now. A tool that the server did not have then counts as a write. "tools show" shows what is different, and so does this.

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
	before, err := k.ListTools(a.ctx, files, c.Server)
	if err != nil {
		return err
	}
	n, err := k.AcceptTools(a.ctx, files, c.Server, c.Names)
	if err != nil {
		return err
	}
	for _, t := range before {
		if t.Changed != nil && !a.cli.JSON && (len(c.Names) == 0 || slices.Contains(c.Names, t.Name) || slices.Contains(c.Names, t.PythonName)) {
			a.con.Out(changeText(&t) + "\n")
		}
	}
	if a.cli.JSON {
		return a.printJSON(map[string]int{"changed": n})
	}
	a.con.Note("%s", counted(int64(n), "tool of "+c.Server+" had changed; it is accepted as it is now", "tools of "+c.Server+" had changed; they are accepted as they are now"))
	return nil
}

// writeObserved adds what is known of a tool beside what its server says.
func writeObserved(b *strings.Builder, t agentkernel.Tool, flags string) {
	if o := t.Observed; o != nil {
		fmt.Fprintf(b, "\nobserved in %s (version %d)\n%s", count(o.Results, "result"), o.Version, o.Type)
		if o.Text != "" {
			fmt.Fprintf(b, ", JSON text of %s", o.Text)
		}
		b.WriteString("\n")
		if o.Members != "" {
			b.WriteString(o.Members + "\n")
		}
	}
	if t.Changed != nil {
		fmt.Fprintf(b, "\n%s\nlook at it, then: agentkernel tools accept %s%s\n", changeText(&t), shellword.Names(t.Server, t.Name), flags)
	}
}

// changedTools are the lines below a table of tools that say which have changed; "" if none has.
func changedTools(tools []agentkernel.Tool, flags string) string {
	var b strings.Builder
	for i := range tools {
		if t := &tools[i]; t.Changed != nil {
			b.WriteString(changeLine(t) + "\n")
		}
	}
	if b.Len() > 0 {
		fmt.Fprintf(&b, "agentkernel tools show SERVER.TOOL%s shows what is different, agentkernel tools accept SERVER [TOOL]%s accepts it\n", flags, flags)
	}
	return b.String()
}

func changeLine(t *agentkernel.Tool) string {
	name := t.Server + "." + t.Name
	switch c := t.Changed; {
	case c.New:
		return console.Clean(fmt.Sprintf("new: %s: its server was known without it, so it counts as a write", name))
	case t.Refused():
		return console.Clean(fmt.Sprintf("changed: %s: %s; it is refused", name, strings.Join(c.What, ", ")))
	default:
		return console.Clean(fmt.Sprintf("changed: %s: %s", name, strings.Join(c.What, ", ")))
	}
}

// changeText is the line with what is different.
func changeText(t *agentkernel.Tool) string {
	return fmt.Sprintf("%s\n(accepted on %s)\n%s", changeLine(t), t.Changed.Accepted.Format("2006-01-02"), console.Clean(t.Changed.Diff))
}
