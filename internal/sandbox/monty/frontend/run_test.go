package frontend_test

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"

	"agentkernel"
)

func tool(server, name string) agentkernel.Tool {
	return agentkernel.Tool{Server: server, Name: name, PythonServer: server, PythonName: name,
		Signature: name + "(path: str) -> str", Doc: "Does " + name + ".",
		Params: []agentkernel.ToolParam{{Name: "path", Python: "path", Type: "str", Required: true}}}
}

// toolAnswer answers "<tool> of <path>", and 3.5 to time.now.
func toolAnswer(op string, args map[string]any) any {
	switch op {
	case "tool.call":
		a, _ := args["arguments"].(map[string]any)
		p, _ := a["path"].(string)
		if p == "bad" {
			return agentkernel.Errorf(agentkernel.CodeTool, "tool.call", "no such file")
		}
		return args["tool"].(string) + " of " + p
	case "time.now":
		return 3.5
	case "state.get":
		return args["key"]
	case "rand.bytes":
		n := int(args["n"].(float64))
		return map[string]any{"$bytes": base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7, 200, 31, 94}, n/4+1)[:n])}
	}
	return nil
}

func TestImportsRun(t *testing.T) {
	b := engine(t)
	tools := []agentkernel.Tool{tool("fs", "read"), tool("fs", "write"), tool("gh", "search")}
	modules := map[string]string{
		"tools.report.monthly": "from tools.fs import read\nimport skills.shapes as sh\nK = 2\ndef monthly(path):\n    return [read(path), sh.area(K)]\n",
		"skills.shapes":        "count = 0\nclass Shape:\n    def __init__(self, n):\n        self.n = n\ndef area(n):\n    global count\n    count += 1\n    return Shape(n).n * 10 + count\n",
	}
	for _, c := range []struct{ name, src, want string }{
		{"from", "from tools.fs import read, write as w\nprint(read('a'), w(path='b'))", "read of a write of b\n"},
		{"several lines", "from tools.fs import (\n    read,  # reads\n    write as w,\n); x = 1\nprint(read('a'), w('b'), x)", "read of a write of b 1\n"},
		{"module", "import tools.fs\nprint(tools.fs.read('a'))", "read of a\n"},
		{"two modules", "import tools.fs, tools.gh as g\nprint(tools.fs.read('a'), g.search('q'))", "read of a search of q\n"},
		{"from tools", "from tools import fs\nprint(fs.read('a'))", "read of a\n"},
		{"getattr", "from tools import fs\nprint(getattr(fs, 'wri' + 'te')('a'))", "write of a\n"},
		{"in a function", "def f():\n    from tools.fs import read\n    return read('z')\nprint(f())", "read of z\n"},
		{"after a colon", "if 1: from tools.fs import read; y = 3\nprint(read('a'), y)", "read of a 3\n"},
		{"tool error", "from kernel import ToolError\nfrom tools.fs import read\ntry:\n    read('bad')\nexcept ToolError as e:\n    print(e)", "tool_error: no such file\n"},
		{"awaitable", "import asyncio\nfrom tools.fs.aio import read\nasync def main():\n    print(await asyncio.gather(read('a'), read('b')))\nasyncio.run(main())", "['read of a', 'read of b']\n"},
		{"awaitable module", "import asyncio\nimport tools.fs.aio as fsa\nasync def main():\n    a = fsa.read('a')\n    print(await a)\nasyncio.run(main())", "read of a\n"},
		{"aio attribute", "import asyncio, tools.fs\nasync def main():\n    print(await tools.fs.aio.read('a'))\nasyncio.run(main())", "read of a\n"},
		{"awaited error", "import asyncio\nfrom tools.fs.aio import read\nasync def main():\n    try:\n        await read('bad')\n    except RuntimeError as e:\n        print('caught', e)\nasyncio.run(main())", "caught tool_error: no such file\n"},
		{"kernel", "from kernel import state, now, self as me\nprint(state.get('k'), now(), me())", "k 3.5 None\n"},
		{"kernel module", "import kernel as k\nprint(k.state.get('k'), k.now())", "k 3.5\n"},
		{"kernel aio", "from kernel.aio import sleep\nimport asyncio\nasync def m():\n    return await sleep(1)\nprint(asyncio.run(m()))", "None\n"},
		{"local tool", "from tools.report import monthly\nprint(monthly('m'))\nprint(monthly('n'))", "['read of m', 21]\n['read of n', 22]\n"},
		{"local module", "import tools.report\nprint(tools.report.monthly('m'))", "['read of m', 21]\n"},
		{"local awaitable", "from tools.report.aio import monthly\nprint(await monthly('m'))", "['read of m', 21]\n"},
		{"skill", "from skills.shapes import area, Shape\nprint(area(3), Shape(4).n)", "31 4\n"},
		{"skill module", "from skills import shapes\nprint(shapes.area(3))", "31\n"},
		{"time", "import time\nprint(time.time())\ntime.sleep(1)", "3.5\n"},
		{"star", "from math import *\nprint(sqrt(4), pi > 3)", "2.0 True\n"},
		{"type checking", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import pandas as pd\nprint(1)", "1\n"},
		{"guarded", "try:\n    import numpy\nexcept ImportError:\n    numpy = None\nprint(numpy)", "None\n"},
		{"crlf", "from tools.fs import (read,\r\n  write)\r\nif 1:\r\n    print(read('a'))\r\n", "read of a\n"},
		{"help", "from tools.fs import read\nhelp(read)", "read(path: str) -> str\n\nDoes read.\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := program(c.src)
			p.Modules = modules
			if got := run(t, b, p, tools, toolAnswer).text(); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestTracebackLines(t *testing.T) {
	b := engine(t)
	tools := []agentkernel.Tool{tool("fs", "read"), tool("fs", "write")}
	p := program("from tools.fs import (\n    read,\n    write,\n)\nfrom tools.report import monthly\nimport random, time\n\ndef f():\n    return monthly(0)\n\nf()\n")
	p.Modules = map[string]string{"tools.report.monthly": "# a\nT = '''\nx\n'''\ndef monthly(n):\n    # c\n    return 1 / n\n"}
	o := run(t, b, p, tools, toolAnswer)
	if o.turn.Err == nil {
		t.Fatalf("it should have raised: %+v", o)
	}
	for _, want := range []string{`File "main.py", line 11, in <module>`, `File "main.py", line 9, in f`,
		`File "tools/report/monthly.py", line 7, in monthly`, "ZeroDivisionError"} {
		if !strings.Contains(o.turn.Err.Traceback, want) {
			t.Errorf("%q is not in\n%s", want, o.turn.Err.Traceback)
		}
	}
}

func TestExit(t *testing.T) {
	b := engine(t)
	for _, c := range []struct{ src, want string }{
		{"import sys\nsys.exit(3)", `proc.exit {"code":3}`},
		{"from sys import exit as leave\nleave('bye')", `proc.exit {"code":"bye"}`},
		{"exit(4)", `proc.exit {"code":4}`},
		{"quit()", `proc.exit {}`},
		{"raise SystemExit(5)", `proc.exit {"code":5}`},
		{"def f():\n    raise SystemExit\nf()", `proc.exit {}`},
		{"try:\n    1/0\nexcept Exception as e:\n    raise SystemExit(6) from e", `proc.exit {"code":6}`},
	} {
		o := run(t, b, program(c.src), nil, nil)
		if len(o.calls) != 1 || o.calls[0] != c.want {
			t.Errorf("%q: calls %v, %s; want %s", c.src, o.calls, o.text(), c.want)
		}
	}
}

func TestStderr(t *testing.T) {
	b := engine(t)
	o := run(t, b, program("import sys\nprint('a')\nprint('b', 1, file=sys.stderr)\nsys.stderr.write('c')\nprint(sys.argv, file=sys.stdout)\n"), nil, nil)
	if o.stdout != "a\n['main.py']\n" || o.stderr != "b 1\nc" {
		t.Errorf("stdout %q, stderr %q, %s", o.stdout, o.stderr, o.text())
	}
	p := program("from sys import argv\nimport warnings\nwarnings.warn('old')\nprint(argv[1:])")
	p.Args = []string{"it's", "a\\b\n"}
	if o := run(t, b, p, nil, nil); o.stdout != "[\"it's\", 'a\\\\b\\n']\n" || o.stderr != "UserWarning: old\n" {
		t.Errorf("stdout %q, stderr %q, %s", o.stdout, o.stderr, o.text())
	}
}

// TestMessagesShowNoHiddenNames: what the front end adds must not be seen in errors.
func TestMessagesShowNoHiddenNames(t *testing.T) {
	b := engine(t)
	p := program("import random\nrandom.randint(1)")
	o := run(t, b, p, nil, toolAnswer)
	if o.turn.Err == nil || o.turn.Err.Message() != "TypeError: randint() missing 1 required positional argument: 'b'" {
		t.Errorf("got %+v", o.turn.Err)
	}
	p = program("from skills.a import f\nf()")
	p.Modules = map[string]string{"skills.a": "x = 1\ndef f(): pass\ny = x / 0\n"}
	o = run(t, b, p, nil, toolAnswer)
	want := "Traceback (most recent call last):\n  File \"main.py\""
	if o.turn.Err == nil || strings.Contains(o.turn.Err.Traceback, "_k_") || strings.Contains(o.turn.Err.Traceback, "_ak_") ||
		!strings.Contains(o.turn.Err.Traceback, `File "skills/a.py", line 3, in <module>`) {
		t.Errorf("got %+v, want %s", o.turn.Err, want)
	}
	p = program("x = csv = 3\nimport csv\nprint(list(csv.reader(['a'], delimiter='ab')))")
	if o := run(t, b, p, nil, nil); o.turn.Err == nil || o.turn.Err.Message() != `TypeError: "delimiter" must be a 1-character string` {
		t.Errorf("got %s", o.text())
	}
}

func TestHiddenNamesAvoidTheProgram(t *testing.T) {
	b := engine(t)
	p := program("_k_0 = 5\nfrom tools.fs import read\nprint(_k_0, read('a'))")
	if got := run(t, b, p, []agentkernel.Tool{tool("fs", "read")}, toolAnswer).text(); got != "5 read of a\n" {
		t.Error(got)
	}
}

func TestUnknownTools(t *testing.T) {
	b := engine(t)
	tools := []agentkernel.Tool{tool("fs", "read_file"), tool("fs", "write_file")}
	for _, c := range []struct{ src, want, hint string }{
		{"\nfrom tools.fs import red_file", `line 2: server "fs" has no tool "red_file"`, "did you mean read_file?"},
		{"import tools.fs\ntools.fs.write_fil('a')", `line 2: server "fs" has no tool "write_fil"`, "did you mean write_file?"},
		{"from tools.sf import read_file", `line 1: there is no tool server "sf"`, "did you mean fs?"},
	} {
		o := run(t, b, program(c.src), tools, nil)
		e, ok := o.err.(*agentkernel.Error)
		if !ok || e.Code != agentkernel.CodeNotFound || e.Message() != c.want || e.Hint != c.hint {
			t.Errorf("%q: got %v", c.src, o.err)
		}
	}
}
