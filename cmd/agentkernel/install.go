package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/assistant"
	"agentkernel/cmd/agentkernel/internal/console"
	"agentkernel/internal/config"
	"agentkernel/internal/shellword"
	"agentkernel/internal/tool"
)

// clientFlags name the configuration file of an assistant.
type clientFlags struct {
	Scope  string `enum:"user,project" default:"user" help:"user: for all your projects. project: the file in this folder, which a team shares."`
	File   string `placeholder:"FILE" help:"Another configuration file than the client's usual one: a profile's."`
	DryRun bool   `help:"Say what would be done, and write nothing."`
}

type installCmd struct {
	Client string `arg:"" enum:"claude,claude-desktop,cursor,vscode" help:"claude (Claude Code), claude-desktop, cursor or vscode."`
	clientFlags
	Keep    []string `sep:"none" placeholder:"SERVER" help:"A server that stays with the client; repeatable."`
	Allow   []string `sep:"none" placeholder:"PATTERN" help:"Calls that may change things, as for mcp: 'filesystem.write_*'; repeatable. Without it: those of the installation before."`
	Full    bool     `help:"Offer all tools of agentkernel mcp: background tasks, state, skills. Without it: execute_code and search_tools."`
	NoCount bool     `help:"Do not start the servers to count what their schemas cost. Those that cannot be reached move, too."`
}

func (installCmd) Help() string {
	return `Moves the MCP servers that are configured for an assistant into a tools file of AgentKernel's, and puts one entry,
agentkernel, in their place: the assistant's model then reads two small tools instead of the schemas of all, and writes programs
that call the others. The client's file is backed up first; uninstall puts it back. Servers that only the client can
start (it logs in, or asks for a value) stay where they are. The servers are started once, to count their schemas; one that
cannot be reached then stays, too. Those of a project's file are started once you have accepted it, and its tools file counts
as it is accepted (tools trust).

` + examples("agentkernel install claude", "agentkernel install cursor --dry-run", "agentkernel install vscode --scope project --keep github",
		"agentkernel install claude --allow 'filesystem.write_*'")
}

type uninstallCmd struct {
	Client string `arg:"" optional:"" help:"claude (Claude Code), claude-desktop, cursor or vscode; without one it is listed where something is installed."`
	clientFlags
}

func (uninstallCmd) Help() string {
	return `Puts an assistant's configuration back to what it was before install. If the file has been written since, the servers are
put back into what it is now; what contradicts itself is refused, and nothing is lost. Where the settings of AgentKernel were
removed before, the entry goes, and it is said what cannot be put back.

` + examples("agentkernel uninstall               lists where something is installed", "agentkernel uninstall claude", "agentkernel uninstall vscode --scope project --dry-run")
}

// assistants is where the files of assistants are.
func (a *app) assistants() (assistant.Host, error) {
	dir, err := a.workingDir()
	if err != nil {
		return assistant.Host{}, agentkernel.Errorf(agentkernel.CodeInvalid, "install", "the working directory is gone: %w", err)
	}
	command, err := os.Executable()
	if err != nil {
		return assistant.Host{}, agentkernel.Errorf(agentkernel.CodeInternal, "install", "this program does not find itself: %w", err)
	}
	return assistant.Host{GOOS: runtime.GOOS, Home: a.userHome, Dir: dir, Getenv: a.getenv, Command: command, Config: config.UserDir(a.env, a.userHome)}, nil
}

func (c *clientFlags) place(a *app, client string) (*assistant.Place, error) {
	host, err := a.assistants()
	if err != nil {
		return nil, err
	}
	file := c.File
	if file != "" && !filepath.IsAbs(file) {
		file = filepath.Join(host.Dir, file)
	}
	return assistant.Find(host, client, assistant.Scope(c.Scope), file)
}

