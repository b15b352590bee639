package frontend_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentkernel"
	"agentkernel/internal/sandbox/monty/frontend"
)

const elsewhere = " on the monty backend; the process backend (CPython) has it"

const perhapsElsewhere = " on the monty backend; the process backend (CPython) may have it"

func TestCheckRefuses(t *testing.T) {
	for _, c := range []struct {
		name, src string
		code      agentkernel.Code
		want      string // the message
		hint      string // part of the hint
	}{
		{"third-party module", "x = 1\n\nimport numpy as np\n", agentkernel.CodeUnsupported,
			"line 3: module 'numpy' is not available" + perhapsElsewhere, ""},
		{"misspelt module", "import jsno\n", agentkernel.CodeUnsupported, "line 1: module 'jsno' is not available" + perhapsElsewhere, "json"},
		{"module with advice", "def f():\n    import requests\n", agentkernel.CodeUnsupported,
			"line 2: module 'requests' is not available" + perhapsElsewhere, "use a tool, or http.fetch (from kernel import http)"},
		{"several", "import numpy\nimport json, pandas\nx = yield_\nimport numpy\n", agentkernel.CodeUnsupported,
			"line 1: module 'numpy' is not available" + perhapsElsewhere + "; line 2: module 'pandas' is not available" + perhapsElsewhere, ""},
		{"missing name", "from functools import reduce, total_ordering\n", agentkernel.CodeUnsupported,
			"line 1: 'total_ordering' of module 'functools' is not available" + elsewhere, ""},
		{"missing attribute of a module", "import os\n\nos.walk('.')\n", agentkernel.CodeUnsupported,
			"line 3: 'walk' of module 'os' is not available" + elsewhere, ""},
		{"misspelt attribute", "import json\njson.dump_s(1)\n", agentkernel.CodeUnsupported,
			"line 2: 'dump_s' of module 'json' is not available" + elsewhere, "dumps"},
		{"decimal", "from decimal import Decimal", agentkernel.CodeUnsupported, "line 1: module 'decimal' is not available" + elsewhere, ""},
		{"relative import", "from . import x", agentkernel.CodeUnsupported,
			"line 1: relative imports are not available: a program is one file, and its modules are tools.* and skills.*", ""},
		{"star of a server", "from tools.fs import *", agentkernel.CodeUnsupported,
			"line 1: \"from tools.fs import *\" is not available: import the tools that you use", ""},
		{"star of kernel", "from kernel import *", agentkernel.CodeUnsupported,
			"line 1: \"from kernel import *\" is not available: import the names that you use", ""},
		{"unknown kernel name", "\nfrom kernel import stat, sleep", agentkernel.CodeNotFound, `line 2: kernel has no "stat"`, "did you mean state"},
		{"unknown kernel attribute", "import kernel\nkernel.slep(1)", agentkernel.CodeNotFound, `line 2: kernel has no "slep"`, "sleep"},
		{"unknown state method", "from kernel import state\nstate.put('a', 1)", agentkernel.CodeNotFound, `line 2: kernel.state has no "put"`, ""},
		{"deeper kernel module", "import kernel.state", agentkernel.CodeNotFound, `line 1: there is no module "kernel.state"`, "from kernel import state"},
		{"deeper tool module", "from tools.fs.read import x", agentkernel.CodeNotFound, `line 1: there is no module "tools.fs.read"`, "from tools.fs import read"},
		{"half of a pair", "x = 1\ny = 'a\\ud800'", agentkernel.CodeUnsupported, "line 2: halves of surrogate pairs are not available" + elsewhere, ""},
		{"half of a pair in an f-string", "x = f'{1}\\udfff'", agentkernel.CodeUnsupported, "line 1: halves of surrogate pairs are not available" + elsewhere, ""},
		{"two halves", "x = '\\U0000d83d\\ude00'", agentkernel.CodeUnsupported, "line 1: halves of surrogate pairs are not available" + elsewhere, ""},
		{"yield", "def f():\n    yield 1", agentkernel.CodeUnsupported, "line 2: generators ('yield') are not available" + elsewhere, ""},
		{"loop over a stream", "from kernel import llm\nfor x in llm.stream('a'): pass", agentkernel.CodeUnsupported,
			"line 2: a loop over llm.stream is not available ('while pieces := stream.next():' is)" + elsewhere, ""},
		{"comprehension over a stream", "import kernel\nx = [y for y in kernel.llm.stream('a')]", agentkernel.CodeUnsupported,
			"line 2: a loop over llm.stream is not available ('while pieces := stream.next():' is)" + elsewhere, ""},
		{"match", "match x:\n    case 1:\n        pass", agentkernel.CodeUnsupported, "line 1: match statements are not available" + elsewhere, ""},
		{"inheritance", "class E(Exception):\n    pass", agentkernel.CodeUnsupported, "line 1: inheritance (class E(Exception)) is not available" + elsewhere, ""},
		{"typed dict that is called", "from typing import TypedDict\nclass A(TypedDict):\n    x: int\nA(x=1)", agentkernel.CodeUnsupported,
			"line 2: inheritance (class A(TypedDict)) is not available" + elsewhere, ""},
		{"enum of text", "from enum import Enum\nclass A(str, Enum):\n    x = 'a'", agentkernel.CodeUnsupported,
			"line 2: inheritance (class A(str, Enum)) is not available" + elsewhere, ""},
		{"enum with init", "from enum import Enum\nclass A(Enum):\n    x = 1\n    def __init__(self, v): pass", agentkernel.CodeUnsupported,
			"line 2: inheritance (class A(Enum)) is not available" + elsewhere, ""},
		{"enum of numbers", "from enum import IntEnum", agentkernel.CodeUnsupported, "line 1: 'IntEnum' of module 'enum' is not available" + elsewhere, ""},
		{"named tuple with method", "from typing import NamedTuple\nclass A(NamedTuple):\n    x: int\n    def f(self): pass", agentkernel.CodeUnsupported,
			"line 2: inheritance (class A(NamedTuple)) is not available" + elsewhere, ""},
		{"property", "class A:\n    @property\n    def x(self):\n        return 1", agentkernel.CodeUnsupported,
			"line 2: decorators on methods (@property) are not available" + elsewhere, ""},
		{"special method", "class A:\n    def __len__(self):\n        return 1", agentkernel.CodeUnsupported,
			"line 2: the special method __len__ is not available" + elsewhere, ""},
		{"class body", "class A:\n    for x in y: pass", agentkernel.CodeUnsupported, "line 2: 'for' in a class body is not available" + elsewhere, ""},
		{"class tuple", "class A:\n    x, y = 1, 2", agentkernel.CodeUnsupported,
			"line 2: a class body that holds more than methods and simple variables is not available" + elsewhere, ""},
		{"del attribute", "del a.b", agentkernel.CodeUnsupported, "line 1: this form of 'del' is not available" + elsewhere, ""},
		{"async with", "async def f():\n    async with x: pass", agentkernel.CodeUnsupported, "line 2: 'async with' is not available" + elsewhere, ""},
		{"async for", "async def f():\n    async for x in y: pass", agentkernel.CodeUnsupported, "line 2: 'async for' is not available" + elsewhere, ""},
		{"async comprehension", "async def f():\n    return [x async for x in y]", agentkernel.CodeUnsupported,
			"line 2: asynchronous comprehensions are not available" + elsewhere, ""},
		{"except star", "try:\n    f()\nexcept* ValueError:\n    pass", agentkernel.CodeUnsupported, "line 3: except* is not available" + elsewhere, ""},
		{"type alias", "type T = int", agentkernel.CodeUnsupported, "line 1: type aliases are not available" + elsewhere, ""},
		{"complex number", "x = 2j", agentkernel.CodeUnsupported, "line 1: complex numbers are not available" + elsewhere, ""},
		{"percent chain", "x = '%s' % a % b", agentkernel.CodeUnsupported, "line 1: this use of % formatting is not available" + elsewhere, ""},
		{"loop over item", "for a[0] in b: pass", agentkernel.CodeUnsupported, "line 1: a loop variable that is not a plain name is not available" + elsewhere, ""},
		{"nested unpacking", "(a.b, c), d = x", agentkernel.CodeUnsupported,
			"line 1: unpacking into attributes or items is not available in this form" + elsewhere, ""},
		{"input", "name = input('?')", agentkernel.CodeUnsupported, "line 1: 'input' is not available" + elsewhere, "sys.argv"},
		{"eval", "print(eval('1'))", agentkernel.CodeUnsupported, "line 1: 'eval' is not available" + elsewhere, ""},
		{"raising what is missing", "raise ConnectionError('x')", agentkernel.CodeUnsupported,
			"line 1: exception 'ConnectionError' is not available" + elsewhere, ""},
		{"missing method", "x = 'a'.translate(t)", agentkernel.CodeUnsupported, "line 1: '.translate' is not available" + elsewhere, ""},
		{"create_task", "import asyncio\nasyncio.create_task(x)", agentkernel.CodeUnsupported,
			"line 2: 'create_task' of module 'asyncio' is not available" + elsewhere, ""},
		{"unterminated string", "x = 1\ny = 'abc\n", agentkernel.CodeSyntax, "line 2: unterminated string literal", ""},
		{"unclosed bracket", "x = (1,\n", agentkernel.CodeSyntax, "line 1: '(' was never closed", ""},
		{"wrong bracket", "x = (1]\n", agentkernel.CodeSyntax, "line 1: closing parenthesis ']' does not match opening parenthesis '('", ""},
		{"null byte", "x = 1\n\x00", agentkernel.CodeSyntax, "line 2: source code cannot contain null bytes", ""},
		{"not UTF-8", "x = 1\ny = '\xff'\n", agentkernel.CodeSyntax, "line 2: the source is not UTF-8: byte 0xff at offset 11", "UTF-8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := frontend.Check(program(c.src))
			e, ok := err.(*agentkernel.Error)
			if !ok {
				t.Fatalf("accepted, want %s: %s", c.code, c.want)
			}
			if e.Code != c.code || e.Message() != c.want || !strings.Contains(e.Hint, c.hint) {
				t.Errorf("got  %s: %s (%s)\nwant %s: %s (%s)", e.Code, e.Message(), e.Hint, c.code, c.want, c.hint)
			}
		})
	}
}

