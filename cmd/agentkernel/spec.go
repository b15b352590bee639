package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"

	"agentkernel"
	"agentkernel/internal/config"
	"agentkernel/internal/tool"
)

// specFlags are the flags that describe a process, shared by the commands that start programs. They are kept as
// text: internal/config reads flags, variables and files by the same rules.
type specFlags struct {
	Tools      []string `sep:"none" placeholder:"FILE" group:"access" help:"MCP configuration file whose servers the program may import; repeatable."`
	Allow      []string `sep:"none" placeholder:"PATTERN" group:"access" help:"Calls that may change things: 'filesystem.write_*', 'github.*'; repeatable."`
	AllowHost  []string `sep:"none" placeholder:"HOST" group:"access" help:"Hosts that http.fetch reaches: api.github.com, '*.example.com', 127.0.0.1:8080; repeatable."`
	BringModel []string `sep:"none" placeholder:"DECLARATION" group:"access" help:"A language model that the program brings, before those of the settings: 'fast openai:gpt-5-mini key=given'; repeatable."`
	Deny       []string `sep:"none" placeholder:"NAME" group:"access" help:"Take a capability away: proc.spawn, state, time, rand, log; repeatable."`
	Namespace  string   `placeholder:"NAME" group:"access" help:"Tenant that the process belongs to."`
	Backend    string   `placeholder:"NAME" group:"access" help:"Where the program runs: auto, monty, process."`
	Isolation  string   `placeholder:"FLOOR" group:"access" help:"The weakest boundary to run behind: interpreter, process, kernel, vm (default: the backend's); none allows none where none can stand."`
	Workspace  string   `placeholder:"DIR" group:"access" help:"Folder that the program works in. It stays as it is: changes wait for apply."`
	Publish    bool     `group:"access" help:"Write the changes to the folder when the program exits with 0."`
	Volume     []string `sep:"none" placeholder:"NAME:DIR" group:"access" help:"Further folder, seen as /volumes/NAME; NAME:DIR:ro, NAME:DIR:size=1g; repeatable."`
	Limits     any      `embed:""` // see newSpecFlags
	Others     []string `kong:"-"` // tools files that were named by a flag, and that others may write: see mcp
	Priority   string   `placeholder:"N" group:"limits" help:"1 (urgent) to 1000 (default 10)."`
	Name       string   `placeholder:"NAME" group:"durable" help:"Name for ps and tracebacks (default: the file's)."`
	OnUnknown  string   `placeholder:"WHAT" group:"durable" help:"A write that a crash cut off: raise OutcomeUnknown in the program, or pause it."`
	Durability string   `placeholder:"HOW" group:"durable" help:"full: on the disk before it is seen; relaxed: milliseconds later."`
	Restart    string   `placeholder:"WHAT" group:"durable" help:"A program that cannot be replayed (any but Python), after the death of its kernel: never begins anew (default), on-crash does."`
	Key        string   `name:"idempotency-key" placeholder:"KEY" group:"durable" help:"The same key gives the same process again instead of a second one; with another program it is refused."`
}

// limitTexts is a struct with the text of a flag for each limit: kong builds flags from structs.
var limitTexts = sync.OnceValue(func() reflect.Type {
	var fields []reflect.StructField
	for _, l := range agentkernel.AllLimits() {
		tag := fmt.Sprintf(`name:%q placeholder:%q group:"limits" help:%q`, strings.TrimPrefix(l.Flag, "--"), limitPlaceholder(l), l.Help)
		if l.None != 0 {
			tag += ` zero:"none"`
		}
		fields = append(fields, reflect.StructField{Name: limitField(l), Type: reflect.TypeFor[string](), Tag: reflect.StructTag(tag)})
	}
	return reflect.StructOf(fields)
})

func limitField(l agentkernel.Limit) string { return strings.ToUpper(l.Name) }

func limitPlaceholder(l agentkernel.Limit) string {
	if l.Unit == agentkernel.LimitShare {
		return string(agentkernel.LimitNumber)
	}
	return string(l.Unit)
}

func newSpecFlags() specFlags { return specFlags{Limits: reflect.New(limitTexts()).Interface()} }

// limit is the text of the flag of a limit; "": it was not given.
func (f *specFlags) limit(l agentkernel.Limit) string {
	if f.Limits == nil {
		return ""
	}
	return reflect.ValueOf(f.Limits).Elem().FieldByName(limitField(l)).String()
}

