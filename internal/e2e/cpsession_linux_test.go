package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/embedded"
	"agentkernel/internal/tool/tooltest"
)

// inCPython makes a session one of the process backend.
func inCPython(s *agentkernel.Spec) { s.Backend = "process" }

// A session of the process backend keeps everything that CPython has in one process.
func TestSessionInCPython(t *testing.T) {
	k := openEmbedded(t, home(t), withSandboxes(t))
	pid := startSession(t, k, inCPython)
	for _, c := range []struct{ source, want string }{
		{"import zlib, sys\nclass Box:\n    def __init__(self, x): self.x = x\nb = Box(20)", ""},
		{"print('hi', file=sys.stderr)\nb.x + 22", "hi\n42"},
		{"def gen():\n    yield from range(3)\ng = gen()\nnext(g)", "0"},
		{"next(g)", "1"},
		{"import asyncio\nawait asyncio.sleep(0, 'slept')", `"slept"`},
		{"b.x / 0", "error: ZeroDivisionError: division by zero"},
		{"b.x = 21\nraise ValueError('no')", "error: ValueError: no"},
		{"b.x", "21"},
		{"y = (", "refused: "},
		{"import no_such_module_anywhere", "refused: "},
		{"[0] * 10**12", "error: memory limit reached: the program needed more memory than its limit of 512 MiB"},
		{"def f(): return f()\nf()", "error: recursion limit reached: calls were nested deeper than the limit of 1000"},
		{"object()", `{"$repr":`},
		{"_ = 1", ""},
	} {
		if got := strings.TrimSuffix(feed(t, k, pid, c.source), "null"); got != c.want && (c.want == "" || !strings.HasPrefix(got, c.want)) {
			t.Errorf("%q: %s, not %s", c.source, got, c.want)
		}
	}
	if err := k.Signal(t.Context(), pid, agentkernel.SignalPause); err != nil {
		t.Fatal(err)
	}
	if got := feed(t, k, pid, "b.x"); !strings.Contains(got, "is paused") {
		t.Errorf("paused: %s", got)
	}
	if err := k.Signal(t.Context(), pid, agentkernel.SignalResume); err != nil {
		t.Fatal(err)
	}
	if got := feed(t, k, pid, "b.x"); got != "21" {
		t.Errorf("resumed: %s", got)
	}
	if p, err := k.EndSession(t.Context(), pid); err != nil || p.State != agentkernel.StateExited || p.Backend != "process" || string(p.Result) != "21" {
		t.Errorf("the end: %+v %v", p, err)
	}
	for source, want := range map[string]string{"raise SystemExit(3)": "exited 3 ", "import atexit\natexit.register(print, 'bye')\nexit()": "exited 0 bye\n"} {
		pid := startSession(t, k, inCPython)
		feed(t, k, pid, source)
		if p, err := k.Wait(t.Context(), pid); err != nil || fmt.Sprintf("%s %d %s", p.State, p.ExitCode, stdoutOf(t, k, pid)) != want {
			t.Errorf("%s: %+v %v", source, p, err)
		}
	}
	killed := startSession(t, k, inCPython)
	if err := k.Signal(t.Context(), killed, agentkernel.SignalKill); err != nil {
		t.Fatal(err)
	}
	if got := feed(t, k, killed, "1"); !strings.Contains(got, "has ended: killed") {
		t.Errorf("killed: %s", got)
	}
}

// A model that writes a file where there is no folder learns that it is gone, in words of its own.
func TestMCPTellsOfFilesThatAreGone(t *testing.T) {
	cs := connectMCP(t, mcpConfig(openEmbedded(t, home(t), withSandboxes(t)), ""))
	text, _, _ := callMCP(t, cs, "execute_code", args{"code": "open('a.txt', 'w').close()", "session": "none"})
	if want := `note: written in the sandbox, and gone with it: "a.txt"; for whoever runs agentkernel: --workspace DIR names a folder, in which files last`; !strings.Contains(text, want) {
		t.Errorf("%s, not %s", text, want)
	}
	text, _, _ = callMCP(t, cs, "execute_code", args{"code": "open('a.txt', 'w').close()"})
	if want := "what it writes lasts as long as the session; for whoever runs agentkernel: --workspace DIR"; !strings.Contains(text, want) {
		t.Errorf("%s, not %s", text, want)
	}
	if text, _, _ := callMCP(t, cs, "execute_code", args{"code": "1", "session": "none", "backend": "process"}); strings.Contains(text, "gone") {
		t.Errorf("%s", text)
	}
}

