package olddir

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/embedded"
)

const (
	envMake       = "AGENTKERNEL_OLDDIR"            // "make": make the archives
	envGeneration = "AGENTKERNEL_OLDDIR_GENERATION" // of a child: which of the kernels it is
	envHome       = "AGENTKERNEL_OLDDIR_HOME"
	envParks      = "AGENTKERNEL_OLDDIR_PARKS" // what waits is parked
)

// generations are the kernels that an archive was made by, one after the other. Each is killed when all is durable.
var generations = []func(*maker){firstKernel, secondKernel, lastKernel}

// TestMake makes the archives.
func TestMake(t *testing.T) {
	if os.Getenv(envMake) != "make" {
		t.Skip("the archives stay as they are; " + envMake + "=make makes them anew")
	}
	for _, name := range Archives() {
		t.Run(name, func(t *testing.T) { makeArchive(t, name) })
	}
}

func makeArchive(t *testing.T, name string) {
	lockFolder(t)
	home := filepath.Join(t.TempDir(), "home")
	for i := range generations {
		cmd := exec.Command(os.Args[0], "-test.run=^$")
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", envGeneration, i), envHome+"="+home, "AGENTKERNEL_MONTY="+engine(t))
		if name == "main" {
			cmd.Env = append(cmd.Env, envParks+"=yes")
		}
		cmd.Stderr = os.Stderr
		if said, err := readyThenKill(cmd); err != nil || said != "ready" {
			t.Fatalf("kernel %d said %q: %v", i, said, err)
		}
	}
	packed, err := Pack(home)
	if err == nil {
		err = os.WriteFile(filepath.Join("testdata", name+".tar.zst"), packed, 0o644) //nolint:gosec // test data
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes", len(packed))
	open(t, home, false) // kills what the last kernel has left behind
}

func readyThenKill(cmd *exec.Cmd) (string, error) {
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return "", err
	}
	said := make([]byte, len("ready"))
	n, err := out.Read(said)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	return string(said[:n]), err
}

// childKernel is a kernel that is going to be killed.
func childKernel(generation string) {
	home := os.Getenv(envHome)
	cfg := embedded.Config{Home: home, Engine: os.Getenv("AGENTKERNEL_MONTY"), Version: version, ParkAfter: time.Hour, Workers: 100, Sandboxes: true, Python: python}
	m := &maker{parks: os.Getenv(envParks) != ""}
	if m.parks {
		cfg.ParkAfter = 5 * time.Millisecond
	}
	m.far = newFar(home, true)
	cfg.Tools = m.far.source
	k, err := embedded.Open(context.Background(), cfg)
	m.must(err)
	m.Kernel = k
	var i int
	_, err = fmt.Sscan(generation, &i)
	m.must(err)
	generations[i](m)
	fmt.Print("ready")
	select {} // until it is killed
}

// maker brings processes to their places.
type maker struct {
	*embedded.Kernel
	far   *far
	parks bool
}

var background = context.Background()

func (m *maker) must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "olddir:", err)
		os.Exit(1)
	}
}

func (m *maker) until(pid agentkernel.PID, what string, cond func(p agentkernel.Process) bool) {
	for deadline := time.Now().Add(2 * time.Minute); ; {
		p, err := m.Process(background, pid)
		m.must(err)
		if cond(p) {
			return
		}
		if p.State.Terminal() || time.Now().After(deadline) {
			m.must(fmt.Errorf("pid %d %s, %s: waited in vain until %s: %v %v, printed %q", pid, p.Name, p.State, what, p.WaitsFor, p.Error, output(m, pid)))
		}
		time.Sleep(time.Millisecond) //nolint:forbidigo // polling a condition
	}
}

func spec(name, source string, change ...func(*agentkernel.Spec)) agentkernel.Spec {
	s := agentkernel.Spec{Program: agentkernel.Program{Name: name, Source: source}, Backend: "monty", Tools: []string{"/book.json"}, Allow: []string{"book"}}
	for _, c := range change {
		c(&s)
	}
	return s
}

