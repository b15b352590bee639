package monty

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"agentkernel"
)

// tour is a program that stops in every way there is: sync and async calls, waits, errors, the clock, a
// module of its own, and prints between them.
const tour = `
import asyncio
from datetime import datetime
from kernel import state, sleep
from kernel.aio import state as later
from tools.fs import read
from tools.fs.aio import read as aread
from skills.shapes import area

class Counter:
    def __init__(self):
        self.n = 0
    def up(self, by=1):
        self.n += by
        return self.n

counter = Counter()
print('begin', area(3))
for name in ['a', 'b']:
    state.set(name, {'n': counter.up(), 'big': 2 ** 70})
print(state.get('a'), datetime.now())
try:
    read('missing')
except RuntimeError as e:
    print('caught', e)

async def one(k):
    v = await later.get(k)
    print(k, v)
    w = await aread(k + '/file')
    return (v, w, counter.up(10))

async def main():
    return await asyncio.gather(one('x'), one('y'), one('z'))

print(asyncio.run(main()))
sleep(1)
print('end', counter.n)
counter.n
`

func tourRun(t testing.TB, b *Backend) *run {
	r := newRun(t, b, tour)
	r.req.Program.Modules = map[string]string{"skills.shapes": "from kernel import log\nlog('shapes is imported')\ndef area(n):\n    log(n)\n    return n * n\n"}
	r.req.Tools = []agentkernel.Tool{{Server: "fs", Name: "read", PythonServer: "fs", PythonName: "read", Signature: "read(path: str) -> str",
		Params: []agentkernel.ToolParam{{Name: "path", Python: "path", Required: true}}}}
	r.answer = func(c agentkernel.Call) agentkernel.Reply {
		switch {
		case strings.Contains(string(c.Args), "missing"):
			return agentkernel.Reply{Err: agentkernel.Errorf(agentkernel.CodeTool, "fs.read", "no such file")}
		case c.Op == "time.now":
			return agentkernel.Reply{Result: json.RawMessage("1795226400.5")}
		}
		return agentkernel.Reply{Result: json.RawMessage(fmt.Sprintf(`{"reply":%d}`, c.ID))}
	}
	return r
}

// moveTo makes the sandbox again from its image, in another worker of b, and closes the first.
func (r *run) moveTo(b *Backend) {
	r.t.Helper()
	image, err := r.box.Image(context.Background())
	if err != nil {
		r.t.Fatalf("Image: %v", err)
	}
	ran := r.box.Running()
	if err := r.box.Close(); err != nil {
		r.t.Fatal(err)
	}
	r.b, r.req.Image = b, image
	r.start()
	if now := r.box.Running(); now < ran {
		r.t.Errorf("had run for %s, after loading %s", ran, now)
	}
	r.req.Image = nil
}

// A program that is parked at any turn, or at all of them, does the same as one that never was.
func TestImageAtEveryTurn(t *testing.T) {
	b, other := newBackend(t), newBackend(t)
	plain := tourRun(t, b)
	turns := 0
	plain.every = func(*run) { turns++ }
	end, err := plain.finish()
	if err != nil || end.Kind != agentkernel.TurnExit || turns < 15 {
		t.Fatalf("%+v %v after %d turns\n%s", end, err, turns, plain.out.String())
	}
	for at := -1; at < turns; at++ { // -1: at every turn
		r := tourRun(t, b)
		n := 0
		r.start()
		r.moveTo(other) // also before anything ran
		var reply *agentkernel.Reply
		var turn agentkernel.Turn
		for {
			if turn, err = r.box.Next(t.Context(), reply); err != nil {
				t.Fatal(err)
			}
			if turn.Kind == agentkernel.TurnExit || turn.Kind == agentkernel.TurnFail {
				break
			}
			if n == at || at < 0 {
				r.moveTo([]*Backend{b, other}[n%2])
				again, err := r.box.Next(t.Context(), nil)
				if err != nil || again.Kind != turn.Kind || again.Call.Op != turn.Call.Op || string(again.Call.Args) != string(turn.Call.Args) || again.Call.Async != turn.Call.Async {
					t.Fatalf("turn %d was %+v, after loading %+v, %v", n, turn, again, err)
				}
			}
			n++
			reply = r.reply(turn)
		}
		if turn.Kind != end.Kind || string(turn.Result) != string(end.Result) || r.out.String() != plain.out.String() || !slices.Equal(r.calls, plain.calls) {
			t.Fatalf("parked at turn %d: %+v\n%s\n%q\nwant\n%s\n%q", at, turn, r.out.String(), r.calls, plain.out.String(), plain.calls)
		}
		_ = r.box.Close()
	}
}

