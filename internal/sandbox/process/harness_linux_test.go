package process

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"agentkernel"
	"agentkernel/internal/quickexit"
	"agentkernel/internal/sandbox/confine"
)

// This binary is also the spawner that builds the walls, and the command `kernel` behind them.
func TestMain(m *testing.M) {
	quickexit.Main()
	Main()
	code := m.Run()
	if shared.b != nil {
		if err := errors.Join(shared.b.Close(), shared.s.Close()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	if shared.goCache != "" {
		_ = os.RemoveAll(shared.goCache)
	}
	os.Exit(code)
}

// shared is the backend of the tests that want nothing special: a zygote takes a third of a second to start.
var shared struct {
	once sync.Once
	b    *Backend
	s    *confine.Spawner

	cacheOnce sync.Once
	goCache   string
}

func sharedBackend(t testing.TB) *Backend {
	t.Helper()
	python := pythonPath(t)
	shared.once.Do(func() {
		shared.s = newSpawner(t)
		b, err := New(Config{Launcher: plainLauncher{}, Spawner: shared.s, Python: python, Command: OwnCommand()})
		if err != nil {
			t.Fatal(err)
		}
		shared.b = b
	})
	return shared.b
}

func newSpawner(t testing.TB, change ...func(*confine.SpawnerConfig)) *confine.Spawner {
	t.Helper()
	cfg := confine.SpawnerConfig{Launcher: plainLauncher{}, Name: "processtest-" + strings.ToLower(rand.Text())}
	for _, f := range change {
		f(&cfg)
	}
	s, err := confine.NewSpawner(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// plainLauncher starts and kills processes and nothing more.
type plainLauncher struct{}

func (plainLauncher) Start(cmd *exec.Cmd) error { return cmd.Start() }
func (plainLauncher) Kill(cmd *exec.Cmd)        { _ = cmd.Process.Kill() } // gone already: nothing to do

// pythonPath finds a real interpreter; without it the tests of this package prove nothing.
func pythonPath(t testing.TB) string {
	t.Helper()
	if p := os.Getenv("AGENTKERNEL_PYTHON"); p != "" {
		return p
	}
	if p, err := exec.LookPath("python3"); err == nil {
		return p
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("there is no python3")
	}
	t.Skip("SKIPPED, NOTHING PROVED: there is no python3; set AGENTKERNEL_PYTHON or install it")
	return ""
}

func newBackend(t testing.TB, change ...func(*Config)) *Backend {
	t.Helper()
	cfg := Config{Launcher: plainLauncher{}, Python: pythonPath(t)}
	for _, f := range change {
		f(&cfg)
	}
	if cfg.Isolation == "" && cfg.Spawner == nil {
		cfg.Spawner = newSpawner(t)
		t.Cleanup(func() {
			if err := cfg.Spawner.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	b, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// run is one program with everything that it did.
type run struct {
	t     testing.TB
	b     *Backend
	req   agentkernel.StartRequest
	box   agentkernel.Sandbox
	out   strings.Builder
	calls []string
	// answer replies to a call; nil answers null. Async calls are answered when the program waits.
	answer func(c agentkernel.Call) agentkernel.Reply
	// pick chooses which of the async calls under way is answered at a wait; nil: the newest.
	pick   func(flying []agentkernel.Reply) int
	flying []agentkernel.Reply
	next   int64
}

func newRun(t testing.TB, b *Backend, src string) *run {
	r := &run{t: t, b: b}
	r.req = agentkernel.StartRequest{PID: 7, Namespace: "default",
		Program: agentkernel.Program{Name: "report.py", Language: agentkernel.Python, Source: src},
		Limits:  agentkernel.DefaultLimits()}
	r.req.Output = func(stream, text string) {
		if stream != "stdout" {
			r.out.WriteString("[" + stream + "]")
		}
		r.out.WriteString(text)
	}
	return r
}

func (r *run) start() *run {
	r.t.Helper()
	box, err := r.b.Start(context.Background(), r.req)
	if err != nil {
		r.t.Fatalf("Start: %v", err)
	}
	r.box = box
	r.t.Cleanup(func() { _ = r.box.Close() })
	return r
}

// finish drives the program to its end.
func (r *run) finish() (agentkernel.Turn, error) {
	if r.box == nil {
		r.start()
	}
	var reply *agentkernel.Reply
	for {
		turn, err := r.box.Next(context.Background(), reply)
		if err != nil || turn.Kind == agentkernel.TurnExit || turn.Kind == agentkernel.TurnFail {
			return turn, err
		}
		if turn.Kind == agentkernel.TurnCall && turn.Call.Op == "proc.exit" { // the kernel's to do
			r.calls = append(r.calls, turn.Call.Op+" "+string(turn.Call.Args))
			return agentkernel.Turn{Kind: agentkernel.TurnExit}, nil
		}
		reply = r.reply(turn)
	}
}

func (r *run) reply(turn agentkernel.Turn) *agentkernel.Reply {
	if turn.Kind == agentkernel.TurnWait {
		if len(r.flying) == 0 {
			r.t.Fatal("the program waits for nothing")
		}
		at := len(r.flying) - 1 // the newest first: the order must be the kernel's to choose
		if r.pick != nil {
			at = r.pick(r.flying)
		}
		chosen := r.flying[at]
		r.flying = append(r.flying[:at:at], r.flying[at+1:]...)
		return &chosen
	}
	r.next++
	call := turn.Call
	call.ID = r.next
	mode := ""
	if call.Async {
		mode = "async "
	}
	r.calls = append(r.calls, mode+call.Op+" "+string(call.Args))
	reply := agentkernel.Reply{Result: json.RawMessage("null")}
	if r.answer != nil {
		reply = r.answer(call)
	}
	reply.ID = call.ID
	if call.Async {
		r.flying = append(r.flying, reply)
		return &agentkernel.Reply{ID: call.ID, Pending: true}
	}
	return &reply
}

// mustExit runs a program that has to end well, and gives its output.
func mustExit(t testing.TB, b *Backend, src string) string {
	t.Helper()
	r := newRun(t, b, src)
	turn, err := r.finish()
	if err != nil || turn.Kind != agentkernel.TurnExit {
		t.Fatalf("%s\nended with %+v, %v\n%s", src, turn, err, tracebackOf(turn))
	}
	if err := r.box.Close(); err != nil {
		t.Fatal(err)
	}
	return r.out.String()
}

func tracebackOf(turn agentkernel.Turn) string {
	if turn.Err == nil {
		return ""
	}
	return turn.Err.Traceback
}
