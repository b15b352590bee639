package process

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"agentkernel"
)

var readTool = agentkernel.Tool{Server: "my-files", Name: "read-text", PythonServer: "my_files", PythonName: "read_text",
	Signature: "read_text(path: str, head: int | None = None, filter_: str = 'x') -> str", Doc: "Reads a file.",
	Params: []agentkernel.ToolParam{
		{Name: "path", Python: "path", Type: "str", Required: true},
		{Name: "head", Python: "head", Type: "int | None", Default: "None"},
		{Name: "$filter", Python: "filter_", Type: "str", Default: "'x'"},
	}}

// One line of program each: which call it makes, or which error it is given instead.
func TestCalls(t *testing.T) {
	b := sharedBackend(t)
	const imports = "import kernel\nfrom kernel import state, sleep\nfrom tools.my_files import read_text as read\n"
	for _, c := range []struct{ src, call, out string }{
		{"kernel.self()", `proc.self {}`, ""},
		{"state.get('k')", `state.get {"key":"k"}`, ""},
		{"state.get('k', 2)", `state.get {"key":"k","default":2}`, ""},
		{"state.get(default=None, key='k')", `state.get {"key":"k","default":null}`, ""},
		{"state.set('k', {'b': (1,), 'a': 2**70})", `state.set {"key":"k","value":{"b":{"$tuple":[1]},"a":1180591620717411303424}}`, ""},
		{"sleep(0.5)", `time.sleep {"seconds":0.5}`, ""},
		{"read('/a')", `tool.call {"server":"my-files","tool":"read-text","arguments":{"path":"/a"}}`, ""},
		{"read('/a', 3)", `tool.call {"server":"my-files","tool":"read-text","arguments":{"path":"/a","head":3}}`, ""},
		{"read(path='/a', head=None)", `tool.call {"server":"my-files","tool":"read-text","arguments":{"path":"/a","head":null}}`, ""},
		{"read('/a', filter_='f')", `tool.call {"server":"my-files","tool":"read-text","arguments":{"$dict":[["path","/a"],["$filter","f"]]}}`, ""},
		{"read(None)", `tool.call {"server":"my-files","tool":"read-text","arguments":{"path":null}}`, ""},

		{"state.get()", "", "TypeError invalid_argument: get() missing 1 required argument: 'key' (the signature is: get(key, default=None))"},
		{"state.set(1, 2, 3)", "", "TypeError invalid_argument: set() takes 2 positional arguments but 3 were given (the signature is: set(key, value))"},
		{"state.get('k', key='k')", "", "TypeError invalid_argument: get() got multiple values for argument 'key' (the signature is: get(key, default=None))"},
		{"read(pth='/a')", "", "TypeError invalid_argument: read_text() got an unexpected keyword argument 'pth' (the signature is: read_text(path: str, head: int | None = None, filter_: str = 'x') -> str)"},
		{"state.get(2 ** 600000)", "", "ValueError invalid_argument: an int is larger than 65536 bytes"},
		{"state.get('\\ud800')", "", "ValueError invalid_argument: a text holds half of a surrogate pair and is not UTF-8"},
	} {
		r := newRun(t, b, imports+"try:\n    "+c.src+"\nexcept Exception as e:\n    print(type(e).__name__, e, end='')")
		r.req.Tools = []agentkernel.Tool{readTool}
		turn, err := r.finish()
		if err != nil || turn.Kind != agentkernel.TurnExit {
			t.Fatalf("%s: %+v %v", c.src, turn, err)
		}
		if got := strings.Join(r.calls, "; "); got != c.call {
			t.Errorf("%s makes the call\n%s\nwant\n%s", c.src, got, c.call)
		}
		if got := r.out.String(); got != c.out {
			t.Errorf("%s prints\n%s\nwant\n%s", c.src, got, c.out)
		}
		_ = r.box.Close()
	}
}

