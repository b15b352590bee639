package e2e_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/embedded"
	"agentkernel/internal/tool/tooltest"
)

// TestDecisions: a write that did not answer waits for a human, who decides in one of three ways, or not.
func TestDecisions(t *testing.T) {
	cfg := tooltest.Config(t, map[string]tooltest.Server{"test": tooltest.Stdio(t)})
	const source = "from tools.test import hang\ntry:\n    print('got', hang())\nexcept RuntimeError as e:\n    print(e)\nexcept OSError as e:\n    print(str(e)[:15])"
	bothKernels(t, func(t *testing.T, k agentkernel.Kernel) {
		for name, c := range map[string]struct {
			decision agentkernel.Resolution
			stdout   string
		}{
			"done":   {agentkernel.Resolution{Decision: agentkernel.DecisionDone, Result: json.RawMessage(`{"id": [7, 1.5], "$x": "<"}`)}, "got {'id': [7, 1.5], '$x': '<'}\n"},
			"fail":   {agentkernel.Resolution{Decision: agentkernel.DecisionFail, Message: "no & <never>"}, "tool_error: no & <never>\n"},
			"resume": {agentkernel.Resolution{}, "outcome_unknown\n"},
			"retry":  {agentkernel.Resolution{Decision: agentkernel.DecisionRetry}, ""}, // it hangs again, and is asked again
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := program(source)
				s.Tools, s.Allow, s.OnUnknown = []string{cfg}, []string{"test"}, agentkernel.UnknownPause
				s.Limits.CallWait = agentkernel.Duration(time.Second)
				o := run(t, k, s)
				if !o.Paused || !strings.Contains(o.PauseNote, fmt.Sprintf("agentkernel resolve %d 1", o.PID)) {
					t.Fatalf("%+v", o.Process)
				}
				var err error
				if name == "resume" {
					err = k.Signal(t.Context(), o.PID, agentkernel.SignalResume)
				} else {
					err = k.Resolve(t.Context(), o.PID, 1, c.decision)
				}
				if err != nil {
					t.Fatal(err)
				}
				p, err := k.Wait(t.Context(), o.PID)
				if name == "retry" {
					if err != nil || !p.Paused {
						t.Errorf("%+v %v", p, err)
					}
					return
				}
				if got := stdoutOf(t, k, o.PID); err != nil || p.State != agentkernel.StateExited || got != c.stdout {
					t.Errorf("%+v %v, it printed %q", p, err, got)
				}
				if err := k.Resolve(t.Context(), o.PID, 1, agentkernel.Resolution{Decision: agentkernel.DecisionRetry}); agentkernel.CodeOf(err) != agentkernel.CodeConflict {
					t.Errorf("deciding again: %v", err)
				}
			})
		}
	})
}

