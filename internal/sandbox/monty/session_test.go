package monty

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/internal/fastpath"
)

// sessionRun is a session driven by hand: what the kernel answers to proc.next is the test's.
type sessionRun struct {
	t    *testing.T
	b    *Backend
	req  agentkernel.StartRequest
	box  agentkernel.Sandbox
	out  *strings.Builder
	turn agentkernel.Turn
	// inline has cells run as for a caller who drives them: Begin, Ready, and Next does not wait.
	inline bool
}

func newSession(t *testing.T, source string) *sessionRun {
	t.Helper()
	r := &sessionRun{t: t, b: newBackend(t), out: &strings.Builder{}}
	r.req = agentkernel.StartRequest{PID: 1, Namespace: "n", Program: agentkernel.Program{Name: "<session>", Source: source, Session: true},
		Output: func(_, text string) { r.out.WriteString(text) }}
	r.start(nil)
	r.next(nil)
	return r
}

func (r *sessionRun) start(image []byte) {
	r.t.Helper()
	r.req.Image = image
	box, err := r.b.Start(r.t.Context(), r.req)
	if err != nil {
		r.t.Fatal(err)
	}
	r.box = box
	r.t.Cleanup(func() { _ = box.Close() })
}

func (r *sessionRun) next(reply *agentkernel.Reply) {
	r.t.Helper()
	if r.inline {
		box := r.box.(fastpath.Sandbox)
		begun, err := box.Begin(r.t.Context(), reply)
		if err != nil {
			r.t.Fatal(err)
		}
		if begun {
			for !box.Ready(time.Second) {
			}
			reply = nil
		}
	}
	turn, err := r.box.Next(r.t.Context(), reply)
	if err != nil {
		r.t.Fatal(err)
	}
	r.turn = turn
}

// feed hands over a cell and gives how it ended: "result", or "!Type: message".
func (r *sessionRun) feed(source string, tools ...agentkernel.Tool) string {
	r.t.Helper()
	answer, err := json.Marshal(agentkernel.NextCell{Cell: agentkernel.Cell{Name: "cell", Source: source}, Tools: tools})
	if err != nil {
		r.t.Fatal(err)
	}
	r.next(&agentkernel.Reply{ID: 1, Result: answer})
	return r.ended()
}

func (r *sessionRun) ended() string {
	r.t.Helper()
	for r.turn.Kind == agentkernel.TurnCall && r.turn.Call.Op != opNext { // a tool: it answers with its arguments
		r.next(&agentkernel.Reply{ID: 1, Result: r.turn.Call.Args})
	}
	if r.turn.Kind != agentkernel.TurnCall {
		r.t.Fatalf("not waiting: %+v", r.turn)
	}
	var idle agentkernel.Idle
	if err := json.Unmarshal(r.turn.Call.Args, &idle); err != nil {
		r.t.Fatal(err)
	}
	if idle.Error != nil {
		return "!" + idle.Error.Message() + " " + idle.Error.Traceback
	}
	return string(idle.Result)
}

