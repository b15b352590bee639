package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/internal/tool/tooltest"
)

// bothKernels runs a test against the kernel in this process and against a client of one behind a socket:
// what a user sees must be the same.
func bothKernels(t *testing.T, test func(t *testing.T, k agentkernel.Kernel)) {
	t.Run("embedded", func(t *testing.T) { test(t, openEmbedded(t, home(t))) })
	t.Run("client", func(t *testing.T) { test(t, openClient(t, home(t))) })
}

// TestPrograms is the one table of what programs do.
func TestPrograms(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lines.txt")
	cfg := tooltest.Config(t, map[string]tooltest.Server{"test": tooltest.Stdio(t)})
	type test struct {
		name, source string
		change       func(*agentkernel.Spec)
		stdout       string // exact
		result       string
		state        agentkernel.State // default exited
		exit         int
		code         agentkernel.Code // of the process's error
		says         string           // in message, hint or traceback
	}
	allow := func(s *agentkernel.Spec) { s.Allow = []string{"test"} }
	table := []test{
		{name: "print and result", source: "print('hi')\n6*7", stdout: "hi\n", result: "42"},
		{name: "no output", source: ""},
		{name: "big int result", source: "2**200", result: "1606938044258990275541962092341162602522202993782792835301376"},
		{name: "values survive state", source: "from kernel import state\nv = (1, 2.0, b'x', {1: 'a'}, {3}, float('inf'), 10**30)\nstate.set('v', v)\nprint(state.get('v') == v)", stdout: "True\n"},
		{name: "args", source: "import sys\nprint(sys.argv[1:])", change: func(s *agentkernel.Spec) { s.Program.Args = []string{"a", "b"} }, stdout: "['a', 'b']\n"},
		{name: "exit code", source: "import sys\nprint('x')\nsys.exit(3)\nprint('never')", stdout: "x\n", exit: 3},
		{name: "kernel.exit with text", source: "from kernel import exit\nexit('bye')", exit: 1},
		{name: "read tool", source: "from tools.test import echo\nprint(echo(value={'a': [1, 2]}))", says: ""},
		{name: "structured result", source: "from tools.test import add\nprint(add(a=2, b=3))"},
		{name: "write tool allowed", source: fmt.Sprintf("from tools.test import append_line\nappend_line(path=%q, text='x')\nprint('ok')", file), change: allow, stdout: "ok\n"},
		{name: "write tool refused", source: fmt.Sprintf("from tools.test import append_line\nappend_line(path=%q, text='x')", file),
			state: agentkernel.StateFailed, exit: 1, code: agentkernel.CodeProgram, says: "--allow 'test.append_line'"},
		{name: "refusal can be caught", source: fmt.Sprintf("from tools.test import append_line\ntry:\n    append_line(path=%q, text='x')\nexcept PermissionError as e:\n    print(str(e)[:18])", file), stdout: "permission_denied:\n"},
		{name: "tool error", source: "from tools.test import fail\nfrom kernel import ToolError\ntry:\n    fail(message='no such thing')\nexcept ToolError as e:\n    print(e)", change: allow, stdout: "tool_error: no such thing\n"},
		{name: "wrong arguments", source: "from tools.test import add\nadd(a=1, c=2)", state: agentkernel.StateFailed, exit: 1, code: agentkernel.CodeProgram, says: "add("},
		{name: "parallel", source: "import asyncio\nfrom tools.test.aio import echo\nasync def main():\n    r = await asyncio.gather(echo(value=1), echo(value=2), echo(value=3))\n    print(len(r))\nasyncio.run(main())", stdout: "3\n"},
		{name: "children", source: "from kernel import spawn, wait\np = spawn('print(40 + 2)')\nr = wait(p)\nprint(r['state'], r['stdout'].strip())", stdout: "exited 42\n"},
		{name: "a child that does not parse", source: "from kernel import spawn, ToolError\ntry:\n    spawn('x = (')\nexcept ToolError as e:\n    print(str(e)[:13])", stdout: "syntax_error:\n"},
		{name: "sleep", source: "from kernel import sleep\nsleep(0.05)\nprint('awake')", stdout: "awake\n"},
		{name: "uncaught", source: "def f(x):\n    return 1 / x\n\n\nf(0)\n", state: agentkernel.StateFailed, exit: 1, code: agentkernel.CodeProgram, says: "line 2, in f"},
		{name: "syntax error", source: "x = 1\ny = (2 +\nz", state: agentkernel.StateFailed, exit: 2, code: agentkernel.CodeSyntax, says: "line 2"},
		{name: "infinite loop", source: "while True:\n    pass", change: func(s *agentkernel.Spec) { s.Limits.Time = agentkernel.Duration(300 * time.Millisecond) },
			state: agentkernel.StateKilled, exit: 124, code: agentkernel.CodeLimit, says: "time limit"},
		{name: "memory bomb", source: "x = []\nwhile True:\n    x.append('y' * 100000)", change: func(s *agentkernel.Spec) { s.Limits.Memory = 16 << 20 },
			state: agentkernel.StateKilled, exit: 137, code: agentkernel.CodeLimit, says: "memory limit"},
		{name: "output flood", source: "while True:\n    print('x' * 1000)", change: func(s *agentkernel.Spec) { s.Limits.Output = 100 << 10 },
			state: agentkernel.StateKilled, exit: 137, code: agentkernel.CodeLimit, says: "output limit"},
		{name: "deep recursion", source: "def f(n):\n    return f(n + 1)\nf(0)", state: agentkernel.StateKilled, exit: 137, code: agentkernel.CodeLimit, says: "recursion limit"},
		{name: "wall limit", source: "from kernel import sleep\nsleep(60)", change: func(s *agentkernel.Spec) { s.Limits.Wall = agentkernel.Duration(200 * time.Millisecond) },
			state: agentkernel.StateKilled, exit: 124, code: agentkernel.CodeLimit, says: "wall limit"},
		{name: "unknown tool", source: "from tools.test import ecko", state: agentkernel.StateFailed, code: agentkernel.CodeNotFound, exit: 1, says: "echo"},
		{name: "unknown server", source: "from tools.tset import echo", state: agentkernel.StateFailed, code: agentkernel.CodeNotFound, exit: 1, says: "test"},
	}
	bothKernels(t, func(t *testing.T, k agentkernel.Kernel) {
		for _, c := range table {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				s := program(c.source)
				s.Tools = []string{cfg}
				if c.change != nil {
					c.change(&s)
				}
				o, err := tryRun(t.Context(), k, s)
				if c.code == agentkernel.CodeSyntax && err != nil { // refused before a process was made
					if !strings.Contains(err.Error(), c.says) {
						t.Errorf("refused with %v, which does not say %q", err, c.says)
					}
					return
				}
				if err != nil {
					t.Fatalf("run: %v", err)
				}
				if c.state == "" {
					c.state = agentkernel.StateExited
				}
				if o.State != c.state || o.ExitCode != c.exit || agentkernel.CodeOf(errOf(o.Error)) != c.code {
					t.Errorf("ended as %s, exit code %d, error %v", o.State, o.ExitCode, o.Error)
				}
				if c.stdout != "" && o.stdout != c.stdout {
					t.Errorf("stdout %q, want %q", o.stdout, c.stdout)
				}
				if c.result != "" && string(o.Result) != c.result {
					t.Errorf("result %s, want %s", o.Result, c.result)
				}
				if c.says != "" && !strings.Contains(o.Error.Message()+o.Error.Hint+o.Error.Traceback, c.says) {
					t.Errorf("the error does not say %q: %s\n%s\nhint: %s", c.says, o.Error.Message(), o.Error.Traceback, o.Error.Hint)
				}
			})
		}
	})
}

