package sandboxtest

import (
	"encoding/json"
	"strings"
	"time"

	"agentkernel"
)

// tools are what the cases may import.
var tools = []agentkernel.Tool{
	{Server: "my-files", Name: "read-text", PythonServer: "my_files", PythonName: "read_text",
		Signature: "read_text(path: str, head: int | None = None, filter_: str = 'x') -> str", Doc: "Reads a file.",
		Params: []agentkernel.ToolParam{
			{Name: "path", Python: "path", Type: "str", Required: true},
			{Name: "head", Python: "head", Type: "int | None", Default: "None"},
			{Name: "$filter", Python: "filter_", Type: "str", Default: "'x'"},
		}},
	{Server: "my-files", Name: "write", PythonServer: "my_files", PythonName: "write", Signature: "write(path: str)",
		Params: []agentkernel.ToolParam{{Name: "path", Python: "path", Type: "str", Required: true}}},
	{Server: "my-files", Name: "__class__", PythonServer: "my_files", PythonName: "_class__", Signature: "_class__()"},
	{Server: "my-files", Name: "_finder", PythonServer: "my_files", PythonName: "_finder", Signature: "_finder()"},
}

func failing(code agentkernel.Code, text string) func(agentkernel.Call) agentkernel.Reply {
	return func(agentkernel.Call) agentkernel.Reply {
		return agentkernel.Reply{Err: agentkernel.Errorf(code, "x", "%s", text).WithHint("do y")}
	}
}

// letters gives those of a handle as the next items of its stream.
func letters(c agentkernel.Call) agentkernel.Reply {
	var a struct{ Handle string }
	if err := json.Unmarshal(c.Args, &a); err != nil {
		return agentkernel.Reply{Err: agentkernel.Errorf(agentkernel.CodeInvalid, c.Op, "%w", err)}
	}
	if c.Op == "stream.close" {
		return agentkernel.Reply{Result: json.RawMessage(`false`)}
	}
	items, err := json.Marshal(strings.Split(a.Handle, ""))
	if err != nil {
		return agentkernel.Reply{Err: agentkernel.Errorf(agentkernel.CodeInvalid, c.Op, "%w", err)}
	}
	return agentkernel.Reply{Result: items}
}

var outputCases = []Case{
	{Name: "print", Source: "print('a', 1, [2.5, None], sep='-', end='!\\n')\nprint()\nprint('ä€\U0001F600')", Output: "a-1-[2.5, None]!\n\nä€\U0001F600\n"},
	{Name: "stderr", Source: "import sys\nprint('out')\nprint('err', file=sys.stderr)\nsys.stderr.write('x\\n')\nsys.stdout.write('y\\n')",
		Output: "out\n[stderr]err\n[stderr]x\ny\n"},
	{Name: "without newline", Source: "print('a', end='')\nfrom kernel import state\nstate.get('k')\nprint('b', end='')", Output: "ab"},
	{Name: "nothing", Source: "", Output: "", Result: "null"},
	{Name: "much", Source: "for i in range(2000):\n    print('line', i)\n''", Output: "*", Result: `""`},
}

