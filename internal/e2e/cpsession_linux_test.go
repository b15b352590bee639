package e2e_test

import (
	"strings"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/embedded"
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
	if p, err := k.EndSession(t.Context(), pid); err != nil || p.State != agentkernel.StateExited || p.Backend != "process" {
		t.Errorf("the end: %+v %v", p, err)
	}
}

// A client that asks for it has its session in CPython at once; each answer is one of the session.
func TestMCPSessionInCPython(t *testing.T) {
	cs := connectMCP(t, mcpConfig(openEmbedded(t, home(t), withSandboxes(t)), ""))
	for i, c := range []struct{ code, want string }{
		{"import zlib\nwords = zlib.compress(b'x')", "(no output"},
		{"zlib.decompress(words)", "result: "},
		{"def f(x):\n    return x / 0\n\nf(1)", "File \"piece 3\", line 2, in f"},
	} {
		text, structured, _ := callMCP(t, cs, "execute_code", args{"code": c.code, "backend": "process"})
		if !strings.Contains(text, c.want) || structured["session"] == nil || structured["pid"] != float64(1) {
			t.Errorf("piece %d: %s %v", i+1, text, structured)
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

// A piece that is stopped while it computes, or that dies, leaves the session as it was before it, on either backend and
// whether the kernel lives on or not; what it did in calls stays done, and nothing is done twice.
func TestSessionPieceGivenUp(t *testing.T) {
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
			eventually(t, "the session waits", func() bool { return waitsForPiece(t, k, pid) })
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

// interruptWhile feeds a piece and interrupts it when it has printed something.
func interruptWhile(t *testing.T, k agentkernel.Kernel, pid agentkernel.PID, source, printed string) {
	t.Helper()
	end, err := k.Feed(t.Context(), pid, agentkernel.Piece{Name: "piece", Source: source}, func(ev agentkernel.Event) error {
		if strings.Contains(ev.Text, printed) {
			return k.Signal(t.Context(), pid, agentkernel.SignalInterrupt)
		}
		return nil
	})
	if err != nil || end.Error == nil || end.Error.Op != agentkernel.OpPiece || end.Ended {
		t.Errorf("the interrupted piece: %+v %v", end, err)
	}
}

// A session in CPython that nobody feeds for a while ends its process. Its next piece finds everything as it was: the
// pieces run again, and nothing is asked, written or printed twice.
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