// asked starts a process, answers its question with "always" and waits until its next call hangs.
func (m *maker) asked(s agentkernel.Spec) {
	created := make(chan agentkernel.PID, 1)
	go func() {
		_, err := m.Run(background, s, func(ev agentkernel.Event) error {
			switch ev.Kind {
			case agentkernel.EventCreated:
				created <- ev.PID
			case agentkernel.EventAsk:
				return m.Answer(background, ev.PID, ev.Ask.ID, agentkernel.AnswerAlways)
			}
			return nil
		})
		m.must(err)
	}()
	m.hung(<-created, 1)
}

func (m *maker) start(name, source string, change ...func(*agentkernel.Spec)) agentkernel.PID {
	p, err := m.Spawn(background, spec(name, source, change...))
	if err != nil {
		m.must(fmt.Errorf("%s: %w", name, err))
	}
	return p.PID
}

// ends starts a process and waits for its end.
func (m *maker) ends(name, source string, change ...func(*agentkernel.Spec)) agentkernel.PID {
	pid := m.start(name, source, change...)
	m.waitEnd(pid)
	return pid
}

func (m *maker) waitEnd(pid agentkernel.PID) {
	p, err := m.Wait(background, pid)
	if err == nil && !p.State.Terminal() {
		err = fmt.Errorf("pid %d %s has not ended: %v", pid, p.Name, p.PauseNote)
	}
	m.must(err)
}

// hangs starts a process and waits until its call does not answer.
func (m *maker) hangs(name, source string, change ...func(*agentkernel.Spec)) agentkernel.PID {
	pid := m.start(name, source, change...)
	m.hung(pid, 1)
	return pid
}

// hung waits until n calls of a process have not been answered, and it is parked if it can be.
func (m *maker) hung(pid agentkernel.PID, n int) {
	m.until(pid, "its call hangs", func(p agentkernel.Process) bool {
		calls, _ := m.far.made()
		hung := slices.DeleteFunc(calls[pid], func(c string) bool { return !strings.Contains(c, "(hang") })
		return len(hung) == n && p.State == agentkernel.StateWaiting
	})
	m.parked(pid)
}

func (m *maker) parked(pid agentkernel.PID) {
	m.until(pid, "it is parked", func(p agentkernel.Process) bool { return !m.parks || p.Backend != "monty" || !p.Resident })
}

func (m *maker) waits(pid agentkernel.PID, call string) {
	m.until(pid, "it waits for "+call, func(p agentkernel.Process) bool {
		return p.State == agentkernel.StateWaiting && strings.HasPrefix(strings.Join(p.WaitsFor, ", "), call)
	})
	m.parked(pid)
}

func (m *maker) printed(pid agentkernel.PID, text string) {
	m.until(pid, "it prints "+text, func(agentkernel.Process) bool { return strings.Contains(output(m, pid), text) })
}

// output is what a process has printed.
func output(k agentkernel.Kernel, pid agentkernel.PID) string {
	var b strings.Builder
	_ = k.Events(background, pid, 1, false, func(ev agentkernel.Event) error { b.WriteString(ev.Text); return nil })
	return b.String()
}

func (m *maker) signal(pid agentkernel.PID, s agentkernel.Signal) {
	m.must(m.Signal(background, pid, s))
}

func (m *maker) pause(pid agentkernel.PID) {
	m.signal(pid, agentkernel.SignalPause)
	m.until(pid, "it is paused", func(p agentkernel.Process) bool { return p.Paused })
}

func session(s *agentkernel.Spec) { s.Program.Session = true }
func cpython(s *agentkernel.Spec) { s.Backend = "process" }
func auto(s *agentkernel.Spec)    { s.Backend = "auto" }
func pauses(s *agentkernel.Spec)  { s.OnUnknown = agentkernel.UnknownPause }
func inFolder(s *agentkernel.Spec) {
	s.Backend, s.Workspace = "process", &agentkernel.Workspace{Path: folder}
}
func script(s *agentkernel.Spec)   { s.Backend, s.Program.Language = "process", agentkernel.Script }
func restarts(s *agentkernel.Spec) { s.Restart = agentkernel.RestartOnCrash }
func stranger(s *agentkernel.Spec) { s.Namespace = "team" }
func of(pid agentkernel.PID) func(*agentkernel.Spec) {
	return func(s *agentkernel.Spec) { s.Past = &agentkernel.Past{PID: pid} }
}
func within(l agentkernel.Limits) func(*agentkernel.Spec) {
	return func(s *agentkernel.Spec) { s.Limits = l }
}