// installResult is what install --json prints.
type installResult struct {
	Client  string          `json:"client"`
	Scope   string          `json:"scope"`
	File    string          `json:"file"`
	Tools   string          `json:"tools"`
	Backup  string          `json:"backup"` // "": nothing was there to be backed up
	Changed bool            `json:"changed"`
	DryRun  bool            `json:"dry_run"`
	Servers []serverOutcome `json:"servers"`
	// Tokens of the schemas that a model reads; null if they were not counted.
	Tokens *schemaTokens `json:"tokens"`
	Notes  []string      `json:"notes"`
}

type schemaTokens struct {
	Before  int  `json:"before"`
	After   int  `json:"after"`
	Unknown bool `json:"unknown"` // servers could not be asked: before is too small
}

func (c *installCmd) Run(a *app) error {
	p, err := c.place(a, c.Client)
	if err != nil {
		return err
	}
	in, err := p.Plan(assistant.Options{Keep: c.Keep, Allow: c.Allow, Full: c.Full, Home: a.cli.Home})
	if err != nil {
		return err
	}
	r := installResult{Client: c.Client, Scope: c.Scope, File: p.File, Tools: p.Tools, DryRun: c.DryRun, Notes: []string{}}
	asked := map[string]serverCost{}
	accepted := true
	if !c.NoCount || !c.DryRun {
		if accepted, err = a.acceptShared(in); err != nil {
			return err
		}
	}
	if !c.NoCount {
		if !accepted {
			return notAccepted(a, in)
		}
		if asked, err = a.askServers(in); err != nil {
			return err
		}
	}
	if err := r.note(in, asked, c); err != nil {
		return err
	}
	if note := c.notOnPath(p); note != "" {
		r.Notes = append(r.Notes, note)
	}
	if !c.DryRun {
		done, err := in.Apply(time.Now())
		if err != nil {
			return err
		}
		r.Backup, r.Changed = done.Backup, done.Changed
		if err := r.count(a, in, accepted); err != nil {
			return err
		}
	}
	if a.cli.JSON {
		return a.printJSON(r)
	}
	a.con.Out(r.text(p))
	return a.outputError()
}