// What a call is answered with arrives as the exception of the one error table, which is a class of its own here.
func TestErrorReplies(t *testing.T) {
	b := sharedBackend(t)
	for code, want := range map[agentkernel.Code]string{
		agentkernel.CodeTool:           "ToolError RuntimeError",
		agentkernel.CodeDenied:         "PermissionError OSError",
		agentkernel.CodeLimit:          "LimitError MemoryError",
		agentkernel.CodeOutcomeUnknown: "OutcomeUnknown OSError",
		agentkernel.CodeSessionLost:    "SessionLost OSError",
		agentkernel.CodeInterrupted:    "KernelInterrupt KeyboardInterrupt",
		agentkernel.CodeTimeout:        "TimeoutError OSError",
		agentkernel.CodeInvalid:        "TypeError Exception",
		agentkernel.CodeNotFound:       "ToolError RuntimeError",
		agentkernel.CodeInternal:       "ToolError RuntimeError",
	} {
		r := newRun(t, b, "import kernel\ntry:\n    kernel.self()\nexcept BaseException as e:\n    print(type(e).__name__, type(e).__base__.__name__, '/', e, end='')")
		r.answer = func(agentkernel.Call) agentkernel.Reply {
			return agentkernel.Reply{Err: agentkernel.Errorf(code, "x", "no \x00 luck\xff").WithHint("do y")}
		}
		if turn, err := r.finish(); err != nil || turn.Kind != agentkernel.TurnExit {
			t.Fatalf("%s: %+v %v", code, turn, err)
		}
		if got, want := r.out.String(), fmt.Sprintf("%s / %s: no \x00 luck\uFFFD (do y)", want, code); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		_ = r.box.Close()
	}
}

// Async calls are issued when they are called; results are handed over one at a time, in the kernel's order.
func TestAsync(t *testing.T) {
	b := sharedBackend(t)
	const src = `
import asyncio
from kernel.aio import state
from tools.s.aio import fail
async def one(k):
    v = await state.get(k)
    print(k, 'is', v)
    return v
async def main():
    a, b, c = await asyncio.gather(one('a'), one('b'), one('c'))
    try:
        await fail('x')
    except RuntimeError as e:
        print('caught', e)
    return a + b + c
print(asyncio.run(main()))`
	for _, immediate := range []bool{false, true} {
		r := newRun(t, b, src)
		r.req.Tools = []agentkernel.Tool{{Server: "s", Name: "f", PythonServer: "s", PythonName: "fail",
			Signature: "fail(x: str) -> str", Params: []agentkernel.ToolParam{{Name: "x", Python: "x"}}}}
		r.start()
		var reply *agentkernel.Reply
		var flying []agentkernel.Reply
		for n := int64(1); ; {
			turn, err := r.box.Next(t.Context(), reply)
			if err != nil || turn.Kind == agentkernel.TurnFail {
				t.Fatalf("%+v %v\n%s", turn, err, tracebackOf(turn))
			}
			if turn.Kind == agentkernel.TurnExit {
				break
			}
			if turn.Kind == agentkernel.TurnWait { // the last one first
				reply = &flying[len(flying)-1]
				flying = flying[:len(flying)-1]
				continue
			}
			r.calls = append(r.calls, turn.Call.Op+string(turn.Call.Args))
			if !turn.Call.Async {
				t.Fatalf("%s is not async", turn.Call.Op)
			}
			ans := agentkernel.Reply{ID: n, Result: json.RawMessage(fmt.Sprint(n))}
			if turn.Call.Op == "tool.call" {
				ans = agentkernel.Reply{ID: n, Err: agentkernel.Errorf(agentkernel.CodeTool, "s.f", "broken")}
			}
			n++
			if immediate {
				reply = &ans
				continue
			}
			flying = append(flying, ans)
			reply = &agentkernel.Reply{ID: ans.ID, Pending: true}
		}
		want := "c is 3\nb is 2\na is 1\ncaught tool_error: broken\n6\n"
		if immediate {
			want = "a is 1\nb is 2\nc is 3\ncaught tool_error: broken\n6\n"
		}
		if got := r.out.String(); got != want {
			t.Errorf("immediate %v: %q, want %q", immediate, got, want)
		}
		wantCalls := []string{`state.get{"key":"a"}`, `state.get{"key":"b"}`, `state.get{"key":"c"}`, `tool.call{"server":"s","tool":"f","arguments":{"x":"x"}}`}
		if !slices.Equal(r.calls, wantCalls) {
			t.Errorf("calls %q", r.calls)
		}
	}
}