// session starts a session and hands it pieces.
func (m *maker) session(name string, change []func(*agentkernel.Spec), pieces ...string) agentkernel.PID {
	pid := m.start(name, "", append(change, session)...)
	m.waits(pid, "proc.next")
	for i, source := range pieces {
		m.feed(pid, agentkernel.Cell{Name: fmt.Sprintf("piece %d", i+1), Key: fmt.Sprintf("key %d", i+1), Source: source})
	}
	return pid
}

func (m *maker) feed(pid agentkernel.PID, piece agentkernel.Cell) {
	_, err := m.Feed(background, pid, piece, func(agentkernel.Event) error { return nil })
	m.must(err)
	m.waits(pid, "proc.next")
}

// feedLater hands a session a piece and does not wait for its end.
func (m *maker) feedLater(pid agentkernel.PID, source string) {
	go func() {
		_, _ = m.Feed(background, pid, agentkernel.Cell{Name: "piece", Source: source}, func(agentkernel.Event) error { return nil })
	}()
}

const unsure = `
from tools.book import write
write(line="first " + %q)
try:
    answer = write(line="hang")
except OSError as e:
    answer = "unknown"
except RuntimeError as e:
    answer = "refused"
print(answer, write(line="last"))
`

// firstKernel begins what has a longer history than one death.
func firstKernel(m *maker) {
	for _, name := range []string{"undecided-done", "undecided-retry", "undecided-fail", "undecided-resume"} {
		m.hangs(name, fmt.Sprintf(unsure, name), pauses)
	}
	m.hangs("recovered-twice", "from tools.book import read, write\nimport random\nx = random.random()\nprint('x', x)\nwrite(line='a')\nprint(read(line='hang'))\nprint('x', x)\nwrite(line='b')")
}

func secondKernel(m *maker) {
	recovered, err := m.Recover(background, 0)
	m.must(err)
	for _, p := range recovered {
		if p.Name == "recovered-twice" {
			m.hung(p.PID, 2)
			continue
		}
		m.until(p.PID, "a human is asked", func(p agentkernel.Process) bool { return p.Paused })
	}
}

// rounds is how long a program counts that the kill finds counting.
const rounds = 1_500_000

// counts is a program that computes when its kernel is killed.
var counts = fmt.Sprintf(`
from kernel import state
from tools.book import write
state.set("n", 1)
print("begin", write(line="before"))
n = 0
while n < %d:
    n += 1
try:
    print("counted", n, state.get("n"))
except KeyboardInterrupt:
    print("interrupted", n)
write(line="after")
`, rounds)

const first = `
import random, time
from kernel import state, now, random_bytes, log
from tools.book import put, read, write
print("begin", random.random(), now(), time.time(), list(random_bytes(4)))
state.set("k", {"a": [1, 2.5, "x"]})
print(read(line="r"), put(line="p"), write(line="w"))
log("a line")
state.set("gone", 1)
state.delete("gone")
`

func lastKernel(m *maker) {
	list, err := m.List(background, agentkernel.Filter{Unfinished: true})
	m.must(err)
	for _, p := range list {
		if p.Name == "recovered-twice" {
			_, err := m.Recover(background, p.PID)
			m.must(err)
			m.hung(p.PID, 3)
		}
	}
	ended(m)
	waiting(m)
	trees(m)
	sessions(m)
	others(m)
	computing(m)
}

