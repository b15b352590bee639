package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"agentkernel/client"
	"agentkernel/internal/datadir"
	"agentkernel/internal/devllm"
	"agentkernel/internal/quickexit"
	"agentkernel/internal/sandbox/process"
	"agentkernel/internal/tool/tooltest"
)

// The scripts run this test binary as `agentkernel`: the real command, kernel, store and engine.
func TestMain(m *testing.M) {
	quickexit.Main()
	process.Main() // this binary is part of the sandboxes too
	testscript.Main(m, map[string]func(){"agentkernel": main, "agentkernel-older": func() { version = "0.0.9"; main() }})
}

var update = flag.Bool("update", false, "rewrite the expected output in the scripts")

// scriptPatience bounds every wait of a script.
const scriptPatience = time.Minute

func TestScripts(t *testing.T) {
	engine, python := engineForTests(t), pythonForTests(t)
	server, embedder := tooltest.Build(t), fakeEmbedder(t)
	other := map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH]
	foreign, darwin := buildFor(t, "linux", other), buildFor(t, "darwin", "arm64")
	testscript.Run(t, testscript.Params{
		Dir:           "testdata",
		UpdateScripts: *update,
		Setup: func(e *testscript.Env) error {
			home := filepath.Join(e.WorkDir, "home")
			e.Setenv("AGENTKERNEL_HOME", home)
			e.Setenv("AGENTKERNEL_ENGINE", engine)
			e.Setenv("ENGINE", engine)
			e.Setenv("AGENTKERNEL_PYTHON", python)
			e.Setenv("FOREIGN", foreign)
			e.Setenv("DARWIN", darwin)
			e.Setenv("EMBEDDER", embedder)
			e.Setenv("DEVLLM", devllmFor(t, e.Defer))
			e.Setenv("OLLAMA_HOST", "127.0.0.1:1") // that of the machine is not asked
			e.Setenv("DEMO_SERVER", server)
			e.Setenv("AGENTKERNEL_IDLE_AFTER", "1m")
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("GORACE", os.Getenv("GORACE")) // see quickexit
			e.Defer(func() { stopKernelOf(home) })
			tooltest.WriteConfig(t, filepath.Join(e.WorkDir, "mcp.json"), map[string]tooltest.Server{"demo": {"command": server}})
			tooltest.WriteConfig(t, filepath.Join(e.WorkDir, "pull.json"), map[string]tooltest.Server{
				"demo": {"command": server, "args": []string{"-pull", filepath.Join(e.WorkDir, "pulled")}}})
			tooltest.WriteConfig(t, filepath.Join(e.WorkDir, "secret.json"), map[string]tooltest.Server{
				"demo": {"command": server, "env": map[string]string{"API_TOKEN": "tok-4711-secret"}}})
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":     exits,
			"exitsin":   exitsWithInput,
			"converse":  converse,
			"until":     until,
			"reads":     readsWell,
			"jsonfield": jsonField,
			"killhard":  killHard,
			"freeze":    freeze,
			"future":    future,
			"terminate": terminate,
			"hangup":    hangup,
		},
	})
}

// devllmFor starts a made-up provider of models for one script, and gives its address.
func devllmFor(t *testing.T, later func(func())) string {
	t.Helper()
	provider, err := devllm.New(devllm.Options{})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(provider)
	later(srv.Close)
	return srv.URL
}

// buildFor builds the smallest program there is for another machine.
func buildFor(t *testing.T, system, arch string) string {
	t.Helper()
	dir := t.TempDir()
	source, exe := filepath.Join(dir, "main.go"), filepath.Join(dir, system+"-"+arch)
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "build", "-o", exe, source)
	cmd.Env = append(os.Environ(), "GOOS="+system, "GOARCH="+arch, "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return exe
}

// engineForTests finds the Monty executable. Without it nothing of this is proved, which CI does not accept.
func engineForTests(t *testing.T) string {
	t.Helper()
	if p := os.Getenv("AGENTKERNEL_MONTY"); p != "" {
		return p
	}
	root, err := tooltest.Root()
	if err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(root, ".cache", "monty", "node_modules", "@pydantic", "monty-*", "monty"))
	if err == nil && len(found) > 0 {
		return found[0]
	}
	const msg = "SKIPPED, NOTHING PROVED: the Monty engine is missing; set AGENTKERNEL_MONTY or run: make deps"
	if os.Getenv("CI") == "true" {
		t.Fatal(msg)
	}
	t.Skip(msg)
	return ""
}