// The value of the last expression is the result.
func TestResults(t *testing.T) {
	b := sharedBackend(t)
	for src, want := range map[string]string{
		"1 + 1":           "2",
		"x = 1":           "null",
		"":                "null",
		"print(1);":       "null",
		"if 1:\n    7":    "null",
		"(1, {2})":        `{"$tuple":[1,{"$set":[2]}]}`,
		"len":             `{"$repr":"<built-in function len>"}`,
		"2 ** 600000":     `{"$repr":"<no result: invalid_argument: an int is larger than 65536 bytes>"}`,
		"await_me = 1\n2": "2",
		"import asyncio\nasync def f(): return 5\nawait f()": "5",
		"import asyncio\nx = await asyncio.sleep(0, 4)\nx":   "4",
	} {
		r := newRun(t, b, src)
		turn, err := r.finish()
		if err != nil || turn.Kind != agentkernel.TurnExit || string(turn.Result) != want {
			t.Errorf("%s: %+v %s %v; want %s", src, turn, turn.Result, err, want)
		}
		_ = r.box.Close()
	}
}

// sys.argv, __main__ and what else a program sees of where it runs.
func TestSurroundings(t *testing.T) {
	b := sharedBackend(t)
	r := newRun(t, b, "")
	r.req.Program.Args = []string{"a", "--b"}
	r.req.Program.Source = `
import os, sys
print(sys.argv, __name__, __file__, sys.modules["__main__"].__dict__ is globals(), sorted(os.environ), input.__name__)
try:
    input()
except EOFError:
    print("no input")
`
	if turn, err := r.finish(); err != nil || turn.Kind != agentkernel.TurnExit {
		t.Fatalf("%+v %v %s", turn, err, tracebackOf(turn))
	}
	const want = "['report.py', 'a', '--b'] __main__ report.py True ['HOME', 'LANG', 'PATH', 'PYTHONHASHSEED', 'TZ'] input\nno input\n"
	if got := r.out.String(); got != want {
		t.Errorf("%q, want\n%q", got, want)
	}
}

// help shows a tool as its server describes it.
func TestHelp(t *testing.T) {
	b := sharedBackend(t)
	r := newRun(t, b, "from tools.my_files import read_text\nhelp(read_text)\nimport kernel\nhelp(kernel.state.get)")
	r.req.Tools = []agentkernel.Tool{readTool}
	if turn, err := r.finish(); err != nil || turn.Kind != agentkernel.TurnExit {
		t.Fatalf("%+v %v %s", turn, err, tracebackOf(turn))
	}
	for _, part := range []string{"read_text(path: str, head: int | None = None, filter_: str = 'x')\n    Reads a file.\n", "get(key: str, default: Any = None)"} {
		if !strings.Contains(r.out.String(), part) {
			t.Errorf("help lacks %q:\n%s", part, r.out.String())
		}
	}
}

// carets are the lines that newer versions of Python draw under more of the source.
var carets = regexp.MustCompile(`(?m)^ *[~^]+\n`)

// How programs end by an exception: code, type and the traceback that CPython prints.
func TestUncaught(t *testing.T) {
	b := sharedBackend(t)
	for _, c := range []struct {
		src, exception, message string
		traceback               []string
		code                    agentkernel.Code
	}{
		{"def f(x):\n    return 1 / x\n\nprint('start')\nf(0)\n", "ZeroDivisionError", "ZeroDivisionError: division by zero",
			[]string{"Traceback (most recent call last):\n  File \"report.py\", line 5, in <module>\n    f(0)\n",
				"  File \"report.py\", line 2, in f\n    return 1 / x\n", "\nZeroDivisionError: division by zero\n"}, agentkernel.CodeProgram},
		{"raise ValueError('ä')", "ValueError", "ValueError: ä",
			[]string{"  File \"report.py\", line 1, in <module>\n    raise ValueError('ä')\nValueError: ä\n"}, agentkernel.CodeProgram},
		{"class E(Exception): pass\nraise E", "E", "E", []string{"line 2", "raise E\nE\n"}, agentkernel.CodeProgram},
		{"import kernel\nkernel.self()", "ToolError", "ToolError: tool_error: no",
			[]string{"Traceback (most recent call last):\n  File \"report.py\", line 2, in <module>\n    kernel.self()\nToolError: tool_error: no\n"}, agentkernel.CodeProgram},
		{"def f(): f()\nf()", "RecursionError", "recursion limit reached: calls were nested deeper than the limit of 1000",
			[]string{"[Previous line repeated", "RecursionError"}, agentkernel.CodeLimit},
		{"import kernel.aio, asyncio\nasync def f():\n    await kernel.aio.self()\nasyncio.run(f())", "ToolError", "ToolError: tool_error: no",
			[]string{"  File \"report.py\", line 3, in f\n    await kernel.aio.self()\nToolError: tool_error: no\n"}, agentkernel.CodeProgram},
		{"try:\n    1/0\nexcept Exception as e:\n    raise KeyError('x') from e", "KeyError", "KeyError: 'x'",
			[]string{"ZeroDivisionError", "direct cause"}, agentkernel.CodeProgram},
		{"raise KeyboardInterrupt", "KeyboardInterrupt", "KeyboardInterrupt", nil, agentkernel.CodeProgram},
	} {
		r := newRun(t, b, c.src)
		r.answer = func(agentkernel.Call) agentkernel.Reply {
			return agentkernel.Reply{Err: agentkernel.Errorf(agentkernel.CodeTool, "x", "no")}
		}
		turn, err := r.finish()
		if err != nil || turn.Kind != agentkernel.TurnFail || turn.Err.Code != c.code || turn.Err.Exception != c.exception || turn.Err.Message() != c.message {
			t.Errorf("%s: %+v %v %v", c.src, turn, turn.Err, err)
			continue
		}
		for _, part := range c.traceback {
			if !strings.Contains(carets.ReplaceAllString(turn.Err.Traceback, ""), part) {
				t.Errorf("%s: the traceback lacks %q:\n%s", c.src, part, turn.Err.Traceback)
			}
		}
		if strings.Contains(turn.Err.Traceback, "agentkernel") {
			t.Errorf("%s: the traceback shows us:\n%s", c.src, turn.Err.Traceback)
		}
		_ = r.box.Close()
	}
}