var errorCases = []Case{
	{Name: "uncaught", Source: "def f(x):\n    return 1 / x\n\nprint('start')\nf(0)\n", Output: "start\n",
		Code: agentkernel.CodeProgram, Message: "ZeroDivisionError: division by zero",
		Traceback: []string{"Traceback (most recent call last):\n  File \"report.py\", line 5, in <module>\n    f(0)\n",
			"  File \"report.py\", line 2, in f\n    return 1 / x\n", "ZeroDivisionError: division by zero\n"}},
	{Name: "text", Source: "raise ValueError('ä')", Code: agentkernel.CodeProgram, Message: "ValueError: ä"},
	{Name: "in a module", Source: "from tools.report import monthly\nmonthly(0)", Modules: map[string]string{
		"tools.report.monthly": "def monthly(n):\n    return 1 / n\n"}, Code: agentkernel.CodeProgram, Message: "ZeroDivisionError",
		Traceback: []string{"File \"report.py\", line 2, in <module>", "File \"tools/report/monthly.py\", line 2, in monthly"}},
	{Name: "caught", Source: "try:\n    [][1]\nexcept IndexError as e:\n    print('caught', e)\nfinally:\n    print('finally')", Output: "caught list index out of range\nfinally\n"},
	{Name: "of a call", Source: "import kernel\nkernel.self()", Answer: failing(agentkernel.CodeTool, "no"), Code: agentkernel.CodeProgram,
		Message: "tool_error: no (do y)", Traceback: []string{"File \"report.py\", line 2, in <module>\n    kernel.self()\n"}},
	{Name: "of a call, caught", Source: "import kernel\ntry:\n    kernel.self()\nexcept RuntimeError as e:\n    print(e)", Answer: failing(agentkernel.CodeTool, "no"),
		Output: "tool_error: no (do y)\n"},
	{Name: "denied", Source: "import kernel\ntry:\n    kernel.self()\nexcept PermissionError as e:\n    print(e)", Answer: failing(agentkernel.CodeDenied, "no"),
		Output: "permission_denied: no (do y)\n"},
	{Name: "limit", Source: "from kernel import LimitError, self\ntry:\n    self()\nexcept LimitError as e:\n    print(isinstance(e, MemoryError), e)",
		Answer: failing(agentkernel.CodeLimit, "no"), Output: "True limit_exceeded: no (do y)\n"},
	{Name: "unknown outcome", Source: "from kernel import OutcomeUnknown, self\ntry:\n    self()\nexcept OutcomeUnknown as e:\n    print(isinstance(e, OSError), e)",
		Answer: failing(agentkernel.CodeOutcomeUnknown, "no"), Output: "True outcome_unknown: no (do y)\n"},
	{Name: "lost session", Source: "from kernel import SessionLost, self\ntry:\n    self()\nexcept SessionLost as e:\n    print(isinstance(e, OSError), e)",
		Answer: failing(agentkernel.CodeSessionLost, "no"), Output: "True session_lost: no (do y)\n"},
	{Name: "interrupt", Source: "from kernel import KernelInterrupt, self\ntry:\n    self()\nexcept KernelInterrupt as e:\n    print(isinstance(e, KeyboardInterrupt), e)",
		Answer: failing(agentkernel.CodeInterrupted, "no"), Output: "True interrupted: no (do y)\n"},
	{Name: "timeout", Source: "import kernel\ntry:\n    kernel.self()\nexcept TimeoutError as e:\n    print(e)", Answer: failing(agentkernel.CodeTimeout, "no"),
		Output: "timeout: no (do y)\n"},
}

var languageCases = []Case{
	{Name: "last expression", Source: "x = [1, 2]\nsum(x) + 0.5", Result: "3.5"},
	{Name: "no last expression", Source: "x = 1", Result: "null"},
	{Name: "top-level await", Source: "import asyncio\nasync def f():\n    return 5\nawait f()", Result: "5"},
	{Name: "arguments", Source: "import sys\nprint(sys.argv)", Args: []string{"a", "--b", "ü"}, Output: "['report.py', 'a', '--b', 'ü']\n"},
	{Name: "modules", Source: "from skills.dates import quarter\nfrom tools.report import monthly\nprint(quarter(5), monthly(12))", Modules: map[string]string{
		"skills.dates": "def quarter(m):\n    return (m + 2) // 3\n", "tools.report.monthly": "from skills.dates import quarter\ndef monthly(m):\n    return [quarter(m), __name__]\n"},
		Output: "2 [4, 'tools.report.monthly']\n"},
	{Name: "json", Source: "import json\nprint(json.dumps({'a': [1, None, 'ü']}), json.loads('{\"b\": 1.0}'))", Output: "{\"a\": [1, null, \"\\u00fc\"]} {'b': 1.0}\n"},
	{Name: "generators", Needs: []Feature{Generators}, Source: "def g():\n    yield 1\n    yield 2\nprint(list(g()))", Output: "[1, 2]\n"},
	{Name: "subclasses", Needs: []Feature{Subclasses}, Source: "class E(Exception):\n    pass\ntry:\n    raise E('x')\nexcept E as e:\n    print(repr(e))", Output: "E('x')\n"},
	{Name: "match", Needs: []Feature{Match}, Source: "match [1, 2]:\n    case [a, b]:\n        print(a + b)", Output: "3\n"},
	{Name: "threads", Needs: []Feature{Threads}, Source: "import threading\nt = threading.Thread(target=print, args=('in a thread',))\nt.start()\nt.join()", Output: "in a thread\n"},
	{Name: "files", Needs: []Feature{Files}, Without: "permission_denied", Source: "with open('/tmp/x', 'w') as f:\n    f.write('text')\nprint(open('/tmp/x').read())", Output: "text\n"},
	{Name: "child processes", Needs: []Feature{Programs}, Source: "import subprocess\nprint(subprocess.run(['echo', 'x'], capture_output=True, text=True).stdout)", Output: "x\n\n"},
	{Name: "own errors", Needs: []Feature{OwnErrors, Subclasses}, Source: "from kernel import ToolError\nclass Mine(ToolError):\n    pass\nprint(ToolError.__name__)", Output: "ToolError\n"},
}

