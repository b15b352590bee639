package monty

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"agentkernel"
	"agentkernel/internal/quickexit"
	"agentkernel/internal/sandbox/confine"
	"agentkernel/internal/store/storetest"
)

func TestMain(m *testing.M) {
	quickexit.Main()
	confine.Main()
	goleak.VerifyTestMain(m)
}

func workerOf(r *run) *worker { return r.box.(*sandbox).w }

// until waits for a condition that another goroutine brings about.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
		<-time.After(time.Millisecond)
	}
}

// What a program has said is not kept while it waits, for as long as that may take: nothing counts it.
func TestLargeMessagesAreNotKept(t *testing.T) {
	r := newRun(t, newBackend(t), "from kernel import state\nstate.set('k', 'x' * (4 << 20))\n").start()
	turn, err := r.box.Next(t.Context(), nil)
	if err != nil || turn.Kind != agentkernel.TurnCall || len(turn.Call.Args) < 4<<20 {
		t.Fatalf("%v %v", turn.Kind, err)
	}
	if n := cap(workerOf(r).frames.buf); n > keepFrame {
		t.Errorf("%d bytes are kept", n)
	}
}

// A worker serves one program after another, of its namespace only, and nothing of the last is left in it.
func TestWorkersAreReused(t *testing.T) {
	b := newBackend(t)
	pid := func(namespace, src, want string) int {
		t.Helper()
		r := newRun(t, b, src)
		r.req.Namespace = namespace
		r.start()
		id := workerOf(r).body.pid()
		if turn, err := r.finish(); err != nil || turn.Kind != agentkernel.TurnExit || r.out.String() != want {
			t.Fatalf("%+v %v %q", turn, err, r.out.String())
		}
		if err := r.box.Close(); err != nil {
			t.Fatal(err)
		}
		return id
	}
	const leaves, looks = "secret = 1\nprint(1)", "try:\n    secret\nexcept NameError:\n    print('clean')"
	first := pid("one", leaves, "1\n")
	for range 3 {
		if again := pid("one", looks, "clean\n"); again != first {
			t.Errorf("worker %d, then %d", first, again)
		}
	}
	if other := pid("two", looks, "clean\n"); other == first {
		t.Error("a worker changed its namespace")
	}
}

// A worker that has grown is not kept: the engine would hold on to the memory.
func TestGrownWorkersAreReplaced(t *testing.T) {
	b := newBackend(t)
	r := newRun(t, b, "x = [str(i) for i in range(1000000)]\nlen(x)")
	if turn, err := r.finish(); err != nil || string(turn.Result) != "1000000" {
		t.Fatalf("%+v %v", turn, err)
	}
	w := workerOf(r)
	if w.heap() == 0 {
		t.Skip("the size of another process cannot be told here")
	}
	_ = r.box.Close()
	<-w.gone
	if s := b.Stats(); s.Idle != 0 {
		t.Errorf("%+v", s)
	}
}

// Other limits, and a program that failed or was left in the middle, leave a worker usable.
func TestWorkersAreReconfigured(t *testing.T) {
	b := newBackend(t)
	r := newRun(t, b, "def f(n):\n    return n and 1 + f(n - 1)\nprint(f(90))")
	if _, err := r.finish(); err != nil {
		t.Fatal(err)
	}
	first := workerOf(r).body.pid()
	_ = r.box.Close()
	r = newRun(t, b, "def f(n):\n    return n and 1 + f(n - 1)\nprint(f(90))")
	r.req.Limits.Recursion, r.req.Limits.Memory = 50, 32<<20
	turn, err := r.finish()
	if err != nil || turn.Kind != agentkernel.TurnFail || turn.Err.Op != "limit.recursion" {
		t.Fatalf("%+v %v", turn, err)
	}
	if workerOf(r).body.pid() != first {
		t.Error("another worker was taken")
	}
	_ = r.box.Close()
	r = boundRun(t, b, "f()", "f=kernel.self").start()
	if turn, err := r.box.Next(t.Context(), nil); err != nil || turn.Kind != agentkernel.TurnCall {
		t.Fatalf("%+v %v", turn, err)
	}
	_ = r.box.Close() // as it stands, waiting for a reply
	if got := mustExit(t, b, "print(1)"); got != "1\n" {
		t.Error(got)
	}
	if s := b.Stats(); s.Killed != 0 {
		t.Errorf("%+v", s)
	}
}