// The program's own print_exc and logging leave the guest library out, too.
func TestOwnTracebacks(t *testing.T) {
	b := sharedBackend(t)
	r := newRun(t, b, `
import traceback, logging, kernel
try:
    kernel.self()
except Exception:
    traceback.print_exc()
    logging.exception("oh")
`)
	r.answer = func(c agentkernel.Call) agentkernel.Reply {
		if c.Op == "time.now" { // of the log record
			return agentkernel.Reply{Result: json.RawMessage("1795226400.25")}
		}
		return agentkernel.Reply{Err: agentkernel.Errorf(agentkernel.CodeTool, "x", "no")}
	}
	turn, err := r.finish()
	if err == nil && turn.Kind == agentkernel.TurnFail {
		t.Fatal(turn.Err.Traceback)
	}
	const want = "[stderr]Traceback (most recent call last):\n"
	got := strings.ReplaceAll(r.out.String(), "\n[stderr]", "\n")
	if !strings.HasPrefix(got, want) || strings.Contains(got, "<agentkernel>") || strings.Count(got, `File "report.py", line 4`) != 2 {
		t.Errorf("%s", got)
	}
}

// The ways to end a program.
func TestExits(t *testing.T) {
	b := sharedBackend(t)
	for src, want := range map[string]string{
		"import sys; sys.exit()":                    "proc.exit {}",
		"import sys; sys.exit(3)":                   `proc.exit {"code":3}`,
		"import sys; sys.exit('bad')":               `proc.exit {"code":"bad"}`,
		"raise SystemExit(True)":                    `proc.exit {"code":true}`,
		"import kernel; kernel.exit(4); print('x')": `proc.exit {"code":4}`,
		"import atexit\natexit.register(print, 'bye', end='')\nimport sys\ntry:\n    sys.exit(2)\nfinally:\n    print('f', end=' ')": `f byeproc.exit {"code":2}`,
		"import threading, kernel\nt = threading.Thread(target=lambda: (kernel.sleep(1), print('t', end=' ')))\nt.start()":           `t time.sleep {"seconds":1}`,
	} {
		r := newRun(t, b, src)
		if turn, err := r.finish(); err != nil || turn.Kind != agentkernel.TurnExit {
			t.Errorf("%s: %+v %v", src, turn, err)
		}
		if got := r.out.String() + strings.Join(r.calls, "; "); got != want {
			t.Errorf("%s: %s, want %s", src, got, want)
		}
		_ = r.box.Close()
	}
	r := newRun(t, b, "import os\nprint('a', flush=True)\nos._exit(7)")
	if turn, err := r.finish(); err != nil || turn.Kind != agentkernel.TurnExit || turn.ExitCode != 7 || r.out.String() != "a\n" {
		t.Errorf("os._exit: %+v %v %q", turn, err, r.out.String())
	}
	r = newRun(t, b, "import ctypes\nctypes.string_at(0)")
	if turn, err := r.finish(); agentkernel.CodeOf(err) != agentkernel.CodeCrashed {
		t.Errorf("killed: %+v %v", turn, err)
	}
}