func TestCheckAccepts(t *testing.T) {
	for _, src := range []string{
		"", "# only a comment", "\ufeffprint(1)\r\n", "x = 5 % 3",
		"match = 1\ncase = match\nprint(match[0] if 0 else case)",
		"def eval(x):\n    return x\nprint(eval(1))",
		"input = 3\nprint(input)",
		"def f(vars, dir=None):\n    return vars\nf(vars=1)",
		"try:\n    import numpy as np\nexcept ImportError:\n    np = None",
		"try:\n    import ujson as json\nexcept Exception:\n    import json",
		"from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pandas import DataFrame\ndef f(d: 'DataFrame'): pass",
		"import typing\nif typing.TYPE_CHECKING:\n    import numpy",
		"class A(object):\n    x: int = 3\n    'doc'\n    def f(self): pass\n    async def g(self): pass\n    ...",
		"from typing import TypedDict\nclass A(TypedDict, total=False):\n    x: int\na: A = {'x': 1}",
		"print('%s' % 1, '%d %s' % (1, 2))", "x = {'yield': 1, 'match': 2}", "x = 'yield'\n# yield\nf'{x}yield'",
		"type = 3\nprint(type)", "try:\n    f()\nexcept (ConnectionError, OSError):\n    pass",
		"obj.format(1)", "x.translate = 3\ndef translate(): pass\ny.translate()",
		"del x, y[0], z[1:2]", "for i, (a, b) in x: pass", "for k in d['a']: pass", "for k in a.b: pass",
		"lambda eval: eval", "[dir for dir in x]", "with open('f') as vars: print(vars)", "a, b = b, a", "a.b = c[0] = 1",
		"x[1], y = f()", "print(x, file=sys.stderr) if 0 else 1", "import os\nprint(os.path.join('a', 'b'), os.environ)",
		"from tools.fs import read\nfrom kernel import ToolError, state, now\nfrom kernel.aio import sleep",
		"async def f():\n    await g()\n    return [await h() for h in x]", "x = 1if y else 2", "0x1fj if 0 else 1",
		"@decorate\nclass A: pass", "def f(a, /, *, b): pass", "from math import *", "print(f'{x!r:>{w}} {y=}')",
	} {
		if _, err := frontend.Check(program(src)); err != nil {
			t.Errorf("%q is refused: %v", src, err)
		}
	}
}

