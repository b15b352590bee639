package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"agentkernel"
	"agentkernel/internal/config"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/nearest"
	"agentkernel/internal/strictjson"
	"agentkernel/internal/tool"
)

type toolsCallCmd struct {
	Tool string   `arg:"" help:"The tool, as SERVER.TOOL."`
	Args []string `arg:"" optional:"" name:"arguments" help:"NAME=VALUE (JSON, else text), or one JSON object."`
	specFlags
	Quiet bool `short:"q" group:"show" help:"No receipt, no progress: only the result."`
}

func (toolsCallCmd) Help() string {
	return `The call runs as a process of its own: it is in ps -a and trace, and a tool that changes things needs
--allow or a yes at the terminal. Text is printed as it is, anything else as JSON.

` + examples(
		"agentkernel tools call filesystem.read_text_file path=/data/a.csv head=3 --tools mcp.json",
		`agentkernel tools call filesystem.write_file '{"path": "/data/x", "content": "hello"}' --allow filesystem.write_file`,
		"agentkernel tools call everything.get_sum a=1 b=2 --json | jq .result",
	)
}

// callProgram is the program that tools call runs; its arguments are server, tool and a JSON object.
const callProgram = `import json
import sys
from kernel import tool

tool.call(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))
`

func (c *toolsCallCmd) Run(a *app) error {
	args, err := callArguments(c.Args)
	if err != nil {
		return a.refuse(err)
	}
	text, err := json.Marshal(args)
	if err != nil {
		return a.refuse(err)
	}
	server, verb, named := strings.Cut(c.Tool, ".")
	named = named && server != "" && verb != ""
	program := agentkernel.Program{Name: c.Tool, Language: agentkernel.Python, Source: callProgram, Args: []string{server, verb, string(text)}}
	if named {
		err = a.callLocally(&program, server, verb, string(text))
	}
	var spec agentkernel.Spec
	if err == nil {
		spec, err = a.spec(&c.specFlags, program)
	}
	switch {
	case err != nil:
	case !named:
		err = a.noTool(spec.Tools, c.Tool)
	case len(spec.Tools) == 0 && program.Modules == nil:
		err = errNoTools()
	}
	if err != nil {
		return a.refuse(err)
	}
	return a.runProgram(spec, func(k agentkernel.Kernel, p *agentkernel.Process) {
		switch {
		case p.State == agentkernel.StateExited && len(p.Result) > 0 && !a.cli.JSON:
			a.con.Out(resultText(plain(p.Result)))
		case p.Error != nil && p.Error.Code == agentkernel.CodeProgram:
			a.callFailed(k, p)
		}
	})
}

// callLocally has a program call a local tool, if the server is one of local tools.
func (a *app) callLocally(program *agentkernel.Program, server, verb, args string) error {
	local := a.localHere(server)
	if len(local) == 0 {
		return nil
	}
	t, err := named(local, server, verb)
	if err != nil {
		return err
	}
	program.Source = fmt.Sprintf("import json\nimport sys\nfrom tools.%s import %s\n\n%s(**json.loads(sys.argv[1]))\n", t.PythonServer, t.PythonName, t.PythonName)
	program.Args, program.Modules = []string{args}, a.localToolsFor("")
	return nil
}

// callFailed puts the error of the call itself in the place of the exception that it became in the program, which is not the
// user's: its traceback tells them nothing.
func (a *app) callFailed(k agentkernel.Kernel, p *agentkernel.Process) {
	const most = 16 // entries of a program that makes one call
	entries, err := k.Journal(a.ctx, p.PID, 1, most)
	if err != nil {
		return // the exception says it, too
	}
	for _, call := range history.Calls(entries) {
		if call.Err != nil {
			p.Error, p.ExitCode = call.Err, call.Err.Code.ExitCode()
		}
	}
}