// An async call that was answered at once, and whose result the program has not taken, survives parking.
func TestImageKeepsLandedResults(t *testing.T) {
	b := newBackend(t)
	r := newRun(t, b, "import asyncio\nfrom kernel.aio import state\nasync def main():\n    f, g = state.get('f'), state.get('g')\n    return [await g, await f]\nprint(asyncio.run(main()))")
	r.start()
	turn, err := r.box.Next(t.Context(), nil)
	for id := int64(1); err == nil && turn.Kind == agentkernel.TurnCall; id++ {
		r.moveTo(b)
		if again, err := r.box.Next(t.Context(), nil); err != nil || !again.Call.Async {
			t.Fatalf("%+v %v", again, err)
		}
		reply := &agentkernel.Reply{ID: id, Result: json.RawMessage(fmt.Sprintf(`["reply",%d]`, id))}
		if id == 2 {
			reply.Result, reply.Err = nil, agentkernel.Errorf(agentkernel.CodeTool, "x", "broken")
		}
		turn, err = r.box.Next(t.Context(), reply)
	}
	if err != nil || turn.Kind != agentkernel.TurnFail || turn.Err.Exception != "RuntimeError" || !strings.Contains(turn.Err.Message(), "tool_error: broken") {
		t.Fatalf("%+v %v", turn, err)
	}
}