// A client that asks for it has its session in CPython at once; each answer is one of the session.
func TestMCPSessionInCPython(t *testing.T) {
	cs := connectMCP(t, mcpConfig(openEmbedded(t, home(t), withSandboxes(t)), ""))
	for i, c := range []struct{ code, want string }{
		{"import zlib\nwords = zlib.compress(b'x')", "(no output"},
		{"zlib.decompress(words)", "result: "},
		{"def f(x):\n    return x / 0\n\nf(1)", "File \"cell 3\", line 2, in f"},
	} {
		text, structured, _ := callMCP(t, cs, "execute_code", args{"code": c.code, "backend": "process"})
		if !strings.Contains(text, c.want) || structured["session"] == nil || structured["pid"] != float64(1) {
			t.Errorf("cell %d: %s %v", i+1, text, structured)
		}
	}
}

// eventuallyGone waits until a session has no sandbox.
func eventuallyGone(t *testing.T, k agentkernel.Kernel, pid agentkernel.PID) {
	t.Helper()
	eventually(t, "the session has no sandbox", func() bool {
		p, err := k.Process(t.Context(), pid)
		return err == nil && !p.Resident
	})
}

// A cell that is stopped while it computes, or that dies, leaves the session as it was before it, on either backend and
// whether the kernel lives on or not; what it did in calls stays done, and nothing is done twice.
func TestSessionCellGivenUp(t *testing.T) {
	for _, backend := range []string{"process", "monty"} {
		t.Run(backend, func(t *testing.T) {
			far := &book{lines: map[string]int{}}
			dir := home(t)
			open := func() *embedded.Kernel {
				return openEmbedded(t, dir, withSandboxes(t), func(c *embedded.Config) {
					c.Tools = func([]string) (agentkernel.ToolSource, error) { return far, nil }
				})
			}
			k := open()
			pid := startSession(t, k, func(s *agentkernel.Spec) {
				s.Backend, s.Tools, s.Allow = backend, []string{"/book.json"}, []string{"book"}
			})
			want := func(source, want string) {
				t.Helper()
				if got := feed(t, k, pid, source); !strings.Contains(got, want) {
					t.Errorf("%q: %s, not %s", source, got, want)
				}
			}
			want("import random\nfrom tools.book import write\nx = [random.random()]\nwrite(line='one')\nprint('first')\nx[0]", "first")
			x := feed(t, k, pid, "x[0]")
			for range 2 {
				interruptWhile(t, k, pid, "write(line='two')\nx.append(1)\nprint('in it')\nwhile True: pass", "in it")
			}
			want("len(x)", "1")
			want("x[0]", x)
			want("write(line='three')\nx.append(2)\nlen(x)", "2")
			if err := k.Close(); err != nil {
				t.Fatal(err)
			}
			k = open()
			if _, err := k.Recover(t.Context(), pid); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the session waits", func() bool { return waitsForCell(t, k, pid) })
			want("x[0]", x)
			want("len(x)", "2")
			if backend == "process" {
				want("import ctypes\nx.append(3)\nctypes.string_at(0)", "the session has the variables from before it")
				want("len(x)", "2")
				want("write(line='four')\nx[0]", x)
			}
			for line, n := range far.lines {
				if wanted := map[string]int{`{"line":"two"}`: 2}[line]; n != max(wanted, 1) {
					t.Errorf("%s was written %d times", line, n)
				}
			}
		})
	}
}

// interruptWhile feeds a cell and interrupts it when it has printed something.
func interruptWhile(t *testing.T, k agentkernel.Kernel, pid agentkernel.PID, source, printed string) {
	t.Helper()
	end, err := k.Feed(t.Context(), pid, agentkernel.Cell{Name: "cell", Source: source}, func(ev agentkernel.Event) error {
		if strings.Contains(ev.Text, printed) {
			return k.Signal(t.Context(), pid, agentkernel.SignalInterrupt)
		}
		return nil
	})
	if err != nil || end.Error == nil || end.Error.Op != agentkernel.OpCell || end.Ended {
		t.Errorf("the interrupted cell: %+v %v", end, err)
	}
}