// pythonForTests finds CPython itself, not a script of a version manager, which takes its time.
func pythonForTests(t *testing.T) string {
	t.Helper()
	name := os.Getenv("AGENTKERNEL_PYTHON")
	if name == "" {
		name = "python3"
	}
	out, err := exec.Command(name, "-c", "import sys; print(sys.executable)").Output()
	if err == nil {
		return strings.TrimSpace(string(out))
	}
	const msg = "SKIPPED, NOTHING PROVED: there is no python3; set AGENTKERNEL_PYTHON or install it"
	if os.Getenv("CI") == "true" {
		t.Fatal(msg)
	}
	t.Skip(msg)
	return ""
}

func stopKernelOf(home string) {
	dir, err := datadir.Open(home)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), scriptPatience)
	defer cancel()
	if client.Stop(ctx, dir.Socket()) == nil {
		if lock, err := dir.LockWait(ctx, datadir.Holder{OSPID: os.Getpid(), Mode: "test"}); err == nil {
			_ = lock.Unlock()
		}
	} else if h, _ := dir.Held(); dir.HeldBy(h.OSPID) { // a script took its socket away, and failed
		if p, err := os.FindProcess(h.OSPID); err == nil {
			_ = p.Kill()
		}
	}
}

// exits CODE COMMAND ARGS...: the command ends with this very code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND ARGS...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	if code := exitStatus(err); code != want {
		ts.Fatalf("%s ended with %d (%v), want %d", strings.Join(args[1:], " "), code, err, want)
	}
}

// unreadable is what no message may hold: words of libraries and of Go, and text that is cut within a word.
var unreadable = regexp.MustCompile(`<nil>|%!|EOL|<anonymous schema|&\{|map\[|\[\w+ \w+ \w+\]|(?m)\w(?:\.\.\.|…)$`)

// reads COMMAND ARGS...: the command ends, with whatever code, and what it says can be read.
func readsWell(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: reads COMMAND ARGS...")
	}
	if code := exitStatus(ts.Exec(args[0], args[1:]...)); code < 0 {
		ts.Fatalf("%q did not end by itself", args)
	}
	said := ts.ReadFile("stderr")
	if found := unreadable.FindString(said); found != "" {
		ts.Fatalf("%q says %q:\n%s", args, found, said)
	}
}

func exitStatus(err error) int {
	if err == nil {
		return 0
	}
	if ee, ok := errors.AsType[*exec.ExitError](err); ok {
		return ee.ExitCode()
	}
	return -1
}

// exitsin CODE FILE ARGS...: agentkernel with the file as standard input; its output goes to out.txt.
func exitsWithInput(ts *testscript.TestScript, neg bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	var out, errOut bytes.Buffer
	cmd := scriptCommand(ts, args[2:])
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(ts.ReadFile(args[1])), &out, &errOut
	if code := exitStatus(cmd.Run()); code != want {
		ts.Fatalf("ended with %d, want %d\n%s%s", code, want, out.String(), errOut.String())
	}
	ts.Check(os.WriteFile(ts.MkAbs("out.txt"), out.Bytes(), 0o600))
}

