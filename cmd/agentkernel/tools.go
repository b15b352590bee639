package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/console"
	"agentkernel/internal/config"
	"agentkernel/internal/lazy"
	"agentkernel/internal/shellword"
)

type toolsCmd struct {
	List   toolsListCmd   `cmd:"" help:"List the tools that programs can import."`
	Search toolsSearchCmd `cmd:"" help:"Find tools by what you want to do."`
	Show   toolsShowCmd   `cmd:"" help:"Show how to import and call a tool."`
	Call   toolsCallCmd   `cmd:"" help:"Call a tool, journalled and permission-checked like any call."`
	Accept toolsAcceptCmd `cmd:"" help:"Accept tools that have changed since they were first seen."`
	Trust  toolsTrustCmd  `cmd:"" help:"Accept the tools file of a project, with the content that it has now."`
}

func (toolsCmd) Help() string {
	return examples("agentkernel tools list --tools mcp.json", "agentkernel tools search 'read a file' --tools mcp.json", "agentkernel tools show filesystem.read_text_file --tools mcp.json",
		"agentkernel tools call filesystem.list_directory path=/data --tools mcp.json")
}

// toolFiles is the one flag that the reading tool commands need.
type toolFiles struct {
	Tools []string `sep:"none" placeholder:"FILE" help:"MCP configuration file; repeatable (default: the setting tools)."`
}

func (a *app) toolFiles(f *toolFiles) ([]string, error) {
	c, err := a.settings()
	if err != nil {
		return nil, err
	}
	if err := (&specFlags{Tools: f.Tools}).overlay(c); err != nil {
		return nil, err
	}
	digests, err := a.toolDigests(c)
	if err != nil {
		return nil, err
	}
	files := make([]string, len(c.Tools))
	for i, file := range c.Tools {
		files[i] = agentkernel.PinFile(file, digests[file])
	}
	return files, nil
}

// toolsFlags names the tools files to another command, where a flag has named them to this one.
func (a *app) toolsFlags() string {
	if a.cfg == nil || a.cfg.Origin("tools").Kind != config.Flag || byOthers(a.cfg) { // --tools would take them as accepted
		return ""
	}
	flags := ""
	for _, file := range a.cfg.Tools {
		flags += " --tools " + shellword.File(a.relative(file))
	}
	return flags
}

var (
	toolsCommand    = lazy.Regexp(`agentkernel tools (?:list|search|show|accept)\b`)
	toolsCommandEnd = lazy.Regexp(`agentkernel tools (?:list(?: \S+)?|(?:show|accept)(?: \S+)*)$`)
)

// withTools adds the tools files of this command to the commands about tools that a hint names: they would ask for them.
func (a *app) withTools(hint string) string {
	flags := a.toolsFlags()
	switch {
	case flags == "" || strings.Contains(hint, "--tools"):
		return hint
	case toolsCommandEnd().MatchString(hint):
		return hint + flags
	}
	return toolsCommand().ReplaceAllStringFunc(hint, func(command string) string { return command + flags })
}

func errNoTools() error {
	return agentkernel.Errorf(agentkernel.CodeInvalid, "tools", "no tools are configured").
		WithHint("name an MCP configuration file with --tools FILE, or in agentkernel.toml: tools = [\"mcp.json\"]")
}

type toolsListCmd struct {
	Server string `arg:"" optional:"" help:"Only this server's."`
	toolFiles
}

func (toolsListCmd) Help() string {
	return "Servers are started to ask them. EFFECT: read runs freely; idempotent and write need --allow or a yes.\n\n" +
		examples("agentkernel tools list --tools mcp.json", "agentkernel tools list filesystem --tools mcp.json --json | jq .tools[].signature")
}

// toolList is what tools list --json prints.
type toolList struct {
	Servers []agentkernel.ToolServer `json:"servers"`
	Tools   []agentkernel.Tool       `json:"tools"` // local ones first
	Local   []string                 `json:"local"` // those of Tools that are local tools of the working directory, "server.tool"
}

func (c *toolsListCmd) Run(a *app) error {
	files, err := a.toolFiles(&c.toolFiles)
	if err != nil {
		return err
	}
	list := toolList{Servers: []agentkernel.ToolServer{}, Tools: []agentkernel.Tool{}, Local: []string{}}
	local := a.localHere(c.Server)
	if len(files) == 0 && len(local) == 0 {
		return errNoTools()
	}
	if len(files) > 0 && !(c.Server != "" && len(local) > 0) {
		if err := c.ask(a, files, &list); err != nil {
			return err
		}
	}
	for _, t := range local {
		list.Local = append(list.Local, t.PythonServer+"."+t.PythonName)
	}
	list.Tools = slices.Concat(local, list.Tools)
	if a.cli.JSON {
		return a.printJSON(list)
	}
	if len(list.Tools) > 0 || !slices.ContainsFunc(list.Servers, func(s agentkernel.ToolServer) bool { return s.Problem != "" }) {
		a.con.Out(list.table(a.toolsFlags()))
	}
	return list.problems(a)
}