// Text comes in the order in which it was written: streams among one another, calls, child processes.
func TestOutputOrder(t *testing.T) {
	b := sharedBackend(t)
	r := newRun(t, b, `
import os, subprocess, sys, kernel
print("1")
print("2", file=sys.stderr)
subprocess.run(["/bin/sh", "-c", "echo 3; echo 4"])
print("5", end="")
kernel.self()
print("|6")
os.write(1, b"7\n")
sys.stderr.write("8\n")
subprocess.run(["/bin/sh", "-c", "echo 9 >&2"])
print("ä"[:1], flush=True)
sys.stdout.buffer.write("ü".encode()[:1]); sys.stdout.flush()
sys.stdout.buffer.write("ü".encode()[1:] + b"\xff\n"); sys.stdout.flush()
if os.fork() == 0:
    print("10", flush=True)
    os._exit(0)
os.wait()
kernel.self()
print("11")
`)
	r.answer = func(c agentkernel.Call) agentkernel.Reply {
		r.out.WriteString("<" + c.Op + ">")
		return agentkernel.Reply{Result: json.RawMessage("null")}
	}
	if turn, err := r.finish(); err != nil || turn.Kind != agentkernel.TurnExit {
		t.Fatalf("%+v %v %s", turn, err, tracebackOf(turn))
	}
	const want = "1\n[stderr]2\n3\n4\n5<proc.self>|6\n7\n[stderr]8\n[stderr]9\nä\nü\uFFFD\n10\n<proc.self>11\n" + "[stderr]" + agentkernel.NotText
	if got := r.out.String(); got != want {
		t.Errorf("%q, want\n%q", got, want)
	}
}

// An error that nobody caught is told however long it is.
func TestLongErrors(t *testing.T) {
	b := sharedBackend(t)
	r := newRun(t, b, "raise ValueError('begins ' + 'x' * 70_000_000 + ' ends')")
	turn, err := r.finish()
	if err != nil || turn.Kind != agentkernel.TurnFail || turn.Err == nil || turn.Err.Exception != "ValueError" || !strings.Contains(turn.Err.Message(), "begins xxx") || len(turn.Err.Message()) > 8<<20 {
		t.Errorf("%v %+v", err, turn.Kind)
	}
}