func (r *sessionRun) repark() {
	r.t.Helper()
	image, err := r.box.Image(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	_ = r.box.Close()
	r.start(image)
	r.next(nil)
	if r.turn.Kind != agentkernel.TurnCall || r.turn.Call.Op != opNext {
		r.t.Fatalf("after loading: %+v", r.turn)
	}
}

// Variables, functions and imports last, also those that the engine lacks and the front end makes up; an
// error ends its cell only. With parks between any two cells the answers are the same.
func TestSessionKeepsItsVariables(t *testing.T) {
	for mode := range 4 {
		park, inline := mode&1 != 0, mode&2 != 0
		t.Run(fmt.Sprintf("parked %v inline %v", park, inline), func(t *testing.T) {
			r := newSession(t, "")
			r.inline = inline
			if r.ended() != "null" {
				t.Fatalf("%+v", r.turn)
			}
			echo := agentkernel.Tool{Server: "demo", Name: "echo", PythonServer: "demo", PythonName: "echo", Signature: "echo(value: str) -> str",
				Params: []agentkernel.ToolParam{{Name: "value", Python: "value", Type: "str", Required: true}}}
			for i, c := range []struct{ source, want string }{
				{"x = 1\ndef f(): return x + 1", "null"},
				{"x = 41\nf()", "42"},
				{"import textwrap\nimport json, time\ndef g(s): return textwrap.indent(s, '> ')\ntype(time.time()).__name__ if False else 1", "1"},
				{"y = 5\n1 / 0\nz = 1", "!ZeroDivisionError: division by zero"},
				{"(y, x)", `{"$tuple":[5,41]}`},
				{"z", "!NameError"},
				{"textwrap.dedent('  a') + g('b')", `"a\u003e b"`},
				{"json.dumps([x])", `"[41]"`},
				{"x = (", "!line 1"},
				{"from enum import Enum", "null"},
				{"class Color(Enum):\n    RED = 1\nColor.RED.name", `"RED"`},
				{"def deep():\n    return deep_inner()\ndef deep_inner():\n    raise ValueError('no')", "null"},
				{"# a comment\n\ndeep()", "!ValueError: no"},
				{"from tools.demo import echo", "null"},
				{"echo('hi')['arguments']['value']", `"hi"`},
				{"import tools.demo as d", "null"},
				{"d.echo(value='ho')['arguments']['value']", `"ho"`},
				{"'done'", `"done"`},
			} {
				var tools []agentkernel.Tool
				if strings.Contains(c.source, "demo") || strings.HasPrefix(c.source, "d.") {
					tools = append(tools, echo)
				}
				got := r.feed(c.source, tools...)
				want, _ := strings.CutSuffix(c.want, "\x00")
				if got != want && !(strings.HasPrefix(want, "!") && strings.HasPrefix(got, want)) && !sameJSON(got, want) {
					t.Errorf("cell %d %q: %s, not %s", i, c.source, got, want)
				}
				if c.source == "# a comment\n\ndeep()" && (!strings.Contains(got, `File "cell", line 3`) || !strings.Contains(got, "in deep_inner")) {
					t.Errorf("traceback: %s", got)
				}
				if park {
					r.repark()
				}
			}
			r.next(&agentkernel.Reply{ID: 9, Result: json.RawMessage(`{"end":true}`)})
			if r.turn.Kind != agentkernel.TurnExit || string(r.turn.Result) != `"done"` {
				t.Errorf("the end: %+v", r.turn)
			}
		})
	}
}

// What an async call gives that a cell has left is dropped, also by a session that was parked since; and a cell that
// awaits such a call fails, and the session goes on.
func TestSessionDropsWhatWasLeft(t *testing.T) {
	for _, park := range []bool{false, true} {
		r := newSession(t, "import asyncio\nx = 1")
		cell := func(source string) {
			t.Helper()
			answer, err := json.Marshal(agentkernel.NextCell{Cell: agentkernel.Cell{Name: "cell", Source: source}})
			if err != nil {
				t.Fatal(err)
			}
			r.next(&agentkernel.Reply{ID: 1, Result: answer})
		}
		turn := func(want agentkernel.TurnKind) {
			t.Helper()
			if r.turn.Kind != want {
				t.Fatalf("%+v", r.turn)
			}
		}
		interrupted := &agentkernel.Error{Code: agentkernel.CodeInterrupted, Err: fmt.Errorf("stop")}
		cell("from kernel.aio import sleep\nheld = sleep(1)\nasync def both(): await asyncio.gather(sleep(2), sleep(2))\nasyncio.run(both())")
		r.next(&agentkernel.Reply{ID: 2, Pending: true})
		r.next(&agentkernel.Reply{ID: 3, Pending: true})
		r.next(&agentkernel.Reply{ID: 4, Pending: true})
		turn(agentkernel.TurnWait)
		r.next(&agentkernel.Reply{ID: 4, Err: interrupted})
		if got := r.ended(); !strings.Contains(got, "interrupted: stop") {
			t.Fatal(got)
		}
		if park {
			r.repark()
		}
		cell("x += 1\nawait sleep(3)")
		r.next(&agentkernel.Reply{ID: 5, Pending: true})
		turn(agentkernel.TurnWait)
		r.next(&agentkernel.Reply{ID: 2, Result: json.RawMessage(`"of held"`)})
		turn(agentkernel.TurnWait)
		r.next(&agentkernel.Reply{ID: 5, Result: json.RawMessage(`"own"`)})
		if got := r.ended(); got != `"own"` {
			t.Error(got)
		}
		cell("await held")
		if got := r.ended(); !strings.HasPrefix(got, "!"+errLone.Error()) {
			t.Error(got)
		}
		cell("x")
		if got := r.ended(); got != "2" {
			t.Error(got)
		}
	}
}

// The engine does not note where x += 1 reads a name that has no value: the traceback says it all the same.
func TestSessionAugmentedAssignmentOfNothing(t *testing.T) {
	r := newSession(t, "")
	if r.ended() != "null" {
		t.Fatalf("%+v", r.turn)
	}
	for _, c := range []struct{ source, want string }{
		{"x += 1", "line 1, in <module>\n    x += 1\n"},
		{"a = 1\nb = 2\nx += 1", "line 3, in <module>\n    x += 1\n"},
		{"if True:\n    a = 1\n    x -= 1; a = 3", "line 3, in <module>\n    x -= 1; a = 3\n"},
		{"def f():\n    n = 0\n    def g():\n        pass\n    y //= 1\nf()", "line 6, in <module>\n    f()\n  File \"cell\", line 5, in f\n    y //= 1\n"},
		{"def h():\n    global z\n    z += 1", ""},
		{"h()", "line 1, in <module>\n    h()\n  File \"cell\", line 3, in h\n    z += 1\n"},
		{"a\nx", "line 2, in <module>\n    x\n"},
	} {
		got := r.feed(c.source)
		if c.want != "" && !strings.Contains(got, "File \"cell\", "+c.want) {
			t.Errorf("%q: %s", c.source, got)
		}
	}
}

func sameJSON(a, b string) bool {
	var x, y any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && fmt.Sprint(x) == fmt.Sprint(y)
}

func TestSessionThatIsInterruptedOrRefused(t *testing.T) {
	for _, inline := range []bool{false, true} {
		t.Run(fmt.Sprintf("inline %v", inline), func(t *testing.T) { testInterruptedOrRefused(t, inline) })
	}
}

func testInterruptedOrRefused(t *testing.T, inline bool) {
	r := newSession(t, "x = 1")
	r.inline = inline
	r.next(&agentkernel.Reply{ID: 1, Err: agentkernel.Errorf(agentkernel.CodeInterrupted, opNext, "interrupted")})
	if r.ended() != "null" {
		t.Errorf("%+v", r.turn)
	}
	if got := r.feed("'x' * 10"); got != `"xxxxxxxxxx"` {
		t.Error(got)
	}
	r.next(&agentkernel.Reply{ID: 1, Err: agentkernel.Errorf(agentkernel.CodeLimit, opNext, "no room")})
	if got := r.ended(); !strings.HasPrefix(got, "!no room") {
		t.Error(got)
	}
	if got := r.feed("x"); got != "1" {
		t.Error(got)
	}
	r.next(&agentkernel.Reply{ID: 1, Err: agentkernel.Errorf(agentkernel.CodeDenied, opNext, "denied")})
	if r.turn.Kind != agentkernel.TurnFail {
		t.Errorf("%+v", r.turn)
	}
}

// A cell that computes for longer than its caller drives it is waited for as any other, and one whose caller has begun it
// dies with its limits and its context as any other.
func TestACellThatWasBegun(t *testing.T) {
	r := newSession(t, "")
	box := r.box.(fastpath.Sandbox)
	begin := func(ctx context.Context, source string) {
		t.Helper()
		answer, err := json.Marshal(agentkernel.NextCell{Cell: agentkernel.Cell{Name: "cell", Source: source}})
		if err != nil {
			t.Fatal(err)
		}
		if begun, err := box.Begin(ctx, &agentkernel.Reply{ID: 1, Result: answer}); err != nil || !begun {
			t.Fatalf("%v %v", begun, err)
		}
	}
	const long = "n = 0\nfor i in range(3_000_000):\n    n += i\nprint('done')\nn"
	begin(t.Context(), long)
	if box.Ready(time.Microsecond) {
		t.Fatal("it was too quick for this test")
	}
	r.next(nil)
	if got := r.ended(); got != "4499998500000" || r.out.String() != "done\n" {
		t.Errorf("%s, printed %q", got, r.out)
	}
	ctx, cancel := context.WithCancel(t.Context())
	begin(ctx, "while True: pass")
	cancel()
	if turn, err := r.box.Next(ctx, nil); err == nil {
		t.Errorf("it goes on without its context: %+v", turn)
	}
}

// A first source that raises half-way leaves a session that works.
func TestSessionWhoseSourceFails(t *testing.T) {
	r := newSession(t, "x = 1\nx / 0\ny = 2")
	if got := r.ended(); !strings.HasPrefix(got, "!ZeroDivisionError") {
		t.Error(got)
	}
	r.repark()
	if got := r.feed("x + 1"); got != "2" {
		t.Error(got)
	}
}

func TestSessionEndsWithItsLimits(t *testing.T) {
	r := newSession(t, "")
	answer, _ := json.Marshal(agentkernel.NextCell{Cell: agentkernel.Cell{Name: "cell", Source: "def f(): return f()\nf()"}})
	r.next(&agentkernel.Reply{ID: 1, Result: answer})
	if r.turn.Kind != agentkernel.TurnFail || r.turn.Err.Code != agentkernel.CodeLimit {
		t.Errorf("%+v", r.turn)
	}
}

// Cells run once; what was kept of programs stays kept beside any number of them.
func TestCellsPushNoProgramOut(t *testing.T) {
	b := newBackend(t)
	program := agentkernel.Program{Name: "p.py", Language: agentkernel.Python, Source: "1"}
	if _, err := b.Check(program); err != nil {
		t.Fatal(err)
	}
	for i := range keptPrograms + 1 {
		cell := agentkernel.Program{Name: fmt.Sprintf("cell %d", i), Language: agentkernel.Python, Source: "x = 1", Cells: i + 1}
		if _, err := b.Check(cell); err != nil {
			t.Fatal(err)
		}
	}
	if _, ok := b.programs.checked.get(keyOf(program, nil)); !ok {
		t.Error("it is not known any more")
	}
}

// TestACellCostsNoMoreForThoseBefore: what is allocated for a cell does not grow with the session.
func TestACellCostsNoMoreForThoseBefore(t *testing.T) {
	s := &sandbox{prog: &program{tools: map[string]*agentkernel.Tool{}}, req: agentkernel.StartRequest{Program: agentkernel.Program{Session: true}}}
	cost := func(cells int) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for i := range cells {
			h := cellHeader{Cell: agentkernel.Cell{Name: "cell", Source: fmt.Sprintf("x%d = %d", i, i)}, Feeds: -1}
			if err := s.addCell(h); err != nil {
				t.Fatal(err)
			}
		}
		runtime.ReadMemStats(&after)
		return (after.TotalAlloc - before.TotalAlloc) / uint64(cells)
	}
	cost(20) // what is made once
	first := cost(100)
	cost(3000)
	if late := cost(100); late > 3*first {
		t.Errorf("a cell after 3,000 takes %d bytes, an early one %d", late, first)
	}
	if n := len(s.session.texts); n != 1 {
		t.Errorf("%d texts are read again for each cell, but only the first source may matter", n)
	}
	// What may change how a later cell is read stays: an import, and another meaning for what was imported or is Python's.
	for i, source := range []string{"import json", "json = 5", "y = 6", "sum = 7"} {
		if err := s.addCell(cellHeader{Cell: agentkernel.Cell{Name: "cell", Source: source}, Feeds: -1}); err != nil {
			t.Fatal(err)
		}
		if n, want := len(s.session.texts), []int{2, 3, 3, 4}[i]; n != want {
			t.Errorf("after %q %d texts are kept, not %d", source, n, want)
		}
	}
}