// callArguments reads either one JSON object or NAME=VALUE words. A value that is JSON other than a text in
// quotes is taken as that, anything else as text.
func callArguments(words []string) (map[string]json.RawMessage, error) {
	args := map[string]json.RawMessage{}
	if len(words) == 1 && strings.HasPrefix(strings.TrimSpace(words[0]), "{") {
		if err := json.Unmarshal([]byte(words[0]), &args); err != nil {
			return nil, agentkernel.Errorf(agentkernel.CodeInvalid, "tools call", "%s", strictjson.Explain(err, "the arguments", []byte(words[0]))).
				WithHint(`'{"path": "/data", "head": 3}', or path=/data head=3`)
		}
		return args, nil
	}
	for _, w := range words {
		name, value, ok := strings.Cut(w, "=")
		if !ok || name == "" {
			return nil, agentkernel.Errorf(agentkernel.CodeInvalid, "tools call", "%q is not NAME=VALUE", w).
				WithHint(`path=/data head=3, or one JSON object: '{"path": "/data", "head": 3}'`)
		}
		if _, twice := args[name]; twice {
			return nil, agentkernel.Errorf(agentkernel.CodeInvalid, "tools call", "the argument %q is there twice", name)
		}
		raw := json.RawMessage(value)
		if !json.Valid(raw) {
			raw, _ = json.Marshal(value)
		}
		args[name] = raw
	}
	return args, nil
}

// resultText is a result for a terminal or a file: text as it is, anything else as indented JSON.
func resultText(v json.RawMessage) string {
	var s string
	if json.Unmarshal(v, &s) == nil && string(v) != "null" {
		if s == "" || strings.HasSuffix(s, "\n") {
			return s
		}
		return s + "\n"
	}
	return indentJSON(v) + "\n"
}

func indentJSON(v json.RawMessage) string {
	var b bytes.Buffer
	if json.Indent(&b, v, "", "  ") != nil {
		return string(v)
	}
	return b.String()
}

func nearestTool(name string, names []string) string {
	if near := nearest.One(name, names); near != "" {
		return near
	}
	for _, n := range names {
		if strings.Contains(n, name) || strings.Contains(name, n) {
			return n
		}
	}
	return ""
}

type toolsTrustCmd struct {
	File string `arg:"" help:"An MCP configuration file, AGENTS.md, or a folder tools/ of local tools."`
}

func (toolsTrustCmd) Help() string {
	return `A tools file that a project's agentkernel.toml names starts commands as you, so it counts only once you have
accepted it; a changed file is asked about again. Files that you name yourself (--tools) need no trust. AGENTS.md of a folder, which the
model of agentkernel do and chat would follow there, and a folder tools/, of whose local tools it would be told, are accepted the same way.

` + examples("agentkernel tools trust ./mcp.json")
}

func (c *toolsTrustCmd) Run(a *app) error {
	as, project, file, content, says, err := c.read(a)
	if err != nil {
		return err
	}
	dir, err := a.dataDir()
	if err != nil {
		return err
	}
	if err := a.trust(dir.Path(), project, as, file, content); err != nil {
		return err
	}
	if a.cli.JSON {
		return a.printJSON(map[string]string{"trusted": file})
	}
	says()
	return nil
}

// read gives what is accepted, a file or all of a folder of local tools, and what says so then. A file is accepted as what its name says:
// AGENTS.md as rules, whatever it holds. project is the one for which it is accepted, if that names it and it is not its own.
func (c *toolsTrustCmd) read(a *app) (as tool.Kind, project, file string, content []byte, says func(), err error) {
	if isFolder(c.File) {
		file, content, says, err = a.localTrusted(filepath.Clean(c.File))
		return tool.AsLocal, "", file, content, says, err
	}
	cfg, err := a.settings()
	if err != nil {
		return "", "", "", nil, nil, err
	}
	var named []string
	if cfg.Origin("tools").Kind == config.Project {
		named = cfg.Tools
	}
	if err := cfg.SetFlag("tools", "tools trust", c.File); err != nil {
		return "", "", "", nil, nil, err
	}
	file = cfg.Tools[0]
	if slices.Contains(named, file) {
		project = foreignTo(cfg.ProjectFile, file)
	}
	content, err = a.readTools(cfg, file)
	if filepath.Base(file) == rulesFile {
		return tool.AsRules, "", file, content, func() {
			a.con.Note("accepted %s with the content that it has now, as what a model is told", a.relative(file))
		}, err
	}
	if err == nil { // one that nobody can read yet is accepted when it is whole
		_, err = tool.Variables(file, content)
	}
	return tool.AsTools, project, file, content, func() {
		a.sayServers(file, content)
		a.con.Note("accepted %s with the content that it has now", a.relative(file))
	}, err
}