var syscallCases = []Case{
	{Name: "state", Source: "from kernel import state\nstate.set('k', {'b': (1,), 'a': 2**70})\nprint(state.get('k'), state.get('j', 2), state.get(default=None, key='l'))",
		Calls: []string{`state.set {"key":"k","value":{"a":1180591620717411303424,"b":{"$tuple":[1]}}}`, `state.get {"key":"k"}`,
			`state.get {"default":2,"key":"j"}`, `state.get {"default":null,"key":"l"}`}, Output: "k j l\n"},
	{Name: "sleep", Source: "import time, kernel\ntime.sleep(1)\nkernel.sleep(0.5)", Calls: []string{`time.sleep {"seconds":1}`, `time.sleep {"seconds":0.5}`}},
	{Name: "time", Source: "import time\nprint(time.time())", Calls: []string{"time.now {}"}, Output: "1795226400.25\n"},
	{Name: "dates", Source: "from datetime import date, datetime, timezone\nprint(datetime.now(timezone.utc), datetime.now(), date.today())", Calls: []string{"time.now {}", "time.now {}", "time.now {}"},
		Output: "2026-11-21 02:00:00.250000+00:00 2026-11-21 02:00:00.500000 2026-11-21\n"},
	{Name: "chance", Source: "import random\nrandom.seed(42)\nprint(random.random(), random.randint(1, 6))\nimport uuid\nprint(uuid.uuid4())",
		Calls: []string{`rand.bytes {"n":16}`}, Output: "0.6394267984578837 1\n62626262-6262-4262-a262-626262626262\n"},
	{Name: "unseeded", Source: "import random\nprint(random.random())", Calls: []string{`rand.bytes {"n":32}`}, Output: "*"},
	{Name: "log", Source: "from kernel import log\nlog('x')\nlog([1], level='error')", Calls: []string{`log.write {"message":"x"}`, `log.write {"level":"error","message":[1]}`}},
	{Name: "spawn", Source: "from kernel import spawn, wait\nspawn('print(1)', args=['a'])\nwait(3, timeout=1.5)",
		Calls: []string{`proc.spawn {"args":["a"],"source":"print(1)"}`, `proc.wait {"pid":3,"timeout":1.5}`}},
	{Name: "stream", Source: "from kernel import stream\nh = 'ab'\nwhile items := stream.next(h):\n    for item in items:\n        print(item)\n    h = h[1:]\nprint(stream.close(h))",
		Answer: letters, Calls: []string{`stream.next {"handle":"ab"}`, `stream.next {"handle":"b"}`, `stream.next {"handle":""}`, `stream.close {"handle":""}`}, Output: "a\nb\nb\nFalse\n"},
	{Name: "async stream", Source: "import asyncio\nfrom kernel.aio import stream\nasync def read(h):\n    while items := await stream.next(h):\n        print(*items)\n        h = h[1:]\nawait read('b')",
		Answer: letters, Calls: []string{`async stream.next {"handle":"b"}`, `async stream.next {"handle":""}`}, Output: "b\n"},
	{Name: "missing argument", Source: "from kernel import state\ntry:\n    state.get()\nexcept TypeError as e:\n    print(e)", Calls: []string{},
		Output: "invalid_argument: get() missing 1 required argument: 'key' (the signature is: get(key, default=None))\n"},
	{Name: "too many arguments", Source: "from kernel import state\ntry:\n    state.set(1, 2, 3)\nexcept TypeError as e:\n    print(e)",
		Output: "invalid_argument: set() takes 2 positional arguments but 3 were given (the signature is: set(key, value))\n"},
	{Name: "unknown argument", Source: "from kernel import state\ntry:\n    state.get('k', deflt=1)\nexcept TypeError as e:\n    print(e)",
		Output: "invalid_argument: get() got an unexpected keyword argument 'deflt' (the signature is: get(key, default=None))\n"},
}