func errOf(e *agentkernel.Error) error {
	if e == nil {
		return nil
	}
	return e
}

// TestRefusedPrograms never become processes.
func TestRefusedPrograms(t *testing.T) {
	bothKernels(t, func(t *testing.T, k agentkernel.Kernel) {
		for name, c := range map[string]struct {
			spec agentkernel.Spec
			code agentkernel.Code
			says string
		}{
			"unknown module":   {program("import json\nimport numpy"), agentkernel.CodeUnavailable, "line 2"},
			"yield":            {program("def f():\n    yield 1"), agentkernel.CodeUnavailable, "line 2"},
			"unknown kernel":   {program("from kernel import sleeep"), agentkernel.CodeNotFound, "sleep"},
			"invalid utf-8":    {program("x = 1\ny = '\xff'"), agentkernel.CodeSyntax, "line 2"},
			"unknown backend":  {agentkernel.Spec{Backend: "docker", Program: agentkernel.Program{Source: "1"}}, agentkernel.CodeInvalid, "monty"},
			"no such tools":    {agentkernel.Spec{Program: agentkernel.Program{Source: "1"}, Tools: []string{"/does/not/exist.json"}}, agentkernel.CodeNotFound, "exist.json"},
			"negative limit":   {agentkernel.Spec{Program: agentkernel.Program{Source: "1"}, Limits: agentkernel.Limits{Calls: -1}}, agentkernel.CodeInvalid, "below zero"},
			"unknown language": {agentkernel.Spec{Program: agentkernel.Program{Source: "1", Language: "cobol"}}, agentkernel.CodeUnsupported, "python"},
		} {
			_, err := k.Spawn(t.Context(), c.spec)
			if agentkernel.CodeOf(err) != c.code || !strings.Contains(err.Error()+agentkernel.AsError(err, "", "").Hint, c.says) {
				t.Errorf("%s: got %v, want %s that says %q", name, err, c.code, c.says)
			}
		}
		if rows, err := k.List(t.Context(), agentkernel.Filter{}); err != nil || len(rows) != 0 {
			t.Errorf("refused programs left %d processes, %v", len(rows), err)
		}
	})
}