// A session in CPython that nobody feeds for a while ends its process. Its next cell finds everything as it was: the
// cells run again, and nothing is asked, written or printed twice.
func TestSessionInCPythonComesBack(t *testing.T) {
	far := &book{lines: map[string]int{}}
	k := openEmbedded(t, home(t), withSandboxes(t), func(c *embedded.Config) {
		c.Tools = func([]string) (agentkernel.ToolSource, error) { return far, nil }
		c.ParkAfter, c.SessionStay = time.Millisecond, time.Millisecond
	})
	pid := startSession(t, k, inCPython, func(s *agentkernel.Spec) { s.Tools, s.Allow = []string{"/book.json"}, []string{"book"} })
	first := feed(t, k, pid, "import random, time, uuid\nfrom tools.book import write\nwrite(line='one')\nprint('said')\n"+
		"kept = [random.random(), time.time(), str(uuid.uuid4()), {'b', 'a'}, random]\ndef gen():\n    while True: yield random.random()\ng = gen()\nkept[:3]")
	failed := feed(t, k, pid, "kept.append('x')\nkept / 0")
	for i := range 3 {
		eventuallyGone(t, k, pid)
		if got := feed(t, k, pid, "kept[:3]"); "said\n"+got != first || !strings.HasPrefix(failed, "error: TypeError") {
			t.Errorf("round %d: %s, not %s", i, got, first)
		}
		eventuallyGone(t, k, pid)
		if got := feed(t, k, pid, "from tools.book import write as again\nagain(line='"+string(rune('a'+i))+"')\nx = next(g)\nlen(kept)"); got != "6" {
			t.Errorf("round %d: %s", i, got)
		}
	}
	eventuallyGone(t, k, pid)
	if p, err := k.EndSession(t.Context(), pid); err != nil || p.State != agentkernel.StateExited {
		t.Errorf("%+v %v", p, err)
	}
	for line, n := range far.lines {
		if n != 1 {
			t.Errorf("%s was written %d times", line, n)
		}
	}
	if out := stdoutOf(t, k, pid); out != "said\n" {
		t.Errorf("it printed %q", out)
	}
}

// A session that began in Monty moves to CPython when a cell needs that: with its variables, and with nothing done or
// printed twice. Where its code does something else there it stays where it is, with all that it has.
func TestSessionMoves(t *testing.T) {
	far := &book{lines: map[string]int{}}
	dir := home(t)
	open := func() *embedded.Kernel {
		return openEmbedded(t, dir, withSandboxes(t), func(c *embedded.Config) {
			c.Tools = func([]string) (agentkernel.ToolSource, error) { return far, nil }
		})
	}
	k := open()
	withBook := func(s *agentkernel.Spec) { s.Tools, s.Allow = []string{"/book.json"}, []string{"book"} }
	backendOf := func(pid agentkernel.PID) string {
		p, err := k.Process(t.Context(), pid)
		if err != nil {
			t.Fatal(err)
		}
		return p.Backend
	}
	pid := startSession(t, k, withBook)
	feed(t, k, pid, "import random\nfrom tools.book import write\nfrom kernel import state\nkept = [random.random()]\nwrite(line='one')\nprint('said')\nstate.set('n', 1)")
	feed(t, k, pid, "kept.append(1)\nkept / 0")
	feed(t, k, pid, "def f(): return len(kept)\nf")
	x := feed(t, k, pid, "kept[0]")
	if got := backendOf(pid); got != "monty" {
		t.Fatalf("it began on %s", got)
	}
	if got := feed(t, k, pid, "import no_such_module_anywhere"); !strings.HasPrefix(got, "refused: ") || !strings.Contains(got, "no_such_module_anywhere") || backendOf(pid) != "monty" {
		t.Errorf("what nobody runs: %s, on %s", got, backendOf(pid))
	}
	if got := feed(t, k, pid, "import zlib\nzlib.crc32(b'x') + f()"); got != "2363233925" || backendOf(pid) != "process" {
		t.Errorf("the cell that moves it: %s, on %s", got, backendOf(pid))
	}
	for _, source := range []string{"kept[0]", "__import__('zlib') and kept[0]"} {
		if got := feed(t, k, pid, source); got != x {
			t.Errorf("%s: %s, not %s", source, got, x)
		}
	}
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	k = open()
	if _, err := k.Recover(t.Context(), pid); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the session waits", func() bool { return waitsForCell(t, k, pid) })
	if got := feed(t, k, pid, "zlib.crc32(b'x')\nkept[0]"); got != x {
		t.Errorf("after a restart: %s, not %s", got, x)
	}
	if out := stdoutOf(t, k, pid); out != "said\n" || far.lines[`{"line":"one"}`] != 1 {
		t.Errorf("it printed %q and wrote %v", out, far.lines)
	}

	for what, differs := range map[string]string{"output": "print(sys.version)", "a call": "write(line=sys.version)", "a value": "sys.version"} {
		pid := startSession(t, k, withBook)
		feed(t, k, pid, "import sys\nfrom tools.book import write\nkept = 7")
		feed(t, k, pid, differs)
		if got := backendOf(pid); got != "monty" {
			t.Fatalf("%s: %s", what, got)
		}
		if got := feed(t, k, pid, "import zlib\nkept"); !strings.HasPrefix(got, "refused: ") || !strings.Contains(got, "cannot move to the process backend with its variables") {
			t.Errorf("%s: %s", what, got)
		}
		if got := feed(t, k, pid, "kept"); got != "7" || backendOf(pid) != "monty" {
			t.Errorf("%s: after it did not move: %s, on %s", what, got, backendOf(pid))
		}
	}
}