// The limits of time and output are over the whole life.
func TestLimitsOverImages(t *testing.T) {
	b := newBackend(t)
	r := boundRun(t, b, "while True:\n    for i in range(200000): pass\n    print('x' * 10)\n    f()", "f=kernel.self")
	r.req.Limits.Time = agentkernel.Duration(time.Second)
	r.every = func(r *run) {
		if len(r.calls)%5 == 0 {
			image, err := r.box.Image(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			_ = r.box.Close()
			r.req.Image = image
			r.start()
			if _, err := r.box.Next(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	turn, err := r.finish()
	if err != nil || turn.Kind != agentkernel.TurnFail || turn.Err.Op != "limit.time" || len(r.calls) < 5 {
		t.Errorf("%+v %v after %d calls", turn, err, len(r.calls))
	}

	r = boundRun(t, b, "while True:\n    print('x' * 9)\n    f()", "f=kernel.self")
	r.req.Limits.Output = 55
	r.every = func(r *run) {
		r.moveTo(b)
		if _, err := r.box.Next(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	turn, err = r.finish()
	if err != nil || turn.Kind != agentkernel.TurnFail || turn.Err.Op != "limit.output" || r.out.Len() != 55 {
		t.Errorf("%+v %v after %d bytes", turn, err, r.out.Len())
	}
}

func TestImageRefusals(t *testing.T) {
	b := newBackend(t)
	r := tourRun(t, b).start()
	if _, err := r.box.Next(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	good, err := r.box.Image(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	change := func(f func(img []byte) []byte) []byte { return f(slices.Clone(good)) }
	for name, c := range map[string]struct {
		image []byte
		req   func(*agentkernel.StartRequest)
		code  agentkernel.Code
	}{
		"empty":         {[]byte{}, nil, agentkernel.CodeCorrupt},
		"short":         {[]byte{1, 2}, nil, agentkernel.CodeCorrupt},
		"other form":    {change(func(i []byte) []byte { i[0] = 9; return i }), nil, agentkernel.CodeVersion},
		"long header":   {change(func(i []byte) []byte { i[4] = 255; return i }), nil, agentkernel.CodeCorrupt},
		"no JSON":       {change(func(i []byte) []byte { i[5] = 'x'; return i }), nil, agentkernel.CodeCorrupt},
		"other engine":  {[]byte(strings.Replace(string(good), "monty-0.", "monty-9.", 1)), nil, agentkernel.CodeVersion},
		"cut":           {good[:len(good)-40], nil, agentkernel.CodeCorrupt},
		"no dump":       {good[:slices.Index(good, '}')+1], nil, agentkernel.CodeCorrupt},
		"other program": {good, func(q *agentkernel.StartRequest) { q.Program.Source += "\n" }, agentkernel.CodeVersion},
		"other tools":   {good, func(q *agentkernel.StartRequest) { q.Tools = nil; q.Program.Source = "1" }, agentkernel.CodeVersion},
	} {
		req := r.req
		if c.req != nil {
			c.req(&req)
		}
		req.Image = c.image
		if box, err := b.Start(t.Context(), req); agentkernel.CodeOf(err) != c.code {
			t.Errorf("%s: %v %v, want %s", name, box, err, c.code)
		}
	}
	if got := mustExit(t, b, "print(1)"); got != "1\n" {
		t.Error(got)
	}
}

// Mutated images may give any answer but none that hurts others: no hang, no panic, and the pool goes on.
func TestHostileImages(t *testing.T) {
	b := newBackend(t, func(c *Config) { c.Grace = 100 * time.Millisecond; c.Workers = 2 })
	r := tourRun(t, b)
	r.start()
	if _, err := r.box.Next(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	good, err := r.box.Image(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_ = r.box.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	begin := slices.Index(good, '}') + 1
	ends := map[string]int{}
	for range 300 {
		img := slices.Clone(good)
		for range 1 + rng.IntN(3) {
			img[begin+rng.IntN(len(img)-begin)] = byte(rng.IntN(256))
		}
		m := tourRun(t, b)
		m.req.Image, m.req.Limits = img, r.req.Limits
		m.req.Limits.Time = agentkernel.Duration(100 * time.Millisecond)
		box, err := b.Start(t.Context(), m.req)
		if err != nil {
			ends["refused: "+string(agentkernel.CodeOf(err))]++
			continue
		}
		var reply *agentkernel.Reply
		var turn agentkernel.Turn
		for n := int64(1); n < 50; n++ {
			if turn, err = box.Next(t.Context(), reply); err != nil || turn.Kind > agentkernel.TurnWait {
				break
			}
			if turn.Kind == agentkernel.TurnWait {
				break
			}
			reply = &agentkernel.Reply{ID: n, Result: json.RawMessage("null")}
		}
		ends[fmt.Sprint("ran: ", turn.Kind, " ", agentkernel.CodeOf(err))]++
		_ = box.Close()
	}
	t.Log(ends)
	if got := mustExit(t, b, "print(1)"); got != "1\n" {
		t.Error(got)
	}
}

// TestPauseAtTheEndOfATurn: a pause may take a program for one that computes which has just made a call, and end its worker. That
// is found when its image is made, or when it goes on, and costs the program nothing.
func TestPauseAtTheEndOfATurn(t *testing.T) {
	b := newBackend(t)
	for _, image := range []bool{false, true} {
		r := newRun(t, b, "from kernel import now\nnow()\nprint(3)").start()
		turn, err := r.box.Next(t.Context(), nil)
		if err != nil || turn.Kind != agentkernel.TurnCall {
			t.Fatalf("%+v %v", turn, err)
		}
		workerOf(r).kill(errSuspended)
		if image {
			for range 2 {
				if _, err := r.box.Image(t.Context()); err == nil {
					t.Error("a dead worker made an image")
				}
			}
		}
		turn, err = r.box.Next(t.Context(), &agentkernel.Reply{ID: 1, Result: json.RawMessage("1")})
		if err != nil || turn.Kind != agentkernel.TurnLost || turn.Err != nil {
			t.Errorf("after an image %t: %+v %v", image, turn, err)
		}
		if err := r.box.Close(); err != nil {
			t.Error(err)
		}
	}
}
