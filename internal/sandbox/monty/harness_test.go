package monty

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agentkernel"
	"agentkernel/internal/sandbox/monty/frontend"
)

// plainLauncher starts and kills processes and nothing more.
type plainLauncher struct{}

func (plainLauncher) Start(cmd *exec.Cmd) error { return cmd.Start() }
func (plainLauncher) Kill(cmd *exec.Cmd)        { _ = cmd.Process.Kill() } // gone already: nothing to do

// enginePath finds the real engine; without it the tests of this package prove nothing.
func enginePath(t testing.TB) string {
	t.Helper()
	if p := os.Getenv("AGENTKERNEL_MONTY"); p != "" {
		return p
	}
	if p, err := exec.LookPath("monty"); err == nil {
		return p
	}
	p, err := filepath.Abs("../../../.cache/monty/node_modules/@pydantic/monty-linux-x64-gnu/monty")
	if err == nil && usable(p) {
		return p
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("the Monty engine is missing; run: make deps")
	}
	t.Skip("SKIPPED, NOTHING PROVED: the Monty engine is missing; set AGENTKERNEL_MONTY or run: make deps")
	return ""
}

func newBackend(t testing.TB, change ...func(*Config)) *Backend {
	t.Helper()
	cfg := Config{Launcher: plainLauncher{}, Engine: enginePath(t)}
	for _, f := range change {
		f(&cfg)
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
	flying []agentkernel.Reply
	next   int64
	// every is called at each turn that is not the last.
	every func(r *run)
	// prog is what the worker is fed; nil: what the front end makes of the request.
	prog *program
}

func newRun(t testing.TB, b *Backend, src string) *run {
	r := &run{t: t, b: b}
	r.req = agentkernel.StartRequest{PID: 7, Namespace: "n",
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
	var box agentkernel.Sandbox
	var err error
	if r.prog != nil {
		box, err = r.b.start(context.Background(), r.req, r.prog)
	} else {
		box, err = r.b.Start(context.Background(), r.req)
	}
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
	return r.drive(nil)
}

func (r *run) drive(reply *agentkernel.Reply) (agentkernel.Turn, error) {
	for {
		turn, err := r.box.Next(context.Background(), reply)
		if err != nil || turn.Kind == agentkernel.TurnExit || turn.Kind == agentkernel.TurnFail {
			return turn, err
		}
		if r.every != nil {
			r.every(r)
		}
		reply = r.reply(turn)
	}
}

func (r *run) reply(turn agentkernel.Turn) *agentkernel.Reply {
	if turn.Kind == agentkernel.TurnWait {
		if len(r.flying) == 0 {
			r.t.Fatal("the program waits for nothing")
		}
		last := r.flying[len(r.flying)-1] // the newest first: the order must be the kernel's to choose
		r.flying = r.flying[:len(r.flying)-1]
		return &last
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
		t.Fatalf("%s\nended with %+v, %v", src, turn, err)
	}
	if err := r.box.Close(); err != nil {
		t.Fatal(err)
	}
	return r.out.String()
}

// boundRun is newRun with host functions ("variable=name.of.function") in the program's variables, put
// there without the front end.
func boundRun(t testing.TB, b *Backend, src string, fns ...string) *run {
	r := newRun(t, b, src)
	r.prog = bound(src, fns...)
	return r
}

func bound(src string, fns ...string) *program {
	bundle := frontend.Bundle{Feeds: []frontend.Feed{{File: "report.py", Code: src}}}
	for _, f := range fns {
		input, name, _ := strings.Cut(f, "=")
		bundle.Functions = append(bundle.Functions, frontend.Function{Input: input, Name: name})
	}
	return assemble(programKey{1}, agentkernel.Program{Name: "report.py", Source: src}, &bundle, nil)
}
