package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/embedded"
	"agentkernel/internal/sandbox/monty"
	"agentkernel/internal/tool/tooltest"
)

// TestMoves: programs that Monty's front end accepts and its engine does not finish go on in CPython, with nothing done or
// shown twice; those that fail there too, or may not move, say what they should.
func TestMoves(t *testing.T) {
	far := &book{lines: map[string]int{}}
	k := openEmbedded(t, home(t), withSandboxes(t), func(c *embedded.Config) {
		c.Tools = func([]string) (agentkernel.ToolSource, error) { return far, nil }
	})
	const calls = "from kernel import state, now, random_bytes\nfrom tools.book import write\nimport random\n" +
		"print('begin', random.random() < 1, now() > 0)\nwrite(line='one')\nstate.set('k', {'a': 1})\n"
	for name, c := range map[string]struct {
		source, backend string
		moved           bool
		state           agentkernel.State
		out, err, hint  string
		written         string
	}{
		"an operator":      {source: calls + "print({'a': 1} | state.get('k'))\nwrite(line='two')", moved: true, out: "begin True True\n{'a': 1}\n", written: "one two"},
		"a truth value":    {source: calls + "yes = state.get('k') is not None\nprint(yes + 1)", moved: true, out: "begin True True\n2\n", written: "one"},
		"files":            {source: "print(1)\nwith open('/tmp/x', 'w') as f:\n    f.write('text')\nprint(open('/tmp/x').read())", moved: true, out: "1\ntext\n"},
		"async calls":      {source: "import asyncio\nfrom tools.book.aio import write\nprint(await asyncio.gather(write(line='a'), write(line='b')))\nprint({'a': 1} | {})", moved: true, out: "['ok', 'ok']\n{'a': 1}\n", written: "a b"},
		"fails there too":  {source: calls + "[][1]", moved: true, state: agentkernel.StateFailed, out: "begin True True\n", err: "IndexError: list index out of range", written: "one"},
		"a tool's error":   {source: "from kernel import tool\ntool.call('nobody', 'x')", state: agentkernel.StateFailed, err: "not_found"},
		"a limit":          {source: "def f():\n    f()\nf()", state: agentkernel.StateKilled, err: "recursion limit reached"},
		"no program":       {source: "print(1)\nx = = 2", state: agentkernel.StateFailed, err: "SyntaxError"},
		"asked for Monty":  {source: "print({'a': 1} | {})", backend: "monty", state: agentkernel.StateFailed, err: "TypeError"},
		"no files in it":   {source: "open('/tmp/x')", backend: "monty", state: agentkernel.StateFailed, err: "PermissionError", hint: "--workspace DIR"},
		"another order":    {source: "print(sorted({1, 2}))\nprint(repr(print)[:9])\nclass A: pass\nprint(A())\n{} | {}", moved: true, state: agentkernel.StateFailed, out: "*", err: "it had moved from monty to process, for: TypeError"},
		"nothing is wrong": {source: calls + "print(len(state.get('k')))", out: "begin True True\n1\n", written: "one"},
	} {
		t.Run(name, func(t *testing.T) {
			clear(far.lines)
			s := program(c.source)
			s.Backend, s.Tools, s.Allow = c.backend, []string{"/book.json"}, []string{"book"}
			o := run(t, k, s)
			want := c.state
			if want == "" {
				want = agentkernel.StateExited
			}
			message, hint := "", ""
			if o.Error != nil {
				message, hint = o.Error.Message(), o.Error.Hint
			}
			if o.State != want || !strings.Contains(message, c.err) || (c.err == "") != (message == "") || !strings.Contains(hint, c.hint) || c.out != "*" && o.stdout != c.out {
				t.Errorf("ended as %s: %s (%s), printed %q\n%s", o.State, message, hint, o.stdout, tracebackOf(o.Error))
			}
			if moved := o.Moved != nil; moved != c.moved || moved != (o.Backend == "process") {
				t.Errorf("it ended on %s, moved %+v", o.Backend, o.Moved)
			}
			written := 0
			for line := range strings.FieldsSeq(c.written) {
				if n := far.lines[fmt.Sprintf(`{"line":%q}`, line)]; n != 1 {
					t.Errorf("%s was written %d times", line, n)
				}
				written++
			}
			if len(far.lines) != written {
				t.Errorf("written: %v", far.lines)
			}
		})
	}
}

