package kernel_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel"
)

// newSessionLadder is a ladder whose backends keep sessions: of these cells on the first, and of others on the second.
// The first refuses the cell "there".
func newSessionLadder(t *testing.T, first, second map[string]func(*prog) (string, error), change ...func(*kernel.Config)) *ladder {
	t.Helper()
	return newLadder(t, append(change, func(c *kernel.Config) {
		for i, known := range []map[string]func(*prog) (string, error){first, second} {
			b := c.Backends[i].(*goBackend)
			b.sessions = true
			b.add("session", func(p *prog) error { return p.session(known) })
			for name := range known {
				b.add(name, nil)
			}
		}
		c.Backends[0].(*goBackend).refuse = map[string]error{
			"there": agentkernel.Errorf(agentkernel.CodeUnsupported, "check", "this backend lacks it"),
		}
	})...)
}

func says(text string) func(*prog) (string, error) {
	return func(p *prog) (string, error) { p.print("%s", text); return "1", nil }
}

// A session that is on its way to another backend, or on its way back, ends of a signal and of the wall limit.
func TestEndWhileASessionMoves(t *testing.T) {
	kill := func(l *ladder, pid agentkernel.PID) {
		go func() { _ = l.Signal(context.Background(), pid, agentkernel.SignalKill) }()
		synctest.Wait()
	}
	expire := func(*ladder, agentkernel.PID) { pass(time.Minute) }
	for name, c := range map[string]struct {
		again func(p *prog, now func()) (string, error) // what the cell does on the other backend
		end   func(*ladder, agentkernel.PID)
		want  string // the operation of the error
	}{
		"the wall limit while its cells run again": {
			func(p *prog, _ func()) (string, error) { <-p.s.dead; return "", errStopped }, nil, "limit.wall",
		},
		"a kill after it printed something else": {
			func(p *prog, now func()) (string, error) { now(); return says("b")(p) }, kill, "kill",
		},
		"a kill after it made another call": {
			func(p *prog, now func()) (string, error) { now(); p.print("a"); return "2", nil }, kill, "kill",
		},
		"the wall limit after it printed something else": {
			func(p *prog, now func()) (string, error) { now(); return says("b")(p) }, expire, "limit.wall",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var l *ladder
				var pid agentkernel.PID
				again := func(p *prog) (string, error) {
					return c.again(p, func() { l.store.beforeNextRead(func() { c.end(l, pid) }) }) // the session reads its journal to go back
				}
				l = newSessionLadder(t, map[string]func(*prog) (string, error){"a": says("a")},
					map[string]func(*prog) (string, error){"a": again, "there": says("there")})
				s := auto("session")
				s.Limits.Wall = agentkernel.Duration(30 * time.Second)
				pid = l.beginAs(t, s)
				if got, err := l.feed(t.Context(), pid, "a"); got != "a1" || err != nil {
					t.Fatal(got, err)
				}
				got, err := l.feed(t.Context(), pid, "there")
				if agentkernel.CodeOf(err) != agentkernel.CodeConflict || !strings.Contains(err.Error(), "has ended") {
					t.Errorf("whoever brought the cell is told %q %v", got, err)
				}
				synctest.Wait()
				if p, err := l.Process(t.Context(), pid); err != nil || p.State != agentkernel.StateKilled || p.Error.Op != c.want {
					t.Errorf("%+v, error %v, %v", p, p.Error, err)
				}
			})
		})
	}
}

// A session that did not come to the same place on another backend goes on where it was.
func TestASessionGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newSessionLadder(t, map[string]func(*prog) (string, error){"a": says("a")},
			map[string]func(*prog) (string, error){"a": says("b"), "there": says("there")})
		s := auto("session")
		s.Limits.Wall = agentkernel.Duration(time.Minute)
		pid := l.beginAs(t, s)
		for range 2 {
			if got, err := l.feed(t.Context(), pid, "a"); got != "a1" || err != nil {
				t.Fatal(got, err)
			}
			if _, err := l.feed(t.Context(), pid, "there"); agentkernel.CodeOf(err) != agentkernel.CodeDiverged {
				t.Errorf("the cell that only the other backend runs: %v", err)
			}
			synctest.Wait()
		}
		pass(2 * time.Minute)
		if p, err := l.Process(t.Context(), pid); err != nil || p.State != agentkernel.StateKilled || p.Error.Op != "limit.wall" {
			t.Errorf("the wall limit does not hold any more: %+v, %v", p, err)
		}
	})
}

// A cell that could not be read ended alike wherever it ran: parsers name what is wrong in ways of their own, and backends find it
// at different times. What a cell did before any other error may not be the same.
func TestErrorsOfCellsWhereTheyMove(t *testing.T) {
	raised := func(code agentkernel.Code, exception string) func(*prog) (string, error) {
		return func(*prog) (string, error) {
			err := agentkernel.Errorf(code, "piece", "%s: said in words of its own on %s", exception, code)
			err.Exception = exception
			return "", err
		}
	}
	for name, c := range map[string]struct {
		first, second func(*prog) (string, error)
		moves         bool
	}{
		"before it ran, and while":    {raised(agentkernel.CodeSyntax, "SyntaxError"), raised(agentkernel.CodeProgram, "SyntaxError"), true},
		"one is about indentation":    {raised(agentkernel.CodeSyntax, "SyntaxError"), raised(agentkernel.CodeProgram, "IndentationError"), true},
		"an exception in other words": {raised(agentkernel.CodeProgram, "ValueError"), raised(agentkernel.CodeProgram, "ValueError"), true},
		"an error of a tool":          {raised(agentkernel.CodeProgram, "RuntimeError"), raised(agentkernel.CodeProgram, "ToolError"), true},
		"a cancellation":              {raised(agentkernel.CodeProgram, "KeyboardInterrupt"), raised(agentkernel.CodeProgram, "KernelInterrupt"), true},
		"an unknown outcome":          {raised(agentkernel.CodeProgram, "OSError"), raised(agentkernel.CodeProgram, "OutcomeUnknown"), true},
		"a limit":                     {raised(agentkernel.CodeProgram, "MemoryError"), raised(agentkernel.CodeProgram, "LimitError"), true},
		"an error of another kind":    {raised(agentkernel.CodeProgram, "OSError"), raised(agentkernel.CodeProgram, "ToolError"), false},
		"the type of a module":        {raised(agentkernel.CodeProgram, "json.JSONDecodeError"), raised(agentkernel.CodeProgram, "JSONDecodeError"), true},
		"a type with a newer name":    {raised(agentkernel.CodeProgram, "re.PatternError"), raised(agentkernel.CodeProgram, "error"), true},
		"another exception":           {raised(agentkernel.CodeProgram, "ValueError"), raised(agentkernel.CodeProgram, "KeyError"), false},
		"syntax, and something else":  {raised(agentkernel.CodeSyntax, "SyntaxError"), raised(agentkernel.CodeProgram, "NameError"), false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newSessionLadder(t, map[string]func(*prog) (string, error){"bad": c.first},
					map[string]func(*prog) (string, error){"bad": c.second, "there": says("there")})
				pid := l.beginAs(t, auto("session"))
				if got, err := l.feed(t.Context(), pid, "bad"); err != nil || got[0] != '!' {
					t.Fatal(got, err)
				}
				got, err := l.feed(t.Context(), pid, "there")
				if moved := got == "there1" && err == nil; moved != c.moves {
					t.Errorf("the cell that only the other backend runs: %q, %v", got, err)
				}
			})
		})
	}
}
