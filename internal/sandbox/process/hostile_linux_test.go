package process

import (
	"fmt"
	"strings"
	"testing"

	"agentkernel"
)

// A program may write to its channel itself. Whatever it says there harms nobody else.
func TestHostileFrames(t *testing.T) {
	b := sharedBackend(t)
	const prelude = `
import os, struct
def say(kind, payload):
    os.write(3, struct.pack("<IB", len(payload), ord(kind)) + payload)
`
	for _, c := range []struct {
		src  string
		want agentkernel.Code
	}{
		{`os.write(3, struct.pack("<IB", 0xfffffff0, ord("{")) + b"x")`, agentkernel.CodeCrashed},
		{`os.write(3, struct.pack("<IB", 1 << 26, ord("{")) + b"x"); os._exit(0)`, agentkernel.CodeCrashed},
		{`say("x", b"")`, agentkernel.CodeCrashed},
		{`say("{", b"\xff\xfe")`, agentkernel.CodeCrashed},
		{`say("{", b"[" * 100000)`, agentkernel.CodeCrashed},
		{`say("{", b'{"type":"hello","wire":1}')`, agentkernel.CodeCrashed},
		{`say("{", b'{"type":"checked"}')`, agentkernel.CodeCrashed},
		{`say("{", b'{"type":"refused"}')`, agentkernel.CodeCrashed},
		{`say("{", b'{"type":"wait"}')`, agentkernel.CodeCrashed},
		{`say("{", b'{"type":"call","id":0,"op":"time.now","args":{}}')`, agentkernel.CodeCrashed},
		{`[say("{", b'{"type":"call","id":9,"op":"time.now","args":{}}') for i in range(2)]`, agentkernel.CodeCrashed},
		{`say("{", b'{"type":"call","id":1,"op":"time.now","args":5}')`, agentkernel.CodeCrashed},
		{`say("{", b'{"type":"reply","id":1}')`, agentkernel.CodeCrashed},
		{`say("{", b'{"type":"exit","code":0}')`, ""},
		{`say("{", b'{"type":"fail","message":"no"}')`, agentkernel.CodeProgram},
		{`say("d", b"")`, ""},
		{`say("1", b"hi\n")`, ""},
		{`os.close(3)`, agentkernel.CodeCrashed},
		{`os.dup2(1, 3)`, agentkernel.CodeCrashed},
	} {
		r := newRun(t, b, prelude+c.src+map[bool]string{true: "\nwhile True: pass"}[c.want == agentkernel.CodeCrashed])
		turn, err := r.finish()
		code := agentkernel.CodeOf(err)
		if err == nil && turn.Err != nil {
			code = turn.Err.Code
		}
		if code != c.want {
			t.Errorf("%s: %+v %v, want %q", c.src, turn, err, c.want)
		}
		_ = r.box.Close()
	}
	if got := mustExit(t, b, "print(1)"); got != "1\n" {
		t.Errorf("afterwards: %q", got)
	}
}

// Ten thousand calls at the same time are answered, each with its own result.
func TestManyCalls(t *testing.T) {
	b := sharedBackend(t)
	r := newRun(t, b, `
import asyncio
from kernel.aio import state
got = await asyncio.gather(*[state.get(str(i)) for i in range(10_000)])
print(got == list(range(1, 10_001)))
`)
	r.answer = func(c agentkernel.Call) agentkernel.Reply {
		return agentkernel.Reply{Result: fmt.Appendf(nil, "%d", c.ID)}
	}
	if turn, err := r.finish(); err != nil || turn.Kind != agentkernel.TurnExit || r.out.String() != "True\n" {
		t.Errorf("%+v %v %s %s", turn, err, r.out.String(), tracebackOf(turn))
	}
}

// Big arguments, results and texts pass; those that are too big are refused in the program.
func TestBigValues(t *testing.T) {
	b := sharedBackend(t)
	r := newRun(t, b, `
import kernel
big = "x" * 10_000_000
print(kernel.state.get("k", big) == big)
try:
    kernel.state.set("k", "x" * (65 << 20))
except ValueError as e:
    print(e)
print(kernel.state.get("k", 5))
print("y" * 3_000_000)
`)
	r.req.Limits.Memory = 1 << 30
	r.answer = func(c agentkernel.Call) agentkernel.Reply {
		_, value, _ := strings.Cut(string(c.Args), `"default":`)
		return agentkernel.Reply{Result: []byte(strings.TrimSuffix(value, "}"))}
	}
	turn, err := r.finish()
	want := "True\ninvalid_argument: 68157509 bytes are more than one message to the kernel may have (67108864)\n5\n" + strings.Repeat("y", 3_000_000) + "\n"
	if err != nil || turn.Kind != agentkernel.TurnExit || r.out.String() != want {
		t.Errorf("%+v %v %.300s %s", turn, err, r.out.String(), tracebackOf(turn))
	}
}
