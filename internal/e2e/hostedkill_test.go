package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/internal/datadir"
	"agentkernel/internal/tool/tooltest"
)

// hostedVictim is a program that hosts processes of a kernel. It and the kernel are killed in turn.
type hostedVictim struct {
	command   []string // with the environment that it needs in front: env A=B python3 ...
	processes int      // that it hosts; each waits for a user signal before each round
	rounds    int      // each ends with a kill
}

// window is for how long a round goes on at most before something is killed.
const window = 200 * time.Millisecond

// survive starts the program, and in each round kills it or its kernel at a random moment. It returns what the program printed in
// its last life, and a client of the kernel that is left.
func (h *hostedVictim) survive(t *testing.T, dir string) (string, agentkernel.Kernel) {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	kernel := startVictim(t, dir)
	k := kernel.client(t, dir)
	program := h.start(t)
	var list []agentkernel.Process
	eventually(t, "the program hosts its processes", func() (ok bool) {
		list, _ = k.List(t.Context(), agentkernel.Filter{})
		return len(list) == h.processes
	})
	calls := func() int64 {
		p, err := k.Process(t.Context(), list[0].PID)
		if err != nil {
			t.Fatal(err)
		}
		return p.Usage.Syscalls
	}
	for i := range h.rounds {
		before := calls()
		for _, p := range list {
			if err := k.Signal(t.Context(), p.PID, agentkernel.SignalUser, agentkernel.SignalOptions{Payload: json.RawMessage("1")}); err != nil {
				t.Fatal(err)
			}
		}
		eventually(t, "the round has begun", func() bool { return calls() > before })
		time.Sleep(time.Duration(rng.Int64N(int64(window)))) //nolint:forbidigo // the random moment is what is tested
		if i%2 == 0 {
			kernel.kill()
			kernel = startVictim(t, dir)
			k = kernel.client(t, dir)
		} else {
			_ = program.cmd.Process.Kill()
			<-program.ended
			program = h.start(t)
		}
	}
	<-program.ended
	if program.err != nil {
		t.Fatalf("the program: %v\n%s", program.err, program.stderr.String())
	}
	return program.stdout.String(), k
}

// running is an operating system's process.
type running struct {
	cmd            *exec.Cmd
	stdout, stderr bytes.Buffer
	ended          chan struct{}
	err            error // set before ended is closed
}

func (h *hostedVictim) start(t *testing.T) *running {
	t.Helper()
	r := &running{cmd: exec.CommandContext(t.Context(), h.command[0], h.command[1:]...), ended: make(chan struct{})}
	r.cmd.Stdout, r.cmd.Stderr = &r.stdout, &r.stderr
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(r.ended)
		r.err = r.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill()
		<-r.ended
	})
	return r
}

// checkWritten looks that each line is in the tool server's file once, or that its program was told that nobody knows.
func checkWritten(t *testing.T, file string, lines, unknown []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for line := range strings.Lines(string(text)) {
		count[strings.TrimSpace(line)]++
	}
	for _, line := range lines {
		if n, told := count[line], slices.Contains(unknown, line); n > 1 || n == 0 && !told {
			t.Errorf("%q was written %d times, reported as unknown: %v", line, n, told)
		}
		delete(count, line)
	}
	if len(count) > 0 {
		t.Errorf("written besides: %v", count)
	}
	t.Logf("%d lines, %d reported as unknown", len(lines), len(unknown))
}

