package sandboxtest

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/internal/journal"
)

// info: what a backend says of itself is complete.
func (s Suite) info(t *testing.T, b agentkernel.Backend) {
	i := b.Info()
	_, images := s.has([]Feature{Images})
	if i.Name == "" || i.Fingerprint == "" || !slices.Contains(i.Languages, agentkernel.Python) || !i.Available || i.Problem != "" {
		t.Errorf("%+v", i)
	}
	if i.Images != images {
		t.Errorf("it says images: %v, and its suite the contrary", i.Images)
	}
	if !i.Replayable {
		t.Error("it does not say that its programs can be replayed")
	}
}

// check: the static pass runs nothing, finds what is imported, and refuses with place and reason.
func (s Suite) check(t *testing.T, b agentkernel.Backend) {
	for src, want := range map[string][]agentkernel.ToolRef{
		"print(1)": nil,
		"from tools.fs import read, write as w\nfrom tools.fs.aio import read": {{Server: "fs", Name: "read", Line: 1}, {Server: "fs", Name: "write", Line: 1}},
		"def f():\n    from tools.db import q\n":                               {{Server: "db", Name: "q", Line: 2}},
	} {
		needs, err := b.Check(agentkernel.Program{Name: "p.py", Source: src})
		if err != nil || !slices.Equal(needs.Tools, want) {
			t.Errorf("%s needs %+v, %v; want %+v", src, needs.Tools, err, want)
		}
	}
	if needs, err := b.Check(agentkernel.Program{Name: "p.py", Source: "from skills.x import f\nfrom skills.own import g", Modules: map[string]string{"skills.own": "def g(): pass"}}); err != nil || !slices.Equal(needs.Skills, []string{"x"}) {
		t.Errorf("skills: %+v %v", needs.Skills, err)
	}
	_, err := b.Check(agentkernel.Program{Name: "p.py", Source: "x = 1\nx = = 2\n"})
	if err == nil { // left to the engine: then it says so before the first line runs
		r := NewRun(t, b, Case{Source: "print('ran')\nx = = 2\n"})
		turn, err2 := r.Finish()
		if err = err2; err == nil && turn.Err != nil {
			err = turn.Err
		}
		if r.Output() != "" {
			t.Errorf("a program that does not parse has run: %q", r.Output())
		}
	}
	e := agentkernel.AsError(err, "", "")
	if e == nil || e.Code != agentkernel.CodeSyntax || !strings.Contains(e.Message()+e.Traceback, "line 2") || !strings.Contains(e.Traceback, "^") {
		t.Errorf("a syntax error: %v\n%s", err, tracebackOf(e))
	}
	if _, err := b.Check(agentkernel.Program{Name: "p.py", Source: "import no_such_module_anywhere"}); agentkernel.CodeOf(err) != agentkernel.CodeUnsupported || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("an unknown module: %v", err)
	}
}