// An assistant need not say where its code runs: the first cell that needs CPython takes the session there, and another
// client's session is its own.
func TestMCPSessionMoves(t *testing.T) {
	cfg := mcpConfig(openEmbedded(t, home(t), withSandboxes(t)), "")
	url := serveHTTP(t, cfg)
	ann, bo := dialHTTP(t, url, annToken, nil), dialHTTP(t, url, boToken, nil)
	tool(t, ann, "execute_code", args{"code": "x = 41"}, "")
	tool(t, bo, "execute_code", args{"code": "x = 'of bo'", "backend": "process"}, "")
	moved := tool(t, ann, "execute_code", args{"code": "import zlib\nx += zlib.crc32(b'') + 1\nx"}, "result: 42")
	if !strings.Contains(fmt.Sprint(moved["note"]), "CPython") {
		t.Errorf("the move is not told: %v", moved)
	}
	if got := tool(t, ann, "execute_code", args{"code": "zlib.crc32(b'')\nx"}, "result: 42"); got["note"] != nil || got["session"] != moved["session"] {
		t.Errorf("the cell after it: %v", got)
	}
	tool(t, ann, "execute_code", args{"code": "x = 43\nwhile True: pass", "timeout": 0.5}, "!the variables from before it")
	tool(t, ann, "execute_code", args{"code": "x"}, "result: 42")
	for _, seconds := range []float64{2, 10, 60} { // a busy machine may not bring it to its call in time
		got := tool(t, ann, "execute_code", args{"code": "x = 44\nfrom kernel import sleep\nsleep(600)", "timeout": seconds}, "!ran longer than ")
		if got["note"] == nil {
			break
		}
		if seconds == 60 {
			t.Errorf("stopped in a call: %v", got)
		}
	}
	tool(t, ann, "execute_code", args{"code": "x"}, "result: 44")
	tool(t, bo, "execute_code", args{"code": "x"}, "of bo")
	tool(t, bo, "execute_code", args{"code": "x", "backend": "monty"}, `!session "new" with backend "monty"`)
	tool(t, bo, "execute_code", args{"code": "x", "backend": "monty", "session": "none"}, "!NameError")
	tool(t, bo, "execute_code", args{"code": "import sys\nsys.version", "session": "new"}, "Monty")
	tool(t, bo, "execute_code", args{"code": "import zlib"}, `!session "new" with backend "process"`)
	if got := tool(t, bo, "execute_code", args{"code": "sys.platform"}, "linux"); got["note"] != nil {
		t.Errorf("a session that stays where it was: %v", got)
	}
	tool(t, bo, "execute_code", args{"code": "import zlib", "session": "new"}, "")
	tool(t, bo, "execute_code", args{"code": "zlib.crc32(b'')"}, "result: 0")
	for _, syntax := range []string{"x = = 1", "if x:\nx = 1", "  x = 1", "x = 'a", "for i in x\n  pass"} {
		tool(t, bo, "execute_code", args{"code": "x = 41", "session": "new"}, "")
		tool(t, bo, "execute_code", args{"code": syntax}, "!rror: ")
		tool(t, bo, "execute_code", args{"code": "import zlib\nx + zlib.crc32(b'')"}, "result: 41")
	}
}

