package kernel_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel"
)

var errUnknownName = errors.New("NameError: name 'frobnicate' is not defined")

// perhaps and surely end a program with an error that its backend may have, or has, made.
func perhaps(*prog) error { return &shortfall{errUnknownName, agentkernel.FaultPerhaps} }
func surely(*prog) error  { return &shortfall{errUnknownName, agentkernel.FaultBackend} }

// after runs one program, then another.
func after(programs ...func(*prog) error) func(*prog) error {
	return func(p *prog) error {
		for _, program := range programs {
			if err := program(p); err != nil {
				return err
			}
		}
		return nil
	}
}

// ladder is a rig with a second backend behind the first: "real", which has no images.
type ladder struct {
	*rig
	real *goBackend
}

func newLadder(t *testing.T, change ...func(*kernel.Config)) *ladder {
	t.Helper()
	l := &ladder{rig: &rig{store: newRAMStore(), backend: newGoBackend(), tools: &fakeTools{}}, real: newGoBackend()}
	l.real.name, l.real.fingerprint, l.real.noImages = "real", "real-1", true
	l.rig = l.start(t, l.store, change...)
	return l
}

// start starts a kernel with both backends.
func (l *ladder) start(t *testing.T, store *ramStore, change ...func(*kernel.Config)) *rig {
	t.Helper()
	both := func(c *kernel.Config) { c.Backends = []agentkernel.Backend{l.backend, l.real} }
	return l.boot(t, store, append([]func(*kernel.Config){both}, change...)...)
}

// program is what runs as "p" on the first backend, and on the second.
func (l *ladder) program(first, second func(*prog) error) {
	l.backend.add("p", first)
	l.real.add("p", second)
}

// auto is spec without the name of a backend.
func auto(program string) agentkernel.Spec {
	s := spec(program)
	s.Backend = ""
	return s
}

// moves are the moves in the journal of a process.
func (r *rig) moves(t *testing.T, pid agentkernel.PID) (moves []agentkernel.Entry) {
	t.Helper()
	entries, err := r.Journal(t.Context(), pid, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Kind == agentkernel.EntryMoved {
			moves = append(moves, e)
		}
	}
	return moves
}

// sortedRuns are toolRuns in another order: calls at the same time come in any.
func sortedRuns(r *rig) string {
	words := strings.Fields(toolRuns(r))
	slices.Sort(words)
	return strings.Join(words, " ")
}

// TestMove: a program whose first backend gives up goes on in the next: calls are answered from the journal and made
// once, what was printed is not printed again, and everybody can see that it moved and why.
func TestMove(t *testing.T) {
	for name, c := range map[string]struct {
		first, second steps
		runs, out     string
	}{
		"before anything":  {"", "p1 w1 p2", "w1", "12"},
		"after output":     {"p1", "p1 p2", "", "12"},
		"after calls":      {"p1 w1 n r2 s3 l p2", "p1 w1 n r2 s3 l p2 w3 p4", "r2 w1 w3", "1946684800.008 info: x24"},
		"after a group":    {"W1 R2 . p1", "W1 R2 . p1 W3 R4 . p5", "r2 r4 w1 w3", "<1><0>1<1><0>5"},
		"in other pieces":  {"p12 p3", "p1 p23 p4", "", "1234"},
		"after a sleep":    {"p1 z w2", "p1 z w2 w3", "w2 w3", "1"},
		"at its very end":  {"p1 w2 p3", "p1 w2 p3", "w2", "13"},
		"after its errors": {"w6? p2", "w6? p2 w3", "w3 w6?", "[tool_error: w6? was refused]2"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLadder(t, parkSoon)
				watchTools(l.rig, failFor("w6?"))
				l.program(after(c.first.run, perhaps), c.second.run)
				p, out := l.run(t, auto("p"))
				if p.State != agentkernel.StateExited || out != c.out || sortedRuns(l.rig) != c.runs {
					t.Errorf("ended as %s (%v), printed %q, ran %q; want %q and %q", p.State, p.Error, out, toolRuns(l.rig), c.out, c.runs)
				}
				if p.Backend != "real" || p.Fingerprint != "real-1" || p.Moved == nil || p.Moved.From != "go" || p.Moved.Why != errUnknownName.Error() {
					t.Errorf("it is shown on %s (%s), moved %v", p.Backend, p.Fingerprint, p.Moved)
				}
				if want := " · moved from go to real: NameError: name 'frobnicate' is not defined"; !strings.HasSuffix(p.Receipt(), want) {
					t.Errorf("the receipt is %q", p.Receipt())
				}
				moves := l.moves(t, p.PID)
				if len(moves) != 1 || string(moves[0].Data) != `{"from":"go","to":"real"}` || moves[0].Err.Message() != errUnknownName.Error() {
					t.Errorf("its journal has the moves %+v", moves)
				}
				if s, err := l.Spec(t.Context(), p.PID); err != nil || s.Backend != "auto" {
					t.Errorf("what was asked for is %q, %v", s.Backend, err)
				}
				if stored, err := l.Process(t.Context(), p.PID); err != nil || stored.Moved == nil || stored.Backend != "real" {
					t.Errorf("the store has %+v, %v", stored, err)
				}
				synctest.Wait()
				if l.backend.sandboxes()+l.real.sandboxes() != 0 {
					t.Error("a sandbox is left")
				}
			})
		})
	}
}

