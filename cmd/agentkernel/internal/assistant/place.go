// Package assistant changes the configuration files of AI assistants: it takes MCP servers out of a client's file into
// one of AgentKernel's, puts one entry there, and puts everything back. The files belong to the user and to other
// programs: a byte that is not about MCP servers is never changed, a file that is not understood is never written, and
// nothing is written that was not backed up first. The package starts nothing, and prints nothing.
package assistant

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"slices"
	"strings"

	"agentkernel"
)

// Entry is the name of AgentKernel's own entry in a client's file.
const Entry = "agentkernel"

// Scope says for whom a configuration counts.
type Scope string

// The scopes: all projects of the user, or all users of one project.
const (
	User    Scope = "user"
	Project Scope = "project"
)

// Client is an assistant whose file is known.
type Client struct {
	Name, Title string
	Key         string // the member that holds the servers by name
	user        func(h Host) string
	project     string // path in a project; "": there is none
	restart     string // how the client notices
}

// Host says where the user's files are.
type Host struct {
	GOOS    string
	Home    string // the user's home directory
	Dir     string // the working directory: the project
	Config  string // where AgentKernel keeps its settings: ~/.config/agentkernel
	Getenv  func(string) string
	Command string // the executable of AgentKernel
}

// settings is where desktop programs keep theirs (macOS: Application Support; else the XDG Base Directory Specification).
func (h Host) settings() string {
	if h.GOOS == "darwin" {
		return filepath.Join(h.Home, "Library", "Application Support")
	}
	if dir := h.Getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return dir
	}
	return filepath.Join(h.Home, ".config")
}

// Clients are those that can be named. Paths and keys: code.claude.com/docs/en/mcp, modelcontextprotocol.io (user
// quickstart), cursor.com/docs/context/mcp, code.visualstudio.com/docs/copilot/reference/mcp-configuration.
func Clients() []Client {
	return []Client{
		{Name: "claude", Title: "Claude Code", Key: "mcpServers", project: ".mcp.json", user: func(h Host) string {
			if dir := h.Getenv("CLAUDE_CONFIG_DIR"); dir != "" {
				return filepath.Join(dir, ".claude.json")
			}
			return filepath.Join(h.Home, ".claude.json")
		}, restart: "start Claude Code again"},
		{Name: "claude-desktop", Title: "Claude Desktop", Key: "mcpServers", user: func(h Host) string {
			return filepath.Join(h.settings(), "Claude", "claude_desktop_config.json")
		}, restart: "quit Claude Desktop and start it again"},
		{Name: "cursor", Title: "Cursor", Key: "mcpServers", project: ".cursor/mcp.json", user: func(h Host) string {
			return filepath.Join(h.Home, ".cursor", "mcp.json")
		}, restart: "Cursor reads the file again by itself; if not, restart it"},
		{Name: "vscode", Title: "VS Code", Key: "servers", project: ".vscode/mcp.json", user: func(h Host) string {
			return filepath.Join(h.settings(), "Code", "User", "mcp.json")
		}, restart: "run the command \"MCP: List Servers\" in VS Code and start agentkernel"},
	}
}

// home is the directory that the client makes when it is installed or starts for the first time.
func (c *Client) home(h Host) string {
	dir := filepath.Dir(c.user(h))
	switch {
	case c.Name == "claude" && dir == h.Home:
		return filepath.Join(dir, ".claude")
	case c.Name == "vscode":
		return filepath.Dir(dir)
	}
	return dir
}

// Place is one configuration file of one client.
type Place struct {
	Client Client
	Scope  Scope
	File   string // of the client
	Tools  string // AgentKernel's tools file, to which the servers move
	Folder string // what ${workspaceFolder} is, and where servers start
	record string // what uninstall needs to know
	// earlier is where the tools file was when it was installed, if the place had another name then.
	earlier string
	named   bool // File is not the usual one
	host    Host
}

// Find gives the place of a client by name. file, if not empty, is another file than the usual one: a profile's. Errors:
// CodeInvalid.
func Find(h Host, client string, scope Scope, file string) (*Place, error) {
	all := Clients()
	i := slices.IndexFunc(all, func(c Client) bool { return c.Name == client })
	if i < 0 {
		names := make([]string, len(all))
		for i, c := range all {
			names[i] = c.Name
		}
		return nil, agentkernel.Errorf(agentkernel.CodeInvalid, op, "%q is no client that is known: %s", client, strings.Join(names, ", ")).
			WithHint("any other client: docs/integration.md says what to write into its configuration")
	}
	p := &Place{Client: all[i], Scope: scope, host: h}
	switch {
	case scope == Project && p.Client.project == "":
		return nil, agentkernel.Errorf(agentkernel.CodeInvalid, op, "%s has no configuration of its own for a project", p.Client.Title).
			WithHint("leave --scope out")
	case h.Home == "" || h.Config == "":
		return nil, agentkernel.Errorf(agentkernel.CodeInvalid, op, "the home directory is not known").WithHint("set HOME")
	case scope == Project:
		p.File, p.Folder = filepath.Join(h.Dir, filepath.FromSlash(p.Client.project)), h.Dir
		p.Tools = filepath.Join(h.Dir, "agentkernel.mcp.json")
	default:
		p.File, p.Folder = p.Client.user(h), h.Home
		p.Tools = filepath.Join(h.Config, "mcp", client+".json")
	}
	if p.named = file != ""; p.named {
		p.File = file
	}
	if file != "" && scope == User {
		p.Tools = filepath.Join(h.Config, "mcp", client+"-"+shortHash(file)+".json")
	}
	p.record = filepath.Join(h.Config, "mcp", "installed", client+"-"+shortHash(p.File)+".json")
	return p, nil
}

func shortHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:6])
}

// Command is the command line that does something, such as "uninstall", with this place.
func (p *Place) Command(verb string) []string {
	args := []string{"agentkernel", verb, p.Client.Name}
	if p.Scope == Project {
		args = append(args, "--scope", string(Project))
	}
	if p.named {
		args = append(args, "--file", p.File)
	}
	return args
}

// Restart says how the client notices that its file has changed.
func (p *Place) Restart() string { return p.Client.restart }

// ownEntry is AgentKernel's entry in a client's file.
type ownEntry struct {
	Type    string   `json:"type,omitempty"`
	Command string   `json:"command"`
	Args    []string `json:"args"`
}

// entry is AgentKernel's own entry. A project's file is shared: it names no path of this machine.
func (p *Place) entry(o Options) ownEntry {
	command, tools := p.host.Command, p.Tools
	if p.Scope == Project {
		command, tools = Entry, filepath.Base(p.Tools)
		if p.Client.Name != "claude" { // which starts servers in the project's folder
			tools = "${workspaceFolder}/" + tools
		}
	}
	args := []string{"mcp"}
	if !o.Full {
		args = append(args, "--minimal")
	}
	if o.Home != "" && p.Scope == User {
		args = append(args, "--home", o.Home)
	}
	flag := "--tools"
	if p.Scope == Project { // whoever writes to the project could have commands started
		flag = "--project-tools"
	}
	args = append(args, flag, tools)
	for _, pattern := range o.Allow {
		args = append(args, "--allow", pattern)
	}
	entry := ownEntry{Command: command, Args: args}
	if p.Client.Name == "vscode" || p.Client.Name == "claude" {
		entry.Type = "stdio"
	}
	return entry
}