// Whatever happens to a worker costs one program an answer that says so, and nobody else anything.
func TestWorkersDie(t *testing.T) {
	b := newBackend(t, func(c *Config) { c.Grace = 100 * time.Millisecond; c.Workers = 3 })
	signal := func(sig syscall.Signal) func(*run, context.CancelFunc) {
		return func(r *run, _ context.CancelFunc) { _ = syscall.Kill(workerOf(r).body.pid(), sig) }
	}
	for _, c := range []struct {
		name  string
		src   string
		do    func(r *run, cancel context.CancelFunc)
		code  agentkernel.Code
		says  string
		limit time.Duration
		lost  bool // the program is not to blame
	}{
		{"killed while it runs", "print(1)\nwhile True: pass", signal(syscall.SIGKILL), agentkernel.CodeCrashed, "signal: killed", 0, true},
		{"terminated while it runs", "print(1)\nwhile True: pass", signal(syscall.SIGTERM), agentkernel.CodeCrashed, "signal: ", 0, true},
		{"stopped while it runs", "print(1)\nwhile True: pass", signal(syscall.SIGSTOP), agentkernel.CodeLimit, "ran longer than its limit", time.Second, false},
		{"crashed while it runs", "print(1)\nwhile True: pass", signal(syscall.SIGABRT), agentkernel.CodeCrashed, "signal: aborted", 0, false},
		{"canceled", "print(1)\nwhile True: pass", func(_ *run, cancel context.CancelFunc) { cancel() }, "", context.Canceled.Error(), 0, false},
		{"closed", "print(1)\nwhile True: pass", func(r *run, _ context.CancelFunc) { _ = r.box.Close() }, agentkernel.CodeCanceled, "closed", 0, false},
		{"allocator refuses", "print(1)\nx = 10 ** 4000\nwhile True: x = x * x", func(*run, context.CancelFunc) {}, agentkernel.CodeLimit, "memory", 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRun(t, b, c.src)
			r.prog = bound(c.src)
			r.req.Limits.Memory = 4 << 20
			if c.limit > 0 {
				r.req.Limits.Time = agentkernel.Duration(c.limit)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			printed := make(chan struct{})
			r.req.Output = func(string, string) { close(printed) }
			r.start()
			go func() {
				<-printed
				c.do(r, cancel)
			}()
			turn, err := r.box.Next(ctx, nil)
			if (turn.Kind == agentkernel.TurnLost) != c.lost {
				t.Errorf("turn %d, lost: %v", turn.Kind, c.lost)
			}
			if err == nil && turn.Err != nil {
				err = turn.Err
			}
			if err == nil || !strings.Contains(err.Error(), c.says) || c.code != "" && agentkernel.CodeOf(err) != c.code {
				t.Fatalf("%+v, error %v; want %s with %q", turn, err, c.code, c.says)
			}
			if c.code == "" && !errors.Is(err, context.Canceled) {
				t.Errorf("not the context's error: %v", err)
			}
			if _, err := r.box.Next(t.Context(), nil); err == nil {
				t.Error("a dead sandbox went on")
			}
			if err := r.box.Close(); err != nil {
				t.Error(err)
			}
			if got := mustExit(t, b, "print('next')"); got != "next\n" {
				t.Error(got)
			}
		})
	}
}

// A worker that dies while nobody uses it is replaced without anybody noticing.
func TestIdleWorkerDies(t *testing.T) {
	b := newBackend(t)
	for range 5 {
		r := newRun(t, b, "print(1)")
		if _, err := r.finish(); err != nil {
			t.Fatal(err)
		}
		w := workerOf(r)
		_ = r.box.Close()
		w.body.kill()
		<-w.gone
	}
	if got := mustExit(t, b, "print(2)"); got != "2\n" {
		t.Error(got)
	}
}