// TestMoveUnderKill kills the kernel at random moments of a program that moves in the middle of its writes: each is there
// once, or the program was told that its outcome is unknown.
func TestMoveUnderKill(t *testing.T) {
	t.Setenv(envSandboxes, systemPython(t))
	dir, file := home(t), filepath.Join(t.TempDir(), "lines.txt")
	cfg := tooltest.Config(t, map[string]tooltest.Server{"lines": tooltest.Stdio(t)})
	const lines = 60
	source := strings.Replace(fmt.Sprintf(appender, file, lines, 0.08), "    state.set(\"done\"", "    if i == 16:\n        print({'x': i} | {})\n    state.set(\"done\"", 1)
	s := program(source)
	s.Tools, s.Allow = []string{cfg}, []string{"lines.*"}
	v := startVictim(t, dir)
	p, err := v.client(t, dir).Spawn(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	before, after := 0, 0
	for range kills(t, 8) {
		time.Sleep(time.Duration(rng.Int64N(int64(500 * time.Millisecond)))) //nolint:forbidigo // the random moment is what is tested
		v.kill()
		v = startVictim(t, dir)
		got, err := v.client(t, dir).Process(t.Context(), p.PID)
		switch {
		case err != nil || got.State.Terminal():
		case got.Moved == nil:
			before++
		default:
			after++
		}
	}
	got, err := v.client(t, dir).Wait(t.Context(), p.PID)
	if err != nil || got.State != agentkernel.StateExited || got.Backend != "process" || got.Moved == nil {
		t.Fatalf("ended as %s on %s: %v %v\n%s", got.State, got.Backend, got.Error, err, tracebackOf(got.Error))
	}
	t.Logf("%d kills before the move, %d after", before, after)
	if before+after < 3 {
		t.Errorf("only %d kills met the program alive: the test proves little", before+after)
	}
	checkLines(t, v.client(t, dir), p.PID, file, lines)
}

// TestEngineHangs: the first program finds out that the engine says nothing, and goes on in CPython. Those after it begin there.
func TestEngineHangs(t *testing.T) {
	t.Parallel() // it waits as long as an engine may take for its first answer
	path := filepath.Join(t.TempDir(), "monty")
	script := "#!/bin/sh\n[ \"$1\" = --version ] && echo 'monty-runtime " + monty.EngineVersion + "' && exit\nexec sleep 1000\n"
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
	k := openEmbedded(t, home(t), withSandboxes(t), func(c *embedded.Config) { c.Engine = path })
	first := run(t, k, program("print(6 * 7)"))
	if first.State != agentkernel.StateExited || first.stdout != "42\n" || first.Backend != "process" || first.Moved == nil {
		t.Errorf("the first ended as %s: %v, printed %q, moved: %+v", first.State, first.Error, first.stdout, first.Moved)
	}
	begun := time.Now()
	next := run(t, k, program("print(6 * 7)"))
	if next.State != agentkernel.StateExited || next.stdout != "42\n" || next.Backend != "process" || next.Moved != nil || time.Since(begun) > 5*time.Second {
		t.Errorf("the next ended after %s as %s: %v, printed %q, moved: %+v", time.Since(begun), next.State, next.Error, next.stdout, next.Moved)
	}
	info, err := k.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range info.Backends {
		if b.Name == "monty" && (b.Available || !strings.Contains(b.Problem, "no answer")) {
			t.Errorf("the engine is reported as %+v", b)
		}
	}
}