// values: what a program sends is written as docs/values.md says, and what comes back is what was sent.
func values(t *testing.T, b agentkernel.Backend) {
	for src, want := range map[string]string{
		"None": "null", "True": "true", "2**127": "170141183460469231731687303715884105728", "-7": "-7",
		"1.0": "1.0", "0.1": "0.1", "1e22": "1e+22", "-0.0": "-0.0", "1e-05": "1e-05",
		"float('nan')": `{"$float":"nan"}`, "[1, float('-inf')]": `[1,{"$float":"-inf"}]`,
		`'a"\n\x00ü€'`: `"a\"\n\u0000ü€"`, "b'ab'": `{"$bytes":"YWI="}`, "[1, 'x', None]": `[1,"x",null]`,
		"(1, (2,))": `{"$tuple":[1,{"$tuple":[2]}]}`, "{3, 1, 2}": `{"$set":[1,2,3]}`, "frozenset([1])": `{"$frozenset":[1]}`,
		"{'b': 1, 'a': [2]}": `{"a":[2],"b":1}`, "{'$x': 1}": `{"$dict":[["$x",1]]}`, "{1: 2, (3,): 4}": `{"$dict":[[1,2],[{"$tuple":[3]},4]]}`,
		"dt.date(2026, 11, 21)":                           `{"$date":"2026-11-21"}`,
		"dt.datetime(2026, 11, 21, 13, 45, 0, 1)":         `{"$datetime":"2026-11-21T13:45:00.000001"}`,
		"dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)": `{"$datetime":"2026-01-01T00:00:00+00:00"}`,
		"dt.timedelta(-1, 5, 7)":                          `{"$timedelta":[-1,5,7]}`,
		"dt.timezone(dt.timedelta(hours=-3))":             `{"$timezone":[-10800,null]}`,
		"pathlib.Path('a/b.txt')":                         `{"$path":"a/b.txt"}`,
		"P(1, (2,))":                                      `{"$namedtuple":{"fields":["x","y"],"type":"P","values":[1,{"$tuple":[2]}]}}`,
		"[{'k': (1,)}] * 2":                               `[{"k":{"$tuple":[1]}},{"k":{"$tuple":[1]}}]`,
	} {
		r := NewRun(t, b, Case{Source: "import datetime as dt\nimport pathlib\nfrom collections import namedtuple\nfrom kernel import state\nP = namedtuple('P', 'x y')\nv = " + src +
			"\nw = state.get('k', v)\nprint(v == w or repr(v) == repr(w) or (repr(v), repr(w)))", Answer: func(c agentkernel.Call) agentkernel.Reply {
			var a struct{ Default json.RawMessage }
			if err := json.Unmarshal(c.Args, &a); err != nil {
				t.Error(err)
			}
			got, err := journal.Canonical(a.Default)
			if err != nil || string(got) != want {
				t.Errorf("%s is written %s (%v), want %s", src, got, err, want)
			}
			return agentkernel.Reply{Result: got}
		}})
		if turn, err := r.Finish(); err != nil || turn.Kind != agentkernel.TurnExit || r.Output() != "True\n" {
			t.Errorf("%s: %+v %v %s", src, turn, err, r.Output())
		}
		_ = r.Box.Close()
	}
}

// eventful has every kind of call, in an order that only the answers decide.
const eventful = `
import asyncio, random, time
from datetime import datetime
from kernel import state
from kernel.aio import state as later
from tools.my_files.aio import write
print(random.random(), time.time(), datetime.now())
state.set('k', random.randint(1, 1000))
async def work(n):
    await asyncio.sleep(random.random())
    got = await later.get(str(n))
    print(n, got, {'x': n})
    await write(str(random.random()))
    return time.time()
print(await asyncio.gather(*[work(i) for i in range(5)]))
state.get('end')
`

// recorded runs the eventful program; script, if not nil, is what an earlier run was answered.
func recorded(t *testing.T, b agentkernel.Backend, script []agentkernel.Reply, picks []int) (*Run, []agentkernel.Reply, []int) {
	t.Helper()
	var answers []agentkernel.Reply
	var picked []int
	r := NewRun(t, b, Case{Source: eventful, Answer: func(c agentkernel.Call) agentkernel.Reply {
		reply := Echo(c)
		if script != nil {
			if len(answers) == len(script) {
				t.Fatalf("a replay goes on with %s %s", c.Op, c.Args)
			}
			reply = script[len(answers)]
		}
		answers = append(answers, reply)
		return reply
	}})
	r.Pick = func(flying []agentkernel.Reply) int {
		at := len(flying) * 2 / 3
		if picks != nil {
			at = picks[len(picked)]
		}
		picked = append(picked, at)
		return at
	}
	return r, answers, picked
}

// replay: with the same answers in the same order a program does the same again.
func (s Suite) replay(t *testing.T, b agentkernel.Backend) {
	finish := func(script []agentkernel.Reply) (*Run, []agentkernel.Reply) {
		var answers []agentkernel.Reply
		r, _, _ := recorded(t, b, script, nil)
		inner := r.Answer
		r.Answer = func(c agentkernel.Call) agentkernel.Reply {
			reply := inner(c)
			answers = append(answers, reply)
			return reply
		}
		if turn, err := r.Finish(); err != nil || turn.Kind != agentkernel.TurnExit {
			t.Fatalf("%+v %v\n%s", turn, err, tracebackOf(turn.Err))
		}
		return r, answers
	}
	first, answers := finish(nil)
	for range 3 {
		again, _ := finish(answers)
		if !slices.Equal(first.Calls, again.Calls) || first.Output() != again.Output() {
			t.Errorf("a replay differs:\n%s\n%s\n%q\n%q", first.Output(), again.Output(), first.Calls, again.Calls)
		}
	}
}