// A call that is under way when the program moves stays so: it is not made again, and its result reaches the program
// when it waits for it, in the place that the journal gives it.
func TestMoveWithCallsUnderWay(t *testing.T) {
	for name, c := range map[string]struct {
		slow time.Duration // what the server takes for each call
		wait time.Duration // what the second backend takes to start
	}{
		"answered before it is issued again": {time.Second, 3 * time.Second},
		"answered afterwards":                {5 * time.Second, 0},
		"answered meanwhile":                 {time.Second, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLadder(t)
				l.tools.delay = func() { pass(c.slow) }
				l.real.onStart = func(agentkernel.StartRequest) { pass(c.wait) }
				issue := func(p *prog) (open []int64) {
					p.print("begin ")
					open = append(open, p.async("tool.call", callTool("append", `{"n":1}`)), p.async("time.sleep", `{"seconds":2}`))
					return append(open, p.async("tool.call", callTool("append", `{"n":2}`)))
				}
				l.program(func(p *prog) error { issue(p); return perhaps(p) }, func(p *prog) error {
					open := issue(p)
					for _, call := range open {
						if _, err := p.wait(call); err != nil {
							return err
						}
					}
					_, err := p.call("tool.call", callTool("append", `{"n":3}`))
					p.print("end")
					return err
				})
				p, out := l.run(t, auto("p"))
				if p.State != agentkernel.StateExited || out != "begin end" || p.Backend != "real" {
					t.Fatalf("%s on %s (%v), printed %q", p.State, p.Backend, p.Error, out)
				}
				for n := 1; n <= 3; n++ {
					checkOnce(t, l.rig, 0, fmt.Sprintf(`{"n":%d}`, n), false)
				}
				if p.Usage.ToolCalls != 3 || p.Usage.Syscalls != 4 || p.Usage.Output != int64(len(out)) || p.Usage.BytesIn != int64(3*len(`{"n":1}`)) {
					t.Errorf("it is said to have used %+v", p.Usage)
				}
				file, err := l.Export(t.Context(), p.PID, agentkernel.ExportOptions{Unredacted: true})
				if err != nil {
					t.Fatal(err)
				}
				v, err := l.Replay(t.Context(), file, agentkernel.ReplayOptions{})
				if err != nil || !v.Equal {
					t.Errorf("its recording replays as %+v, %v", v, err)
				}
			})
		})
	}
}

// A question that waits for a human has no place in the journal: the program asks again, and what the human says
// then counts once.
func TestMoveWhileAHumanIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLadder(t)
		issue := func(p *prog) int64 { return p.async("tool.call", callTool("append", `{"n":1}`)) }
		asked := make(chan struct{}, 2)
		l.program(func(p *prog) error { issue(p); <-asked; return perhaps(p) }, func(p *prog) error {
			_, err := p.wait(issue(p))
			return err
		})
		s := auto("p")
		s.Interactive, s.Allow = true, nil
		questions := 0
		p, err := l.Run(t.Context(), s, func(ev agentkernel.Event) error {
			if ev.Ask == nil {
				return nil
			}
			asked <- struct{}{}
			if questions++; questions == 1 {
				return nil
			}
			return l.Answer(t.Context(), ev.PID, ev.Ask.ID, agentkernel.AnswerYes)
		})
		if err != nil || p.State != agentkernel.StateExited || questions != 2 || len(l.tools.lines) != 1 {
			t.Errorf("%s (%v %v) after %d questions; written: %q", p.State, p.Error, err, questions, l.tools.lines)
		}
	})
}