// Values cross the border in both directions as docs/values.md says: what comes back is what was sent.
func TestValues(t *testing.T) {
	b := sharedBackend(t)
	for src, want := range map[string]string{
		"None": "null", "True": "true", "2**127": "170141183460469231731687303715884105728", "-7": "-7",
		"10**5000": "1" + strings.Repeat("0", 5000),
		"1.0":      "1.0", "0.1": "0.1", "1e22": "1e+22", "-0.0": "-0.0", "1e-5": "1e-05",
		"float('nan')": `{"$float":"nan"}`, "[1, float('-inf')]": `[1,{"$float":"-inf"}]`,
		`'a"\n\x00ü€'`: `"a\"\n\u0000ü€"`, "b'ab'": `{"$bytes":"YWI="}`, "[1, 'x', None]": `[1,"x",null]`,
		"(1, (2,))": `{"$tuple":[1,{"$tuple":[2]}]}`, "{3, 1, 2}": `{"$set":[1,2,3]}`, "frozenset()": `{"$frozenset":[]}`,
		"{'b': 1, 'a': [2]}": `{"b":1,"a":[2]}`, "{'$x': 1}": `{"$dict":[["$x",1]]}`, "{1: 2, (3,): 4}": `{"$dict":[[1,2],[{"$tuple":[3]},4]]}`,
		"dt.date(2026, 11, 21)":                                     `{"$date":"2026-11-21"}`,
		"dt.datetime(2026, 11, 21, 13, 45, 0, 1)":                   `{"$datetime":"2026-11-21T13:45:00.000001"}`,
		"dt.time(13, 45, 0, 1, dt.timezone(dt.timedelta(hours=2)))": `{"$time":"13:45:00.000001+02:00"}`,
		"dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)":           `{"$datetime":"2026-01-01T00:00:00+00:00"}`,
		"dt.timedelta(-1, 5, 7)":                                    `{"$timedelta":[-1,5,7]}`,
		"dt.timezone(dt.timedelta(hours=-3), 'X')":                  `{"$timezone":[-10800,"X"]}`,
		"pathlib.Path('a/b.txt')":                                   `{"$path":"a/b.txt"}`,
		"collections.namedtuple('P', 'x y')(1, (2,))":               `{"$namedtuple":{"type":"P","fields":["x","y"],"values":[1,{"$tuple":[2]}]}}`,
		"ValueError('no')":                                          `{"$exception":{"type":"ValueError","arg":"no"}}`,
		"ValueError()":                                              `{"$exception":{"type":"ValueError","arg":null}}`,
		"[{'k': (1,)}] * 3":                                         `[{"k":{"$tuple":[1]}},{"k":{"$tuple":[1]}},{"k":{"$tuple":[1]}}]`,
		"functools.reduce(lambda a, _: [a], range(150), 0)":         strings.Repeat("[", 150) + "0" + strings.Repeat("]", 150),
		"functools.reduce(lambda a, _: (a,), range(150), 0)":        strings.Repeat(`{"$tuple":[`, 150) + "0" + strings.Repeat("]}", 150),
		"[x / 2 for x in range(5)]":                                 "[0.0,0.5,1.0,1.5,2.0]",
		"collections.OrderedDict(a=1)":                              `{"a":1}`,
		"enum.IntEnum('E', 'A').A":                                  "1",
		"type('S', (str,), {})('x')":                                `"x"`,
	} {
		r := newRun(t, b, "import datetime as dt, pathlib, collections, functools, enum\nimport kernel\nv = "+src+
			"\nw = kernel.state.get('k', v)\nsame = v == w and type(v) is type(w) or v != v or repr(v) == repr(w)\nprint('same' if same else (v, w, type(w)))")
		r.answer = func(c agentkernel.Call) agentkernel.Reply {
			var a struct{ Default json.RawMessage }
			if err := json.Unmarshal(c.Args, &a); err != nil {
				t.Error(err)
			}
			if string(a.Default) != want {
				t.Errorf("%s is written\n%s, want\n%s", src, a.Default, want)
			}
			return agentkernel.Reply{Result: a.Default}
		}
		if turn, err := r.finish(); err != nil || turn.Kind != agentkernel.TurnExit {
			t.Errorf("%s: %+v %v %s", src, turn, err, tracebackOf(turn))
		}
		switch {
		case strings.HasPrefix(src, "coll") && strings.Contains(src, "Ordered"), strings.HasPrefix(src, "enum"), strings.HasPrefix(src, "type("):
		case r.out.String() != "same\n":
			t.Errorf("%s comes back as %s", src, r.out.String())
		}
		_ = r.box.Close()
	}
}

// What has no JSON form leaves a program one way.
func TestOneWayValues(t *testing.T) {
	b := sharedBackend(t)
	const prelude = `
import dataclasses, enum, kernel
@dataclasses.dataclass
class P:
    x: int
    y: object = None
class Q:
    def __init__(self): self.a = (1,)
class Bad:
    __slots__ = ()
    def __repr__(self): raise ValueError
class C(enum.Enum): RED = 1
def f(): pass
l = [1]; l.append(l)
d = {}; d['me'] = {'d': d}
deep = 0
for _ in range(300): deep = [deep]
`
	for src, want := range map[string]string{
		"P(1, P(2))": `{"$object":{"type":"P","fields":{"x":1,"y":{"$object":{"type":"P","fields":{"x":2,"y":null}}}}}}`,
		"Q()":        `{"$object":{"type":"Q","fields":{"a":{"$tuple":[1]}}}}`,
		"C.RED":      `{"$object":{"type":"C","fields":{"name":"RED","value":1}}}`,
		"f":          `{"$repr":"<function f>"}`,
		"P":          `{"$repr":"<class 'P'>"}`,
		"object()":   `{"$repr":"<object object>"}`,
		"Bad()":      `{"$repr":"<Bad object, whose repr raises ValueError>"}`,
		"l":          `[1,{"$repr":"..."}]`,
		"d":          `{"me":{"d":{"$repr":"..."}}}`,
		"3j":         `{"$repr":"3j"}`,
		"deep":       `{"$repr":"<no result: invalid_argument: a value is nested deeper than 200 levels>"}`,
	} {
		r := newRun(t, b, prelude+src)
		turn, err := r.finish()
		if err != nil || turn.Kind != agentkernel.TurnExit || string(turn.Result) != want {
			t.Errorf("%s: %s %v %s; want %s", src, turn.Result, err, tracebackOf(turn), want)
		}
		_ = r.box.Close()
	}
}