// images: a program continues from its image at any turn, on a sandbox of its own. A backend without images says so.
func (s Suite) images(t *testing.T, b agentkernel.Backend) {
	r, _, _ := recorded(t, b, nil, nil)
	r.Start()
	if _, ok := s.has([]Feature{Images}); !ok {
		if _, err := r.Box.Next(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Box.Image(t.Context()); agentkernel.CodeOf(err) != agentkernel.CodeUnsupported {
			t.Errorf("a backend without images gave one, or says something else: %v", err)
		}
		r.Req.Image = []byte("an image of another backend")
		if _, err := b.Start(t.Context(), r.Req); agentkernel.CodeOf(err) != agentkernel.CodeVersion {
			t.Errorf("it started from an image: %v", err)
		}
		return
	}
	whole, _, _ := recorded(t, b, nil, nil)
	if turn, err := whole.Finish(); err != nil || turn.Kind != agentkernel.TurnExit {
		t.Fatalf("%+v %v", turn, err)
	}
	var reply *agentkernel.Reply
	for {
		turn, err := r.Box.Next(t.Context(), reply)
		if err != nil || turn.Kind == agentkernel.TurnFail {
			t.Fatalf("%+v %v", turn, err)
		}
		if turn.Kind == agentkernel.TurnExit {
			break
		}
		image, err := r.Box.Image(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Box.Close(); err != nil {
			t.Fatal(err)
		}
		r.Req.Image = image
		r.Start()
		again, err := r.Box.Next(t.Context(), nil)
		if err != nil || again.Kind != turn.Kind || again.Call.Op != turn.Call.Op {
			t.Fatalf("an image says %+v (%v), want %+v", again, err, turn)
		}
		reply = r.Reply(turn)
	}
	if !slices.Equal(whole.Calls, r.Calls) || whole.Output() != r.Output() {
		t.Errorf("by images:\n%s\nin one go:\n%s", r.Output(), whole.Output())
	}
}

// cancelled: whoever gives up has the program ended, at once, whatever it does.
func cancelled(t *testing.T, b agentkernel.Backend) {
	ctx, cancel := context.WithCancel(t.Context())
	r := NewRun(t, b, Case{Source: "print('on')\nwhile True:\n    pass"})
	r.Req.Output = func(_, _ string) { cancel() }
	r.Start()
	begun := time.Now()
	if turn, err := r.Box.Next(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("the caller gave up: %+v %v", turn, err)
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("that took %v", took)
	}
	if _, err := r.Box.Next(t.Context(), nil); err == nil {
		t.Error("a dead sandbox goes on")
	}
	if _, err := b.Start(ctx, r.Req); !errors.Is(err, context.Canceled) {
		t.Errorf("started for nobody: %v", err)
	}

	running := make(chan struct{})
	r = NewRun(t, b, Case{Source: "print('on')\nwhile True:\n    pass"})
	r.Req.Output = func(_, _ string) { close(running) }
	r.Start()
	done := make(chan error)
	go func() {
		_, err := r.Box.Next(t.Context(), nil)
		done <- err
	}()
	<-running
	if err := errors.Join(r.Box.Close(), r.Box.Close()); err != nil {
		t.Error(err)
	}
	if err := <-done; agentkernel.CodeOf(err) != agentkernel.CodeCanceled {
		t.Errorf("closed while it ran: %v", err)
	}
}

// order: nothing runs before the first Next, output comes before the call that follows it, and time is counted while
// the program runs alone.
func order(t *testing.T, b agentkernel.Backend) {
	r := NewRun(t, b, Case{Source: "print('before')\nfrom kernel import state\nstate.get('k')\nprint('after')"}).Start()
	if r.Output() != "" {
		t.Errorf("it ran before it was told to: %q", r.Output())
	}
	turn, err := r.Box.Next(t.Context(), nil)
	if err != nil || turn.Kind != agentkernel.TurnCall || r.Output() != "before\n" {
		t.Fatalf("%+v %v %q", turn, err, r.Output())
	}
	at := r.Box.Running()
	tick := time.NewTimer(50 * time.Millisecond)
	<-tick.C
	if now := r.Box.Running(); now != at {
		t.Errorf("waiting counts: %v, then %v", at, now)
	}
	if turn, err := r.From(r.Reply(turn)); err != nil || turn.Kind != agentkernel.TurnExit || r.Output() != "before\nafter\n" {
		t.Errorf("%+v %v %q", turn, err, r.Output())
	}
	if r.Box.Running() <= 0 {
		t.Error("running takes no time")
	}
}