// The image of a process that was parked is of no use to another backend, and is gone with the move.
func TestMoveOfAParkedProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLadder(t, func(c *kernel.Config) { c.ParkAfter = 300 * time.Millisecond })
		l.program(after(steps("w1 z").run, perhaps), steps("w1 z z").run)
		p, err := l.Spawn(t.Context(), auto("p"))
		if err != nil {
			t.Fatal(err)
		}
		pass(900 * time.Millisecond)
		if _, err := l.store.Image(t.Context(), p.PID); err != nil {
			t.Fatalf("it was not parked: %v", err)
		}
		pass(500 * time.Millisecond)
		if now, err := l.Process(t.Context(), p.PID); err != nil || now.Backend != "real" || now.State != agentkernel.StateWaiting {
			t.Fatalf("%+v %v", now, err)
		}
		if _, err := l.store.Image(t.Context(), p.PID); agentkernel.CodeOf(err) != agentkernel.CodeNotFound {
			t.Errorf("its image is still there: %v", err)
		}
		if end, err := l.Wait(t.Context(), p.PID); err != nil || end.State != agentkernel.StateExited || len(l.tools.lines) != 1 {
			t.Errorf("%+v %v %q", end, err, l.tools.lines)
		}
	})
}

// movingCalls fails on the first backend after half of its calls; on the second it goes through.
func movingCalls(fail func(*prog) error) func(*prog) error {
	write := func(p *prog, n int) error {
		_, err := p.call("tool.call", callTool("append", fmt.Sprintf(`{"n":%d}`, n)))
		if agentkernel.CodeOf(err) == agentkernel.CodeOutcomeUnknown {
			p.print("unknown %d\n", n)
			return nil
		}
		return err
	}
	return func(p *prog) error {
		p.print("round 1\n")
		for n := 1; n <= 2; n++ {
			if err := write(p, n); err != nil {
				return err
			}
		}
		under := p.async("tool.call", callTool("append", `{"n":3}`))
		sleep := p.async("time.sleep", `{"seconds":2}`)
		if _, err := p.call("state.set", `{"key":"k","value":1}`); err != nil {
			return err
		}
		if err := fail(p); err != nil {
			return err
		}
		p.print("round 2\n")
		if _, err := p.wait(under); agentkernel.CodeOf(err) == agentkernel.CodeOutcomeUnknown {
			p.print("unknown 3\n")
		} else if err != nil {
			return err
		}
		if _, err := p.wait(sleep); err != nil {
			return err
		}
		if err := write(p, 4); err != nil {
			return err
		}
		p.print("end\n")
		return nil
	}
}