// ask asks all servers at once; one that fails is a problem of that server, not of the list.
func (c *toolsListCmd) ask(a *app, files []string, list *toolList) error {
	k, err := a.kernel()
	if err != nil {
		return err
	}
	defer k.Close()
	if c.Server != "" {
		list.Tools, err = k.ListTools(a.ctx, files, c.Server)
		return err
	}
	a.mentionVariables(k, &agentkernel.Spec{Tools: files})
	return list.ask(a.ctx, k, files)
}

// ask is that of the command, without a Server.
func (l *toolList) ask(ctx context.Context, k agentkernel.Kernel, files []string) (err error) {
	if l.Servers, err = k.ToolServers(ctx, files); err != nil {
		return err
	}
	found := make([][]agentkernel.Tool, len(l.Servers))
	var asking sync.WaitGroup
	for i := range l.Servers {
		asking.Go(func() {
			s := &l.Servers[i]
			tools, err := k.ListTools(ctx, files, s.Name)
			found[i] = tools
			if err != nil {
				s.Problem = problemText(err)
			} else {
				s.Running = true
			}
		})
	}
	asking.Wait()
	if now, err := k.ToolServers(ctx, files); err == nil {
		l.notePrinted(now)
	}
	l.Tools = slices.Concat(found...)
	if l.Tools == nil {
		l.Tools = []agentkernel.Tool{}
	}
	return nil
}

// pythonServers are the servers as programs import them.
func (l *toolList) pythonServers() (names []string) {
	for _, t := range l.Tools {
		if !slices.Contains(names, t.PythonServer) {
			names = append(names, t.PythonServer)
		}
	}
	return names
}

// notePrinted takes over what servers have printed since they were started for the list.
func (l *toolList) notePrinted(now []agentkernel.ToolServer) {
	for _, s := range now {
		for i := range l.Servers {
			if l.Servers[i].Name == s.Name {
				l.Servers[i].Printed = s.Printed
			}
		}
	}
}

func problemText(err error) string {
	e := asError(err)
	if e.Hint != "" {
		return e.Message() + " (" + e.Hint + ")"
	}
	return e.Message()
}

// localHere are the local tools of the working directory, the files tools/<server>/<tool>.py; of one server or of all.
func (a *app) localHere(server string) []agentkernel.Tool {
	return slices.DeleteFunc(a.localTools(a.localToolsFor("")), func(t agentkernel.Tool) bool { return server != "" && t.PythonServer != server })
}

func (l *toolList) table(flags string) string {
	priced := slices.ContainsFunc(l.Tools, func(t agentkernel.Tool) bool { return t.CostUSD != nil })
	rows := [][]string{{"TOOL", "EFFECT", "COST", "SIGNATURE"}}
	for _, t := range l.Tools {
		cost := "-"
		if t.CostUSD != nil {
			cost = "$" + t.CostUSD.String()
		}
		rows = append(rows, []string{t.PythonServer + "." + t.PythonName, string(t.Effect), cost, t.SeenSignature()})
	}
	if !priced {
		for i, row := range rows {
			rows[i] = slices.Delete(row, 2, 3)
		}
	}
	return console.Table(rows) + changedTools(l.Tools, flags)
}

func (l *toolList) problems(a *app) error {
	failed := false
	for _, s := range l.Servers {
		if s.Printed != "" {
			a.con.Say("server %q prints to stdout, where only messages belong; it was passed over: %s", s.Name, console.Line(s.Printed))
		}
		if s.Problem != "" {
			failed = true
			text := problemText(a.ofRunningKernel(agentkernel.Errorf(agentkernel.CodeUnavailable, "tools", "%s", s.Problem)))
			if !strings.HasPrefix(text, "server ") {
				text = fmt.Sprintf("server %q: %s", s.Name, text)
			}
			a.con.Error(text, "")
		}
	}
	if failed {
		return exitCode(agentkernel.ExitUnavailable)
	}
	return a.outputError()
}

type toolsShowCmd struct {
	Tool string `arg:"" help:"The tool, as SERVER.TOOL."`
	toolFiles
}

func (toolsShowCmd) Help() string {
	return examples("agentkernel tools show filesystem.read_text_file --tools mcp.json")
}

