package monty

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"agentkernel"
)

var readTool = agentkernel.Tool{Server: "my-files", Name: "read-text", PythonServer: "my_files", PythonName: "read_text",
	Signature: "read_text(path: str, head: int | None = None, filter_: str = 'x') -> str",
	Params: []agentkernel.ToolParam{
		{Name: "path", Python: "path", Required: true},
		{Name: "head", Python: "head", Default: "None"},
		{Name: "$filter", Python: "filter_", Default: "'x'"},
	}}

// One line of program each: which call it makes, or which error it is given instead.
func TestCalls(t *testing.T) {
	b := newBackend(t)
	fns := []string{"self=kernel.self", "sget=kernel.state.get", "sset=kernel.state.set", "slp=kernel.sleep", "read=tools.my_files.read_text",
		"gone=tools.my_files.other", "nokernel=kernel.nothing"}
	for _, c := range []struct{ src, call, out string }{
		{"self()", `proc.self {}`, ""},
		{"sget('k')", `state.get {"key":"k"}`, ""},
		{"sget('k', 2)", `state.get {"key":"k","default":2}`, ""},
		{"sget(default=None, key='k')", `state.get {"key":"k","default":null}`, ""},
		{"sset('k', {'b': (1,), 'a': 2**70})", `state.set {"key":"k","value":{"b":{"$tuple":[1]},"a":1180591620717411303424}}`, ""},
		{"slp(0.5)", `time.sleep {"seconds":0.5}`, ""},
		{"read('/a')", `tool.call {"server":"my-files","tool":"read-text","arguments":{"path":"/a"}}`, ""},
		{"read('/a', 3)", `tool.call {"server":"my-files","tool":"read-text","arguments":{"path":"/a","head":3}}`, ""},
		{"read(path='/a', head=None)", `tool.call {"server":"my-files","tool":"read-text","arguments":{"path":"/a","head":null}}`, ""},
		{"read('/a', filter_='f')", `tool.call {"server":"my-files","tool":"read-text","arguments":{"$dict":[["path","/a"],["$filter","f"]]}}`, ""},
		{"read(None)", `tool.call {"server":"my-files","tool":"read-text","arguments":{"path":null}}`, ""},

		{"sget()", "", "TypeError invalid_argument: get() missing 1 required argument: 'key' (the signature is: get(key, default=None))"},
		{"sset(1, 2, 3)", "", "TypeError invalid_argument: set() takes 2 positional arguments but 3 were given (the signature is: set(key, value))"},
		{"sget('k', key='k')", "", "TypeError invalid_argument: get() got multiple values for argument 'key' (the signature is: get(key, default=None))"},
		{"read(pth='/a')", "", "TypeError invalid_argument: read_text() got an unexpected keyword argument 'pth' (the signature is: read_text(path: str, head: int | None = None, filter_: str = 'x') -> str)"},
		{"sget(2 ** 600000)", "", "ValueError invalid_argument: an int is larger than 4096 bytes"},
		{"gone()", "", "NameError name 'tools.my_files.other' is not defined"},
		{"nokernel()", "", "NameError name 'kernel.nothing' is not defined"},
		{"never_defined(1)", "", "NameError name 'never_defined' is not defined"},
		{"never_defined", "", "NameError name 'never_defined' is not defined"},
	} {
		r := boundRun(t, b, "try:\n    "+c.src+"\nexcept Exception as e:\n    print(type(e).__name__, e, end='')", fns...)
		r.prog.tools = map[string]*agentkernel.Tool{"my_files.read_text": &readTool}
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

// What a call is answered with arrives as the exception of the one error table.
func TestErrorReplies(t *testing.T) {
	b := newBackend(t)
	for code, want := range map[agentkernel.Code]string{
		agentkernel.CodeTool:           "RuntimeError",
		agentkernel.CodeDenied:         "PermissionError",
		agentkernel.CodeLimit:          "MemoryError",
		agentkernel.CodeOutcomeUnknown: "OSError",
		agentkernel.CodeSessionLost:    "OSError",
		agentkernel.CodeInterrupted:    "KeyboardInterrupt",
		agentkernel.CodeTimeout:        "TimeoutError",
		agentkernel.CodeInvalid:        "TypeError",
		agentkernel.CodeNotFound:       "RuntimeError",
		agentkernel.CodeInternal:       "RuntimeError",
	} {
		r := boundRun(t, b, "try:\n    f()\nexcept BaseException as e:\n    print(type(e).__name__, '/', e, end='')", "f=kernel.self")
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
	b := newBackend(t)
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
				t.Fatalf("%+v %v", turn, err)
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

// What the engine's own modules ask of an operating system.
func TestOperatingSystem(t *testing.T) {
	b := newBackend(t)
	const moment = 1795226400.25 // 2026-11-21 02:00:00.25 UTC
	for src, want := range map[string]string{
		"from datetime import datetime\nprint(repr(datetime.now()))":                                                "datetime.datetime(2026, 11, 21, 2, 0, 0, 250000)",
		"from datetime import datetime, timezone\nprint(datetime.now(timezone.utc))":                                "2026-11-21 02:00:00.250000+00:00",
		"from datetime import datetime, timezone, timedelta\nprint(datetime.now(timezone(timedelta(hours=-3))))":    "2026-11-20 23:00:00.250000-03:00",
		"from datetime import date\nprint(date.today())":                                                            "2026-11-21",
		"import os\nprint(os.getenv('HOME'), os.getenv('HOME', [1]), len(os.environ))":                              "None [1] 0",
		"try:\n    open('x')\nexcept PermissionError as e:\n    print(e)":                                           noFiles,
		"from pathlib import Path\ntry:\n    Path('x').write_text('y')\nexcept PermissionError as e:\n    print(e)": noFiles,
	} {
		r := newRun(t, b, src)
		r.prog = bound(src)
		r.answer = func(c agentkernel.Call) agentkernel.Reply {
			if c.Op != "time.now" || string(c.Args) != "{}" {
				t.Errorf("%s makes the call %s %s", src, c.Op, c.Args)
			}
			return agentkernel.Reply{Result: json.RawMessage(fmt.Sprint(moment))}
		}
		if turn, err := r.finish(); err != nil || turn.Kind != agentkernel.TurnExit {
			t.Fatalf("%s: %+v %v", src, turn, err)
		}
		if got := strings.TrimSpace(r.out.String()); got != want {
			t.Errorf("%s\nprints %s\nwant   %s", src, got, want)
		}
	}
}

func TestResults(t *testing.T) {
	b := newBackend(t)
	for src, want := range map[string]string{
		"1 + 1":    "2",
		"x = 1":    "null",
		"(1, {2})": `{"$tuple":[1,{"$set":[2]}]}`,
		"x = []\nfor i in range(60): x = [x]\nlen": `{"$repr":"<built-in function len>"}`,
		"2 ** 600000": `{"$repr":"<no result: an int is larger than 4096 bytes>"}`,
	} {
		r := newRun(t, b, src)
		turn, err := r.finish()
		if err != nil || turn.Kind != agentkernel.TurnExit || string(turn.Result) != want {
			t.Errorf("%s: %+v %s %v; want %s", src, turn, turn.Result, err, want)
		}
	}
}

// How programs end by an exception: code, type and the traceback that CPython would print.
func TestUncaught(t *testing.T) {
	b := newBackend(t)
	for _, c := range []struct {
		src, exception, traceback string
		code                      agentkernel.Code
	}{
		{"def f(x):\n    return 1 / x\n\nprint('start')\nf(0)\n", "ZeroDivisionError", `Traceback (most recent call last):
  File "report.py", line 5, in <module>
    f(0)
  File "report.py", line 2, in f
    return 1 / x
           ^^^^^
ZeroDivisionError: division by zero
`, agentkernel.CodeProgram},
		{"raise ValueError('ä')", "ValueError", `Traceback (most recent call last):
  File "report.py", line 1, in <module>
    raise ValueError('ä')
ValueError: ä
`, agentkernel.CodeProgram},
		{"raise ValueError", "ValueError", "Traceback (most recent call last):\n  File \"report.py\", line 1, in <module>\n    raise ValueError\nValueError\n", agentkernel.CodeProgram},
		{"f()", "RuntimeError", `Traceback (most recent call last):
  File "report.py", line 1, in <module>
    f()
RuntimeError: tool_error: no
`, agentkernel.CodeProgram},
		{"raise TimeoutError('time is up')", "TimeoutError", "Traceback (most recent call last):\n  File \"report.py\", line 1, in <module>\n    raise TimeoutError('time is up')\nTimeoutError: time is up\n", agentkernel.CodeProgram},
		{"x = 1\ny = = 3\n", "SyntaxError", `  File "report.py", line 2
    y = = 3
        ^
SyntaxError: Expected an expression
`, agentkernel.CodeSyntax},
		{"def f():\n    yield 1\n", "NotImplementedError", `  File "report.py", line 2
    yield 1
    ^^^^^^^
NotImplementedError: The monty syntax parser does not yet support yield expressions
`, agentkernel.CodeUnsupported},
		{"def f(n):\n    return f(n + 1)\nf(0)", "RecursionError", `Traceback (most recent call last):
  File "report.py", line 3, in <module>
    f(0)
  File "report.py", line 2, in f
    return f(n + 1)
           ^^^^^^^^
  File "report.py", line 2, in f
    return f(n + 1)
           ^^^^^^^^
  File "report.py", line 2, in f
    return f(n + 1)
           ^^^^^^^^
  [Previous line repeated 997 more times]
RecursionError: maximum recursion depth exceeded
`, agentkernel.CodeLimit},
	} {
		r := boundRun(t, b, c.src, "f=kernel.self")
		r.answer = func(agentkernel.Call) agentkernel.Reply {
			return agentkernel.Reply{Err: agentkernel.Errorf(agentkernel.CodeTool, "x", "no")}
		}
		r.prog.feeds[0].source = c.src
		turn, err := r.finish()
		if err != nil || turn.Kind != agentkernel.TurnFail {
			t.Fatalf("%s: %+v %v", c.src, turn, err)
		}
		if turn.Err.Code != c.code || turn.Err.Exception != c.exception {
			t.Errorf("%s: code %s, exception %s", c.src, turn.Err.Code, turn.Err.Exception)
		}
		if turn.Err.Traceback != c.traceback {
			t.Errorf("%s: traceback\n%s\nwant\n%s", c.src, turn.Err.Traceback, c.traceback)
		}
	}
}

// Frames of hidden source and of lines that the front end added do not show; lines are the user's.
func TestTracebackMapsFeeds(t *testing.T) {
	b := newBackend(t)
	r := newRun(t, b, "")
	r.prog = bound("def helper(f):\n    return f()")
	r.prog.feeds[0].hidden, r.prog.feeds[0].file = true, "prelude"
	more := bound("added = 1\nadded_too = 2\ndef mine():\n    return rewritten_by_the_front_end[0]\nrewritten_by_the_front_end = []\nhelper(mine)")
	more.feeds[0].offset, more.feeds[0].source = 2, "def mine():\n    return as_the_user_wrote[0]\nas_the_user_wrote = []\nhelper(mine)\n"
	r.prog.feeds = append(r.prog.feeds, more.feeds...)
	turn, err := r.finish()
	if err != nil || turn.Kind != agentkernel.TurnFail {
		t.Fatalf("%+v %v", turn, err)
	}
	const want = `Traceback (most recent call last):
  File "report.py", line 4, in <module>
    helper(mine)
  File "report.py", line 2, in mine
    return as_the_user_wrote[0]
IndexError: list index out of range
`
	if turn.Err.Traceback != want {
		t.Errorf("got\n%s\nwant\n%s", turn.Err.Traceback, want)
	}
}

func TestSystemExit(t *testing.T) {
	b := newBackend(t)
	for src, want := range map[string]string{"raise SystemExit": "0 ", "raise SystemExit('bye')": "1 [stderr]bye\n"} {
		r := newRun(t, b, src)
		r.prog = bound(src)
		turn, err := r.finish()
		if got := fmt.Sprint(turn.ExitCode, " ", r.out.String()); err != nil || turn.Kind != agentkernel.TurnExit || got != want {
			t.Errorf("%s: %+v %q %v", src, turn, got, err)
		}
	}
}

// Limits end a program with an answer that names the limit; what can be caught in Python is not one.
func TestLimits(t *testing.T) {
	b := newBackend(t, func(c *Config) { c.Grace = 300 * time.Millisecond })
	for _, c := range []struct {
		name, src, limit, out string
		change                func(*agentkernel.Limits)
	}{
		{"time", "print('on')\ntry:\n    while True: pass\nexcept BaseException:\n    print('caught')", "limit.time", "on\n",
			func(l *agentkernel.Limits) { l.Time = agentkernel.Duration(time.Second) }}, // a busy machine must come to the first print
		{"memory", "x = []\ntry:\n    while True: x.append('a' * 1000)\nexcept BaseException:\n    print('caught')", "limit.memory", "",
			func(l *agentkernel.Limits) { l.Memory = 8 << 20 }},
		{"memory at once", "x = 'a' * 10**12", "limit.memory", "", nil},
		{"output", "print('12345')\nprint('aé' * 100)", "limit.output", "12345\naéa", // cut between characters
			func(l *agentkernel.Limits) { l.Output = 11 }},
		{"recursion", "def f(): f()\nf()", "limit.recursion", "", func(l *agentkernel.Limits) { l.Recursion = 50 }},
		// One operation of the engine that looks at no clock: the kernel's watchdog ends it.
		{"time without a clock", "x = 7 ** 300000\nwhile True: x = x * x", "limit.time", "",
			func(l *agentkernel.Limits) { l.Time, l.Memory = agentkernel.Duration(100*time.Millisecond), 1<<30 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRun(t, b, c.src)
			r.prog = bound(c.src)
			if c.change != nil {
				c.change(&r.req.Limits)
			}
			turn, err := r.finish()
			if err == nil && turn.Kind == agentkernel.TurnFail {
				err = turn.Err
			}
			e := agentkernel.AsError(err, "", "")
			if agentkernel.CodeOf(err) != agentkernel.CodeLimit || e.Op != c.limit || e.Hint == "" {
				t.Fatalf("%+v %#v", turn, err)
			}
			if r.out.String() != c.out {
				t.Errorf("printed %q, want %q", r.out.String(), c.out)
			}
			if limit := time.Duration(r.req.Limits.Time); strings.HasPrefix(c.name, "time") && r.box.Running() < limit {
				t.Errorf("ran for %s of %s", r.box.Running(), limit)
			}
		})
	}
	if got := mustExit(t, b, "def f(): f()\ntry:\n    f()\nexcept RecursionError:\n    print('caught')"); got != "caught\n" {
		t.Errorf("a RecursionError can be caught, got %q", got)
	}
}

// Waiting costs nothing: only executing counts as running.
func TestRunningLeavesWaitingOut(t *testing.T) {
	b := newBackend(t)
	r := boundRun(t, b, "for i in range(5): f()", "f=kernel.self")
	r.req.Limits.Time = agentkernel.Duration(time.Second)
	var waited time.Duration
	r.answer = func(agentkernel.Call) agentkernel.Reply {
		began := time.Now()
		<-time.After(250 * time.Millisecond) // a slow tool
		waited += time.Since(began)
		return agentkernel.Reply{}
	}
	r.start()
	began := time.Now()
	if turn, err := r.finish(); err != nil || turn.Kind != agentkernel.TurnExit {
		t.Fatalf("%+v %v", turn, err)
	}
	if ran, all := r.box.Running(), time.Since(began); ran <= 0 || ran > all-waited {
		t.Errorf("running time %s of %s, of which it waited %s", ran, all, waited)
	}
}

// Prints of a tight loop share frames, and a print shows long before its program ends.
func TestPrintStreams(t *testing.T) {
	b := newBackend(t)
	pieces := 0
	r := newRun(t, b, "for i in range(100000): print('line', i)")
	r.req.Output = func(_, text string) { pieces++; r.out.WriteString(text) }
	if turn, err := r.finish(); err != nil || turn.Kind != agentkernel.TurnExit {
		t.Fatalf("%+v %v", turn, err)
	}
	if lines := strings.Count(r.out.String(), "\n"); lines != 100_000 || pieces > 5000 {
		t.Errorf("%d lines in %d pieces", lines, pieces)
	}

	seen := make(chan struct{})
	r = newRun(t, b, "print('early')\nwhile True: pass")
	r.req.Output = func(string, string) { close(seen) }
	r.req.Limits.Time = agentkernel.Duration(5 * time.Minute)
	r.start()
	failed := make(chan error, 1)
	go func() {
		_, err := r.box.Next(t.Context(), nil)
		failed <- err
	}()
	select {
	case <-seen:
	case <-time.After(time.Minute):
		t.Error("the print did not show while the program ran")
	}
	_ = r.box.Close() // also while Next runs
	if err := <-failed; agentkernel.CodeOf(err) != agentkernel.CodeCanceled {
		t.Errorf("Next of a closed sandbox: %v", err)
	}
}

// Whose doing an uncaught error may be: the engine's, the program's, or nobody can tell.
func TestFaults(t *testing.T) {
	b := newBackend(t)
	for src, want := range map[string]agentkernel.Fault{
		"1 / 0": agentkernel.FaultProgram, "raise ValueError('x')": agentkernel.FaultPerhaps, "raise ValueError('note: x')": agentkernel.FaultPerhaps,
		"print(frobnicate)": agentkernel.FaultPerhaps, "{} | {}": agentkernel.FaultPerhaps,
		"f = vars": agentkernel.FaultBackend, "import wave": agentkernel.FaultBackend, "raise NotImplementedError('x')": agentkernel.FaultBackend,
		"open('/tmp/x')": agentkernel.FaultBackend, "raise KeyError([1])": agentkernel.FaultBackend, "x = = 2": agentkernel.FaultBackend,
		"raise RuntimeError('tool_error: no')":                       agentkernel.FaultProgram,
		"from kernel import state\nstate.get()":                      agentkernel.FaultProgram,
		"import kernel\nkernel.self()":                               agentkernel.FaultProgram,
		"import kernel\ntry:\n  kernel.self()\nfinally:\n  print(1)": agentkernel.FaultProgram,
		"def f():\n    f()\nf()":                                     agentkernel.FaultProgram,
		"[0] * 10**9":                                                agentkernel.FaultProgram,
	} {
		r := newRun(t, b, src)
		if strings.Contains(src, "kernel") {
			r.answer = func(agentkernel.Call) agentkernel.Reply {
				return agentkernel.Reply{Err: agentkernel.Errorf(agentkernel.CodeTool, "x", "no")}
			}
		} else {
			r.prog = bound(src) // what the front end would refuse, the engine sees
		}
		turn, err := r.finish()
		if err != nil || turn.Kind != agentkernel.TurnFail || turn.Fault != want {
			t.Errorf("%q: fault %d, want %d: %+v %v", src, turn.Fault, want, turn.Err, err)
		}
		if err := r.box.Close(); err != nil {
			t.Error(err)
		}
	}
}