// acceptShared says whether the user has accepted the files of a project from which servers come. At a terminal he is asked.
func (a *app) acceptShared(in *assistant.Install) (bool, error) {
	for _, s := range in.Shared() {
		ok, err := a.accepted("", tool.AsTools, s.File, s.Content, func() {
			a.con.Say("%s of the project would start:", a.relative(s.File))
			a.sayServers(s.File, s.Content)
		})
		if err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

// notAccepted refuses to start the servers of a project.
func notAccepted(a *app, in *assistant.Install) error {
	var names, files []string
	for _, s := range in.Shared() {
		names, files = append(names, a.relative(s.File)), append(files, "agentkernel tools trust "+shellword.File(a.relative(s.File)))
	}
	return agentkernel.Errorf(agentkernel.CodeDenied, "trust", "to count their tools, install starts the servers of %s, which you have not accepted yet; they are commands that run as you", strings.Join(names, " and ")).
		WithHint("read it, then: %s; --no-count starts none", strings.Join(files, "; "))
}

// count has the tools file of a project, which the entry names, count as it was written, if the user has accepted what it was made from.
func (r *installResult) count(a *app, in *assistant.Install, accepted bool) error {
	if in.Place.Scope != assistant.Project {
		return nil
	}
	if !accepted {
		r.Notes = append(r.Notes, fmt.Sprintf("the entry starts nothing until you have accepted %s: read it, then agentkernel tools trust %s", a.relative(r.Tools), shellword.File(a.relative(r.Tools))))
		return nil
	}
	content, err := in.ToolsFile()
	if err != nil {
		return err
	}
	dir, err := a.dataDir()
	if err != nil {
		return err
	}
	return a.trust(dir.Path(), "", tool.AsTools, r.Tools, content)
}

// notOnPath says that the entry of a project, which names no path since others share it, does not start this program here.
func (c *installCmd) notOnPath(p *assistant.Place) string {
	if p.Scope != assistant.Project {
		return ""
	}
	here, err := os.Executable()
	if err != nil {
		return ""
	}
	found, err := exec.LookPath(assistant.Entry)
	if err != nil {
		return fmt.Sprintf("the entry starts `%s`, which is not on PATH here: `make install` in the repository puts it into /usr/local/bin, or copy %s to a directory on PATH. Everybody who shares the file needs that", assistant.Entry, here)
	}
	if a, errA := filepath.EvalSymlinks(found); errA == nil {
		if b, errB := filepath.EvalSymlinks(here); errB == nil && a != b {
			return fmt.Sprintf("the entry starts `%s`, and that is %s here, not %s", assistant.Entry, found, here)
		}
	}
	return ""
}

// note gathers what is told: the servers that move or stay, and those that the tools file had already.
func (r *installResult) note(in *assistant.Install, asked map[string]serverCost, c *installCmd) error {
	r.Servers, r.Notes = outcomes(in, asked), append(r.Notes, in.Notes...)
	allow, err := in.Allow()
	if err != nil {
		return err
	}
	if r.behind() == 0 {
		r.Notes = append(r.Notes, r.nothingMoves())
	}
	if dir := in.StartIn(); dir != "" {
		r.Notes = append(r.Notes, fmt.Sprintf("servers that name no \"cwd\" start in %s from now on, not in the folder that the client is opened in; --keep SERVER leaves one that needs that folder", dir))
	}
	r.Notes = append(r.Notes, idlePatterns(c.Allow, r.known(asked))...)
	if c.NoCount {
		return nil
	}
	r.Tokens = &schemaTokens{After: ownTokens(c.Full)}
	changing := 0
	for _, s := range r.Servers {
		if s.Action != "kept" {
			changing += notAllowed(asked[s.Name].list, allow)
		}
		switch {
		case s.Action == "kept": // the model reads it before and after
		case s.Tokens == nil:
			r.Tokens.Unknown = true
		default:
			r.Tokens.Before += *s.Tokens
		}
	}
	if t := r.Tokens; r.behind() > 0 && !t.Unknown && t.After >= t.Before {
		r.Notes = append(r.Notes, fmt.Sprintf("the model reads %s tokens of schemas more than before: so few tools cost less by themselves. What is gained is what programs keep out of its context; --keep SERVER leaves a server with the client",
			grouped(t.After-t.Before)))
	}
	if changing > 0 {
		what := "tools that may change things"
		if len(allow) > 0 {
			what += " and that --allow does not name"
		}
		r.Notes = append(r.Notes, fmt.Sprintf("%s: %d. Unless --allow names them ('SERVER.TOOL', 'SERVER.*'), the client asks before a program calls one; a client that cannot ask refuses", what, changing))
	}
	return nil
}

// behind counts the servers that programs reach through agentkernel.
func (r *installResult) behind() (n int) {
	for _, s := range r.Servers {
		if s.Action != "kept" {
			n++
		}
	}
	return n
}

// nothingMoves says where programs get tools from, if no server of the client's is taken over.
func (r *installResult) nothingMoves() string {
	what := r.File + " has no MCP servers"
	if len(r.Servers) > 0 {
		what = "all servers of " + r.File + " stay"
	}
	return what + ", so none moves, and programs have no tools yet. Put servers into " + r.Tools + ", or into the client, and install again"
}

// known are the servers to which --allow may refer.
func (r *installResult) known(asked map[string]serverCost) (list []knownServer) {
	for _, s := range r.Servers {
		if s.Action != "kept" {
			c, ok := asked[s.Name]
			server := knownServer{asked: ok && c.problem == "", tools: c.list}
			server.Name, server.PythonName = s.Name, s.Name
			list = append(list, server)
		}
	}
	return list
}

// notAllowed counts the tools that may change things and that no pattern covers.
func notAllowed(tools []agentkernel.Tool, allow []string) (n int) {
	for i := range tools {
		t := &tools[i]
		if t.Effect != agentkernel.EffectRead && !slices.ContainsFunc(allow, t.AllowedBy) {
			n++
		}
	}
	return n
}

func (r *installResult) text(p *assistant.Place) string {
	var b strings.Builder
	rows := [][]string{{"SERVER", "", "TOOLS", "TOKENS", ""}}
	for _, s := range r.Servers {
		tools, tokens := "?", "?"
		if s.Tokens != nil {
			tools, tokens = fmt.Sprint(*s.Tools), grouped(*s.Tokens)
		} else if r.Tokens == nil || s.Action == "kept" {
			tools, tokens = "-", "-"
		}
		rows = append(rows, []string{s.Name, s.Action, tools, tokens, s.Reason})
	}
	if len(r.Servers) > 0 {
		b.WriteString(console.Table(rows, 2, 3))
	}
	if t := r.Tokens; t != nil && r.behind() > 0 {
		least := ""
		if t.Unknown {
			least = "at least "
		}
		fmt.Fprintf(&b, "%s%s -> %s schema tokens, at four bytes a token\n", least, grouped(t.Before), grouped(t.After))
	}
	for _, n := range r.Notes {
		b.WriteString("note: " + console.Line(n) + "\n")
	}
	switch {
	case r.DryRun && r.behind() == 0:
		fmt.Fprintf(&b, "nothing was written. Without --dry-run %s gets the entry %s\n", r.File, assistant.Entry)
	case r.DryRun:
		fmt.Fprintf(&b, "nothing was written. Without --dry-run the servers move from %s to %s\n", r.File, r.Tools)
	case !r.Changed:
		fmt.Fprintf(&b, "%s is as it should be; nothing was changed\nundo: %s\n", p.File, asTyped(p.Command("uninstall")...))
	default:
		fmt.Fprintf(&b, "changed  %s\nservers  %s\n", p.File, p.Tools)
		if r.Backup != "" {
			fmt.Fprintf(&b, "backup   %s\n", r.Backup)
		}
		fmt.Fprintf(&b, "next: %s\nundo: %s\n", p.Restart(), asTyped(p.Command("uninstall")...))
	}
	return b.String()
}

// grouped writes a number with a comma at each thousand.
func grouped(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// uninstallResult is what uninstall --json prints.
type uninstallResult struct {
	Client   string   `json:"client"`
	Scope    string   `json:"scope"`
	File     string   `json:"file"`
	Backup   string   `json:"backup"` // of what the file was until now
	Changed  bool     `json:"changed"`
	Exact    bool     `json:"exact"` // byte for byte what it was before install
	DryRun   bool     `json:"dry_run"`
	Restored []string `json:"restored"`
	Notes    []string `json:"notes"`
}

// installedAt is where something is installed, as uninstall without a client lists it with --json.
type installedAt struct {
	Client string `json:"client"`
	Scope  string `json:"scope"`
	File   string `json:"file"`
	Undo   string `json:"undo"` // the command
}

// list says where something is installed, each place as the command that undoes it.
func (*uninstallCmd) list(a *app) error {
	host, err := a.assistants()
	if err != nil {
		return err
	}
	list, rows := []installedAt{}, [][]string{}
	for _, p := range assistant.Installed(host) {
		at := installedAt{p.Client.Name, string(p.Scope), p.File, undoAt(&p)}
		list, rows = append(list, at), append(rows, []string{at.Undo, at.File})
	}
	switch {
	case a.cli.JSON:
		return a.printJSON(list)
	case len(list) == 0:
		a.con.Note("nothing is installed; an entry that is left from before goes with agentkernel uninstall CLIENT")
		return nil
	}
	a.con.Out(console.Table(rows))
	return a.outputError()
}

// undoAt is the command that undoes an installation, wherever it is typed.
func undoAt(p *assistant.Place) (command string) {
	if p.Scope == assistant.Project {
		command = "cd " + shellword.File(p.Folder) + " && "
	}
	return command + asTyped(p.Command("uninstall")...)
}

func (c *uninstallCmd) Run(a *app) error {
	switch {
	case c.Client == "" && c.File != "":
		return agentkernel.Errorf(agentkernel.CodeInvalid, "usage", "missing: CLIENT").WithHint("agentkernel uninstall --help")
	case c.Client == "":
		return c.list(a)
	}
	p, err := c.place(a, c.Client)
	if err != nil {
		return err
	}
	u, err := p.PlanUninstall()
	if err != nil {
		return err
	}
	r := uninstallResult{Client: c.Client, Scope: c.Scope, File: p.File, DryRun: c.DryRun, Exact: u.Exact,
		Restored: append([]string{}, u.Restored...), Notes: append([]string{}, u.Notes...)}
	if !c.DryRun {
		done, err := u.Apply(time.Now())
		if err != nil {
			return err
		}
		r.Backup, r.Changed = done.Backup, done.Changed
	}
	if a.cli.JSON {
		return a.printJSON(r)
	}
	a.con.Out(r.text(p, u))
	for i := range u.Others {
		a.con.Note("installed elsewhere: %s", undoAt(&u.Others[i]))
	}
	return a.outputError()
}

func (r *uninstallResult) text(p *assistant.Place, u *assistant.Uninstall) string {
	var b strings.Builder
	how := "as it was, byte for byte"
	if !r.Exact {
		how = "it has been written since: the servers were put back into what it is now"
	}
	switch {
	case u.Nothing:
		fmt.Fprintf(&b, "nothing is installed in %s\n", r.File)
	case u.Orphan && r.DryRun:
		fmt.Fprintf(&b, "nothing was written. Without --dry-run the entry %s leaves %s\n", assistant.Entry, r.File)
	case u.Orphan:
		fmt.Fprintf(&b, "changed   %s (the entry %s is gone)\n", r.File, assistant.Entry)
	case u.Removes() && r.DryRun:
		fmt.Fprintf(&b, "nothing was written. Without --dry-run %s would be removed: it was not there before install\n", r.File)
	case u.Removes():
		fmt.Fprintf(&b, "removed   %s (it was not there before install)\n", r.File)
	case r.DryRun:
		fmt.Fprintf(&b, "nothing was written. Without --dry-run %s would be put back (%s)\n", r.File, how)
	default:
		fmt.Fprintf(&b, "restored  %s (%s)\n", r.File, how)
	}
	if len(r.Restored) > 0 {
		fmt.Fprintf(&b, "servers   %s\n", console.Line(strings.Join(r.Restored, ", ")))
	}
	for _, n := range r.Notes {
		b.WriteString("note: " + console.Line(n) + "\n")
	}
	if r.Changed {
		fmt.Fprintf(&b, "next: %s\n", p.Restart())
	}
	return b.String()
}

// schemaCost is what a model pays for tools in every conversation: their names, descriptions and input schemas, at four bytes
// a token (as everywhere in AgentKernel). What clients add, such as prefixes of names, is not counted.
func schemaCost(tools []schemaTool) int {
	bytesAll := 0
	for _, t := range tools {
		var schema bytes.Buffer
		if json.Compact(&schema, t.InputSchema) != nil {
			schema.Write(t.InputSchema)
		}
		raw, err := json.Marshal(schemaTool{t.Name, t.Description, schema.Bytes()})
		if err != nil { // a schema that is no JSON: its bytes, then
			bytesAll += len(t.Name) + len(t.Description) + len(t.InputSchema)
		}
		bytesAll += len(raw)
	}
	return (bytesAll + 3) / 4
}

// schemaTool is a tool as model APIs take it.
type schemaTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"input_schema,omitempty"`
}