// TestMoveCrashedAtEveryJournalOperation cuts the power at each operation of the store in the life of a process that
// moves: after recovery each write has happened once or is reported, nothing that was shown is lost or shown twice, and
// the process ends well, wherever it stood.
func TestMoveCrashedAtEveryJournalOperation(t *testing.T) {
	total, moved := 0, 0
	for at := 0; at == 0 || at <= total; at++ {
		for _, late := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				l := newLadder(t)
				l.store.crashAt, l.store.after = at, late
				l.tools.delay = func() { pass(time.Second) }
				l.program(movingCalls(perhaps), movingCalls(func(*prog) error { return nil }))
				var seen strings.Builder
				// The first life may end with any storage error: that is what the test provokes.
				_, firstErr := l.Run(t.Context(), auto("p"), func(ev agentkernel.Event) error {
					seen.WriteString(ev.Text)
					return nil
				})
				if at == 0 {
					total = l.store.ops
					if firstErr != nil || total < 15 {
						t.Fatalf("undisturbed: %v, %d operations", firstErr, total)
					}
				}
				synctest.Wait()
				r := l.start(t, l.store.crash())
				rows, err := r.List(t.Context(), agentkernel.Filter{})
				if err != nil || len(rows) == 0 {
					if err != nil || seen.Len() > 0 || len(l.tools.lines) > 0 {
						t.Errorf("crash at %d: the process was seen and is gone (%v)", at, err)
					}
					return
				}
				if at > 0 && rows[0].State == agentkernel.StateUnfinished && rows[0].Backend == "real" {
					moved++ // the crash came after the move
				}
				if _, err := r.Recover(t.Context(), 0); err != nil {
					t.Fatalf("crash at %d: %v", at, err)
				}
				end, err := r.Wait(t.Context(), rows[0].PID)
				if err != nil || end.State != agentkernel.StateExited || end.Backend != "real" || end.Moved == nil || len(r.moves(t, end.PID)) != 1 {
					t.Fatalf("crash at %d (after: %v): ended as %s on %s, moved %v: %v %v", at, late, end.State, end.Backend, end.Moved, end.Error, err)
				}
				var out strings.Builder
				if err := r.Events(t.Context(), end.PID, 1, false, func(ev agentkernel.Event) error { out.WriteString(ev.Text); return nil }); err != nil {
					t.Fatal(err)
				}
				if !strings.HasPrefix(out.String(), seen.String()) || strings.Count(out.String(), "round 1\n") != 1 || strings.Count(out.String(), "round 2\n") != 1 {
					t.Errorf("crash at %d: shown before: %q, the journal has %q", at, seen.String(), out.String())
				}
				for n := 1; n <= 4; n++ {
					checkOnce(t, l.rig, at, fmt.Sprintf(`{"n":%d}`, n), strings.Contains(out.String(), fmt.Sprintf("unknown %d\n", n)))
				}
			})
		}
	}
	if moved < 5 {
		t.Errorf("only %d crashes came between the move and the end", moved)
	}
}

// A program that does not come to the same place again has diverged: nothing new happens, and the error says what it
// had moved for.
func TestMoveThatDiverges(t *testing.T) {
	for name, c := range map[string]struct{ second, want string }{
		"other call":   {"p1 w2", "call 1 is not the one in the journal"},
		"other output": {"p2 w1", `program: "2"`},
		"ends early":   {"p1", "the program ended, but the journal goes on with call 1"},
		"fails early":  {"p1 x", "the program failed (it failed), but the journal goes on with call 1"},
		"prints less":  {"p1 w1", "the journal has more output"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLadder(t)
				watchTools(l.rig, nil)
				l.program(after(steps("p1 w1 p3").run, perhaps), steps(c.second).run)
				p, out := l.run(t, auto("p"))
				if p.State != agentkernel.StateFailed || p.Error.Code != agentkernel.CodeDiverged || !strings.Contains(p.Error.Message(), c.want) {
					t.Fatalf("it ended as %s: %v; want %q", p.State, p.Error, c.want)
				}
				if !strings.Contains(p.Error.Message(), "it had moved from go to real, for: "+errUnknownName.Error()) || !strings.Contains(p.Error.Hint, "--backend real") {
					t.Errorf("the error does not say what it had moved for, or what to do: %v (%s)", p.Error, p.Error.Hint)
				}
				if toolRuns(l.rig) != "w1" || out != "13" {
					t.Errorf("it ran %q and printed %q", toolRuns(l.rig), out)
				}
			})
		})
	}
}