// TestToolServersThatMisbehave: each costs one call or one process, with a message that says what happened.
func TestToolServersThatMisbehave(t *testing.T) {
	cfg := tooltest.Config(t, map[string]tooltest.Server{
		"good":      tooltest.Stdio(t),
		"nostart":   tooltest.Stdio(t, "-no-start", "the licence has expired"),
		"hangstart": {"command": tooltest.Build(t), "args": []string{"-hang-start"}, "timeout": "1s"},
		"missing":   {"command": "/no/such/program"},
		"slow":      {"command": tooltest.Build(t), "timeout": 0.3},
	})
	for name, c := range map[string]struct{ source, says string }{
		"does not start":  {"from tools.nostart import echo", "the licence has expired"},
		"no such command": {"from tools.missing import echo", "/no/such/program"},
		"hangs in a call": {"from tools.slow import hang\nhang()", "did not answer hang within 300ms"},
		"dies in a call":  {"from tools.good import crash\ncrash()", "may or may not have happened"},
		"garbage":         {"from tools.good import garbage\ngarbage()", ""},
	} {
		t.Run(name, func(t *testing.T) {
			k := openEmbedded(t, home(t))
			s := program(c.source)
			s.Tools, s.Allow = []string{cfg}, []string{"*"}
			o := run(t, k, s)
			if o.State != agentkernel.StateFailed || !strings.Contains(o.Error.Message()+o.Error.Traceback, c.says) {
				t.Errorf("got %s: %s\n%s", o.State, o.Error.Message(), o.Error.Traceback)
			}
			again := program("from tools.good import echo\nprint(echo(value='still here'))")
			again.Tools = []string{cfg}
			if o := run(t, k, again); !strings.Contains(o.stdout, "still here") {
				t.Errorf("afterwards: %+v %v", o, o.Error)
			}
		})
	}
}