// The recording of a session is repeated elsewhere, also where one of its cells was aborted, and where it has moved.
func TestSessionRecordings(t *testing.T) {
	k := openEmbedded(t, home(t), withSandboxes(t))
	cfg := tooltest.Config(t, map[string]tooltest.Server{"test": tooltest.Stdio(t)})
	for name, c := range map[string]struct{ backend, last string }{"process": {"process", "x"}, "monty": {"monty", "x"}, "moved": {"", "import zlib\nx"}} {
		t.Run(name, func(t *testing.T) {
			pid := startSession(t, k, func(s *agentkernel.Spec) { s.Tools, s.Backend = []string{cfg}, c.backend })
			feed(t, k, pid, "from tools.test import add\nx = 1\nprint(add(a=x, b=1))")
			interruptWhile(t, k, pid, "x = 2\nprint(add(a=x, b=1))\nprint('in it')\nwhile True: pass", "in it")
			if got := feed(t, k, pid, c.last); got != "1" {
				t.Errorf("after it: %s", got)
			}
			if _, err := k.EndSession(t.Context(), pid); err != nil {
				t.Fatal(err)
			}
			file, err := k.Export(t.Context(), pid, agentkernel.ExportOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if v, err := openEmbedded(t, home(t), withSandboxes(t)).Replay(t.Context(), file, agentkernel.ReplayOptions{}); err != nil || !v.Equal {
				t.Errorf("%+v %v", v, err)
			}
		})
	}
}

// What a session has shown of addresses does not keep it from coming back in another process, where they are others.
func TestSessionComesBackWithOtherAddresses(t *testing.T) {
	dir := home(t)
	k := openEmbedded(t, dir, withSandboxes(t))
	pid := startSession(t, k, inCPython)
	cells := []string{"def f(): pass\nx = 7\nstr(f)", "print('before', f, object(), 'after', end='')", "raise ValueError(f)", "{'of': [repr(f)]}"}
	for _, source := range cells {
		if got := feed(t, k, pid, source); !strings.Contains(got, " at 0x") {
			t.Fatalf("it shows no address: %s", got)
		}
	}
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	k = openEmbedded(t, dir, withSandboxes(t))
	if _, err := k.Recover(t.Context(), pid); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the session waits", func() bool { return waitsForCell(t, k, pid) })
	if got := feed(t, k, pid, "x"); got != "7" {
		t.Errorf("%s", got)
	}
}

// A cell that Monty accepts and whose engine then lacks something goes on in CPython from there; where the session cannot,
// the cell has failed, and nothing else.
func TestSessionMovesInTheMiddle(t *testing.T) {
	far := &book{lines: map[string]int{}}
	k := openEmbedded(t, home(t), withSandboxes(t), func(c *embedded.Config) {
		c.Tools = func([]string) (agentkernel.ToolSource, error) { return far, nil }
	})
	for _, c := range []struct{ first, want, backend string }{
		{"pass", "two\ntext", "process"},
		{"import sys\nprint(sys.version)", "two\nerror: PermissionError", "monty"},
	} {
		clear(far.lines)
		pid := startSession(t, k, func(s *agentkernel.Spec) { s.Tools, s.Allow = []string{"/book.json"}, []string{"book"} })
		feed(t, k, pid, c.first)
		feed(t, k, pid, "from tools.book import write\nx = 1")
		got := strings.ReplaceAll(feed(t, k, pid, "x = 2\nwrite(line='two')\nprint('two')\nwith open('/tmp/x', 'w') as f:\n    f.write('text')\nopen('/tmp/x').read()"), `"`, "")
		p, err := k.Process(t.Context(), pid)
		if err != nil || p.Backend != c.backend || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %s, on %s: %v", c.first, got, p.Backend, err)
		}
		if got := feed(t, k, pid, "x"); got != "2" || far.lines[`{"line":"two"}`] != 1 {
			t.Errorf("%s: after it: %s, written %v", c.first, got, far.lines)
		}
		if got := feed(t, k, pid, "1 / 0"); !strings.HasPrefix(got, "error: ZeroDivisionError") {
			t.Errorf("%s: an error of its own: %s", c.first, got)
		}
		if p, err := k.Process(t.Context(), pid); err != nil || p.Backend != c.backend {
			t.Errorf("an error of its own takes the session to %s", p.Backend)
		}
	}
}