// A program that cannot be read ends with its syntax error and no advice: not that of a backend without a boundary, which
// nobody asked for, nor of one that is not there.
func TestNoAdviceForSyntax(t *testing.T) {
	syntax := func(*prog) error {
		return &shortfall{agentkernel.Errorf(agentkernel.CodeSyntax, "run", "SyntaxError: expected ':'"), agentkernel.FaultBackend}
	}
	for name, c := range map[string]struct {
		fail func(*prog) error
		real error // what the language's own backend says of the program
		hint string
	}{
		"a syntax error there":               {syntax, agentkernel.Errorf(agentkernel.CodeSyntax, "check", "expected ':'"), ""},
		"another error here":                 {surely, agentkernel.Errorf(agentkernel.CodeSyntax, "check", "expected ':'"), ""},
		"that backend is not there":          {syntax, agentkernel.Errorf(agentkernel.CodeUnavailable, "python", "no python3"), ""},
		"not there, and needed for the rest": {surely, agentkernel.Errorf(agentkernel.CodeUnavailable, "python", "no python3"), "the real backend cannot go on with it: no python3"},
		"a refusal":                          {surely, agentkernel.Errorf(agentkernel.CodeUnsupported, "check", "no pandas"), "the real backend cannot go on with it: no pandas"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bare := newGoBackend()
				bare.name, bare.noImages, bare.isolation = "bare", true, agentkernel.IsolationNone
				l := newLadder(t)
				l.backend.isolation, l.real.isolation = agentkernel.IsolationInterpreter, agentkernel.IsolationProcess
				l.rig = l.start(t, l.store, func(c *kernel.Config) { c.Backends = append(c.Backends, bare) })
				l.program(c.fail, nil)
				bare.add("p", nil)
				l.real.refuse = map[string]error{"p": c.real}
				p, _ := l.run(t, auto("p"))
				if p.State != agentkernel.StateFailed || p.Error.Hint != c.hint {
					t.Errorf("it ended as %s: %v (%s), want the hint %q", p.State, p.Error, p.Error.Hint, c.hint)
				}
			})
		})
	}
}

// What cannot move ends with its own error, which says what can be done where something can.
func TestNoMove(t *testing.T) {
	own := func(*prog) error { return errUnknownName }
	refuse := func(l *ladder) { l.real.programs = map[string]func(*prog) error{} }
	for name, c := range map[string]struct {
		fail   func(*prog) error
		change func(*ladder, *agentkernel.Spec)
		hint   string
	}{
		"the program's own error": {own, nil, ""},
		"named":                   {surely, func(_ *ladder, s *agentkernel.Spec) { s.Backend = "go" }, "without --backend go the kernel runs in real what go lacks"},
		"named, and uncertain":    {perhaps, func(_ *ladder, s *agentkernel.Spec) { s.Backend = "go" }, ""},
		"below the floor": {surely, func(_ *ladder, s *agentkernel.Spec) { s.Isolation = agentkernel.IsolationInterpreter },
			"the real backend cannot go on with it: the real backend is below the isolation that is asked for: it has none, wanted is interpreter"},
		"does not run there": {perhaps, func(l *ladder, _ *agentkernel.Spec) { refuse(l) }, ""},
		"surely not there":   {surely, func(l *ladder, _ *agentkernel.Spec) { refuse(l) }, ""},
		"the engine is missing": {perhaps, func(l *ladder, _ *agentkernel.Spec) { l.real.missing = errors.New("no python3") },
			"the real backend was to go on with it and did not start: no python3"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLadder(t)
				l.backend.isolation = agentkernel.IsolationInterpreter
				l.rig = l.start(t, l.store)
				watchTools(l.rig, nil)
				l.program(after(steps("p1 w1").run, c.fail), steps("p1 w1 w2").run)
				s := auto("p")
				if c.change != nil {
					c.change(l, &s)
				}
				p, out := l.run(t, s)
				if p.State != agentkernel.StateFailed || p.Error.Message() != errUnknownName.Error() || !strings.HasPrefix(p.Error.Hint, c.hint) || (c.hint == "") != (p.Error.Hint == "") {
					t.Errorf("it ended as %s: %v (%s)", p.State, p.Error, p.Error.Hint)
				}
				if out != "1" || toolRuns(l.rig) != "w1" {
					t.Errorf("it printed %q and ran %q", out, toolRuns(l.rig))
				}
			})
		})
	}
}

// An error of the second backend is the program's end; it says what the program had moved for, if that was another.
func TestMoveAndFailAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLadder(t)
		l.program(perhaps, steps("p1 x").run)
		p, _ := l.run(t, auto("p"))
		if p.Error.Message() != "it failed" || p.Error.Hint != "it had moved from go, for: "+errUnknownName.Error() {
			t.Errorf("another error: %v (%s)", p.Error, p.Error.Hint)
		}
		l.program(perhaps, perhaps)
		p, _ = l.run(t, auto("p"))
		if p.Error.Message() != errUnknownName.Error() || p.Error.Hint != "" || p.Backend != "real" {
			t.Errorf("the same error: %v (%s)", p.Error, p.Error.Hint)
		}
	})
}