var toolCases = []Case{
	{Name: "call", Source: "from tools.my_files import read_text as read\nprint(read('/a'), read('/b', 3), read(path='/c', head=None))", Calls: []string{
		`tool.call {"arguments":{"path":"/a"},"server":"my-files","tool":"read-text"}`, `tool.call {"arguments":{"head":3,"path":"/b"},"server":"my-files","tool":"read-text"}`,
		`tool.call {"arguments":{"head":null,"path":"/c"},"server":"my-files","tool":"read-text"}`}, Output: "{'path': '/a'} {'path': '/b', 'head': 3} {'path': '/c', 'head': None}\n"},
	{Name: "names with underscores", Source: "import tools.my_files as f\nfrom tools.my_files import _class__\nprint(_class__(), f._finder(), f.read_text('/a'))", Calls: []string{
		`tool.call {"arguments":{},"server":"my-files","tool":"__class__"}`, `tool.call {"arguments":{},"server":"my-files","tool":"_finder"}`,
		`tool.call {"arguments":{"path":"/a"},"server":"my-files","tool":"read-text"}`}, Output: "{} {} {'path': '/a'}\n"},
	{Name: "odd names", Source: "import tools.my_files as f\nprint(f.read_text('/a', filter_='f'))", Calls: []string{
		`tool.call {"arguments":{"$dict":[["$filter","f"],["path","/a"]]},"server":"my-files","tool":"read-text"}`}, Output: "{'path': '/a', '$filter': 'f'}\n"},
	{Name: "wrong arguments", Source: "from tools.my_files import read_text\ntry:\n    read_text(pth='/a')\nexcept TypeError as e:\n    print(e)", Calls: []string{},
		Output: "invalid_argument: read_text() got an unexpected keyword argument 'pth' (the signature is: read_text(path: str, head: int | None = None, filter_: str = 'x') -> str)\n"},
	{Name: "by name", Source: "from kernel import tool\nprint(tool.call('my-files', 'write', {'path': 'x'}))",
		Calls: []string{`tool.call {"arguments":{"path":"x"},"server":"my-files","tool":"write"}`}, Output: "{'path': 'x'}\n"},
}

