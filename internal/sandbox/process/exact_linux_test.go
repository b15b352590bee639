package process

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"agentkernel"
	"agentkernel/internal/journal"
)

// world answers system calls as the kernel would, never the same twice.
type world struct {
	t     *testing.T
	clock float64
	// script, if not nil, is what an earlier run was answered.
	script  []agentkernel.Reply
	answers []agentkernel.Reply
}

func (w *world) answer(c agentkernel.Call) agentkernel.Reply {
	if w.script != nil {
		if len(w.answers) >= len(w.script) {
			w.t.Fatalf("the replay goes on with %s %s", c.Op, c.Args)
		}
		r := w.script[len(w.answers)]
		w.answers = append(w.answers, r)
		return r
	}
	r := agentkernel.Reply{Result: json.RawMessage("null")}
	switch c.Op {
	case "time.now":
		w.clock += 0.25
		r.Result = journal.AppendFloat(nil, 1795226400+w.clock)
	case "rand.bytes":
		var a struct{ N int }
		if err := json.Unmarshal(c.Args, &a); err != nil {
			w.t.Fatal(err)
		}
		b := make([]byte, a.N)
		_, _ = rand.Read(b)
		r.Result, _ = json.Marshal(map[string][]byte{"$bytes": b})
	}
	w.answers = append(w.answers, r)
	return r
}

// Whatever a program asks of chance and the clock it asks the kernel: with the same answers it does the same again.
// And it does ask: with other answers it does something else.
func TestReplayIsExact(t *testing.T) {
	b := sharedBackend(t)
	for name, src := range map[string]string{
		"clock":      "import time\nprint(time.time(), time.monotonic(), time.perf_counter(), time.time_ns(), time.process_time(), time.localtime(), time.gmtime(), time.ctime(), time.strftime('%H:%M:%S'), time.asctime())",
		"dates":      "import datetime as d\nprint(d.datetime.now(), d.datetime.now(d.timezone.utc), d.datetime.utcnow(), d.datetime.today(), d.date.today(), repr(d.datetime.now()))",
		"subclass":   "import datetime\nclass D(datetime.datetime): pass\nprint(repr(D.now()), type(D.today()))",
		"sleep":      "import time\nfrom time import sleep\nsleep(1); time.sleep(0.5)\nprint(time.time())",
		"random":     "import random\nprint(random.random(), random.randint(1, 10**9), random.sample(range(1000), 5), random.choice('abcdefgh'), random.gauss(0, 1))",
		"from":       "from random import random, shuffle\nx = list(range(50)); shuffle(x)\nprint(random(), x)",
		"generator":  "import random\nprint(random.Random().random(), random.SystemRandom().random())",
		"reseeded":   "import random\nrandom.seed()\nprint(random.random())",
		"uuid":       "import uuid\nprint(uuid.uuid4(), uuid.uuid1())",
		"os":         "import os\nprint(os.urandom(8).hex(), os.getrandom(8).hex(), len(os.urandom(70000)))",
		"secrets":    "import secrets\nprint(secrets.token_hex(), secrets.token_urlsafe(5), secrets.randbelow(10**9), secrets.choice('abcdefgh'))",
		"tempfile":   "import tempfile\nprint(tempfile.mkdtemp())",
		"threads":    "import threading, time\nt = threading.Thread(target=lambda: print(time.time()))\nt.start(); t.join()\nprint(time.time())",
		"logging":    "import logging\nlogging.basicConfig(format='%(asctime)s %(message)s')\nlogging.warning('x')",
		"timers":     "import asyncio\nasync def f(n):\n    await asyncio.sleep(n)\n    print(n, asyncio.get_running_loop().time())\nawait asyncio.gather(*[f(i / 10) for i in range(5)])",
		"wait_for":   "import asyncio\ntry:\n    await asyncio.wait_for(asyncio.Event().wait(), 3)\nexcept asyncio.TimeoutError:\n    print('late', asyncio.get_running_loop().time())",
		"call_later": "import asyncio\nl = asyncio.get_running_loop(); e = asyncio.Event()\nl.call_later(1, print, 'a'); l.call_at(l.time() + 2, e.set); l.call_later(9, print, 'never').cancel()\nawait e.wait()\nprint(l.time())",
		"to_thread":  "import asyncio, time\nprint(await asyncio.gather(*[asyncio.to_thread(time.time) for _ in range(4)]))",
	} {
		run := func(w *world, pick []int) (*run, []int) {
			r := newRun(t, b, src)
			r.answer = w.answer
			var picked []int
			r.pick = func(flying []agentkernel.Reply) int {
				at := len(flying) / 2
				if pick != nil {
					at = pick[len(picked)]
				}
				picked = append(picked, at)
				return at
			}
			if turn, err := r.finish(); err != nil || turn.Kind != agentkernel.TurnExit {
				t.Fatalf("%s: %+v %v %s", name, turn, err, tracebackOf(turn))
			}
			_ = r.box.Close()
			return r, picked
		}
		first := &world{t: t}
		one, picks := run(first, nil)
		two, _ := run(&world{t: t, script: first.answers}, picks)
		if !slices.Equal(one.calls, two.calls) || one.out.String() != two.out.String() {
			t.Errorf("%s: a replay differs\n%s\n%s\n%q\n%q", name, one.out.String(), two.out.String(), one.calls, two.calls)
		}
		three, _ := run(&world{t: t, clock: 1000}, nil)
		if one.out.String() == three.out.String() || len(one.calls) == 0 {
			t.Errorf("%s: it does not depend on the kernel: %s", name, one.out.String())
		}
	}
}