// A process that is killed, or whose kernel dies, while it moves does not end with the error that it moved for.
func TestEndWhileMoving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLadder(t)
		var starts atomic.Int32
		l.real.onStart = func(agentkernel.StartRequest) { starts.Add(1); pass(5 * time.Second) }
		l.program(after(steps("w1").run, perhaps), steps("w1 w2").run)
		p, err := l.Spawn(t.Context(), auto("p"))
		if err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		if starts.Load() != 1 {
			t.Fatal("it is not on its way")
		}
		if err := l.Signal(t.Context(), p.PID, agentkernel.SignalKill); err != nil {
			t.Fatal(err)
		}
		if end, err := l.Process(t.Context(), p.PID); err != nil || end.State != agentkernel.StateKilled || len(l.tools.lines) != 1 {
			t.Errorf("%+v %v", end, err)
		}
		p, err = l.Spawn(t.Context(), auto("p"))
		if err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		if now, err := l.Process(t.Context(), p.PID); err != nil || now.Backend != "real" {
			t.Fatalf("%+v %v", now, err)
		}
		r := l.start(t, l.store.crash())
		pass(10 * time.Second) // the dead kernel finds out that it is
		if _, err := r.Recover(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		if end, err := r.Wait(t.Context(), p.PID); err != nil || end.State != agentkernel.StateExited || !slices.Equal(l.tools.lines, []string{`{"n":"1"}`, `{"n":"1"}`, `{"n":"2"}`}) {
			t.Errorf("%+v %v %q", end, err, l.tools.lines)
		}
	})
}

// ending is a store in which the reading of a journal meets the end of the kernel.
type ending struct {
	*ramStore
	end func()
}

func (e *ending) Entries(ctx context.Context, pid agentkernel.PID, from int64, limit int) ([]agentkernel.Entry, error) {
	if end := e.end; end != nil {
		e.end = nil
		end()
		<-ctx.Done()
		return nil, agentkernel.AsError(ctx.Err(), agentkernel.CodeCanceled, "store")
	}
	return e.ramStore.Entries(ctx, pid, from, limit)
}

// A kernel that ends while a program is about to move leaves that to the next one: it ended with the error that it would have moved for.
func TestTheKernelEndsBeforeAMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &ladder{rig: &rig{store: newRAMStore(), backend: newGoBackend(), tools: &fakeTools{}}, real: newGoBackend()}
		l.real.name, l.real.fingerprint, l.real.noImages = "real", "real-1", true
		store := &ending{ramStore: l.store}
		r := l.start(t, l.store, func(c *kernel.Config) { c.Store = store })
		l.program(after(steps("w1").run, perhaps), steps("w1 w2").run)
		closed := make(chan error, 1)
		store.end = func() { go func() { closed <- r.Close() }() }
		p, err := r.Spawn(t.Context(), auto("p"))
		if err != nil {
			t.Fatal(err)
		}
		if err := <-closed; err != nil {
			t.Error(err)
		}
		next := l.start(t, l.store.crash())
		if _, err := next.Recover(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		if end, err := next.Wait(t.Context(), p.PID); err != nil || end.State != agentkernel.StateExited || end.Backend != "real" || len(l.tools.lines) != 2 {
			t.Errorf("%+v %v %q", end, err, l.tools.lines)
		}
	})
}

// A paused process that moves stays paused, and goes on when it is resumed.
func TestMoveWhilePaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLadder(t)
		go1 := make(chan struct{})
		l.program(func(p *prog) error { <-go1; return perhaps(p) }, steps("w1").run)
		p, err := l.Spawn(t.Context(), auto("p"))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := l.Signal(t.Context(), p.PID, agentkernel.SignalPause); err != nil {
			t.Fatal(err)
		}
		close(go1)
		synctest.Wait()
		if now, err := l.Process(t.Context(), p.PID); err != nil || !now.Paused || now.Backend != "real" || len(l.tools.lines) != 0 {
			t.Fatalf("%+v %v %q", now, err, l.tools.lines)
		}
		if err := l.Signal(t.Context(), p.PID, agentkernel.SignalResume); err != nil {
			t.Fatal(err)
		}
		if end, err := l.Wait(t.Context(), p.PID); err != nil || end.State != agentkernel.StateExited || len(l.tools.lines) != 1 {
			t.Errorf("%+v %v", end, err)
		}
	})
}

