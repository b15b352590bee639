package process

import (
	"strings"
	"testing"

	"agentkernel"
)

// Modules that travel with the program: local tools, skills, what they import, how they fail.
func TestModules(t *testing.T) {
	b := sharedBackend(t)
	modules := map[string]string{
		"tools.report.monthly": "from skills.dates import quarter\nprint('loaded', __name__, __file__)\ndef monthly(m):\n    return quarter(m) + '/' + str(m)\n",
		"tools.report.broken":  "def broken():\n    return 1 / 0\n",
		"skills.dates":         "def quarter(m): return 'Q%d' % ((m + 2) // 3)\n",
		"skills.deep.er":       "X = 5\n",
	}
	for src, want := range map[string]string{
		"from tools.report import monthly\nprint(monthly(5))":                                                                     "loaded tools.report.monthly tools/report/monthly.py\nQ2/5\n",
		"import tools.report\nprint(tools.report.monthly(5))":                                                                     "loaded tools.report.monthly tools/report/monthly.py\nQ2/5\n",
		"from tools import report as r\nprint(r.monthly(1), dir(r))":                                                              "loaded tools.report.monthly tools/report/monthly.py\nQ1/1 ['broken', 'monthly']\n",
		"import asyncio\nfrom tools.report.aio import monthly\nprint(await asyncio.gather(monthly(1), monthly(12)))":              "loaded tools.report.monthly tools/report/monthly.py\n['Q1/1', 'Q4/12']\n",
		"import skills.dates\nfrom skills import dates\nprint(skills.dates.quarter(9), dates.quarter is skills.dates.quarter)":    "Q3 True\n",
		"from skills.deep import er\nprint(er.X)":                                                                                 "5\n",
		"from tools.my_files import read_text\nimport tools.my_files.aio as a\nprint(read_text.__module__, a.read_text.__name__)": "tools.my_files read_text\n",
		"try:\n    import tools.nosuch\nexcept ModuleNotFoundError as e:\n    print(e)":                                           "no tool server 'nosuch': a program imports its tools by name, from tools.nosuch import <tool>\n",
		"try:\n    from tools.report.monthl import monthly\nexcept ModuleNotFoundError as e:\n    print(e)":                       "No module named 'tools.report.monthl': did you mean tools.report.monthly?\n",
		"try:\n    from tools.repor.monthly import monthly\nexcept ModuleNotFoundError as e:\n    print(e)":                       "No module named 'tools.repor': did you mean tools.report?\n",
		"try:\n    from tools.report import nosuch\nexcept ImportError as e:\n    print(type(e).__name__)":                        "ImportError\n",
	} {
		r := newRun(t, b, src)
		r.req.Program.Modules, r.req.Tools = modules, []agentkernel.Tool{readTool}
		if turn, err := r.finish(); err != nil || turn.Kind != agentkernel.TurnExit {
			t.Errorf("%s: %+v %v %s", src, turn, err, tracebackOf(turn))
		}
		if got := r.out.String(); got != want {
			t.Errorf("%s prints\n%q, want\n%q", src, got, want)
		}
		_ = r.box.Close()
	}
	r := newRun(t, b, "from tools.report import broken\nbroken()")
	r.req.Program.Modules = modules
	turn, err := r.finish()
	if err != nil || turn.Kind != agentkernel.TurnFail {
		t.Fatalf("%+v %v", turn, err)
	}
	if want := "  File \"tools/report/broken.py\", line 2, in broken\n    return 1 / 0\n"; !strings.Contains(turn.Err.Traceback, want) {
		t.Errorf("%s", turn.Err.Traceback)
	}
}