// Programs that ask nothing of chance make no call for it, and seeds give CPython's own numbers.
func TestNoNeedlessCalls(t *testing.T) {
	b := sharedBackend(t)
	r := newRun(t, b, `
import random, uuid, asyncio, time, datetime, tempfile, secrets
random.seed(42)
print(random.random(), {"a", "b", "c"} == {"c", "b", "a"}, hash("x"))
async def f(): return 1
print(asyncio.run(f()), datetime.datetime(2026, 1, 1), uuid.uuid5(uuid.NAMESPACE_DNS, "x"))
`)
	if turn, err := r.finish(); err != nil || turn.Kind != agentkernel.TurnExit {
		t.Fatalf("%+v %v %s", turn, err, tracebackOf(turn))
	}
	if len(r.calls) != 0 || !strings.HasPrefix(r.out.String(), "0.6394267984578837 True ") {
		t.Errorf("%q %s", r.calls, r.out.String())
	}
}

// The awaitable forms may be awaited directly, gathered, made tasks, awaited later than called.
func TestAwaitables(t *testing.T) {
	b := sharedBackend(t)
	for src, want := range map[string]string{
		"print(await state.get('a'))":                                                   "a\n",
		"c = state.get('a'); d = state.get('b')\nprint(await d, await c)":               "b a\n",
		"t = asyncio.create_task(state.get('a'))\nprint(await t)":                       "a\n",
		"x = state.get('a')\nasync def f(): return await x\nprint(await f())":           "a\n",
		"print(await asyncio.gather(*[state.get(k) for k in 'abc']))":                   "['a', 'b', 'c']\n",
		"print([await f for f in asyncio.as_completed([state.get(k) for k in 'abc'])])": "['c', 'b', 'a']\n",
		"done, rest = await asyncio.wait([asyncio.ensure_future(state.get(k)) for k in 'ab'], return_when=asyncio.FIRST_COMPLETED)\nprint(len(done), len(rest))":                 "1 1\n",
		"print(await asyncio.gather(bad('x'), state.get('a'), return_exceptions=True))":                                                                                          "[ToolError('tool_error: no'), 'a']\n",
		"t = asyncio.create_task(asyncio.sleep(5))\nawait asyncio.sleep(0)\nt.cancel()\ntry:\n    await t\nexcept asyncio.CancelledError:\n    print('cancelled')":               "cancelled\n",
		"q = asyncio.Queue()\nasync def put():\n    await q.put(await state.get('a'))\nasyncio.create_task(put())\nprint(await q.get())":                                         "a\n",
		"l = asyncio.Lock()\nasync def f(k):\n    async with l:\n        return await state.get(k)\nprint(await asyncio.gather(f('a'), f('b')))":                                 "['a', 'b']\n",
		"from concurrent.futures import ThreadPoolExecutor as E\nwith E(2) as e:\n    print(await asyncio.get_running_loop().run_in_executor(e, lambda: kernel.state.get('a')))": "a\n",
		"try:\n    await asyncio.Event().wait()\nexcept BaseException as e:\n    print(type(e).__name__)":                                                                        "CancelledError\n",
	} {
		r := newRun(t, b, "import asyncio, kernel\nfrom kernel.aio import state\nfrom kernel.aio import self as bad_\nbad = lambda x: bad_()\n"+src)
		r.answer = func(c agentkernel.Call) agentkernel.Reply {
			var a struct{ Key string }
			if err := json.Unmarshal(c.Args, &a); err != nil {
				t.Error(err)
			}
			switch c.Op {
			case "proc.self":
				return agentkernel.Reply{Err: agentkernel.Errorf(agentkernel.CodeTool, "x", "no")}
			case "state.get":
				return agentkernel.Reply{Result: json.RawMessage(fmt.Sprintf("%q", a.Key))}
			}
			return agentkernel.Reply{Result: json.RawMessage("null")}
		}
		turn, err := r.finish()
		if strings.Contains(src, "Event") {
			if err != nil || turn.Kind != agentkernel.TurnFail || !strings.Contains(turn.Err.Message(), "can never happen") {
				t.Errorf("%s: %+v %v", src, turn, err)
			}
		} else if err != nil || turn.Kind != agentkernel.TurnExit {
			t.Errorf("%s: %+v %v %s", src, turn, err, tracebackOf(turn))
		} else if got := r.out.String(); got != want {
			t.Errorf("%s prints %q, want %q", src, got, want)
		}
		_ = r.box.Close()
	}
}