func TestCheckSyntaxShowsCaret(t *testing.T) {
	_, err := frontend.Check(program("if x:\n    print('é', \"abc)\n"))
	e, ok := err.(*agentkernel.Error)
	if !ok {
		t.Fatal("accepted")
	}
	want := "  File \"main.py\", line 2\n    print('é', \"abc)\n               ^\nSyntaxError: unterminated string literal"
	if e.Traceback != want || e.Exception != "SyntaxError" {
		t.Errorf("got\n%s\nwant\n%s", e.Traceback, want)
	}
}

func TestNeeds(t *testing.T) {
	p := program(`from tools.fs import read, write as w
from tools.gh import search
import tools.db
import tools.mail as m
from tools import web
from tools.fs.aio import read as aread
from tools.report import monthly
from skills.shapes import area
from skills.other import f
import skills.third
def g():
    tools.db.query(1)
    send = m
    web.fetch(2)
    web.aio.fetch(3)
    from tools.late import x
`)
	p.Modules = map[string]string{"tools.report.monthly": "from tools.fs import stat\ndef monthly(): pass\n", "skills.shapes": "def area(): pass"}
	needs, err := frontend.Check(p)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range needs.Tools {
		got = append(got, fmt.Sprintf("%s.%s:%d", r.Server, r.Name, r.Line))
	}
	want := []string{"fs.read:1", "fs.write:1", "gh.search:2", "mail.*:4", "late.x:16", "db.query:12", "web.fetch:14", "fs.stat:1"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"other", "third"}, needs.Skills); d != "" {
		t.Error(d)
	}
}

