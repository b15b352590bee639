package process

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentkernel"
	"agentkernel/internal/reaper"
	"agentkernel/internal/sandbox/confine"
)

// eventually waits for a condition that other processes bring about.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	late := time.After(time.Minute)
	for !ok() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("%s: it never came about", what)
		}
	}
}

// Children wait for programs, and are made anew when they are taken.
func TestChildrenWait(t *testing.T) {
	b := newBackend(t)
	mustExit(t, b, "print(1)")
	eventually(t, "two wait", func() bool { return b.Stats().Waiting == 2 })
	before := b.Stats().Forked
	r := newRun(t, b, "print(1)").start()
	if s := b.Stats(); s.Waiting != 1 || s.Forked != before {
		t.Errorf("a child that waited was not taken: %+v", s)
	}
	_ = r.box.Close()
	eventually(t, "two wait again", func() bool { return b.Stats().Waiting == 2 })
	eventually(t, "no other is left", func() bool { return b.Stats().Children == 2 })
}

// Programs with other limits get a fresh child; when that becomes the rule, those that wait follow.
func TestWaitingChildrenFollowTheLimits(t *testing.T) {
	b := newBackend(t)
	for i := range 6 {
		r := newRun(t, b, "print(1)")
		r.req.Limits.Memory = 100 << 20
		if i == 5 {
			eventually(t, "two wait", func() bool { return b.Stats().Waiting == 2 })
		}
		before := b.Stats().Forked
		if turn, err := r.finish(); err != nil || turn.Kind != agentkernel.TurnExit {
			t.Fatalf("%+v %v", turn, err)
		}
		_ = r.box.Close()
		if box, ok := r.box.(*sandbox); i == 5 && (!ok || box.c.cell.Config.Limits.Memory != 100<<20+headroom) {
			t.Errorf("the child has other limits: %+v (forked before: %d)", box.c.cell.Config.Limits, before)
		}
	}
}

// A namespace of users has a zygote of its own; those that nobody used for longest give way.
func TestTenants(t *testing.T) {
	b := newBackend(t, func(c *Config) { c.Zygotes, c.Warm = 2, -1 })
	zygotes := map[int]string{}
	for _, namespace := range []string{"default", "a", "b", "a"} {
		r := newRun(t, b, "print(1)")
		r.req.Namespace = namespace
		r.start()
		box, ok := r.box.(*sandbox)
		if !ok {
			t.Fatal("not ours")
		}
		w, ok := box.c.z.body.(*walled)
		if !ok {
			t.Fatal("no walls")
		}
		if other, seen := zygotes[w.process.PID()]; seen && other != namespace {
			t.Errorf("%s and %s share a zygote", other, namespace)
		}
		zygotes[w.process.PID()] = namespace
		_ = r.box.Close()
		eventually(t, "the child is gone", func() bool { return b.Stats().Children == 0 })
	}
	if len(zygotes) != 3 || b.Stats().Zygotes > 2 {
		t.Errorf("%d zygotes in all, %+v", len(zygotes), b.Stats())
	}
}

// Zygotes that nobody uses end; the next program starts another one.
func TestIdleZygotesEnd(t *testing.T) {
	b := newBackend(t, func(c *Config) { c.IdleAfter = 50 * time.Millisecond })
	mustExit(t, b, "print(1)")
	eventually(t, "it ended", func() bool { return b.Stats().Zygotes == 0 })
	mustExit(t, b, "print(2)")
}