func (c *toolsShowCmd) Run(a *app) error {
	files, err := a.toolFiles(&c.toolFiles)
	if err != nil {
		return err
	}
	k, err := a.kernel()
	if err != nil {
		return err
	}
	defer k.Close()
	t, err := a.findTool(k, files, c.Tool)
	if err != nil {
		return err
	}
	if a.cli.JSON {
		return a.printJSON(t)
	}
	a.con.Out(console.Clean(toolText(t, a.toolsFlags())))
	return a.outputError()
}

// findTool looks a tool up by either of its names, as SERVER.TOOL.
func (a *app) findTool(k agentkernel.Kernel, files []string, name string) (agentkernel.Tool, error) {
	server, verb, ok := strings.Cut(name, ".")
	if !ok || server == "" || verb == "" {
		return agentkernel.Tool{}, a.noTool(files, name)
	}
	tools := a.localHere(server)
	if len(tools) == 0 {
		if len(files) == 0 {
			return agentkernel.Tool{}, errNoTools()
		}
		var err error
		if tools, err = k.ListTools(a.ctx, files, server); err != nil {
			return agentkernel.Tool{}, err
		}
	}
	return named(tools, server, verb)
}

// noTool refuses a word that does not name a tool as SERVER.TOOL. It starts no server to find out what it names.
func (a *app) noTool(files []string, word string) error {
	e := agentkernel.Errorf(agentkernel.CodeInvalid, "tools", "%q is not a tool: write SERVER.TOOL", word)
	tools := a.localHere("")
	var servers []string
	if k, err := a.kernel(); err == nil && len(files) > 0 {
		defer k.Close()
		listed, _ := k.ToolServers(a.ctx, files) // what is wrong with them, tools list says
		for _, s := range listed {
			servers = append(servers, s.Name, s.PythonName)
			if s.Running {
				more, _ := k.ListTools(a.ctx, files, s.Name)
				tools = append(tools, more...)
			}
		}
	}
	for _, t := range tools {
		servers = append(servers, t.PythonServer)
		if t.Name == word || t.PythonName == word {
			return e.WithHint("did you mean %s.%s?", t.PythonServer, t.PythonName)
		}
	}
	if slices.Contains(servers, word) {
		return e.WithHint("agentkernel tools list %s", shellword.Names(word))
	}
	return e.WithHint("agentkernel tools list")
}

// named finds one of the tools of a server by either of its names.
func named(tools []agentkernel.Tool, server, verb string) (agentkernel.Tool, error) {
	var names []string
	for _, t := range tools {
		if t.Name == verb || t.PythonName == verb {
			return t, nil
		}
		names = append(names, t.PythonName)
	}
	e := agentkernel.Errorf(agentkernel.CodeNotFound, "tools", "server %s has no tool %q", server, verb)
	if near := nearestTool(verb, names); near != "" {
		return agentkernel.Tool{}, e.WithHint("did you mean %s.%s?", server, near)
	}
	return agentkernel.Tool{}, e.WithHint("agentkernel tools list %s", shellword.Names(server))
}

// toolText is the page of a tool; flags are those that name its file to another command.
func toolText(t agentkernel.Tool, flags string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "from tools.%s import %s\n\n%s\n", t.PythonServer, t.PythonName, t.SeenSignature())
	doc := t.Doc
	if doc == "" {
		doc = t.Description
	}
	for line := range strings.SplitSeq(strings.TrimSpace(doc), "\n") {
		b.WriteString(strings.TrimRight("    "+line, " ") + "\n")
	}
	if t.Effect == agentkernel.EffectLocal { // no server has it
		fmt.Fprintf(&b, "\nmodule  tools/%s/%s.py\neffect  %s\n", t.PythonServer, t.PythonName, effectText(t))
	} else {
		fmt.Fprintf(&b, "\nserver  %s (its own name: %s)\neffect  %s\n", t.Server, t.Name, effectText(t))
	}
	if t.CostUSD != nil {
		fmt.Fprintf(&b, "cost    $%s a call\n", t.CostUSD)
	}
	writeSchema(&b, "input schema", t.InputSchema)
	writeSchema(&b, "output schema", t.OutputSchema)
	writeObserved(&b, t, flags)
	return b.String()
}

func effectText(t agentkernel.Tool) string {
	switch t.Effect {
	case agentkernel.EffectRead:
		return "read: it may run without permission"
	case agentkernel.EffectLocal:
		return "local: it runs inside the sandbox, without permission"
	}
	return fmt.Sprintf("%s: it needs --allow %s, or a yes at the terminal", t.Effect, shellword.Quoted(agentkernel.ExactPattern(t.Server, t.Name)))
}

func writeSchema(b *strings.Builder, title string, schema json.RawMessage) {
	if len(schema) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s\n%s\n", title, indentJSON(schema))
}