func TestModulesAreChecked(t *testing.T) {
	p := program("from tools.report import monthly\n")
	for _, c := range []struct {
		modules map[string]string
		code    agentkernel.Code
		want    string
	}{
		{map[string]string{"tools.report.monthly": "x = 1\nimport numpy\ndef monthly(): pass"}, agentkernel.CodeUnsupported,
			"tools/report/monthly.py, line 2: module 'numpy' is not available" + perhapsElsewhere},
		{map[string]string{"tools.report.monthly": "def month(): pass"}, agentkernel.CodeInvalid,
			"line 1: tools/report/monthly.py does not define monthly"},
		{map[string]string{"tools.report.monthly": "from skills.a import f\ndef monthly(): pass",
			"skills.a": "import skills.b\ndef f(): pass", "skills.b": "from skills.a import f"}, agentkernel.CodeInvalid,
			"skills/b.py, line 1: modules import one another in a circle: skills.a -> skills.b -> skills.a"},
		{map[string]string{"tools.report.monthly": "def monthly():\n  return (1"}, agentkernel.CodeSyntax,
			"tools/report/monthly.py, line 2: '(' was never closed"},
		{map[string]string{"tools.report.monthly": "from skills.a import area\ndef monthly(): pass", "skills.a": "def areas(): pass"},
			agentkernel.CodeNotFound, "tools/report/monthly.py, line 1: skills/a.py does not define area"},
	} {
		p.Modules = c.modules
		_, err := frontend.Check(p)
		if e, ok := err.(*agentkernel.Error); !ok || e.Code != c.code || e.Message() != c.want {
			t.Errorf("got %v, want %s: %s", err, c.code, c.want)
		}
	}
}

func TestMisspeltLocalTools(t *testing.T) {
	for source, hint := range map[string]string{
		"from tools.report.monthl import table":  "did you mean monthly?",
		"from tools.repor.monthly import table":  "did you mean report?",
		"import tools.fs.read":                   "write: from tools.fs import read",
		"import tools.report.quite_another_word": "write: from tools.report import quite_another_word",
	} {
		p := program(source)
		p.Modules = map[string]string{"tools.report.monthly": "def monthly(): pass"}
		_, err := frontend.Check(p)
		if e := agentkernel.AsError(err, "", ""); e == nil || e.Code != agentkernel.CodeNotFound || e.Hint != hint {
			t.Errorf("%s: %v, want the hint %q", source, err, hint)
		}
	}
}