func ended(m *maker) {
	exited := m.ends("exited", first+"print('end')\n{'sum': 42, 'k': state.get('k')}")
	m.ends("failed", "from tools.book import write\nprint('before', write(line='w'))\n[][1]")
	m.ends("tool-error", "from tools.book import read\nread(line='error')")
	m.ends("exit-code", "import sys\nprint('bye', sys.argv[1:])\nsys.exit(3)", func(s *agentkernel.Spec) {
		s.Program.Args, s.Priority, s.IdempotencyKey = []string{"one", "two"}, 20, "once"
	})
	killed := m.start("killed", "print('begin')\nwhile True: pass")
	m.printed(killed, "begin")
	m.signal(killed, agentkernel.SignalKill)
	m.waitEnd(killed)
	m.ends("output-limit", "while True: print('a line of text')", within(agentkernel.Limits{Output: 100}))
	m.ends("time-limit", "print('begin')\nwhile True: pass", within(agentkernel.Limits{Time: agentkernel.Duration(50 * time.Millisecond)}))
	m.ends("calls-limit", "from tools.book import read\nfor i in range(9): print(read(line=str(i)))", within(agentkernel.Limits{Calls: 4}))
	m.ends("rerun-ended", first+"print('mended', read(line='new'))", of(exited))
	m.hangs("rerun", first+"print('changed', read(line='hang'))\nprint(write(line='w'), write(line='new'))\nprint(state.get('k'))", of(exited))

	forgotten := m.ends("pruned", "from tools.book import write\nwrite(line='w')", stranger)
	file, err := m.Export(background, exited, agentkernel.ExportOptions{Unredacted: true})
	m.must(err)
	_, err = m.Import(background, file, agentkernel.ImportOptions{Namespace: "imported"})
	m.must(err)
	done, err := m.Prune(background, agentkernel.PruneOptions{Before: time.Now().Add(time.Minute), Namespace: "team"})
	if err == nil && (done.Processes != 1 || forgotten != pruned) {
		err = fmt.Errorf("%d processes were pruned, not %d alone: it is %d", done.Processes, pruned, forgotten)
	}
	m.must(err)
}

func waiting(m *maker) {
	sleeper := m.start("sleeper", "from kernel import sleep, now\nt = now()\nprint('sleeps', t)\ntry:\n    sleep(315360000)\nexcept KeyboardInterrupt:\n    print('awake', t)")
	m.waits(sleeper, "time.sleep")
	for _, tool := range []string{"read", "put"} {
		m.hangs(tool, "import random\nfrom tools.book import put, read, write\nx = random.random()\nwrite(line='first')\nprint('x', x, "+tool+"(line='hang'))\nprint('x', x, write(line='last'))", auto)
	}
	m.hangs("write", fmt.Sprintf(unsure, "w"))
	m.hangs("write-pause", fmt.Sprintf(unsure, "w"), pauses)
	m.hangs("write-cpython", fmt.Sprintf(unsure, "w"), cpython)
	gather := m.start("gather", `
import asyncio
from tools.book.aio import put, read
from tools.book import write
async def main():
    return await asyncio.gather(read(line="a"), read(line="hang b"), put(line="c"), put(line="hang d"), read(line="e"))
print(await main())
write(line="last")
`)
	m.hung(gather, 2)
	m.pause(m.hangs("paused", "from tools.book import read, write\nprint(read(line='hang'))\nwrite(line='w')"))
	m.hangs("denied", `
from kernel import state, spawn
from tools.book import put, read, write
def tried(f):
    try:
        print(f())
    except PermissionError:
        print("denied")
def all():
    tried(lambda: write(line="w"))
    tried(lambda: put(line="p"))
    tried(lambda: state.set("k", 1))
    tried(lambda: spawn("1"))
all()
print(read(line="hang"))
all()
`, func(s *agentkernel.Spec) { s.Deny, s.Allow = []string{"proc.spawn", "state"}, []string{"book.p*"} })
	// The kernel keeps "always" with an image only, so in noimages it is forgotten.
	m.asked(spec("always", `
from tools.book import read, write
print(write(line="one"))
print(write(line="two"))
print(read(line="hang"))
try:
    print(write(line="three"))
except PermissionError:
    print("denied")
`, func(s *agentkernel.Spec) { s.Allow, s.Interactive = nil, true }))
	m.hangs("near-calls", "from tools.book import read\nfor line in ['1', '2', 'hang', '4', '5', '6']: print(read(line=line))", within(agentkernel.Limits{Calls: 5}))
	// What was written before the death of the kernel is not counted after it.
	m.hangs("near-journal", "from kernel import state\nfrom tools.book import read\nfor i in range(60): state.set('k' + str(i), 'x' * 200)\nprint(read(line='hang'))\nfor i in range(60): state.set('l' + str(i), 'x' * 200)\nprint('end')", within(agentkernel.Limits{Journal: 40_000}))
	m.hangs("state", "from kernel import state\nfrom tools.book import read\nstate.set('a', [1])\nstate.set('b', 'gone')\nstate.delete('b')\nbig = read(line='big')\nread(line='hang')\nstate.set('c', state.get('a') + [2])\nprint(state.keys(), state.get('c'), len(big))")
	_, err := m.SaveSkill(background, agentkernel.Skill{Name: "twice", Code: "def twice(x):\n    return [x, x]\n"})
	m.must(err)
	_, err = m.PutDocument(background, agentkernel.Document{Name: "notes", Data: json.RawMessage(`{"n": 1}`)})
	m.must(err)
	m.hangs("skill", "from skills.twice import twice\nfrom tools.book import read\nx = twice(read(line='a'))\nread(line='hang')\nprint(twice(x))")
	m.hangs("team", "from kernel import self\nfrom tools.book import read\nprint(read(line='hang'))", stranger, func(s *agentkernel.Spec) { s.IdempotencyKey = "once" })
}