// checkPlaces looks that the journal has so many calls, each at a place of its own.
func checkPlaces(t *testing.T, k agentkernel.Kernel, pid agentkernel.PID, want int) {
	t.Helper()
	entries, err := k.Journal(t.Context(), pid, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	places := map[string]int{}
	for _, e := range entries {
		if e.Kind == agentkernel.EntryCall {
			if places[e.Stream]++; places[e.Stream] > 1 {
				t.Errorf("process %d has two calls at %q", pid, e.Stream)
			}
		}
	}
	if len(places) != want {
		t.Errorf("process %d has %d calls, not %d", pid, len(places), want)
	}
}

// socketOf is the socket of a data directory.
func socketOf(t *testing.T, dir string) string {
	t.Helper()
	d, err := datadir.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return d.Socket()
}

// command finds an interpreter, or skips; CI must have it.
func command(t *testing.T, name string, check ...string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		err = exec.Command(path, check...).Run()
	}
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatalf("%s: %v", name, err)
	} else if err != nil {
		t.Skipf("NOTHING IS TESTED: %s: %v", name, err)
	}
	return path
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestHostedCoroutinesUnderKill kills a Python program of fifty coroutines, each a process, and its kernel, in turn.
func TestHostedCoroutinesUnderKill(t *testing.T) {
	t.Parallel()
	python := command(t, "python3", "-c", "import sys; sys.exit(sys.version_info < (3, 10))")
	root, err := tooltest.Root()
	if err != nil {
		t.Fatal(err)
	}
	const coroutines = 50
	dir, file := home(t), filepath.Join(t.TempDir(), "lines.txt")
	h := hostedVictim{processes: coroutines, rounds: kills(t, 4)}
	h.command = []string{"env", "PYTHONPATH=" + filepath.Join(root, "sdk", "python", "src"), python, "-B", filepath.Join("testdata", "coroutines.py"), asJSON(t, args{
		"home": dir, "tools": tooltest.Config(t, map[string]tooltest.Server{"lines": tooltest.Stdio(t)}), "path": file, "coroutines": coroutines, "rounds": h.rounds,
	})}
	out, k := h.survive(t, dir)
	var unknown, want []string
	if err := json.Unmarshal([]byte(out), &unknown); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for i := range coroutines {
		for n := range 2 * h.rounds {
			want = append(want, fmt.Sprintf("coroutine %d line %d", i, n))
		}
	}
	checkWritten(t, file, want, unknown)
	list, err := k.List(t.Context(), agentkernel.Filter{})
	if err != nil || len(list) != coroutines {
		t.Fatalf("%d processes, %v", len(list), err)
	}
	for _, p := range list {
		if p.State != agentkernel.StateExited {
			t.Errorf("%s: %s: %v", p.Name, p.State, p.Error)
		}
		checkPlaces(t, k, p.PID, 6*h.rounds)
	}
}

// TestHostInJavaScriptUnderKill does the same with a second implementation of the protocol: it is as docs/hosted.md says.
func TestHostInJavaScriptUnderKill(t *testing.T) {
	t.Parallel()
	node := command(t, "node", "-e", "1")
	const lanes = 8
	dir, file := home(t), filepath.Join(t.TempDir(), "lines.txt")
	h := hostedVictim{processes: 1, rounds: kills(t, 4)}
	spec := args{
		"program": args{"name": "writer"}, "idempotency_key": "writer", "allow": []string{"lines.*"},
		"tools": []string{tooltest.Config(t, map[string]tooltest.Server{"lines": tooltest.Stdio(t, "-delay", "100ms")})},
	}
	h.command = []string{node, filepath.Join("testdata", "host.mjs"), asJSON(t, args{"socket": socketOf(t, dir), "spec": spec, "lanes": lanes, "rounds": h.rounds, "path": file})}
	out, k := h.survive(t, dir)
	var ended agentkernel.Process
	if err := json.Unmarshal([]byte(out), &ended); err != nil || ended.State != agentkernel.StateExited {
		t.Fatalf("%v: %s", err, out)
	}
	checkPlaces(t, k, ended.PID, (1+lanes)*h.rounds)
	var unknown, want []string
	if err := json.Unmarshal(ended.Result, &unknown); err != nil {
		t.Fatal(err)
	}
	for i := range lanes {
		for n := range h.rounds {
			want = append(want, fmt.Sprintf("lane %d line %d", i, n))
		}
	}
	checkWritten(t, file, want, unknown)
}