// An idle worker does not keep for long what the last program left in it.
func TestIdleWorkersAreWiped(t *testing.T) {
	b := newBackend(t)
	r := newRun(t, b, "secret = 1")
	if _, err := r.finish(); err != nil {
		t.Fatal(err)
	}
	w := workerOf(r)
	if err := r.box.Close(); err != nil {
		t.Fatal(err)
	}
	wiped := func() bool {
		b.pool.mu.Lock()
		defer b.pool.mu.Unlock()
		return !w.soiled && w.owed == 2
	}
	until(t, "it is wiped", wiped)
	again := newRun(t, b, "try:\n    secret\nexcept NameError:\n    print('clean')").start()
	if turn, err := again.finish(); err != nil || turn.Kind != agentkernel.TurnExit || again.out.String() != "clean\n" || workerOf(again) != w {
		t.Errorf("%+v %v %q", turn, err, again.out.String())
	}
}

// A program whose worker ends before it is ready for it begins again in another one: it did nothing that would count.
func TestUnreadyWorkers(t *testing.T) {
	b := newBackend(t)
	used := func() *worker {
		t.Helper()
		r := newRun(t, b, "print(1)")
		if _, err := r.finish(); err != nil {
			t.Fatal(err)
		}
		if err := r.box.Close(); err != nil {
			t.Fatal(err)
		}
		return workerOf(r)
	}
	for range 5 {
		w := used()
		r := newRun(t, b, "print(2)").start()
		if workerOf(r) != w {
			t.Fatal("another worker was idle")
		}
		w.body.kill()
		<-w.gone
		if turn, err := r.box.Next(t.Context(), nil); err != nil || turn.Kind != agentkernel.TurnLost {
			t.Errorf("%+v %v", turn, err)
		}
		_ = r.box.Close()
	}
	parked := newRun(t, b, "from kernel import now\nnow()\nprint(3)").start()
	if turn, err := parked.box.Next(t.Context(), nil); err != nil || turn.Kind != agentkernel.TurnCall {
		t.Fatalf("%+v %v", turn, err)
	}
	image, err := parked.box.Image(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_ = parked.box.Close()
	for range 10 {
		used().body.kill() // it may be seen to have ended, or not yet
		r := newRun(t, b, "from kernel import now\nnow()\nprint(3)")
		r.req.Image = image
		if turn, err := r.start().finish(); err != nil || turn.Kind != agentkernel.TurnExit || r.out.String() != "3\n" {
			t.Errorf("%+v %v %q", turn, err, r.out.String())
		}
		_ = r.box.Close()
	}
}

// The program that was asked for last is known again by all that makes it what it is.
func TestLastProgram(t *testing.T) {
	p := newPrograms()
	base := agentkernel.Program{Name: "a.py", Language: agentkernel.Python, Source: "print(1)"}
	bind := func(prog agentkernel.Program) *program {
		t.Helper()
		if _, err := p.check(prog); err != nil {
			t.Fatal(err)
		}
		out, err := p.bind(prog, nil)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	first := bind(base)
	if bind(base) != first || p.last.Load().bound != first {
		t.Error("it is not known again")
	}
	seen := map[*program]string{first: "the first"}
	storetest.EachField(&base, func(name string) {
		if name == "Language" || name == "Host" || name == "Cells" { // the front end does not look at these
			return
		}
		if name == "Modules" {
			base.Modules = map[string]string{"skills.x": "y = 1"}
		}
		got := bind(base)
		if other, ok := seen[got]; ok {
			t.Errorf("with another %s it is the one of %s", name, other)
		}
		seen[got] = name
	})
	if bind(base) != first {
		t.Error("it is not known any more")
	}
}

// There are never more workers than allowed; who waits is served in the order of asking.
func TestCapAndOrder(t *testing.T) {
	b := newBackend(t, func(c *Config) { c.Workers = 2; c.Spare = -1 })
	holders := []*run{newRun(t, b, "1").start(), newRun(t, b, "1").start()}
	var mu sync.Mutex
	var order []int
	var done sync.WaitGroup
	for i := range 6 {
		r := newRun(t, b, "1")
		r.req.Namespace = []string{"n", "other"}[i%2]
		done.Go(func() {
			box, err := b.Start(context.Background(), r.req)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			order = append(order, i)
			mu.Unlock()
			_ = box.Close()
		})
		until(t, "it waits", func() bool { return b.Stats().Waiting == i+1 })
	}
	ctx, cancel := context.WithCancel(t.Context())
	gaveUp := make(chan error, 1)
	go func() { // one more, who gives up
		_, err := b.Start(ctx, newRun(t, b, "1").req)
		gaveUp <- err
	}()
	until(t, "it waits", func() bool { return b.Stats().Waiting == 7 })
	cancel()
	if err := <-gaveUp; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if s := b.Stats(); s.Workers != 2 || s.Busy != 2 {
		t.Errorf("%+v", s)
	}
	_ = holders[0].box.Close() // one slot is free: they run one after the other
	done.Wait()
	for i, got := range order {
		if i != got {
			t.Fatalf("served in the order %v", order)
		}
	}
	_ = holders[1].box.Close()
}

func TestManyAtOnce(t *testing.T) {
	b := newBackend(t, func(c *Config) { c.Workers = 8 })
	var wg sync.WaitGroup
	for i := range 200 {
		r := boundRun(t, b, "x = 0\nfor i in range(20): x += f(i)\nprint(x)", "f=kernel.log")
		r.req.Namespace = string(rune('a' + i%5))
		r.answer = func(c agentkernel.Call) agentkernel.Reply {
			return agentkernel.Reply{Result: []byte("2")}
		}
		wg.Go(func() {
			box, err := b.start(context.Background(), r.req, r.prog)
			if err != nil {
				t.Error(err)
				return
			}
			r.box = box
			turn, err := r.drive(nil)
			if err != nil || turn.Kind != agentkernel.TurnExit || r.out.String() != "40\n" || len(r.calls) != 20 {
				t.Errorf("%+v %v %q", turn, err, r.out.String())
			}
			_ = box.Close()
		})
	}
	wg.Wait()
	if s := b.Stats(); s.Workers > 8 || s.Busy != 0 || s.Waiting != 0 {
		t.Errorf("%+v", s)
	}
}

// slowClock is a clock that stands until it is moved.
type slowClock struct {
	mu     sync.Mutex
	now    time.Time
	timers []*slowTimer
}

type slowTimer struct {
	c  *slowClock
	at time.Time
	f  func()
	on bool
}

func (c *slowClock) Now() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.now }

func (c *slowClock) AfterFunc(d time.Duration, f func()) Timer {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &slowTimer{c: c, at: c.now.Add(d), f: f, on: true}
	c.timers = append(c.timers, t)
	return t
}

func (t *slowTimer) Stop() bool {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	was := t.on
	t.on = false
	return was
}

func (t *slowTimer) Reset(d time.Duration) bool {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	was := t.on
	t.at, t.on = t.c.now.Add(d), true
	return was
}

// waits says whether the nth timer was made, and it alone runs.
func (c *slowClock) waits(nth int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.timers) == nth && c.timers[nth-1].on && !slices.ContainsFunc(c.timers[:nth-1], func(t *slowTimer) bool { return t.on })
}

