package process

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"agentkernel"
)

// echoState answers state.get with its key, and everything else with its operation.
func echoState(c agentkernel.Call) agentkernel.Reply {
	var a struct{ Key string }
	if c.Op != "state.get" || json.Unmarshal(c.Args, &a) != nil {
		a.Key = c.Op
	}
	b, err := json.Marshal(a.Key)
	if err != nil {
		return agentkernel.Reply{Err: agentkernel.Errorf(agentkernel.CodeInternal, "", "%w", err)}
	}
	return agentkernel.Reply{Result: b}
}

func answeredBy(f func(agentkernel.Call) agentkernel.Reply) func(*run) {
	return func(r *run) { r.answer = f }
}

// The command makes the calls that it is asked for, and programs get their results and errors.
func TestKernelCommand(t *testing.T) {
	for _, c := range []struct {
		source, out, calls string
		answer             func(agentkernel.Call) agentkernel.Reply
	}{
		{"echo before; kernel state get colour; echo after", "before\ncolour\nafter\n", `async state.get {"key":"colour"}`, echoState},
		{"x=$(kernel tool call files.read --arg path=/a --arg n:=2); echo \"got $x\"", "got tool.call\n",
			`async tool.call {"arguments":{"n":2,"path":"/a"},"server":"files","tool":"read"}`, echoState},
		{"kernel tool call a.b 2>&1; echo $?", "kernel: permission_denied: no (do y)\n3\n", "", func(agentkernel.Call) agentkernel.Reply {
			return agentkernel.Reply{Err: agentkernel.Errorf(agentkernel.CodeDenied, "x", "no").WithHint("do y")}
		}},
		{"kernel frob 2>&1; echo $?", "kernel: there is no kernel frob; kernel --help says how\n2\n", " ", echoState},
		{"printf '{\"key\":\"k\"}' | kernel call state.get --json -", "k\n", `async state.get {"key":"k"}`, echoState},
		{"sh -c 'exec 3>&-; kernel now' 2>/dev/null; echo $?", "6\n", " ", echoState},
	} {
		r, turn, err := wholeRun(t, shell(c.source), answeredBy(c.answer))
		if err != nil || turn.Kind != agentkernel.TurnExit || r.out.String() != c.out {
			t.Errorf("%s\nended with %+v %v and printed %q, want %q", c.source, turn, err, r.out.String(), c.out)
		}
		if got := strings.Join(r.calls, "\n"); c.calls != "" && got != strings.TrimSpace(c.calls) {
			t.Errorf("%s\ncalls %s, want %s", c.source, got, c.calls)
		}
	}
}

// Many processes of one sandbox call at a time; each gets its own answer.
func TestManyCallAtOnce(t *testing.T) {
	const n = 40
	source := fmt.Sprintf("for i in $(seq %d); do (got=$(kernel state get key$i); [ \"$got\" = key$i ] || echo \"$i got $got\") & done; wait; echo all", n)
	// On a busy machine all of them stand side by side; each is this test's executable, with the race detector perhaps.
	room := func(r *run) { r.req.Limits.Memory = 4 << 30 }
	r, turn, err := wholeRun(t, shell(source), answeredBy(echoState), room)
	if err != nil || turn.ExitCode != 0 || r.out.String() != "all\n" || len(r.calls) != n {
		t.Errorf("%+v %v %q, %d calls", turn, err, r.out.String(), len(r.calls))
	}
}

// A program goes on while a call is under way, and says so.
func TestRunsOnWhileItWaits(t *testing.T) {
	r := newRun(t, sharedBackend(t), "")
	r.req.Program = shell("kernel sleep 1000 & echo started; kernel now > /dev/null; echo more; kill $!; wait $! 2>/dev/null; echo end")
	woken := make(chan struct{}, 100)
	r.req.Wake = func() { woken <- struct{}{} }
	r.start()
	var reply *agentkernel.Reply
	calls := 0
	for {
		turn, err := r.box.Next(t.Context(), reply)
		if err != nil {
			t.Fatalf("%v %s", err, r.out.String())
		}
		reply = nil
		switch {
		case turn.Kind == agentkernel.TurnExit:
			if r.out.String() != "started\nmore\nend\n" {
				t.Errorf("%q", r.out.String())
			}
			return
		case turn.Kind == agentkernel.TurnWait:
			<-woken
		case turn.Call.Op == "time.sleep": // is never answered
			calls++
			reply = &agentkernel.Reply{ID: int64(calls), Pending: true}
		default:
			calls++
			reply = &agentkernel.Reply{ID: int64(calls), Result: json.RawMessage("1.5")}
		}
	}
}