// overlay lays the flags that were given over the configuration.
func (f *specFlags) overlay(c *config.Config) error {
	lists := []struct {
		key, flag string
		values    []string
	}{
		{"tools", "--tools", f.Tools}, {"tools", projectToolsFlag, f.Others}, {"allow", "--allow", f.Allow}, {"allow_hosts", "--allow-host", f.AllowHost}, {"deny", "--deny", f.Deny},
		{"namespace", "--namespace", single(f.Namespace)}, {"backend", "--backend", single(f.Backend)},
		{"isolation", "--isolation", single(f.Isolation)},
		{"priority", "--priority", single(f.Priority)},
		{"on_unknown", "--on-unknown", single(f.OnUnknown)}, {"durability", "--durability", single(f.Durability)}, {"restart", "--restart", single(f.Restart)},
	}
	for _, l := range agentkernel.AllLimits() {
		if text := f.limit(l); text != "" {
			if err := c.SetFlag("limits."+l.Name, l.Flag, text); err != nil {
				return err
			}
		}
	}
	for _, l := range lists {
		if len(l.values) == 0 {
			continue
		}
		if err := c.SetFlag(l.key, l.flag, l.values...); err != nil {
			return err
		}
	}
	return nil
}

// check reads the flags without the configuration, for a command that looks at other things first.
func (f *specFlags) check() error {
	c, err := config.Load(config.Options{Dir: string(filepath.Separator)})
	if err != nil {
		return err
	}
	return f.overlay(c)
}

func single(v string) []string {
	if v == "" {
		return nil
	}
	return []string{v}
}

// spec makes the Spec of a program from configuration and flags.
func (a *app) spec(f *specFlags, p agentkernel.Program) (agentkernel.Spec, error) {
	c, err := a.settings()
	if err != nil {
		return agentkernel.Spec{}, err
	}
	if err := f.overlay(c); err != nil {
		return agentkernel.Spec{}, err
	}
	digests, err := a.toolsFor(c, &p)
	if err != nil {
		return agentkernel.Spec{}, err
	}
	if f.Name != "" {
		p.Name = f.Name
	}
	for _, note := range c.Notes() {
		a.con.Note("%s", note)
	}
	spec := agentkernel.Spec{
		Program: p, Backend: c.Backend, Isolation: c.Isolation, Namespace: c.Namespace, Priority: c.Priority, Limits: c.Limits,
		Tools: c.Tools, ToolDigests: digests, Allow: c.Allow, AllowHosts: c.AllowHosts, Deny: c.Deny, OnUnknown: c.OnUnknown, Durability: c.Durability, Restart: c.Restart,
		Models: f.BringModel, IdempotencyKey: f.Key,
	}
	return spec, a.addFiles(f, &spec)
}

// readTools reads a tools file, or says where one that cannot be read was named.
func (a *app) readTools(c *config.Config, file string) ([]byte, error) {
	origin := c.Origin("tools")
	info, err := os.Stat(file)
	if err != nil {
		e := agentkernel.Errorf(agentkernel.CodeNotFound, "tools", "%s: the tools file %s cannot be read: %w", origin, file, unwrapPath(err))
		if errors.Is(err, fs.ErrPermission) {
			e.Code = agentkernel.CodeDenied
		}
		return nil, missingNamed(e).WithHint("name an MCP configuration file, {\"mcpServers\": {...}}")
	}
	if info.IsDir() {
		return nil, agentkernel.Errorf(agentkernel.CodeInvalid, "tools", "%s: %s is a directory, not a tools file", origin, file).
			WithHint("%s", "name the MCP configuration file in it; local tools in a directory tools/ beside the program need no flag")
	}
	return tool.ReadFile(file)
}

// unwrapPath takes "open /long/path:" off an error that names its path already.
func unwrapPath(err error) error {
	if pe, ok := errors.AsType[*os.PathError](err); ok {
		return pe.Err
	}
	return err
}

// relative shortens a path for messages.
func (a *app) relative(path string) string {
	if dir, err := a.workingDir(); err == nil {
		if rel, err := filepath.Rel(dir, path); err == nil && len(rel) < len(path) {
			return rel
		}
	}
	return path
}