// A zygote that dies takes its programs with it, and is replaced.
func TestZygoteDies(t *testing.T) {
	b := newBackend(t)
	r := newRun(t, b, "import kernel\nkernel.self()\nwhile True: pass").start()
	if _, err := r.box.Next(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	box, ok := r.box.(*sandbox)
	if !ok {
		t.Fatal("not ours")
	}
	box.c.z.kill(errIdle)
	if turn, err := r.box.Next(t.Context(), &agentkernel.Reply{ID: 1, Result: []byte("1")}); err != nil || turn.Kind != agentkernel.TurnLost || agentkernel.CodeOf(turn.Err) != agentkernel.CodeCrashed {
		t.Errorf("%+v %v", turn, err)
	}
	mustExit(t, b, "print(1)")
}

// Many at the same time, some of them killed, some of them failing, and nothing is left.
func TestNothingIsLeft(t *testing.T) {
	b := newBackend(t)
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			r := newRun(t, b, "import os, subprocess\nsubprocess.Popen(['sleep', '1000'])\nif os.fork() == 0:\n    os.setsid()\n    while True: pass\nprint('x', flush=True)\n"+
				[]string{"", "1/0", "while True: pass", "os._exit(3)", "import kernel; kernel.self()"}[i%5])
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if i%5 == 2 {
				r.req.Output = func(_, _ string) { cancel() }
			}
			box, err := b.Start(ctx, r.req)
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = box.Next(ctx, nil)
			if err := box.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	eventually(t, "the children are gone", func() bool { s := b.Stats(); return s.Children <= s.Waiting })
	fds := openFiles(t)
	mustExit(t, b, "print(1)")
	eventually(t, "two wait", func() bool { s := b.Stats(); return s.Waiting == 2 && s.Children == 2 })
	if now := openFiles(t); now > fds+15 {
		t.Errorf("%d descriptors are open, %d were before", now, fds)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// With the launcher of a real kernel, closing leaves no process and no record.
func TestCloseWithReaper(t *testing.T) {
	dir := t.TempDir()
	owner := rand.Text() // as the marks of another run of this test must not be ours
	reap, err := reaper.New(dir, owner)
	if err != nil {
		t.Fatal(err)
	}
	records := func() int {
		entries, err := os.ReadDir(filepath.Join(dir, owner))
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	before := records() // the kernel's own
	spawner, err := confine.NewSpawner(confine.SpawnerConfig{Launcher: reap, Name: "reaped-" + strings.ToLower(owner)})
	if err != nil {
		t.Fatal(err)
	}
	for _, isolation := range []string{"", IsolationNone} {
		b, err := New(Config{Launcher: reap, Spawner: spawner, Python: pythonPath(t), Isolation: isolation})
		if err != nil {
			t.Fatal(err)
		}
		r := newRun(t, b, "import subprocess\nsubprocess.Popen(['sleep', '1000'])\nimport kernel\nkernel.self()").start()
		if turn, err := r.box.Next(t.Context(), nil); err != nil || turn.Kind != agentkernel.TurnCall {
			t.Fatalf("%+v %v", turn, err)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Start(t.Context(), r.req); agentkernel.CodeOf(err) != agentkernel.CodeCanceled {
			t.Errorf("after Close: %v", err)
		}
	}
	if err := spawner.Close(); err != nil {
		t.Fatal(err)
	}
	if left := records(); left > before {
		t.Errorf("%d records are left, %d were there before", left, before)
	}
	if err := reap.Close(); err != nil {
		t.Fatal(err)
	}
	if left := sleepers(t); len(left) > 0 {
		t.Errorf("processes are left: %q", left)
	}
}

// sleepers are the children of programs of these tests that live.
func sleepers(t *testing.T) (found []string) {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range dirs {
		if b, err := os.ReadFile(file); err == nil && string(b) == "sleep\x001000\x00" {
			found = append(found, fmt.Sprint(file, " ", strings.ReplaceAll(string(b), "\x00", " ")))
		}
	}
	return found
}

// Without walls nothing runs unless that is asked for, and then it is the same in all else.
func TestIsolationNone(t *testing.T) {
	if _, err := New(Config{Launcher: plainLauncher{}, Python: pythonPath(t)}); err == nil {
		t.Error("a backend without spawner was made")
	}
	if _, err := New(Config{Launcher: plainLauncher{}, Python: pythonPath(t), Isolation: "some"}); agentkernel.CodeOf(err) != agentkernel.CodeInvalid {
		t.Errorf("isolation some: %v", err)
	}
	b := newBackend(t, func(c *Config) { c.Isolation = IsolationNone })
	if got := mustExit(t, b, "import os\nprint(os.getpid() > 1, os.path.exists('/proc/meminfo'))"); got != "True True\n" {
		t.Errorf("%q", got)
	}
	trial, err := b.Try(t.Context())
	if err != nil || trial.Walls != nil {
		t.Errorf("%+v %v", trial, err)
	}
	trial, err = sharedBackend(t).Try(t.Context())
	if err != nil || len(trial.Walls) < 8 || trial.Python.Version == "" {
		t.Errorf("%+v %v", trial, err)
	}
}

// An interpreter that is missing, too old or none at all is told with what mends it.
func TestBadInterpreters(t *testing.T) {
	dir := t.TempDir()
	script := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "none"): "is not an executable file",
		"no-such-python-anywhere":  "is not an executable file",
		dir:                        "is not an executable file",
		script("fails", "#!/bin/sh\necho broken >&2; exit 3\n"):                                     "does not run: exit status 3: broken",
		script("lies", "#!/bin/sh\necho hello\n"):                                                   "does not answer as Python does",
		script("old", "#!/bin/sh\necho '{\"version\":\"3.8.1\",\"implementation\":\"cpython\"}'\n"): "is Python 3.8.1; 3.9 or later is needed",
		script("pypy", "#!/bin/sh\necho '{\"version\":\"3.11.1\",\"implementation\":\"pypy\"}'\n"):  "is pypy; CPython is needed",
		script("format", "no program"):                                                              "does not start",
	} {
		b := newBackend(t, func(c *Config) { c.Python = path })
		info := b.Info()
		if info.Available || !strings.Contains(info.Problem, want) || !strings.Contains(info.Fix, "python") {
			t.Errorf("%s: %+v", path, info)
		}
		_, err := b.Check(agentkernel.Program{Source: "1"})
		if agentkernel.CodeOf(err) != agentkernel.CodeUnavailable {
			t.Errorf("%s: Check: %v", path, err)
		}
		if _, err := b.Start(t.Context(), newRun(t, b, "1").req); agentkernel.CodeOf(err) != agentkernel.CodeUnavailable {
			t.Errorf("%s: Start: %v", path, err)
		}
	}
}

// What the interpreter said of itself is kept, until another file is at its place.
func TestInterpreterIsAskedOnce(t *testing.T) {
	dir := t.TempDir()
	asked := filepath.Join(dir, "asked")
	python := filepath.Join(dir, "python")
	write := func(version string) {
		script := fmt.Sprintf("#!/bin/sh\necho x >> %s\necho '{\"version\":\"%s\",\"implementation\":\"cpython\",\"executable\":\"/bin/sh\"}'\n", asked, version)
		if err := os.WriteFile(python, []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	fingerprintOf := func() string {
		b := newBackend(t, func(c *Config) { c.Python, c.Cache = python, filepath.Join(dir, "cache") })
		defer b.Close()
		return b.Info().Fingerprint
	}
	write("3.11.1")
	first, second := fingerprintOf(), fingerprintOf()
	if b, _ := os.ReadFile(asked); string(b) != "x\n" || first != second || !strings.HasPrefix(first, "cpython-3.11.1+") {
		t.Errorf("asked %q, %q then %q", b, first, second)
	}
	write("3.12.12")
	if third := fingerprintOf(); !strings.HasPrefix(third, "cpython-3.12.12+") {
		t.Errorf("after a change: %q", third)
	}
}

// Limits of every kind that users think of do not fill the zygote's memory.
func TestManyPlans(t *testing.T) {
	b := newBackend(t, func(c *Config) { c.Warm = -1 })
	mustExit(t, b, "1")
	h, err := b.tenants.house(t.Context(), Interpreter{}, tenant{"default", stdlibSet, ""})
	if err != nil {
		t.Fatal(err)
	}
	cell, err := h.z.body.cell(agentkernel.DefaultLimits(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer cell.Close()
	for i := range 2*keptPlans + 50 {
		if _, err := h.z.teach(cell.Plan, planKey{limits: agentkernel.Limits{Memory: int64(i)}}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(h.z.plans); n > keptPlans {
		t.Errorf("%d plans are kept", n)
	}
	mustExit(t, b, "1")
}

// A version manager's script is asked again when programs run: the next kernel has what the user has chosen since.
func TestVersionManager(t *testing.T) {
	dir := t.TempDir()
	shim, cache := filepath.Join(dir, "python3"), filepath.Join(dir, "cache")
	point := func(at string) {
		if err := os.WriteFile(filepath.Join(dir, "target"), []byte(at), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	script := "#!/bin/sh\nexec $(cat " + filepath.Join(dir, "target") + ") \"$@\"\n"
	if err := os.WriteFile(shim, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	real := mustPython(t, sharedBackend(t)).Executable
	other := filepath.Join(dir, "other-python")
	if err := os.Symlink(real, other); err != nil {
		t.Fatal(err)
	}
	start := func() *Backend {
		return newBackend(t, func(c *Config) { c.Python, c.Cache, c.Isolation = shim, cache, IsolationNone })
	}
	point(other)
	b := start()
	if got := mustPython(t, b).Executable; got != other {
		t.Fatalf("it runs %s, want %s", got, other)
	}
	point(real)
	b = start()
	mustExit(t, b, "1")
	if got := mustPython(t, b).Executable; got != other {
		t.Errorf("a kernel changed its interpreter: %s", got)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if got := mustPython(t, start()).Executable; got != real {
		t.Errorf("the next kernel runs %s, want %s", got, real)
	}
}

// A child that something else kills has lost its program, which is not to blame. One that crashes has not.
func TestChildIsKilled(t *testing.T) {
	b := newBackend(t)
	for source, want := range map[string]agentkernel.TurnKind{
		"print('on', flush=True)\nwhile True: pass":             agentkernel.TurnLost,
		"import ctypes\nprint(flush=True)\nctypes.string_at(0)": 0,
	} {
		r := newRun(t, b, source)
		if want != 0 {
			r.req.Output = func(string, string) { r.box.(*sandbox).c.signal(unix.SIGKILL) }
		}
		turn, err := r.start().box.Next(t.Context(), nil)
		if err == nil && turn.Err != nil {
			err = turn.Err
		}
		if turn.Kind != want || agentkernel.CodeOf(err) != agentkernel.CodeCrashed || !strings.Contains(err.Error(), "SIG") {
			t.Errorf("%s: %+v %v", source, turn, err)
		}
	}
}

// A program begins although the spawners of its walls are killed as they start. One that runs
// while the spawner is killed has lost its sandbox, and is not to blame.
func TestSpawnerIsKilled(t *testing.T) {
	killed := &killedSpawners{left: 3}
	s := newSpawner(t, func(c *confine.SpawnerConfig) { c.Launcher = killed })
	t.Cleanup(func() { _ = s.Close() })
	b := newBackend(t, func(c *Config) { c.Spawner = s })
	mustExit(t, b, "print(1)")
	r := newRun(t, b, "import kernel\nkernel.self()\nwhile True: pass").start()
	if _, err := r.box.Next(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	killed.next(0)
	if turn, err := r.box.Next(t.Context(), &agentkernel.Reply{ID: 1, Result: []byte("1")}); err != nil || turn.Kind != agentkernel.TurnLost {
		t.Errorf("%+v %v", turn, err)
	}
	killed.next(3)
	mustExit(t, b, "print(2)")
}

// killedSpawners kills what it starts, as often as left says.
type killedSpawners struct {
	plainLauncher
	mu   sync.Mutex
	left int
	last *exec.Cmd
}

// next kills the one that was started last, and as many that come.
func (k *killedSpawners) next(left int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.left = left
	k.Kill(k.last)
}

func (k *killedSpawners) Start(cmd *exec.Cmd) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	err := k.plainLauncher.Start(cmd)
	k.last = cmd
	if err == nil && k.left > 0 {
		k.left--
		k.Kill(cmd)
	}
	return err
}
