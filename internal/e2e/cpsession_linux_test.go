package e2e_test

import (
	"strings"
	"testing"

	"agentkernel"
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