func (c *slowClock) advance(d time.Duration) {
	c.mu.Lock()
	c.now = c.now.Add(d)
	var due []func()
	for _, t := range c.timers {
		if t.on && !t.at.After(c.now) {
			t.on = false
			due = append(due, t.f)
		}
	}
	c.mu.Unlock()
	for _, f := range due {
		f()
	}
}

func TestIdleWorkersRetire(t *testing.T) {
	clock := &slowClock{now: time.Unix(1, 0)}
	b := newBackend(t, func(c *Config) { c.Clock = clock; c.IdleAfter = time.Minute })
	x, y := newRun(t, b, "1").start(), newRun(t, b, "1").start()
	idle := func(n int) { // a worker is wiped before it is idle, and its time counts from then
		t.Helper()
		until(t, fmt.Sprintf("%d are idle", n), func() bool { return b.Stats().Idle == n })
	}
	// A spare that still says hello has ten seconds of this clock for it.
	until(t, "the spare stands by", func() bool { return b.Stats().Spare == 1 })
	_ = x.box.Close()
	idle(1)
	clock.advance(40 * time.Second)
	_ = y.box.Close()
	idle(2)
	clock.advance(20 * time.Second)
	until(t, "the first has gone", func() bool { return b.Stats().Idle == 1 })
	clock.advance(40 * time.Second)
	until(t, "the spare is left", func() bool { s := b.Stats(); return s.Idle == 0 && s.Workers == 1 && s.Spare == 1 })
}

func TestEngineMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	b, err := New(Config{Launcher: plainLauncher{}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	info := b.Info()
	_, err = b.Start(t.Context(), newRun(t, b, "1").req)
	e := agentkernel.AsError(err, "", "")
	if info.Available || !strings.Contains(info.Fix, "agentkernel setup") || agentkernel.CodeOf(err) != agentkernel.CodeUnavailable || !strings.Contains(e.Hint, "agentkernel setup") {
		t.Errorf("%+v, %#v", info, err)
	}
}

// Executables that are not the engine this backend was made for.
func TestWrongEngine(t *testing.T) {
	real := enginePath(t)
	for name, c := range map[string]struct {
		script string
		code   agentkernel.Code
		says   string
	}{
		"older":   {"#!/bin/sh\n[ \"$1\" = --version ] && echo 'monty-runtime 0.0.18' && exit\nexec " + real + " \"$@\"\n", agentkernel.CodeUnavailable, "0.0.18"},
		"another": {"#!/bin/sh\necho 'a tool called monty 1.2.3'\n", agentkernel.CodeUnavailable, EngineVersion},
		"broken":  {"#!/bin/sh\necho 'no libc' >&2\nexit 3\n", agentkernel.CodeUnavailable, "no libc"},
		"mute":    {"#!/bin/sh\n[ \"$1\" = --version ] && echo 'monty-runtime " + EngineVersion + "' && exit\nexit 4\n", agentkernel.CodeCrashed, "exit status 4"},
		"protocol": {"#!/bin/sh\n[ \"$1\" = --version ] && echo 'monty-runtime " + EngineVersion +
			"' && exit\nprintf '\\025\\000\\000\\000Z\\023\\012\\021protocol 9 to 11.'\n", agentkernel.CodeUnavailable, "protocol 9 to 11"},
	} {
		path := filepath.Join(t.TempDir(), "monty")
		if err := os.WriteFile(path, []byte(c.script), 0o755); err != nil {
			t.Fatal(err)
		}
		b := newBackend(t, func(cfg *Config) { cfg.Engine = path; cfg.Spare = -1 })
		_, err := b.Start(t.Context(), newRun(t, b, "1").req)
		if agentkernel.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %s with %q", name, err, c.code, c.says)
		}
		if info := b.Info(); c.code == agentkernel.CodeUnavailable && name != "protocol" && (info.Available || info.Problem == "") {
			t.Errorf("%s: %+v", name, info)
		}
		_ = b.Close()
	}
}

// The worker sees nothing of the kernel's environment, and its memory is capped from outside.
func TestWorkerIsBare(t *testing.T) {
	t.Setenv("AGENTKERNEL_TEST_SECRET", "hunter2")
	b := newBackend(t)
	r := newRun(t, b, "1").start()
	dir := "/proc/" + agentkernel.PID(workerOf(r).body.pid()).String()
	if _, err := os.Stat(dir); err != nil {
		t.Skip("no /proc here")
	}
	env, err := os.ReadFile(dir + "/environ")
	if err != nil || len(env) > 0 {
		t.Errorf("environment %q, %v", env, err)
	}
	if cwd, err := os.Readlink(dir + "/cwd"); err != nil || cwd != "/" {
		t.Errorf("it stands in %q, %v", cwd, err)
	}
	limits, err := os.ReadFile(dir + "/limits")
	if err != nil || addressSpace(string(limits)) != settingsOf(agentkernel.DefaultLimits()).wall() {
		t.Errorf("limits %s, %v", limits, err)
	}
}

