package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentkernel"
	"agentkernel/client"
	"agentkernel/internal/sandbox/confine"
	"agentkernel/internal/tool/tooltest"
)

const attributed = "for whoever runs agentkernel: "

var typedAtTerminal = regexp.MustCompile("(^|[ ('`\"])(--[a-z]|agentkernel [a-z])")

// checkReader: nothing that only a person at a command line can type is told without saying for whom it is.
func checkReader(t *testing.T, text string, says ...string) {
	t.Helper()
	for line := range strings.Lines(text) {
		own, _, _ := strings.Cut(line, attributed)
		if typedAtTerminal.MatchString(own) {
			t.Errorf("who has no command line reads %q", line)
		}
	}
	for _, want := range says {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %s", want, text)
		}
	}
	t.Log(text)
}

// What a model is told over MCP when something is refused, ends or is lost.
func TestMCPTellsWhatAModelCanDo(t *testing.T) {
	tools := tooltest.Config(t, map[string]tooltest.Server{"test": tooltest.Stdio(t)})
	says := func(t *testing.T, cs *mcp.ClientSession, a args, want ...string) {
		t.Helper()
		checkReader(t, textOf(call(t, cs, "execute_code", a)), want...)
	}
	t.Run("refusals", func(t *testing.T) {
		cfg := mcpConfig(openEmbedded(t, home(t)), tools)
		cfg.Spec.Allow = nil
		cs := connectMCP(t, cfg)
		says(t, cs, args{"code": importAppend + append1("/x", "y")}, "PermissionError", attributed+"allow it with --allow 'test.append_line'")
		says(t, cs, args{"code": "from kernel import http\nhttp.fetch('https://example.com')"}, attributed+"allow it with --allow-host 'example.com'")
		says(t, cs, args{"code": "import requests", "backend": "monty", "session": "none"}, "use a tool, or http.fetch", attributed+"--allow-host HOST allows one")
		says(t, cs, args{"code": "import subprocess", "backend": "monty", "session": "none"}, "search_tools shows them")
		for _, session := range []string{"none", ""} {
			says(t, cs, args{"code": "open('/data/sales.csv')", "session": session}, "use a tool that reads them; "+attributed+"--workspace DIR names a folder")
		}
		says(t, cs, args{"code": "1", "packages": []string{"polars"}}, "use what is there; "+attributed)
		task := tool(t, cs, "dispatch_background_task", args{"code": importAppend + append1("/x", "y")}, "task")
		checkReader(t, textOf(call(t, cs, "wait_for_background_task", args{"task_id": task["task_id"]})), attributed+"allow it with")
	})
	for name, c := range map[string]struct {
		limit func(*agentkernel.Limits)
		code  string
		want  []string
	}{
		"time": {func(l *agentkernel.Limits) { l.Time = agentkernel.Duration(300 * time.Millisecond) }, "while True:\n    pass",
			[]string{"time limit reached", attributed + "--time raises the time limit"}},
		"memory": {func(l *agentkernel.Limits) { l.Memory = 32 << 20 }, "x = []\nwhile True:\n    x.append('y' * 100000)",
			[]string{"memory limit reached", attributed + "--memory raises the memory limit"}},
		"calls": {func(l *agentkernel.Limits) { l.Calls = 3 }, "from kernel import now\nfor i in range(9):\n    now()",
			[]string{"calls limit of 3 reached", attributed + "--max-calls allows more"}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := mcpConfig(openEmbedded(t, home(t)), tools)
			c.limit(&cfg.Spec.Limits)
			says(t, connectMCP(t, cfg), args{"code": c.code, "session": "none"}, c.want...)
		})
	}
	t.Run("changed tool", func(t *testing.T) {
		pull := filepath.Join(t.TempDir(), "pull")
		tools := tooltest.Config(t, map[string]tooltest.Server{"x": tooltest.Stdio(t, "-pull", pull)})
		data, code := home(t), "from tools.x import append_line\nappend_line('/nowhere/f', 'l')"
		k := openEmbedded(t, data)
		cfg := mcpConfig(k, tools)
		cfg.Spec.Allow = nil
		says(t, connectMCP(t, cfg), args{"code": code}, "was not allowed")
		if err := os.WriteFile(pull, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := k.Close(); err != nil {
			t.Fatal(err)
		}
		cfg = mcpConfig(openEmbedded(t, data), tools)
		cfg.Spec.Allow = []string{"*"}
		says(t, connectMCP(t, cfg), args{"code": code}, "is not what was accepted", attributed+"agentkernel tools accept x append_line")
	})
	t.Run("workspace", func(t *testing.T) {
		if p := confine.Look().Problem; p != nil {
			t.Skipf("SKIPPED, NOTHING PROVED: no walls can stand here: %v", p)
		}
		cfg := mcpConfig(openEmbedded(t, home(t), withSandboxes(t)), "")
		cfg.Spec.Workspace = &agentkernel.Workspace{Path: folder(t, nil)}
		cs := connectMCP(t, cfg)
		res := call(t, cs, "execute_code", args{"code": "for i in range(120):\n    open(f'{i}.txt', 'w').write('x')", "session": "none"})
		pid := fmt.Sprint(res.StructuredContent.(map[string]any)["pid"])
		checkReader(t, textOf(res), "kept apart", attributed+"agentkernel apply "+pid, "more files are not listed here; "+attributed+"agentkernel artifacts "+pid)
		says(t, cs, args{"code": "open('/home/someone/f')", "session": "none"}, "the workspace is the folder /workspace; "+attributed+"--volume NAME:DIR")
	})
	t.Run("lost kernel", func(t *testing.T) {
		m, k, tools := newMortal(t, false, 0, 1)
		cs := connectMCP(t, mcpConfig(k, tools))
		k.(*client.Client).Revive(nil)
		m.die(true)
		says(t, cs, args{"code": "from tools.log import note\nnote(key='cut')"}, "unavailable: ", "make the same call again")
		says(t, cs, args{"code": "1"}, "unavailable: ")
		checkReader(t, textOf(call(t, cs, "search_tools", args{"query": "note"})), "unavailable: ")
		checkReader(t, textOf(call(t, cs, "list_background_tasks", nil)), "unavailable: ")
	})
}