func scriptCommand(ts *testscript.TestScript, args []string) *exec.Cmd {
	cmd := exec.Command("agentkernel", args...)
	cmd.Dir = ts.MkAbs(".")
	for _, name := range []string{"HOME", "PATH", "AGENTKERNEL_HOME", "AGENTKERNEL_ENGINE", "AGENTKERNEL_PYTHON", "GORACE"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	for _, name := range []string{"PIP_NO_INDEX", "PIP_FIND_LINKS"} {
		if value := ts.Getenv(name); value != "" {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	return cmd
}

// converse FILE ARGS...: sends the lines of the file to agentkernel, waits for the answer to each that has an
// id, and puts the answers into out.txt. Then its input ends; with ! it is told to stop by SIGTERM instead.
func converse(ts *testscript.TestScript, told bool, args []string) {
	cmd := scriptCommand(ts, args[1:])
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	in, err := cmd.StdinPipe()
	ts.Check(err)
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	stuck := time.AfterFunc(scriptPatience, func() { _ = cmd.Process.Kill() })
	defer stuck.Stop()
	lines := bufio.NewReader(out)
	var answers []byte
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		_, err := io.WriteString(in, line)
		ts.Check(err)
		for want := strings.Contains(line, `"id":`); want; {
			answer, err := lines.ReadBytes('\n')
			if err != nil {
				ts.Fatalf("no answer to %s: %v\n%s", line, err, errOut.String())
			}
			answers = append(answers, answer...)
			want = !bytes.Contains(answer, []byte(`"id":`)) // a notification
		}
	}
	if told {
		ts.Check(cmd.Process.Signal(syscall.SIGTERM))
	} else {
		ts.Check(in.Close())
	}
	if err := cmd.Wait(); err != nil {
		ts.Fatalf("%v\n%s", err, errOut.String())
	}
	ts.Check(os.WriteFile(ts.MkAbs("out.txt"), answers, 0o600))
}

// until PATTERN COMMAND ARGS...: runs the command again and again until its output matches.
func until(ts *testscript.TestScript, neg bool, args []string) {
	re := regexp.MustCompile(args[0])
	deadline := time.NewTimer(scriptPatience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		_ = ts.Exec(args[1], args[2:]...)
		if re.MatchString(ts.ReadFile("stdout")) != neg {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			ts.Fatalf("the output of %q never matched %q:\n%s", args[1:], args[0], ts.ReadFile("stdout"))
		}
	}
}

// jsonfield PATH WANT: stdout is one JSON value in which PATH (a.b) is WANT, compared as JSON.
func jsonField(ts *testscript.TestScript, neg bool, args []string) {
	var v any
	text := ts.ReadFile("stdout")
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		ts.Fatalf("stdout is not one JSON value: %v\n%s", err, text)
	}
	for name := range strings.SplitSeq(args[0], ".") {
		switch x := v.(type) {
		case map[string]any:
			v = x[name]
		case []any:
			i, err := strconv.Atoi(name)
			ts.Check(err)
			v = x[i]
		default:
			ts.Fatalf("there is no %q in %s", args[0], text)
		}
	}
	got, err := json.Marshal(v)
	ts.Check(err)
	if (string(got) == args[1]) == neg {
		ts.Fatalf("%s is %s, want %s", args[0], got, args[1])
	}
}

// terminate: SIGTERM for the newest command in the background.
func terminate(ts *testscript.TestScript, _ bool, _ []string) {
	cmds := ts.BackgroundCmds()
	if len(cmds) == 0 {
		ts.Fatalf("nothing runs in the background")
	}
	ts.Check(cmds[len(cmds)-1].Process.Signal(syscall.SIGTERM))
}

// hangup: SIGHUP for the kernel of the data directory.
func hangup(ts *testscript.TestScript, _ bool, _ []string) {
	dir, err := datadir.Open(ts.Getenv("AGENTKERNEL_HOME"))
	ts.Check(err)
	h, ok := dir.Holder()
	if !ok {
		ts.Fatalf("no kernel runs")
	}
	ts.Check(syscall.Kill(h.OSPID, syscall.SIGHUP))
}

// killhard: SIGKILL for the kernel of the data directory, and wait until it is gone.
func killHard(ts *testscript.TestScript, _ bool, _ []string) {
	dir, err := datadir.Open(ts.Getenv("AGENTKERNEL_HOME"))
	ts.Check(err)
	h, ok := dir.Holder()
	if !ok {
		ts.Fatalf("no kernel runs")
	}
	p, err := os.FindProcess(h.OSPID)
	ts.Check(err)
	ts.Check(p.Kill())
	ctx, cancel := context.WithTimeout(context.Background(), scriptPatience)
	defer cancel()
	lock, err := dir.LockWait(ctx, datadir.Holder{OSPID: os.Getpid(), Mode: "test"})
	ts.Check(err)
	ts.Check(lock.Unlock())
}

// freeze: SIGSTOP for the kernel of the data directory. It ends with killhard.
func freeze(ts *testscript.TestScript, _ bool, _ []string) {
	h, ok := datadir.At(ts.Getenv("AGENTKERNEL_HOME")).Held()
	if !ok {
		ts.Fatalf("no kernel runs")
	}
	p, err := os.FindProcess(h.OSPID)
	ts.Check(err)
	ts.Defer(func() { _ = p.Kill() }) // a script that fails must not leave it, or wait for it
	ts.Check(p.Signal(syscall.SIGSTOP))
}

// future: the database of the data directory says that a later version of agentkernel wrote it. No kernel runs.
func future(ts *testscript.TestScript, _ bool, _ []string) {
	const userVersion = 60 // offset in SQLite's header, four bytes, big-endian
	f, err := os.OpenFile(datadir.At(ts.Getenv("AGENTKERNEL_HOME")).Database(), os.O_RDWR, 0)
	ts.Check(err)
	_, err = f.WriteAt([]byte{0, 0, 0, 99}, userVersion)
	ts.Check(errors.Join(err, f.Close()))
}