// A handler that raises may come at any moment of a call. The calls after it are not mixed up with that one.
func TestHandlersRaiseInCalls(t *testing.T) {
	r := newRun(t, sharedBackend(t), `
import signal, time
class Stop(Exception): pass
def over(*a): raise Stop
signal.signal(signal.SIGALRM, over)
stopped = 0
for i in range(300):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0002 + i % 7 * 0.0001)
        while True:
            time.time()
    except Stop:
        stopped += 1
print(stopped, time.time() > 1e9)
`)
	r.answer = func(c agentkernel.Call) agentkernel.Reply {
		return agentkernel.Reply{Result: json.RawMessage("1795226400.5")}
	}
	turn, err := r.finish()
	if err != nil || turn.Kind != agentkernel.TurnExit || r.out.String() != "300 True\n" {
		t.Errorf("%+v %v %q", turn, err, r.out.String())
	}
}

// A class that inherits from datetime is made by its own constructor, and bytes are counted by whole numbers alone.
func TestAsTheRealOnes(t *testing.T) {
	r := newRun(t, sharedBackend(t), `
import datetime, os
class Mine(datetime.datetime):
    def __new__(cls, *args, **kwargs):
        made = super().__new__(cls, *args, **kwargs)
        made.extra = 7
        return made
print(Mine.utcnow().extra, Mine.utcnow(), type(datetime.datetime.utcnow()) is datetime.datetime)
try:
    os.urandom(1.0)
except TypeError:
    print('TypeError')
`)
	r.answer = func(agentkernel.Call) agentkernel.Reply {
		return agentkernel.Reply{Result: json.RawMessage("1795226400.5")}
	}
	turn, err := r.finish()
	want := "7 2026-11-21 02:00:00.500000 True\nTypeError\n"
	if err != nil || turn.Kind != agentkernel.TurnExit || r.out.String() != want {
		t.Errorf("%+v %v %q %s", turn, err, r.out.String(), tracebackOf(turn))
	}
}