// What a program reads when it is refused, in each kind of guest, and what its parent reads.
func TestProgramsAreToldWhatTheyCanDo(t *testing.T) {
	tools := tooltest.Config(t, map[string]tooltest.Server{"test": tooltest.Stdio(t)})
	k := openEmbedded(t, home(t), withSandboxes(t))
	const permission, host = attributed + "allow it with --allow 'test.append_line'", attributed + "allow it with --allow-host 'example.com'"
	python := `from tools.test import append_line
from kernel import http, tool
for f in [lambda: append_line(path='/x', text='y'), lambda: http.fetch('https://example.com'), lambda: tool.call('tset', 'echo', {}), lambda: open('/data/sales.csv')]:
    try:
        f()
    except Exception as e:
        print(e)
`
	for name, c := range map[string]struct {
		language agentkernel.Language
		backend  string
		source   string
	}{
		"Monty":   {agentkernel.Python, "monty", python},
		"CPython": {agentkernel.Python, "process", python},
		"Node": {agentkernel.Node, "process", `import { append_line } from "tools/test"
import { http } from "kernel"
for (const f of [() => append_line({path: "/x", text: "y"}), () => http.fetch("https://example.com")]) {
  try { await f() } catch (e) { console.log(e.message) }
}
`},
		"shell": {agentkernel.Script, "process", "#!/bin/sh\nkernel tool call test.append_line --arg path=x --arg text=y 2>&1\nkernel call http.fetch --json '{\"url\": \"https://example.com\"}' 2>&1\nexit 0\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if p := confine.Look().Problem; p != nil && c.backend == "process" {
				t.Skipf("SKIPPED, NOTHING PROVED: no walls can stand here: %v", p)
			}
			s := agentkernel.Spec{Program: agentkernel.Program{Language: c.language, Source: c.source}, Backend: c.backend, Tools: []string{tools}}
			o := run(t, k, s)
			if o.Error != nil {
				t.Fatal(o.Error, o.stderr)
			}
			checkReader(t, o.stdout, permission, host)
		})
	}
	s := agentkernel.Spec{Program: agentkernel.Program{Source: "from kernel import spawn, wait\nprint(wait(spawn(\"from tools.test import append_line\\nappend_line(path='/x', text='y')\")))"},
		Tools: []string{tools}}
	checkReader(t, run(t, k, s).stdout, permission)
}

// A person at the command line reads the hint as it was written.
func TestHintStaysForThePerson(t *testing.T) {
	tools := tooltest.Config(t, map[string]tooltest.Server{"test": tooltest.Stdio(t)})
	k := openEmbedded(t, home(t))
	s := program(importAppend + "try:\n    " + append1("/x", "y") + "\nexcept PermissionError:\n    pass\n")
	s.Tools = []string{tools}
	o := run(t, k, s)
	found := false
	entries, err := k.Journal(t.Context(), o.PID, 1, 0)
	for _, e := range entries {
		found = found || e.Err != nil && e.Err.Hint == "allow it with --allow 'test.append_line'"
	}
	if err != nil || !found {
		t.Errorf("the journal does not keep the hint as it was written: %v", err)
	}
}