// addressSpace is the limit of a process in the text of /proc/PID/limits.
func addressSpace(limits string) (n uint64) {
	_, after, _ := strings.Cut(limits, "Max address space")
	_, _ = fmt.Sscan(after, &n) // 0 is no such limit
	return n
}

// A program that holds too much to be dumped is told from one that can be parked, and goes on either way.
func TestImageOfLargeHeap(t *testing.T) {
	b := newBackend(t)
	for _, c := range []struct {
		megabytes string
		code      agentkernel.Code
	}{{"12", ""}, {"20", agentkernel.CodeLimit}} {
		r := boundRun(t, b, "x = ['y' * 1000000 + str(i) for i in range("+c.megabytes+")]\nf()\nlen(x)", "f=kernel.self")
		r.req.Limits.Memory = 64 << 20
		r.start()
		if _, err := r.box.Next(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if _, err := r.box.Image(t.Context()); agentkernel.CodeOf(err) != c.code {
			t.Errorf("%s MB: %v", c.megabytes, err)
		}
		turn, err := r.drive(&agentkernel.Reply{ID: 1})
		if err != nil || string(turn.Result) != c.megabytes {
			t.Errorf("%s MB: %+v %v", c.megabytes, turn, err)
		}
		_ = r.box.Close()
	}
}

// A program may ask for more memory than workers have by default, also when there is one worker only.
func TestLargeMemoryLimit(t *testing.T) {
	b := newBackend(t, func(c *Config) { c.Workers = 1 })
	for range 2 {
		r := newRun(t, b, "x = b'\\0' * 300000000\nprint(len(x))")
		r.req.Limits.Memory = 512 << 20
		if turn, err := r.finish(); err != nil || turn.Kind != agentkernel.TurnExit {
			t.Fatalf("%+v %v", turn, err)
		}
		_ = r.box.Close()
		if got := mustExit(t, b, "print(1)"); got != "1\n" {
			t.Error(got)
		}
	}
	if s := b.Stats(); s.Workers > 1 {
		t.Errorf("%+v", s)
	}
}

// Close ends programs that run and those who wait.
func TestCloseEndsAll(t *testing.T) {
	b := newBackend(t, func(c *Config) { c.Workers = 1 })
	printed := make(chan struct{})
	r := newRun(t, b, "print(1)\nwhile True: pass")
	r.req.Output = func(string, string) { close(printed) }
	r.start()
	errs := make(chan error, 2)
	go func() { _, err := r.box.Next(context.Background(), nil); errs <- err }()
	<-printed
	go func() { _, err := b.Start(context.Background(), newRun(t, b, "1").req); errs <- err }()
	until(t, "it waits", func() bool { return b.Stats().Waiting == 1 })
	_ = b.Close()
	for range 2 {
		if err := <-errs; agentkernel.CodeOf(err) != agentkernel.CodeCanceled {
			t.Error(err)
		}
	}
	_ = r.box.Close()
	if _, err := b.Start(t.Context(), newRun(t, b, "1").req); agentkernel.CodeOf(err) != agentkernel.CodeCanceled {
		t.Error(err)
	}
}

// After a worker was thrown away there is room for a spare, and one is started.
func TestASpareFollowsAWorkerThatWasThrownAway(t *testing.T) {
	b := newBackend(t, func(c *Config) { c.Workers, c.Spare = 2, 1 })
	first, second := newRun(t, b, "1").start(), newRun(t, b, "1").start()
	until(t, "full", func() bool { return b.Stats().Busy == 2 })
	// What was to be started later has found no room.
	until(t, "no timer", func() bool {
		b.pool.mu.Lock()
		defer b.pool.mu.Unlock()
		return b.pool.later == nil && b.pool.starting == 0
	})
	b.pool.release(workerOf(first), false)
	until(t, "a spare", func() bool { return b.Stats().Spare == 1 })
	_ = second.box.Close()
}
