package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/embedded"
	"agentkernel/internal/tool/tooltest"
)

func startSession(t *testing.T, k agentkernel.Kernel, change ...func(*agentkernel.Spec)) agentkernel.PID {
	t.Helper()
	s := agentkernel.Spec{Program: agentkernel.Program{Name: "<session>", Session: true}}
	for _, c := range change {
		c(&s)
	}
	p, err := k.Spawn(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the session waits for a cell", func() bool { return waitsForCell(t, k, p.PID) })
	return p.PID
}

func waitsForCell(t *testing.T, k agentkernel.Kernel, pid agentkernel.PID) bool {
	t.Helper()
	p, err := k.Process(t.Context(), pid)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(p.WaitsFor) == "[proc.next]" && p.State == agentkernel.StateWaiting
}

// feed gives what a cell printed and its result, or its error.
func feed(t *testing.T, k agentkernel.Kernel, pid agentkernel.PID, source string) string {
	t.Helper()
	var out strings.Builder
	end, err := k.Feed(t.Context(), pid, agentkernel.Cell{Name: "cell", Source: source}, func(ev agentkernel.Event) error {
		out.WriteString(ev.Text)
		return nil
	})
	switch {
	case err != nil:
		return "refused: " + err.Error()
	case end.Error != nil:
		return out.String() + "error: " + end.Error.Message()
	}
	return out.String() + string(end.Result)
}

func TestSessions(t *testing.T) {
	bothKernels(t, func(t *testing.T, k agentkernel.Kernel) {
		cfg := tooltest.Config(t, map[string]tooltest.Server{"test": tooltest.Stdio(t)})
		pid := startSession(t, k, func(s *agentkernel.Spec) { s.Tools = []string{cfg} })
		if _, err := k.SaveSkill(t.Context(), agentkernel.Skill{Name: "twice", Code: "def twice(x):\n    return [x, x]\n"}); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct{ source, want string }{
			{"x = 20", ""},
			{"print('hi')\nx + 22", "hi\n42"},
			{"from tools.test import echo", ""},
			{"'<' + str(echo(value=str(x))) + '>'", `"<\"20\">"`},
			{"import tools.test as t\nt.add(a=1, b=2)['sum']", "3"},
			{"len(t.echo(value='again'))", "7"},
			{"from skills.twice import twice\ntwice(x)", "[20,20]"},
			{"x / 0", "error: ZeroDivisionError: division by zero"},
			{"import numpy", "refused: "},
			{"y = (", "refused: "},
			{"from tools.test import ecko", "refused: "},
			{"import random\nrandom.seed(7)\na = random.random()\nrandom.seed(7)\nrandom.random() == a", "true"},
			{"random.seed(7)", ""},
			{"random.random() == a", "false"}, // a seed holds for its cell
			{"import statistics" + strings.Repeat("\n#", 100<<10), ""},
			{"statistics.mean([1, 2])", "1.5"},
			{"import bisect" + strings.Repeat("\n#", 128<<10), ""}, // more than 256 KiB
			{"bisect.bisect([1, 3], 2)", "error: "},
			{"import bisect\nbisect.bisect([1, 3], 2)", "1"},
			{"from kernel import state\nstate.set('n', x)\nx", "20"},
		} {
			if got := strings.TrimSuffix(feed(t, k, pid, c.source), "null"); got != c.want && !(strings.HasSuffix(c.want, ": ") && strings.HasPrefix(got, c.want)) {
				t.Errorf("%q: %s, not %s", c.source, got, c.want)
			}
		}
		if p, err := k.EndSession(t.Context(), pid); err != nil || p.State != agentkernel.StateExited || string(p.Result) != "20" {
			t.Errorf("the end: %+v %v", p, err)
		}
		if got := feed(t, k, pid, "x"); !strings.Contains(got, "has ended") {
			t.Errorf("after the end: %s", got)
		}
		if _, err := k.Feed(t.Context(), 9999, agentkernel.Cell{Source: "1"}, func(agentkernel.Event) error { return nil }); agentkernel.CodeOf(err) != agentkernel.CodeNotFound {
			t.Errorf("an unknown session: %v", err)
		}
		plain, err := k.Spawn(t.Context(), program("from kernel import sleep\nsleep(60)"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := k.Feed(t.Context(), plain.PID, agentkernel.Cell{Source: "1"}, func(agentkernel.Event) error { return nil }); agentkernel.CodeOf(err) != agentkernel.CodeInvalid {
			t.Errorf("a process that is no session: %v", err)
		}
		if err := k.Signal(t.Context(), plain.PID, agentkernel.SignalKill); err != nil {
			t.Error(err)
		}
	})
}

// A session that nobody feeds has no sandbox; one whose kernel died goes on where it was.
func TestSessionsAreParkedAndRecovered(t *testing.T) {
	dir := home(t)
	k := openEmbedded(t, dir, func(c *embedded.Config) { c.ParkAfter = time.Millisecond })
	pid := startSession(t, k)
	feed(t, k, pid, "import textwrap\nnames = ['a']\ndef show(): return textwrap.indent(','.join(names), '> ')")
	for i := range 3 {
		eventually(t, "the session is parked", func() bool {
			p, err := k.Process(t.Context(), pid)
			return err == nil && !p.Resident
		})
		if got := feed(t, k, pid, fmt.Sprintf("names.append('b%d')\nshow()", i)); !strings.HasSuffix(got, fmt.Sprintf("b%d\"", i)) {
			t.Errorf("round %d: %s", i, got)
		}
	}
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	k = openEmbedded(t, dir)
	if got := feed(t, k, pid, "1"); !strings.Contains(got, "unfinished") {
		t.Errorf("before recovery: %s", got)
	}
	if _, err := k.Recover(t.Context(), pid); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the session waits", func() bool { return waitsForCell(t, k, pid) })
	if got := feed(t, k, pid, "textwrap.dedent('  ') + show()"); got != `"> a,b0,b1,b2"` {
		t.Errorf("after recovery: %s", got)
	}
}

// noImages is a store whose images cannot be read: another engine made them, or a disk lost them.
type noImages struct{ agentkernel.Store }

func (noImages) Image(context.Context, agentkernel.PID) (agentkernel.Image, error) {
	return agentkernel.Image{}, agentkernel.Errorf(agentkernel.CodeNotFound, "image", "there is none")
}

// Without its image a session is fed again what its journal says, and makes no call of a tool twice.
func TestSessionsAreReplayed(t *testing.T) {
	dir := home(t)
	lines := filepath.Join(t.TempDir(), "lines")
	cfg := tooltest.Config(t, map[string]tooltest.Server{"test": tooltest.Stdio(t)})
	k := openEmbedded(t, dir)
	pid := startSession(t, k, func(s *agentkernel.Spec) { s.Tools, s.Allow = []string{cfg}, []string{"*"} })
	feed(t, k, pid, "import random, textwrap\nfrom tools.test import append_line\nn = [random.random()]")
	for i := range 3 {
		feed(t, k, pid, fmt.Sprintf("append_line(path=%q, text='line %d')\nn.append(random.random())", lines, i))
	}
	feed(t, k, pid, "n[0] / 0")
	want := feed(t, k, pid, "textwrap.indent(str(n), '# ')")
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	k = openEmbedded(t, dir, func(c *embedded.Config) {
		c.ParkAfter = time.Hour
		c.WrapStore = func(s agentkernel.Store) agentkernel.Store { return noImages{s} }
	})
	if _, err := k.Recover(t.Context(), pid); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the session waits", func() bool { return waitsForCell(t, k, pid) })
	if got := feed(t, k, pid, "textwrap.indent(str(n), '# ')"); got != want || !strings.Contains(got, "[0.") {
		t.Errorf("after the replay: %s, not %s", got, want)
	}
	if b, err := os.ReadFile(lines); err != nil || string(b) != "line 0\nline 1\nline 2\n" {
		t.Errorf("the tool wrote %q, %v", b, err)
	}
}

// One who gives up leaves the cell running; another cannot feed meanwhile; a kill ends the session.
func TestSessionsThatAreBusy(t *testing.T) {
	bothKernels(t, func(t *testing.T, k agentkernel.Kernel) {
		pid := startSession(t, k)
		ctx, cancel := context.WithCancel(t.Context())
		begun := make(chan struct{})
		gone := make(chan error, 1)
		go func() {
			_, err := k.Feed(ctx, pid, agentkernel.Cell{Source: "print('go')\nfrom kernel import sleep\nsleep(0.3)\nprint('on')\nz = 1"}, func(ev agentkernel.Event) error {
				if ev.Text == "go\n" {
					close(begun)
				}
				return nil
			})
			gone <- err
		}()
		<-begun
		if got := feed(t, k, pid, "1"); !strings.Contains(got, "busy") && !strings.Contains(got, "fed by") {
			t.Errorf("two at once: %s", got)
		}
		cancel()
		if err := <-gone; err == nil || !errors.Is(err, context.Canceled) && agentkernel.CodeOf(err) != agentkernel.CodeCanceled {
			t.Errorf("gave up: %v", err)
		}
		eventually(t, "the cell has run", func() bool { return waitsForCell(t, k, pid) })
		if got := feed(t, k, pid, "z"); got != "1" {
			t.Errorf("after that: %s", got)
		}
		// A runaway cell ends by its limit, and with it the session.
		if err := k.Signal(t.Context(), pid, agentkernel.SignalKill); err != nil {
			t.Fatal(err)
		}
		if got := feed(t, k, pid, "z"); !strings.Contains(got, "has ended: killed") {
			t.Errorf("after a kill: %s", got)
		}
	})
}

// Whatever was fed before, an error shows the cell and the line in which it is; a function of an earlier cell too. Empty
// cells are among them, since the engine does not count those.
func TestSessionTracebacks(t *testing.T) {
	for _, source := range []string{"", "0\n"} {
		k := openEmbedded(t, home(t))
		pid := startSession(t, k, func(s *agentkernel.Spec) { s.Program.Source = source })
		for i, c := range []struct{ source, want string }{
			{"a = 1\nb = 2", ""},
			{"x = 10\ny = x / 0", "File \"cell 1\", line 2, in <module>\n    y = x / 0\n"},
			{"", ""}, {" \n\t\n", ""}, {"# nothing", ""}, {"import json\nfrom statistics import mean", ""},
			{"def f():\n    return 1 / 0", ""},
			{"# that was cell 6\nf()", "File \"cell 7\", line 2, in <module>\n    f()\n  File \"cell 6\", line 2, in f\n    return 1 / 0\n"},
			{"z = 1\nfor i in range(3)\n    print(i)", "File \"cell 8\", line 2\n    for i in range(3)\n"},
			{"json.dumps(x.nothing)", "File \"cell 9\", line 1, in <module>\n    json.dumps(x.nothing)\n"},
		} {
			end, err := k.Feed(t.Context(), pid, agentkernel.Cell{Name: fmt.Sprintf("cell %d", i), Source: c.source}, func(agentkernel.Event) error { return nil })
			got := ""
			if end.Error != nil {
				got = end.Error.Traceback
			}
			if err != nil || !strings.Contains(got, c.want) || (c.want == "") != (got == "") {
				t.Errorf("after %q, %q: %v\n%s", source, c.source, err, got)
			}
		}
	}
}
