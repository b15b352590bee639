package sandboxtest

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"agentkernel"
	"agentkernel/internal/journal"
)

const opNext = "proc.next"

// session is one driven by hand: what is answered to proc.next is the test's.
type session struct {
	*Run
	turn agentkernel.Turn
}

func newSession(t *testing.T, b agentkernel.Backend, source string) *session {
	t.Helper()
	s := &session{Run: NewRun(t, b, Case{File: "<session>", Source: source})}
	s.Req.Program.Session = true
	s.Start()
	s.next(nil)
	return s
}

// next hands over a reply and runs the session to its next proc.next or its end; other calls are answered.
func (s *session) next(reply *agentkernel.Reply) {
	s.t.Helper()
	for {
		turn, err := s.Box.Next(s.t.Context(), reply)
		if err != nil {
			s.t.Fatal(err)
		}
		s.turn = turn
		if turn.Kind != agentkernel.TurnWait && (turn.Kind != agentkernel.TurnCall || turn.Call.Op == opNext) {
			return
		}
		reply = s.Reply(turn)
	}
}

// feed hands over a cell and gives how it ended: the result, or "!" and the error with its traceback.
func (s *session) feed(source string) string {
	s.t.Helper()
	answer, err := json.Marshal(agentkernel.NextCell{Cell: agentkernel.Cell{Name: "cell", Source: source}, Tools: tools})
	if err != nil {
		s.t.Fatal(err)
	}
	s.next(&agentkernel.Reply{Result: answer})
	return s.ended()
}

func (s *session) ended() string {
	s.t.Helper()
	if s.turn.Kind != agentkernel.TurnCall {
		s.t.Fatalf("it does not wait for a cell: %+v", s.turn)
	}
	var idle agentkernel.Idle
	if err := json.Unmarshal(s.turn.Call.Args, &idle); err != nil {
		s.t.Fatal(err)
	}
	if idle.Error != nil {
		return "!" + idle.Error.Message() + "\n" + idle.Error.Traceback
	}
	text, err := journal.Canonical(idle.Result)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

// sessions: variables, functions and imports last from cell to cell, an error ends its cell alone, and what is answered
// in place of a cell is told as its end. A backend without them says so.
func (s Suite) sessions(t *testing.T, b agentkernel.Backend) {
	_, keeps := s.has([]Feature{Sessions})
	if b.Info().Sessions != keeps {
		t.Errorf("it says sessions: %v, and its suite the contrary", b.Info().Sessions)
	}
	if keeps {
		keepsVariables(t, b)
		leavesCalls(t, b)
	}
}

// leavesCalls: a cell that fails while another call of it is under way fails alone, and what the call gives later is not
// taken for the result of another one.
func leavesCalls(t *testing.T, b agentkernel.Backend) {
	s := newSession(t, b, "import asyncio\nfrom tools.my_files.aio import write\nx = 1")
	failed := agentkernel.Errorf(agentkernel.CodeTool, "tool.call", "no")
	s.Answer = func(c agentkernel.Call) agentkernel.Reply {
		if strings.Contains(string(c.Args), "fails") {
			return agentkernel.Reply{Err: failed}
		}
		return Echo(c)
	}
	s.Pick = func(flying []agentkernel.Reply) int { // one that failed, or the oldest
		return max(slices.IndexFunc(flying, func(r agentkernel.Reply) bool { return r.Err != nil }), 0)
	}
	for _, c := range []struct{ source, want string }{
		{"async def both():\n    return await asyncio.gather(write('left'), write('fails'))\nasyncio.run(both())", "!"},
		{"x", "1"},
		{"(await write('own'))['path']", `"own"`},
		{"write('not awaited')\n2", "2"},
		{"(await write('own, too'))['path']", `"own, too"`},
	} {
		if got := s.feed(c.source); got != c.want && !(c.want == "!" && strings.Contains(got, "tool_error: no")) {
			t.Errorf("%q: %s, not %s", c.source, got, c.want)
		}
	}
}

func keepsVariables(t *testing.T, b agentkernel.Backend) {
	s := newSession(t, b, "first = 1")
	if got := s.ended(); got != "null" {
		t.Errorf("the first source: %s", got)
	}
	for _, c := range []struct{ source, want string }{
		{"x = 1\ndef f(): return x + first", "null"},
		{"x = 41\nf()", "42"},
		{"import json, textwrap\ndef g(s): return textwrap.indent(s, '> ')", "null"},
		{"print('out')\nprint('half', end='')\ng(json.dumps([x]))", `"> [41]"`},
		{"y = 5\n1 / 0\nz = 1", "!ZeroDivisionError: division by zero"},
		{"(y, x)", `{"$tuple":[5,41]}`},
		{"z", "!NameError"},
		{"def deep():\n    raise ValueError('no')\n", "null"},
		{"# a comment\n\ndeep()", "!ValueError: no"},
		{"from tools.my_files import write", "null"},
		{"write('hi')['path']", `"hi"`},
		{"import asyncio\nawait asyncio.sleep(0.01, 'slept')", `"slept"`},
		{"'done'", `"done"`},
	} {
		got := s.feed(c.source)
		if got != c.want && !(c.want[0] == '!' && strings.HasPrefix(got, c.want)) {
			t.Errorf("%q: %s, not %s", c.source, got, c.want)
		}
		if strings.HasSuffix(c.source, "\ndeep()") && (!strings.Contains(got, `File "cell", line 3, in <module>`) || !strings.Contains(got, "in deep")) {
			t.Errorf("a traceback: %s", got)
		}
	}
	if s.Output() != "out\nhalf" {
		t.Errorf("it printed %q", s.Output())
	}
	s.next(&agentkernel.Reply{Err: agentkernel.Errorf(agentkernel.CodeInterrupted, opNext, "interrupted")})
	if got := s.ended(); got != `"done"` {
		t.Errorf("interrupted while it waits: %s", got)
	}
	s.next(&agentkernel.Reply{Err: agentkernel.Errorf(agentkernel.CodeLimit, opNext, "no room")})
	if got := s.ended(); !strings.HasPrefix(got, "!no room") {
		t.Errorf("a result that is too large: %s", got)
	}
	s.next(&agentkernel.Reply{Err: agentkernel.Errorf(agentkernel.CodeInterrupted, agentkernel.OpCell, "given up")})
	if got := s.ended(); !strings.HasPrefix(got, "!given up") {
		t.Errorf("a cell that was aborted: %s", got)
	}
	if got := s.feed("x"); got != "41" {
		t.Errorf("after that: %s", got)
	}
	s.next(&agentkernel.Reply{Result: json.RawMessage(`{"end":true}`)})
	if s.turn.Kind != agentkernel.TurnExit || string(s.turn.Result) != "41" {
		t.Errorf("the end: %+v", s.turn)
	}
	left := newSession(t, b, "")
	left.next(&agentkernel.Reply{Err: agentkernel.Errorf(agentkernel.CodeDenied, opNext, "denied")})
	if left.turn.Kind != agentkernel.TurnFail {
		t.Errorf("denied: %+v", left.turn)
	}
}