func trees(m *maker) {
	const leaf = "from tools.book import read, write\nread(line='hang')\nwrite(line='leaf')\nprint('leaf')"
	branch := fmt.Sprintf("from kernel import spawn, wait\nfrom tools.book import write\nwrite(line='branch')\nprint('leaf:', wait(spawn(%q, name='leaf'))['stdout'])", leaf)
	tree := fmt.Sprintf("from kernel import spawn, wait\npid = spawn(%q, name='branch')\nprint('branch:', wait(pid)['stdout'])", branch)
	for _, name := range []string{"tree", "tree-paused"} {
		root := m.start(name, tree)
		m.until(root, "it has a child", func(agentkernel.Process) bool { return len(m.children(root)) == 1 })
		child := m.children(root)[0]
		m.until(child, "it has a grandchild", func(agentkernel.Process) bool { return len(m.children(child)) == 1 })
		m.hung(m.children(child)[0], 1)
		m.waits(child, "proc.wait")
		m.waits(root, "proc.wait")
		if name == "tree-paused" {
			m.pause(root)
		}
	}
	orphan := m.ends("parent-ended", fmt.Sprintf("from kernel import spawn\nspawn(%q, name='orphan')", leaf))
	m.hung(m.children(orphan)[0], 1)
	unwaited := m.start("child-unwaited", "from kernel import spawn, wait\nfrom tools.book import read\npid = spawn('print(6 * 7)\\n43', name='child')\nread(line='hang')\nend = wait(pid)\nprint(end['state'], end['result'], end['stdout'])")
	m.hung(unwaited, 1)
	m.waitEnd(m.children(unwaited)[0])
}

func (m *maker) children(pid agentkernel.PID) (pids []agentkernel.PID) {
	list, err := m.List(background, agentkernel.Filter{Parent: pid})
	m.must(err)
	for _, p := range list {
		pids = append(pids, p.PID)
	}
	return pids
}

func sessions(m *maker) {
	pieces := []string{"import random\nfrom tools.book import write\nx = [random.random()]\nwrite(line='one')\nprint('first')\nx[0]", "x / 0", "x.append(2)\nlen(x)"}
	m.session("session", nil, pieces...)
	m.session("session-cpython", []func(*agentkernel.Spec){cpython}, pieces[0], pieces[2]) // CPython words tracebacks as its version does
	middle := m.session("session-middle", nil, pieces...)
	m.feedLater(middle, "from tools.book import read\nwrite(line='two')\nx.append(read(line='hang'))\nwrite(line='three')\nlen(x)")
	m.hung(middle, 1)
	aborted := m.session("session-aborted", nil, pieces...)
	m.feedLater(aborted, "write(line='two')\nx.append(1)\nprint('in it')\nwhile True: pass")
	m.printed(aborted, "in it")
	m.signal(aborted, agentkernel.SignalInterrupt)
	m.waits(aborted, "proc.next")
	m.feed(aborted, agentkernel.Cell{Name: "piece", Source: "x.append('after')\nwrite(line='three')"})
	moved := m.session("session-moved", []func(*agentkernel.Spec){auto}, pieces...)
	m.feed(moved, agentkernel.Cell{Name: "piece 4", Source: "import zlib\ny = len(zlib.compress(b'x'))\nx.append(4)\nwrite(line='four')", Backend: "process"})
}

