package e2e_test

import (
	"errors"
	"strings"
	"testing"

	"agentkernel"
)

// feedKeyed is feed of a cell with a key.
func feedKeyed(t *testing.T, k agentkernel.Kernel, pid agentkernel.PID, key, source string) string {
	t.Helper()
	var out strings.Builder
	end, err := k.Feed(t.Context(), pid, agentkernel.Cell{Name: "cell", Source: source, Key: key}, func(ev agentkernel.Event) error {
		out.WriteString(ev.Text)
		return nil
	})
	switch {
	case err != nil:
		return "refused: " + err.Error()
	case end.Ended:
		out.WriteString("ended ")
	}
	if end.Error != nil {
		return out.String() + "error: " + end.Error.Message()
	}
	return out.String() + string(end.Result)
}

// A cell with a key runs once, however often it is fed: also while it runs, after it raised, was stopped, or has ended its
// session. Who feeds it again is told the same.
func TestACellWithAKeyRunsOnce(t *testing.T) {
	bothKernels(t, func(t *testing.T, k agentkernel.Kernel) {
		pid := startSession(t, k)
		feedKeyed(t, k, pid, "", "n = 0")
		for _, c := range []struct{ key, source, want string }{
			{"a", "n += 1\nprint('a')\nn", "a\n1"},
			{"b", "n += 1\nn", "2"},
			{"a", "n += 1\nprint('a')\nn", "a\n1"},
			{"a", "n += 10", "refused: "},
			{"bad", "n += 1\n1 / 0", "error: ZeroDivisionError: division by zero"},
			{"bad", "n += 1\n1 / 0", "error: ZeroDivisionError: division by zero"},
			{"no", "import numpy\nn += 1", "refused: "},
			{"no", "n += 1\nn", "4"}, // what was refused has not run
			{`"<&\u00e9`, "n += 1\nn", "5"},
			{`"<&\u00e9`, "n += 1\nn", "5"},
			{"", "n += 1\nn", "6"},
			{"", "n += 1\nn", "7"},
		} {
			if got := feedKeyed(t, k, pid, c.key, c.source); got != c.want && !(strings.HasSuffix(c.want, ": ") && strings.HasPrefix(got, c.want)) {
				t.Errorf("%s %q: %s, not %s", c.key, c.source, got, c.want)
			}
		}
		leave := errors.New("the client leaves")
		slow := "from kernel import sleep\nprint('on')\nsleep(0.2)\nn += 1\nn"
		if _, err := k.Feed(t.Context(), pid, agentkernel.Cell{Name: "cell", Source: slow, Key: "slow"}, func(ev agentkernel.Event) error {
			if ev.Kind == agentkernel.EventOutput {
				return leave
			}
			return nil
		}); !errors.Is(err, leave) {
			t.Fatal(err)
		}
		if got := feedKeyed(t, k, pid, "slow", slow); got != "on\n8" {
			t.Errorf("a cell that still runs: %s", got)
		}
		if got := feedKeyed(t, k, pid, "end", "from kernel import exit\nexit(3)"); !strings.HasPrefix(got, "ended ") {
			t.Errorf("the end: %s", got)
		}
		for key, want := range map[string]string{"a": "a\n1", "bad": "error: ZeroDivisionError: division by zero", "slow": "on\n8"} {
			source := map[string]string{"a": "n += 1\nprint('a')\nn", "bad": "n += 1\n1 / 0", "slow": slow}[key]
			if got := feedKeyed(t, k, pid, key, source); got != want {
				t.Errorf("%s of an ended session: %s", key, got)
			}
		}
		if got := feedKeyed(t, k, pid, "end", "from kernel import exit\nexit(3)"); !strings.HasPrefix(got, "ended ") {
			t.Errorf("the end, again: %s", got)
		}
		if got := feedKeyed(t, k, pid, "new", "1"); !strings.Contains(got, "has ended") {
			t.Errorf("a new cell of an ended session: %s", got)
		}
	})
}

// After its kernel died a session is recovered with its keys.
func TestACellWithAKeyRunsOnceAfterACrash(t *testing.T) {
	dir := home(t)
	k := openEmbedded(t, dir)
	pid := startSession(t, k)
	feedKeyed(t, k, pid, "first", "n = 1\nn")
	leave := errors.New("the client leaves")
	source := "from kernel import sleep\nprint('on')\nn += 1\nsleep(0.2)\nn"
	if _, err := k.Feed(t.Context(), pid, agentkernel.Cell{Name: "cell", Source: source, Key: "cut"}, func(ev agentkernel.Event) error {
		if ev.Kind == agentkernel.EventOutput {
			return leave
		}
		return nil
	}); !errors.Is(err, leave) {
		t.Fatal(err)
	}
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	k = openEmbedded(t, dir)
	if got := feedKeyed(t, k, pid, "first", "n = 1\nn"); got != "1" { // it had run to its end
		t.Errorf("a cell of an unfinished session: %s", got)
	}
	if got := feedKeyed(t, k, pid, "cut", source); !strings.Contains(got, "unfinished") {
		t.Errorf("one that was cut off: %s", got)
	}
	if _, err := k.Recover(t.Context(), pid); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got := feedKeyed(t, k, pid, "cut", source); got != "on\n2" {
			t.Errorf("one that was cut off, recovered: %s", got)
		}
	}
	for range 2 {
		if got := feedKeyed(t, k, pid, "next", "n += 1\nn"); got != "3" {
			t.Errorf("the next: %s", got)
		}
	}
}