// A rerun that moves has its origin as it had: what that answered is not made again.
func TestMoveOfARerun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLadder(t)
		watchTools(l.rig, nil)
		l.program(steps("w1 r2 W3 R4 . x").run, steps("x").run)
		old, _ := l.run(t, spec("p"))
		l.program(after(steps("w1 r2 W3 R4").run, perhaps), steps("w1 r2 W3 R4 . w5").run)
		s := rerunning("p", old.PID)
		s.Backend = ""
		p, out := l.run(t, s)
		if p.State != agentkernel.StateExited || p.Backend != "real" || sortedRuns(l.rig) != "r2 r4 w1 w3 w5" {
			t.Errorf("%s on %s: %v; it ran %q and printed %q", p.State, p.Backend, p.Error, toolRuns(l.rig), out)
		}
	})
}

// A child asks for what its parent asked for: one of a parent for which the kernel chose is chosen for by itself.
func TestChildOfAutoParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLadder(t)
		l.real.add("pandas", func(p *prog) error { p.print("42"); return nil })
		var told json.RawMessage
		parent := func(p *prog) error {
			pid, err := p.call("proc.spawn", `{"source":"pandas"}`)
			if err != nil {
				return err
			}
			told, err = p.call("proc.wait", fmt.Sprintf(`{"pid":%s}`, pid))
			return err
		}
		l.backend.refuse = map[string]error{"pandas": agentkernel.Errorf(agentkernel.CodeUnsupported, "check", "no pandas here")}
		l.program(parent, parent)
		p, _ := l.run(t, auto("p"))
		if p.State != agentkernel.StateExited || p.Backend != "go" || !strings.Contains(string(told), `"stdout":"42"`) {
			t.Errorf("the parent ended as %s on %s (%v), its child as %s", p.State, p.Backend, p.Error, told)
		}
		if p, _ := l.run(t, spec("p")); p.State != agentkernel.StateFailed || !strings.Contains(p.Error.Message(), "no pandas here") {
			t.Errorf("the child of one that named its backend: %s, %v", p.State, p.Error)
		}
	})
}

// TestEngineDoesNotStart: a program or session that has not begun goes to the next backend when the engine of the chosen one
// turns out not to work. One that named its backend fails, and so does one whose program another error ends.
func TestEngineDoesNotStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cells := map[string]func(*prog) (string, error){"a": says("a")}
		l := newSessionLadder(t, cells, cells)
		l.program(nil, func(p *prog) error { p.print("here"); return nil })
		l.backend.missing = agentkernel.Errorf(agentkernel.CodeUnavailable, "go", "the engine hangs")
		p, out := l.run(t, auto("p"))
		if p.State != agentkernel.StateExited || out != "here" || p.Backend != "real" || p.Moved == nil || p.Moved.Why != "the engine hangs" {
			t.Errorf("a program printed %q: %+v, error %v", out, p, p.Error)
		}
		if p, _ := l.run(t, spec("p")); p.State != agentkernel.StateFailed || p.Error.Code != agentkernel.CodeUnavailable {
			t.Errorf("a program for this backend alone: %+v, error %v", p, p.Error)
		}
		pid := l.beginAs(t, auto("session"))
		if got, err := l.feed(t.Context(), pid, "a"); got != "a1" || err != nil {
			t.Errorf("a session: %q, %v", got, err)
		}
		l.backend.missing = agentkernel.Errorf(agentkernel.CodeInternal, "go", "a defect")
		if p, _ := l.run(t, auto("p")); p.State != agentkernel.StateFailed || p.Error.Code != agentkernel.CodeInternal {
			t.Errorf("another error: %+v, error %v", p, p.Error)
		}
	})
}