func stdoutOf(t testing.TB, k agentkernel.Kernel, pid agentkernel.PID) string {
	t.Helper()
	var out strings.Builder
	if err := k.Events(t.Context(), pid, 1, false, func(ev agentkernel.Event) error {
		if ev.Kind == agentkernel.EventOutput && ev.Stream == "stdout" {
			out.WriteString(ev.Text)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// forty makes forty writes, some of them in parallel, with clock, chance and state between them. The 31st fails until
// it is mended.
const forty = `
import asyncio, random, sys, time
from kernel import state
from tools.test import append_line
from tools.test.aio import append_line as later

path, bad = sys.argv[1], %d

def target(i):
    return path + "/missing/log.txt" if i == bad else path + "/log.txt"

async def pair(i):
    await asyncio.gather(later(path=target(i), text=str(i)), later(path=target(i + 1), text=str(i + 1)))

i = 1
while i <= 40:
    print(i, random.random(), time.time())
    if i %% 10 == 5:
        asyncio.run(pair(i))
        i += 2
    else:
        append_line(path=target(i), text=str(i))
        i += 1
    state.set("at", i)
print("end", state.get("at"))
`

// fortyFailed runs it up to the failure and gives the Spec that mends it, and the server's own log.
func fortyFailed(t testing.TB, k agentkernel.Kernel) (agentkernel.Process, agentkernel.Spec, string) {
	t.Helper()
	dir := t.TempDir()
	s := program(fmt.Sprintf(forty, 31))
	s.Tools, s.Allow = []string{tooltest.Config(t, map[string]tooltest.Server{"test": tooltest.Stdio(t)})}, []string{"test"}
	s.Program.Args = []string{dir}
	o := run(t, k, s)
	log := filepath.Join(dir, "log.txt")
	if o.State != agentkernel.StateFailed || !strings.Contains(o.Error.Message(), "no such file") {
		t.Fatalf("%+v %v", o.Process, o.Error)
	}
	wantLines(t, log, 30)
	s.Program.Source = fmt.Sprintf(forty, 0)
	s.Past = &agentkernel.Past{PID: o.PID}
	return o.Process, s, log
}

// wantLines checks that a log has the numbers from 1 to n, each once.
func wantLines(t testing.TB, path string, n int) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for line := range strings.Lines(string(text)) {
		count[strings.TrimSpace(line)]++
	}
	for i := range n {
		if c := count[fmt.Sprint(i+1)]; c != 1 {
			t.Errorf("%d was written %d times", i+1, c)
		}
	}
	if len(count) != n {
		t.Errorf("%d different lines, want %d", len(count), n)
	}
}

// TestRerunMended: the forty calls are made once each, over two processes; what the program saw before the
// failure it sees again.
func TestRerunMended(t *testing.T) {
	bothKernels(t, func(t *testing.T, k agentkernel.Kernel) {
		first, s, log := fortyFailed(t, k)
		var told []string
		p, err := k.Run(t.Context(), s, func(ev agentkernel.Event) error {
			if ev.Kind == agentkernel.EventPast {
				told = append(told, ev.Text)
			}
			return nil
		})
		if err != nil || p.State != agentkernel.StateExited {
			t.Fatalf("%+v %v %v", p, p.Error, err)
		}
		wantLines(t, log, 40)
		before, after := stdoutOf(t, k, first.PID), stdoutOf(t, k, p.PID)
		lines := strings.Split(strings.TrimSuffix(before, "\n"), "\n")
		if !strings.HasPrefix(after, strings.Join(lines, "\n")) || !strings.HasSuffix(after, "end 41\n") {
			t.Errorf("the first printed %q, the second %q", before, after)
		}
		if len(told) != 1 || !strings.Contains(told[0], fmt.Sprintf("answered from the journal of process %d; live from call ", first.PID)) {
			t.Errorf("told: %q", told)
		}
		if p.Usage.ToolCalls != 10 {
			t.Errorf("%d tool calls are counted, want 10", p.Usage.ToolCalls)
		}
		spec, err := k.Spec(t.Context(), p.PID)
		if err != nil || spec.Past == nil || spec.Past.PID != first.PID || spec.Program.Source != s.Program.Source {
			t.Errorf("spec %+v %v", spec, err)
		}
	})
}

// TestRerunOnAnotherBackend: what ran in one interpreter goes on in the other, both ways.
func TestRerunOnAnotherBackend(t *testing.T) {
	k := openEmbedded(t, home(t), func(c *embedded.Config) { c.Sandboxes = true })
	info, err := k.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, b := range info.Backends {
		if b.Available {
			names = append(names, b.Name)
		}
	}
	if len(names) < 2 {
		const msg = "NOTHING PROVED: there is only one backend here: %v"
		if os.Getenv("CI") == "true" {
			t.Fatalf(msg, names)
		}
		t.Skipf(msg, names)
	}
	for _, pair := range [][2]string{{names[0], names[1]}, {names[1], names[0]}} {
		dir := t.TempDir()
		s := program(fmt.Sprintf(forty, 31))
		s.Backend = pair[0]
		s.Tools, s.Allow = []string{tooltest.Config(t, map[string]tooltest.Server{"test": tooltest.Stdio(t)})}, []string{"test"}
		s.Program.Args = []string{dir}
		first := run(t, k, s)
		s.Program.Source, s.Backend, s.Past = fmt.Sprintf(forty, 0), pair[1], &agentkernel.Past{PID: first.PID}
		second := run(t, k, s)
		if first.Backend != pair[0] || second.Backend != pair[1] || second.State != agentkernel.StateExited {
			t.Errorf("%v: %+v %v", pair, second.Process, second.Error)
		}
		wantLines(t, filepath.Join(dir, "log.txt"), 40)
	}
}

// TestKillDuringRerun kills the kernel with SIGKILL at random moments while a rerun goes along its past and beyond:
// each line of both is written once, or the program was told that its outcome is unknown.
func TestKillDuringRerun(t *testing.T) {
	dir, logs := home(t), t.TempDir()
	cfg := tooltest.Config(t, map[string]tooltest.Server{"lines": tooltest.Stdio(t)})
	file := filepath.Join(logs, "lines.txt")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 2))

	v := startVictim(t, dir)
	s := program(fmt.Sprintf(appender, file, 60, 0.0))
	s.Tools, s.Allow = []string{cfg}, []string{"lines"}
	first, err := v.client(t, dir).Spawn(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if first, err = v.client(t, dir).Wait(t.Context(), first.PID); err != nil || first.State != agentkernel.StateExited {
		t.Fatalf("%+v %v", first, err)
	}
	s.Program.Source = fmt.Sprintf(appender, file, 120, 0.01)
	s.Past = &agentkernel.Past{PID: first.PID}
	second, err := v.client(t, dir).Spawn(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	for range kills(t, 6) {
		time.Sleep(time.Duration(rng.Int64N(int64(150 * time.Millisecond)))) //nolint:forbidigo // the random moment is what is tested
		v.kill()
		v = startVictim(t, dir)
	}
	k := v.client(t, dir)
	second, err = k.Wait(t.Context(), second.PID)
	if err != nil || second.State != agentkernel.StateExited {
		t.Fatalf("%+v %v %v", second, second.Error, err)
	}
	checkLines(t, k, second.PID, file, 120)
	entries, err := k.Journal(t.Context(), second.PID, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	copied := 0
	for _, e := range entries {
		if e.Op == "tool.call" && strings.HasPrefix(e.Note, "from pid ") {
			copied++
		}
	}
	if copied != 60 {
		t.Errorf("%d writes were taken over, want 60", copied)
	}
}

// TestRecordings: a process goes through a file into another store, and does the same there without its tools.
func TestRecordings(t *testing.T) {
	bothKernels(t, func(t *testing.T, k agentkernel.Kernel) {
		first, s, log := fortyFailed(t, k)
		file, err := k.Export(t.Context(), first.PID, agentkernel.ExportOptions{})
		if err != nil {
			t.Fatal(err)
		}
		again, err := k.Export(t.Context(), first.PID, agentkernel.ExportOptions{})
		if err != nil || !slices.Equal(file, again) {
			t.Errorf("the second export is another: %v", err)
		}
		for _, path := range []string{s.Tools[0], log} {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
		far := openClient(t, home(t))
		v, err := far.Replay(t.Context(), file, agentkernel.ReplayOptions{})
		if err != nil || !v.Equal || v.State != agentkernel.StateFailed || v.PID != first.PID || v.Calls != first.Usage.Syscalls || v.Output != first.Usage.Output {
			t.Errorf("%+v %v", v, err)
		}
		p, err := far.Import(t.Context(), file, agentkernel.ImportOptions{})
		if err != nil || p.State != agentkernel.StateFailed || p.Error.Message() != first.Error.Message() {
			t.Fatalf("%+v %v", p, err)
		}
		if got, want := stdoutOf(t, far, p.PID), stdoutOf(t, k, first.PID); got != want {
			t.Errorf("printed %q, imported %q", want, got)
		}
		theirs, err1 := k.Journal(t.Context(), first.PID, 2, 0)
		ours, err2 := far.Journal(t.Context(), p.PID, 2, 0)
		if err1 != nil || err2 != nil || len(theirs) != len(ours) {
			t.Errorf("%d entries of %d, %v %v", len(ours), len(theirs), err1, err2)
		}
		file[len(file)/2] ^= 4
		if _, err := far.Replay(t.Context(), file, agentkernel.ReplayOptions{}); agentkernel.CodeOf(err) != agentkernel.CodeCorrupt {
			t.Errorf("altered: %v", err)
		}
	})
}

// TestEveryProgramReplays exports what the programs of all backends did, well or badly, and replays it.
func TestEveryProgramReplays(t *testing.T) {
	k := openEmbedded(t, home(t), func(c *embedded.Config) { c.Sandboxes = true })
	info, err := k.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cfg := tooltest.Config(t, map[string]tooltest.Server{"test": tooltest.Stdio(t)})
	for _, b := range info.Backends {
		if !b.Available || !b.Replayable {
			t.Logf("NOT TESTED: the backend %s is not available here: %s", b.Name, b.Problem)
			continue
		}
		for name, source := range map[string]string{
			"values":    "from kernel import state\nv = (1, 2.0, b'x', {1: 'a'}, {3}, float('inf'), 10**30)\nstate.set('v', v)\nprint(state.get('v') == v)\nv[0]",
			"help":      "from tools.test import add\nhelp(add)\nprint(add(1, b=2))",
			"random":    "import random, time, uuid\nprint(random.random(), time.time(), uuid.uuid4())",
			"parallel":  "import asyncio\nfrom tools.test.aio import sleep, echo\nasync def main():\n    print(await asyncio.gather(sleep(seconds=0.05), echo(value=1), sleep(seconds=0.01)))\nasyncio.run(main())",
			"children":  "from kernel import spawn, wait\np = spawn('print(40 + 2)')\nprint(wait(p)['stdout'])",
			"exception": "def f(x):\n    return 1 / x\nf(0)",
			"exit":      "import sys\nprint('x', file=sys.stderr)\nsys.exit('bye')",
			"tool list": "from kernel import tool\nprint(len(tool.list('test')))",
			"refused":   "from tools.test import counter\ncounter()",
			"recursion": "def f(n):\n    return f(n + 1)\nf(0)",
			"memory":    "x = []\nwhile True:\n    x.append('y' * 100000)",
			"flood":     "while True:\n    print('x' * 1000)",
			"too long":  "print('on')\nwhile True:\n    pass",
		} {
			t.Run(b.Name+"/"+name, func(t *testing.T) {
				s := program(source)
				s.Backend, s.Tools = b.Name, []string{cfg}
				s.Limits = agentkernel.Limits{Time: agentkernel.Duration(2 * time.Second), Memory: 64 << 20, Output: 100 << 10}
				o, err := tryRun(t.Context(), k, s)
				if err != nil {
					t.Fatal(err)
				}
				file, err := k.Export(t.Context(), o.PID, agentkernel.ExportOptions{})
				if err != nil {
					t.Fatal(err)
				}
				v, err := k.Replay(t.Context(), file, agentkernel.ReplayOptions{})
				if err != nil || !v.Equal {
					t.Errorf("ended as %s (%v), replayed: %+v %v", o.State, o.Error, v, err)
				}
			})
		}
	}
}

// TestSessionReplays: a session is a program that asks for its code with calls, so its recording has the code.
func TestSessionReplays(t *testing.T) {
	k := openEmbedded(t, home(t))
	cfg := tooltest.Config(t, map[string]tooltest.Server{"test": tooltest.Stdio(t)})
	pid := startSession(t, k, func(s *agentkernel.Spec) { s.Tools = []string{cfg} })
	for _, cell := range []string{"x = 20", "from tools.test import add\nprint(add(a=x, b=1))", "x / 0", "import random\nx + random.random()"} {
		feed(t, k, pid, cell)
	}
	for _, ended := range []bool{false, true} {
		if ended {
			if _, err := k.EndSession(t.Context(), pid); err != nil {
				t.Fatal(err)
			}
		}
		file, err := k.Export(t.Context(), pid, agentkernel.ExportOptions{})
		if err != nil {
			t.Fatal(err)
		}
		v, err := openEmbedded(t, home(t)).Replay(t.Context(), file, agentkernel.ReplayOptions{})
		if err != nil || !v.Equal || (v.Cut == "") != ended {
			t.Errorf("ended %v: %+v %v", ended, v, err)
		}
	}
}