func others(m *maker) {
	moved := m.start("moved", "import random\nfrom tools.book import read, write\nx = random.random()\nprint('x', x)\nwrite(line='one')\nprint({'a': 1} | {})\nread(line='hang')\nprint('x', x, write(line='two'))", auto)
	m.hung(moved, 1)
	m.hangs("cpython", "import random, zlib\nfrom tools.book import read, write\nx = random.random()\nprint('x', x)\nwrite(line='one')\nread(line='hang')\nprint('x', x, write(line='two'))", cpython)
	const sh = "#!/bin/sh\nn=$(kernel state get n --default 0)\nkernel state set n $((n + 1))\necho round $n\nkernel tool call book.write --arg line=$n\nkernel tool call book.read --arg line=hang\necho end\n"
	m.hangs("script", sh, script)
	m.hangs("script-restart", sh, script, restarts)
	m.ends("folder-kept", "open('new.txt', 'w').write('text')\nprint('done')", inFolder)
	m.hangs("folder", "import os\nfrom tools.book import read\nopen('other.txt', 'w').write('text')\nprint(os.listdir())\nprint(read(line='hang'))\nopen('last.txt', 'w').write('last')", inFolder)
	hosted := m.start("hosted", "", func(s *agentkernel.Spec) { s.Backend, s.Program.Language = "hosted", "" })
	c, err := m.Attach(background, hosted, agentkernel.Attaching{})
	m.must(err)
	for i := range hostedCalls[:2] {
		_, err := c.Issue(hostedCall(i))(background)
		m.must(err)
	}
	c.Issue(hostedCall(2))
	m.until(hosted, "its call hangs", func(agentkernel.Process) bool { calls, _ := m.far.made(); return len(calls[hosted]) == 2 })
}

// hostedCalls are those of the hosted program; its kernel dies in the third.
var hostedCalls = []struct{ op, args string }{
	{"rand.bytes", `{"n":4}`},
	{"tool.call", `{"server":"book","tool":"write","arguments":{"line":"one"}}`},
	{"tool.call", `{"server":"book","tool":"write","arguments":{"line":"hang"}}`},
	{"tool.call", `{"server":"book","tool":"write","arguments":{"line":"last"}}`},
	{"proc.exit", `{"code":0}`},
}

func hostedCall(i int) agentkernel.HostedCall {
	call := hostedCalls[i]
	return agentkernel.HostedCall{Place: agentkernel.Place{N: int64(i) + 1}, Op: call.op, Args: json.RawMessage(call.args)}
}

func computing(m *maker) {
	paused := m.start("paused-computing", counts)
	m.printed(paused, "begin")
	m.pause(paused)
	var begun []agentkernel.PID
	for _, name := range []string{"computing", "interrupted"} {
		begun = append(begun, m.start(name, counts))
	}
	begun = append(begun, m.start("computing-cpython", strings.ReplaceAll(counts, fmt.Sprint(rounds), fmt.Sprint(2*rounds)), cpython))
	for _, pid := range begun {
		m.printed(pid, "begin")
	}
	m.signal(begun[1], agentkernel.SignalInterrupt)
	m.ends("last", "1") // what was appended before it is durable
	for _, pid := range begun {
		if p, err := m.Process(background, pid); err != nil || p.State.Terminal() {
			m.must(fmt.Errorf("pid %d %s has ended before the kill: count further", pid, p.Name))
		}
	}
}