// Whatever comes through the door, nobody but the sender has harm from it.
func TestHostileDoor(t *testing.T) {
	t.Parallel()
	const prelude = `#!/usr/bin/env python3
import os, socket, struct, array, json
door = socket.socket(fileno=int(os.environ['AGENTKERNEL_DOOR']))
def line():
    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    door.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [b.fileno()]))])
    b.close()
    return a
def frame(b, kind=b'{'):
    return struct.pack('<I', len(b)) + kind + b
def call(i, op='state.get', **args):
    return frame(json.dumps(dict(type='call', id=i, op=op, args=args)).encode())
def dead(s):
    try: return s.recv(1) == b''
    except ConnectionError: return True
`
	for name, source := range map[string]string{
		"lies about lengths":  "for n in (2**32-1, 2**20+1):\n    s = line(); s.sendall(struct.pack('<I', n) + b'{' + b'x'*100); assert dead(s)",
		"no JSON":             "for b in (b'{', b'[]', b'\\xff\\xfe', b'{\"type\":\"exit\",\"code\":0}', b'{\"type\":\"call\",\"id\":1,\"op\":\"\\u0000\",\"args\":{}}', b'{\"type\":\"call\",\"id\":1,\"op\":\"a\",\"args\":[]}'):\n    s = line(); s.sendall(frame(b)); assert dead(s), b",
		"other frames":        "for k in (b'1', b'd', b'z'):\n    s = line(); s.sendall(frame(b'', k)); assert dead(s), k",
		"says it failed":      "s = line(); s.sendall(frame(b'{\"type\":\"fail\",\"exception\":\"X\",\"message\":\"m\"}')); assert dead(s)",
		"files":               "fds = [os.open('/dev/zero', os.O_RDONLY), os.pipe()[0]]\nfor fd in fds:\n    door.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [fd]))])\ndoor.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', fds * 20))])",
		"the door itself":     "for _ in range(10):\n    door.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [door.fileno()]))])",
		"empty messages":      "for _ in range(1000): door.send(b'x' * 100)",
		"half a message":      "s = line(); s.sendall(call(1)[:7]); s.close()\nt = line(); t.sendall(call(1)[:9])",
		"too many lines":      "all = []\nfor _ in range(300):\n    try: all.append(line())\n    except OSError: break\nfor s in all: s.close()",
		"takes no answers":    "s = line()\ns.setblocking(False)\ntry:\n    for i in range(20000): s.send(call(i, key='k' * 500))\nexcept BlockingIOError: pass",
		"goes while it waits": "for _ in range(100):\n    s = line(); s.sendall(call(1)); s.close()",
		"same number twice":   "s = line(); s.sendall(call(7) + call(7))\nf = s.makefile('rb')\nfor _ in range(2): n = struct.unpack('<I', f.read(4))[0]; f.read(1); assert json.loads(f.read(n))['id'] == 7",
	} {
		source = prelude + source + "\nt = line(); t.sendall(call(1, key='still'))\nf = t.makefile('rb'); n = struct.unpack('<I', f.read(4))[0]; f.read(1); assert json.loads(f.read(n)) == dict(type='reply', id=1, result='still')\nprint('served')"
		t.Run(name, func(t *testing.T) {
			r, turn, err := wholeRun(t, agentkernel.Program{Name: "x", Language: agentkernel.Script, Source: source}, answeredBy(echoState))
			if err != nil || turn.Kind != agentkernel.TurnExit || turn.ExitCode != 0 || r.out.String() != "served\n" {
				t.Errorf("%+v %v %s", turn, err, r.out.String())
			}
		})
	}
}

// What a program says of its end counts also if the kernel hears of the end first: whether it lies in the socket, or was
// read with calls before it that nobody answers any more.
func TestTheLastWordIsHeard(t *testing.T) {
	call := string(rawFrame(kindJSON, `{"type":"call","id":1,"op":"state.get","args":{}}`))
	fail := string(rawFrame(kindJSON, `{"type":"fail","exception":"SyntaxError","message":"no","syntax":true}`))
	for name, c := range map[string]struct {
		said string
		read int // how often the kernel has read before
		want string
	}{
		"unread":          {fail, 0, "fail"},
		"read, not heard": {fail, 1, "fail"},
		"behind calls":    {call + call + fail, 0, "fail"},
		"with its end":    {call + fail, 2, "fail"},
		"half of it":      {call + fail[:len(fail)-1], 0, ""},
		"nothing":         {"", 0, ""},
		"no message":      {"\xff\xff\xff\xff\xff" + fail, 0, ""},
	} {
		d, far, err := openDoor(true, maxDoorFrame)
		if err != nil {
			t.Fatal(err)
		}
		line := far[1]
		if _, err := line.WriteString(c.said); err != nil {
			t.Fatal(err)
		}
		for _, f := range far {
			_ = f.Close()
		}
		for _, l := range d.lines {
			for range c.read {
				d.read(l)
			}
		}
		d.settle()
		got := ""
		if d.result != nil {
			got = d.result.Type
		}
		if got != c.want {
			t.Errorf("%s: heard %q", name, got)
		}
		d.close()
	}
}