var parallelCases = []Case{
	{Name: "gather", Source: "import asyncio\nfrom kernel.aio import state\nasync def one(k):\n    v = await state.get(k)\n    print(k, v)\n    return v\nprint(await asyncio.gather(*[one(k) for k in 'abc']))",
		Calls:  []string{`async state.get {"key":"a"}`, `async state.get {"key":"b"}`, `async state.get {"key":"c"}`},
		Output: "c c\nb b\na a\n['a', 'b', 'c']\n"},
	{Name: "eager", Source: "from kernel.aio import state\nx = state.get('a')\ny = state.get('b')\nprint('issued')\nprint(await y, await x)",
		Calls: []string{`async state.get {"key":"a"}`, `async state.get {"key":"b"}`}, Output: "issued\nb a\n"},
	{Name: "between", Source: "from kernel import state\nfrom kernel.aio import state as later\nx = later.get('a')\nprint(state.get('b'))\nprint(await x)",
		Calls: []string{`async state.get {"key":"a"}`, `state.get {"key":"b"}`}, Output: "b\na\n"},
	{Name: "errors", Source: "import asyncio\nfrom kernel.aio import state\nasync def one(k):\n    try:\n        return await state.get(k)\n    except RuntimeError as e:\n        return str(e)\nprint(await asyncio.gather(one('a'), one('b')))",
		Answer: failing(agentkernel.CodeTool, "no"), Output: "['tool_error: no (do y)', 'tool_error: no (do y)']\n"},
	{Name: "timers", Source: "import asyncio\nasync def f(n):\n    await asyncio.sleep(n)\n    print(n)\nawait asyncio.gather(f(1), f(2), f(0.5))",
		Calls:  []string{`async time.sleep {"seconds":1}`, `async time.sleep {"seconds":2}`, `async time.sleep {"seconds":0.5}`},
		Output: "0.5\n2\n1\n"},
	{Name: "tools", Source: "import asyncio\nfrom tools.my_files.aio import write\nprint(await asyncio.gather(write('a'), write(path='b')))", Calls: []string{
		`async tool.call {"arguments":{"path":"a"},"server":"my-files","tool":"write"}`, `async tool.call {"arguments":{"path":"b"},"server":"my-files","tool":"write"}`},
		Output: "[{'path': 'a'}, {'path': 'b'}]\n"},
	{Name: "a thousand", Source: "import asyncio\nfrom kernel.aio import state\nr = await asyncio.gather(*[state.get(str(i)) for i in range(1000)])\nprint(r == [str(i) for i in range(1000)])", Output: "True\n"},
}

var limitCases = []Case{
	{Name: "time", Source: "while True:\n    pass", Limits: func(l *agentkernel.Limits) { l.Time = agentkernel.Duration(200 * time.Millisecond) },
		Code: agentkernel.CodeLimit, Message: "time limit reached"},
	{Name: "time, ignored", Source: "while True:\n    try:\n        while True:\n            pass\n    except BaseException:\n        pass",
		Limits: func(l *agentkernel.Limits) { l.Time = agentkernel.Duration(200 * time.Millisecond) }, Code: agentkernel.CodeLimit, Message: "time limit reached"},
	{Name: "memory", Source: "x = []\nwhile True:\n    x.append('y' * 100000)", Limits: func(l *agentkernel.Limits) { l.Memory = 32 << 20 },
		Code: agentkernel.CodeLimit, Message: "memory limit reached"},
	{Name: "output", Source: "while True:\n    print('flood')", Limits: func(l *agentkernel.Limits) { l.Output = 600 },
		Code: agentkernel.CodeLimit, Message: "output limit reached", Output: "*"},
	{Name: "recursion", Source: "def f(n):\n    return f(n + 1)\nf(0)", Limits: func(l *agentkernel.Limits) { l.Recursion = 100 },
		Code: agentkernel.CodeLimit, Message: "recursion limit reached", Traceback: []string{"File \"report.py\", line 2, in f"}},
}

var exitCases = []Case{
	{Name: "kernel.exit", Source: "import kernel\nkernel.exit(3)\nprint('never')", Calls: []string{`proc.exit {"code":3}`}},
	{Name: "sys.exit", Source: "import sys\nsys.exit(4)\nprint('never')", Calls: []string{`proc.exit {"code":4}`}},
	{Name: "sys.exit with text", Source: "import sys\nsys.exit('bad')", Calls: []string{`proc.exit {"code":"bad"}`}},
	{Name: "sys.exit in a function", Source: "import sys\ndef f():\n    sys.exit(2)\nf()\nprint('never')", Calls: []string{`proc.exit {"code":2}`}},
}