// TestBigResultStaysInside: 50 MB come in, a number goes out, and the journal can be read again.
func TestBigResultStaysInside(t *testing.T) {
	k := openEmbedded(t, home(t))
	s := program("from tools.test import big\ntext = big(mb=50)\nprint(len(text))")
	s.Tools, s.Allow = []string{tooltest.Config(t, map[string]tooltest.Server{"test": tooltest.Stdio(t)})}, []string{"*"}
	o := run(t, k, s)
	if o.State != agentkernel.StateExited || o.Usage.BytesIn < 50<<20 || o.Usage.Output > 100 {
		t.Fatalf("%+v %v", o.Process, o.Error)
	}
	entries, err := k.Journal(t.Context(), o.PID, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, e := range entries {
		found = found || len(e.Data) > 50<<20
	}
	if !found {
		t.Error("the result is not in the journal")
	}
}

// TestRealFilesystemServer reads a folder by the MCP server that people use.
func TestRealFilesystemServer(t *testing.T) {
	dir := t.TempDir()
	for i := range 3 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("f%d.txt", i)), []byte(strings.Repeat("x", i+1)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	script := tooltest.NPM(t, "@modelcontextprotocol/server-filesystem")
	cfg := tooltest.Config(t, map[string]tooltest.Server{"filesystem": {"command": "node", "args": []string{script, dir}}})
	s := program(fmt.Sprintf(`
from tools.filesystem import read_text_file, list_directory
total = 0
for line in list_directory(path=%[1]q).splitlines():
    name = line.split("] ")[1]
    total += len(read_text_file(path=%[1]q + "/" + name))
print(total)
`, dir))
	s.Tools = []string{cfg}
	bothKernels(t, func(t *testing.T, k agentkernel.Kernel) {
		if o := run(t, k, s); o.stdout != "6\n" || o.Usage.ToolCalls != 4 {
			t.Errorf("got %q, %+v, %v", o.stdout, o.Process, o.Error)
		}
	})
}

// TestSignalsReachPrograms: interrupt can be caught, kill cannot, pause holds.
func TestSignalsReachPrograms(t *testing.T) {
	bothKernels(t, func(t *testing.T, k agentkernel.Kernel) {
		src := "from kernel import sleep\ntry:\n    sleep(60)\nexcept KeyboardInterrupt:\n    print('caught')"
		for sig, want := range map[agentkernel.Signal]agentkernel.State{agentkernel.SignalInterrupt: agentkernel.StateExited, agentkernel.SignalKill: agentkernel.StateKilled} {
			p, err := k.Spawn(t.Context(), program(src))
			if err != nil {
				t.Fatal(err)
			}
			eventually(t, "it sleeps", func() bool {
				got, err := k.Process(t.Context(), p.PID)
				return err == nil && len(got.WaitsFor) > 0
			})
			if err := k.Signal(t.Context(), p.PID, sig); err != nil {
				t.Fatal(err)
			}
			if got, err := k.Wait(t.Context(), p.PID); err != nil || got.State != want {
				t.Errorf("%s: %s %v %v", sig, got.State, got.Error, err)
			}
		}
	})
}

// TestKillReachesABusyProgram at once, although it never makes a syscall.
func TestKillReachesABusyProgram(t *testing.T) {
	bothKernels(t, func(t *testing.T, k agentkernel.Kernel) {
		p, err := k.Spawn(t.Context(), program("print('on')\nwhile True:\n    pass"))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		_ = k.Events(ctx, p.PID, 1, true, func(ev agentkernel.Event) error {
			if ev.Kind == agentkernel.EventOutput {
				cancel()
			}
			return nil
		})
		start := time.Now()
		if err := k.Signal(t.Context(), p.PID, agentkernel.SignalKill); err != nil {
			t.Fatal(err)
		}
		if got, err := k.Wait(t.Context(), p.PID); err != nil || got.State != agentkernel.StateKilled || time.Since(start) > 30*time.Second {
			t.Errorf("%s %v after %v", got.State, err, time.Since(start)) // its own time limit is a minute
		}
	})
}

// TestJournalShowsWhatHappened and is the same through both kernels.
func TestJournalShowsWhatHappened(t *testing.T) {
	bothKernels(t, func(t *testing.T, k agentkernel.Kernel) {
		o := run(t, k, program("from kernel import state, log\nstate.set('k', [1])\nlog('note', level='warning')\nprint(state.get('k'))"))
		entries, err := k.Journal(t.Context(), o.PID, 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for i, e := range entries {
			if e.Seq != int64(i+1) {
				t.Errorf("entry %d has seq %d", i, e.Seq)
			}
			got = append(got, strings.TrimSpace(string(e.Kind)+" "+e.Op))
		}
		if want := "created,call state.set,call log.write,call state.get,output,terminal"; strings.Join(got, ",") != want {
			t.Errorf("journal: %s", strings.Join(got, ","))
		}
		state, err := k.State(t.Context(), o.PID)
		if err != nil || string(state["k"]) != "[1]" {
			t.Errorf("state: %s %v", state["k"], err)
		}
		if _, err := k.Journal(t.Context(), 999, 1, 0); agentkernel.CodeOf(err) != agentkernel.CodeNotFound {
			t.Errorf("journal of an unknown process: %v", err)
		}
		var back []agentkernel.Entry
		raw, err := json.Marshal(entries)
		if err != nil || json.Unmarshal(raw, &back) != nil || len(back) != len(entries) {
			t.Errorf("entries do not survive JSON: %v", err)
		}
	})
}