// What Check finds out about a program.
func TestCheck(t *testing.T) {
	b := sharedBackend(t)
	tool := func(server, name string, line int) agentkernel.ToolRef {
		return agentkernel.ToolRef{Server: server, Name: name, Line: line}
	}
	for _, c := range []struct {
		src    string
		tools  []agentkernel.ToolRef
		skills []string
	}{
		{"print(1)", nil, nil},
		{"from tools.fs import read, write as w\nfrom tools.fs.aio import read", []agentkernel.ToolRef{tool("fs", "read", 1), tool("fs", "write", 1)}, nil},
		{"import tools.fs as x", []agentkernel.ToolRef{tool("fs", "*", 1)}, nil},
		{"def f():\n    try:\n        from tools import fs\n    finally:\n        pass", []agentkernel.ToolRef{tool("fs", "*", 3)}, nil},
		{"from tools.fs import aio", []agentkernel.ToolRef{tool("fs", "*", 1)}, nil},
		{"from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from tools.fs import read\nelse:\n    from tools.db import q", []agentkernel.ToolRef{tool("db", "q", 5)}, nil},
		{"import skills.x\nfrom skills import y, own\nfrom skills.z import f", nil, []string{"x", "y", "z"}},
		{"from tools.local import here\nimport tools.local", []agentkernel.ToolRef{tool("gh", "search", 1)}, nil},
	} {
		needs, err := b.Check(agentkernel.Program{Name: "p.py", Source: c.src, Modules: map[string]string{
			"tools.local.here": "from tools.gh import search", "tools.local.unused": "x = = 1", "skills.own": ""}})
		if c.src == "from tools.local import here\nimport tools.local" {
			// importing the whole of a local server reaches the broken one, too
			if agentkernel.CodeOf(err) != agentkernel.CodeSyntax {
				t.Errorf("%s: %v", c.src, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.src, err)
			continue
		}
		if len(needs.Tools) != len(c.tools) || len(needs.Skills) != len(c.skills) {
			t.Errorf("%s needs %+v", c.src, needs)
			continue
		}
		for i := range c.tools {
			if needs.Tools[i] != c.tools[i] {
				t.Errorf("%s needs %+v", c.src, needs)
			}
		}
		for i := range c.skills {
			if needs.Skills[i] != c.skills[i] {
				t.Errorf("%s needs %+v", c.src, needs)
			}
		}
	}
}

// Programs that are refused before anything of them has run.
func TestCheckRefuses(t *testing.T) {
	b := sharedBackend(t)
	for _, c := range []struct {
		src   string
		code  agentkernel.Code
		parts []string
	}{
		{"x = 1\nx = = 2\n", agentkernel.CodeSyntax, []string{"SyntaxError: invalid syntax", "  File \"p.py\", line 2\n    x = = 2\n        ^\n"}},
		{"print(1)\nreturn 5", agentkernel.CodeSyntax, []string{"'return' outside function", "line 2"}},
		{"def f(:\n  pass", agentkernel.CodeSyntax, []string{"line 1", "^"}},
		{"x = '\x00'", agentkernel.CodeSyntax, []string{"null bytes"}},
		{strings.Repeat("(", 500) + strings.Repeat(")", 500), agentkernel.CodeSyntax, []string{"too many nested parentheses"}},
		{strings.Repeat("-", 100_000) + "1", agentkernel.CodeSyntax, nil},
		{"import no_such_module_here", agentkernel.CodeUnsupported, []string{"line 1: module 'no_such_module_here' is not installed for Python 3."}},
	} {
		_, err := b.Check(agentkernel.Program{Name: "p.py", Source: c.src})
		if agentkernel.CodeOf(err) != c.code {
			t.Errorf("%.40s: %v", c.src, err)
			continue
		}
		e := agentkernel.AsError(err, "", "")
		for _, part := range c.parts {
			if !strings.Contains(e.Message()+"\n"+e.Traceback, part) {
				t.Errorf("%.40s: %q is not in %s\n%s", c.src, part, e.Message(), e.Traceback)
			}
		}
	}
	for _, src := range []string{"try:\n    import no_such_module_here\nexcept ImportError:\n    pass", "import sys\nsys.path.append('/x')\nimport no_such_module_here",
		"def f():\n    import no_such_module_here", "await_ = 1", "import os.path, xml.dom"} {
		if _, err := b.Check(agentkernel.Program{Name: "p.py", Source: src}); err != nil {
			t.Errorf("%s: %v", src, err)
		}
	}
}
