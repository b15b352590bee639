package confine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentkernel"
)

// counting is a program of three processes that count on, each in a file of its own.
const counting = `
import os, sys, time
for i in range(3):
    if i == 2 or os.fork() == 0:
        with open("/workspace/count%d" % i, "w", buffering=1) as f:
            f.write("1"); print("up", i, flush=True)
            while True:
                f.seek(0); n = int(time.monotonic_ns()); f.write(str(n)); time.sleep(0.002)
`

func countingConfig(t *testing.T) (Config, string) {
	dir := publicDir(t)
	cfg := pythonConfig(t, counting)
	cfg.Workspace = &Workspace{Source: dir, Access: ReadWrite}
	return cfg, dir
}

func counts(t *testing.T, dir string) string {
	var all []string
	for i := range 3 {
		all = append(all, readFile(t, filepath.Join(dir, "count"+strconv.Itoa(i))))
	}
	return strings.Join(all, " ")
}

// patience tells what is slow, on a machine with other things to do, from what never comes.
const patience = 3 * time.Minute

// until polls a condition.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	gone(t, func() string {
		if ok() {
			return ""
		}
		return "not yet: " + what
	})
}

// gone polls what is left until nothing is.
func gone(t *testing.T, left func() string) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(patience); ; {
		still := left()
		if still == "" {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("after %s: %s", patience, still)
		}
	}
}

func TestPauseResumeKill(t *testing.T) {
	bothUsers(t, func(t *testing.T) {
		for _, how := range []struct {
			name      string
			noCgroups bool
			child     bool
			v2        string // a mounted hierarchy of version 2, whatever controllers it has
		}{
			{"freezer if there is one", false, false, ""}, {"signals by the init", true, false, ""}, {"signals to a zygote's child", true, true, ""},
			{"freezer of version 2", false, false, "/sys/fs/cgroup/unified"}, {"freezer of version 2 and a zygote's child", false, true, "/sys/fs/cgroup/unified"},
		} {
			t.Run(how.name, func(t *testing.T) {
				if how.v2 != "" && unix.Access(how.v2+"/cgroup.procs", unix.W_OK) != nil {
					t.Skipf("cannot make groups in %s", how.v2)
				}
				s := newSpawner(t, func(c *SpawnerConfig) { c.NoCgroups = how.noCgroups })
				if how.v2 != "" {
					_ = s.machine.groups.close()
					s.machine.groups = &groups{hierarchies: []hierarchy{{v2: true, base: how.v2}}}
					if err := s.machine.groups.open("v2-test"); err != nil {
						t.Fatal(err)
					}
				}
				cfg, dir := countingConfig(t)
				var r *running
				if how.child {
					r = launchChild(t, s, cfg, counting)
				} else {
					r = launchWhole(t, s, cfg)
				}
				for i := range 3 {
					r.out.await(t, "up "+strconv.Itoa(i))
				}
				quickest := time.Hour // of three: the machine may be busy
				for range 3 {
					if err := r.Resume(); err != nil {
						t.Fatal(err)
					}
					begin := time.Now()
					if err := r.Pause(); err != nil {
						t.Fatal(err)
					}
					quickest = min(quickest, time.Since(begin))
				}
				t.Logf("a pause takes %v", quickest) // milliseconds; a busy machine is no reason to fail
				if quickest > 5*time.Second {
					t.Errorf("a pause takes %v", quickest)
				}
				first := counts(t, dir)
				quiet := time.NewTimer(100 * time.Millisecond)
				<-quiet.C
				if again := counts(t, dir); again != first {
					t.Errorf("it went on while paused: %s, %s", first, again)
				}
				if err := r.Resume(); err != nil {
					t.Fatal(err)
				}
				until(t, "all three count again", func() bool {
					now := strings.Fields(counts(t, dir))
					for i, n := range strings.Fields(first) {
						if len(now) <= i || now[i] == n {
							return false
						}
					}
					return true
				})
				if err := r.Pause(); err != nil {
					t.Fatal(err)
				}
				begin := time.Now()
				r.Kill()
				if e := r.finish(t); e.Limit != "" {
					t.Errorf("it ended by %s", e)
				}
				if d := time.Since(begin); d > time.Minute {
					t.Errorf("a kill while paused takes %v", d)
				}
				for _, err := range []error{r.Pause(), r.Resume(), r.Signal(unix.SIGTERM)} {
					if agentkernel.CodeOf(err) != agentkernel.CodeConflict {
						t.Errorf("after the end: %v", err)
					}
				}
			})
		}
	})
}

func TestKillEndsTheWholeTreeAtOnce(t *testing.T) {
	bothUsers(t, func(t *testing.T) {
		s := newSpawner(t)
		cfg, dir := countingConfig(t)
		r := launchWhole(t, s, cfg)
		for i := range 3 {
			r.out.await(t, "up "+strconv.Itoa(i))
		}
		begin := time.Now()
		r.Kill()
		<-r.Done()
		if d := time.Since(begin); d > 100*time.Millisecond {
			t.Logf("the tree took %v to end", d)
			if d > time.Minute {
				t.Error("that is too long")
			}
		}
		last := counts(t, dir)
		for range 20 {
			runtime.Gosched()
			if now := counts(t, dir); now != last {
				t.Fatalf("something writes on: %s, %s", last, now)
			}
		}
		r.Kill() // nothing happens
	})
}

func TestSignalReachesTheProgram(t *testing.T) {
	s := newSpawner(t)
	r := launchWhole(t, s, pythonConfig(t, `
import os, signal, time
def on(sig, frame): os.write(1, b"got %d" % sig); os._exit(7)
signal.signal(signal.SIGINT, on)
os.write(1, b"up")
while True: time.sleep(0.01) # not pause: it would not see a signal that comes just before it`))
	r.out.await(t, "up")
	if err := r.Signal(unix.SIGINT); err != nil {
		t.Fatal(err)
	}
	if e := r.finish(t); !e.Known || e.Status.ExitStatus() != 7 || !strings.Contains(r.out.String(), "got 2") {
		t.Errorf("%s: %s%s", e, r.out, r.err)
	}
}

func TestExitsAreToldApart(t *testing.T) {
	s := newSpawner(t)
	for _, tc := range []struct {
		script, want string
	}{
		{"", "exit 0"},
		{"import sys; sys.exit(3)", "exit 3"},
		{"import os; os.kill(os.getpid(), 15)", "killed by terminated"},
		{"import os; os.abort()", "killed by aborted"},
		{"import os\nif os.fork(): os._exit(4)\nimport time; time.sleep(100)", "exit 4"},
	} {
		r := launchWhole(t, s, pythonConfig(t, tc.script))
		if e := r.finish(t); e.String() != tc.want || !e.Known {
			t.Errorf("%q: %s, want %s\n%s", tc.script, e, tc.want, r.err)
		}
	}
}

func TestUsageIsTold(t *testing.T) {
	bothUsers(t, func(t *testing.T) {
		s := newSpawner(t)
		r := launchWhole(t, s, pythonConfig(t, `
import time
a = bytearray(b"x" * (100 << 20))
end = time.process_time() + 0.3
while time.process_time() < end: pass`))
		e := r.finish(t)
		if e.Usage.CPU < 300*time.Millisecond || e.Usage.CPU > 20*time.Second {
			t.Errorf("CPU %v", e.Usage.CPU)
		}
		if e.Usage.Memory < 100<<20 || e.Usage.Memory > 300<<20 {
			t.Errorf("memory %d", e.Usage.Memory)
		}
	})
}

// TestNothingOutlivesTheKernel kills a kernel with SIGKILL while programs of its run that hold a pipe.
func TestNothingOutlivesTheKernel(t *testing.T) {
	const role = "CONFINE_TEST_KERNEL"
	if os.Getenv(role) != "" {
		kernelToBeKilled(t)
		return
	}
	bothUsers(t, func(t *testing.T) {
		for _, victim := range []string{"kernel", "spawner"} {
			t.Run(victim, func(t *testing.T) {
				r, w, err := os.Pipe()
				if err != nil {
					t.Fatal(err)
				}
				defer r.Close()
				cmd := exec.Command("/proc/self/exe", "-test.run=^TestNothingOutlivesTheKernel$")
				cmd.Env = append(os.Environ(), role+"=1")
				cmd.ExtraFiles = []*os.File{w}
				out, err := cmd.StdoutPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				_ = w.Close()
				defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
				var pid int
				if _, err := fmt.Fscanf(out, "spawner %d\n", &pid); err != nil {
					t.Fatal(err)
				}
				if victim == "kernel" {
					pid = cmd.Process.Pid
				}
				if err := unix.Kill(pid, unix.SIGKILL); err != nil {
					t.Fatal(err)
				}
				_ = r.SetReadDeadline(time.Now().Add(patience))
				if _, err := io.ReadAll(r); err != nil {
					t.Errorf("something outlives the %s: %v", victim, err)
				}
			})
		}
	})
}

func kernelToBeKilled(t *testing.T) {
	witness := os.NewFile(3, "witness")
	s := newSpawner(t)
	for range 2 {
		cfg := pythonConfig(t, "import os, time\nos.fork()\nif os.fork() == 0: os.setsid()\nos.write(1, b'.')\ntime.sleep(1000)")
		c, err := s.Prepare(cfg)
		if err != nil {
			t.Fatal(err)
		}
		out, w := collect(t)
		p, err := s.Start(t.Context(), c, []*os.File{witness, w, w})
		if err != nil {
			t.Fatal(err)
		}
		_ = w.Close()
		out.await(t, "....")
		defer p.Kill()
	}
	_ = witness.Close()
	fmt.Printf("spawner %d\n", s.helper.cmd.Process.Pid)
	<-t.Context().Done()
	select {} // until it is killed
}

// What a program that has a kernel in it was started with, or has opened to be inherited, is not the spawner's either.
func TestTheSpawnerKeepsNothingThatItWasNotGiven(t *testing.T) {
	bothUsers(t, func(t *testing.T) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		fd, err := unix.FcntlInt(w.Fd(), unix.F_DUPFD, 50) // not close-on-exec
		if err != nil {
			t.Fatal(err)
		}
		p := launchWhole(t, newSpawner(t), pythonConfig(t, "import time\nprint('up', flush=True)\ntime.sleep(1000)"))
		p.out.await(t, "up")
		_, _ = unix.Close(fd), w.Close()
		_ = r.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := io.ReadAll(r); err != nil { // while they run
			t.Errorf("a descriptor of the kernel's process went on: %v", err)
		}
	})
}

func TestTheSpawnerIsReplaced(t *testing.T) {
	bothUsers(t, func(t *testing.T) {
		s := newSpawner(t)
		r := launchWhole(t, s, pythonConfig(t, "import time\nprint('up', flush=True)\ntime.sleep(1000)"))
		r.out.await(t, "up")
		_ = s.helper.cmd.Process.Kill()
		if e := r.finish(t); e.Known {
			t.Errorf("the program survived its spawner: %s", e)
		}
		<-s.helper.gone
		r = launchWhole(t, s, pythonConfig(t, "print('again')"))
		if e := r.finish(t); e.String() != "exit 0" || r.out.String() != "again\n" {
			t.Errorf("%s: %s%s", e, r.out, r.err)
		}
	})
}

// TestNothingIsLeft runs many sandboxes side by side, kills some at random moments, and counts afterwards. What
// there was before is counted when the spawner has not started anything yet: a sandbox whose end the kernel
// knows may still have descriptors in the spawner, which closes its own of them after it has answered.
func TestNothingIsLeft(t *testing.T) {
	bothUsers(t, func(t *testing.T) {
		s := newSpawner(t)
		tiny := tinyProgram(t, publicDir(t))
		cfg := Config{Runtime: []Mount{{Source: tiny, Target: "/tiny"}}, Program: Program{Path: "/tiny", Args: []string{"tiny"}}}
		null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer null.Close()
		once := func(kill time.Duration) error {
			c, err := s.Prepare(cfg)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if kill > 0 { // a caller that gives up
				ctx, cancel = context.WithTimeout(ctx, kill)
				defer cancel()
			}
			p, err := s.Start(ctx, c, []*os.File{null, null, null})
			if err != nil {
				if kill > 0 && errors.Is(err, context.DeadlineExceeded) {
					return nil
				}
				return err
			}
			<-p.Done()
			return nil
		}
		if _, err := s.help(); err != nil { // the spawner is there now
			t.Fatal(err)
		}
		before := count(t, s)
		errs := make(chan error)
		const workers, each = 8, 25
		for i := range workers {
			go func() {
				var failed error
				for j := range each {
					failed = errors.Join(failed, once(time.Duration((i+j)%4)*time.Millisecond))
				}
				errs <- failed
			}()
		}
		for range workers {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		gone(t, func() string { return count(t, s).beyond(before) })
	})
}

// TestTheCensusSeesLeaks leaves one of everything behind.
func TestTheCensusSeesLeaks(t *testing.T) {
	s := newSpawner(t)
	if _, err := s.help(); err != nil {
		t.Fatal(err)
	}
	before := count(t, s)
	if left := count(t, s).beyond(before); left != "" {
		t.Fatalf("nothing happened, and yet %s", left)
	}
	r := launchWhole(t, s, pythonConfig(t, "import time\nprint('up', flush=True)\ntime.sleep(1000)"))
	r.out.await(t, "up")
	left := count(t, s).beyond(before)
	want := []string{"the kernel has 1 of anon_inode:[pidfd]", "the kernel has 1 of pipe:", "the kernel has 1 of socket:", "the spawner has 1 children"}
	if len(s.machine.groups.hierarchies) > 0 {
		want = append(want, " cgroups")
	}
	for _, w := range want {
		if !strings.Contains(left, w) {
			t.Errorf("no %q in: %s", w, left)
		}
	}
	r.Kill()
	r.finish(t)
	gone(t, func() string { return count(t, s).beyond(before) })
}

// TestLeftoversAreRemoved makes cgroups with a process in them as a dead kernel leaves them.
func TestLeftoversAreRemoved(t *testing.T) {
	m := Look()
	if len(m.groups.hierarchies) == 0 {
		t.Skipf("no cgroups can be made here: %s", m.groups.why)
	}
	const name = "leftovers-test"
	if err := m.groups.open(name); err != nil {
		t.Fatal(err)
	}
	gr, err := m.groups.make(Config{}.withDefaults().Limits)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := join(gr.counted.Dirs, cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if gr.counted.Freezer {
		if err := gr.freeze(true, patience); err != nil {
			t.Fatal(err)
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	newSpawner(t, func(c *SpawnerConfig) { c.Name = name })
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), "killed") {
			t.Errorf("the survivor ended by %v", err)
		}
	case <-time.After(patience):
		_ = cmd.Process.Kill()
		t.Error("the survivor survives")
	}
	for _, dir := range gr.counted.Dirs {
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("%s is still there", dir)
		}
	}
}

func TestOtherProgramsAreNoSpawner(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	mainCalled.Store(false)
	defer mainCalled.Store(true)
	if _, err := (SpawnerConfig{}).executable(); agentkernel.CodeOf(err) != agentkernel.CodeUnavailable {
		t.Errorf("%v", err)
	}
	if exe, err := (SpawnerConfig{Executable: "/x"}).executable(); exe != "/x" || err != nil {
		t.Errorf("%s, %v", exe, err)
	}
}

func TestTheTreeIsFoundBothWays(t *testing.T) {
	s := newSpawner(t)
	r := launchWhole(t, s, pythonConfig(t, "import os, time\nfor i in range(3):\n  if os.fork() == 0: os.fork()\n  else: continue\n  os.write(1, b'.'); time.sleep(1000)\nos.write(1, b'.'); time.sleep(1000)"))
	r.out.await(t, ".......")
	direct, scanned := treeOf(r.PID()), descend(r.PID(), childrenByParent())
	slices.Sort(direct)
	slices.Sort(scanned)
	if len(direct) != 8 || !slices.Equal(direct, scanned) { // the init and seven of the program
		t.Errorf("%v, %v", direct, scanned)
	}
}

// What waits for an answer of a spawner that is killed gets it from the next one, and so does what comes while spawners are killed as
// they start. A whole program that may have begun is not started again.
func TestTheSpawnerIsKilledWhileItIsAsked(t *testing.T) {
	killed := &killedSpawners{}
	s := newSpawner(t, func(c *SpawnerConfig) { c.Launcher = killed })
	dir := publicDir(t)
	show := func() error { return s.CanShow(t.Context(), dir) }
	whole := func() error {
		c, err := s.Prepare(pythonConfig(t, "print(1)"))
		if err != nil {
			return err
		}
		out, w := collect(t)
		p, err := s.Start(t.Context(), c, []*os.File{w, w, w})
		_ = w.Close()
		if err == nil {
			_, err = p.Wait(t.Context())
			<-out.done
		}
		return err
	}
	for name, c := range map[string]struct {
		do   func() error
		want agentkernel.Code
	}{"trees": {show, ""}, "a whole program": {whole, agentkernel.CodeCrashed}} {
		if err := show(); err != nil {
			t.Fatal(err)
		}
		s.mu.Lock()
		h := s.helper
		s.mu.Unlock()
		if err := h.cmd.Process.Signal(unix.SIGSTOP); err != nil { // it hears the question, and never answers
			t.Fatal(err)
		}
		answered := make(chan error)
		go func() { answered <- c.do() }()
		until(t, "it was asked", func() bool {
			h.mu.Lock()
			defer h.mu.Unlock()
			return len(h.waiting) > 0
		})
		_ = h.cmd.Process.Kill()
		if err := <-answered; agentkernel.CodeOf(err) != c.want {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	for times, want := range []agentkernel.Code{askTries - 1: "", askTries: agentkernel.CodeUnavailable} {
		if times < askTries-1 {
			continue
		}
		for name, do := range map[string]func() error{"trees": show, "a whole program": whole} {
			if err := show(); err != nil {
				t.Fatal(err)
			}
			s.mu.Lock()
			h := s.helper
			s.mu.Unlock()
			h.end()
			killed.left = times
			if err := do(); agentkernel.CodeOf(err) != want {
				t.Errorf("%s, %d spawners killed as they start: %v, want %q", name, times, err, want)
			}
			killed.left = 0
		}
	}
}

// killedSpawners kills what it starts, as often as left says.
type killedSpawners struct {
	plain
	left int
}

func (k *killedSpawners) Start(cmd *exec.Cmd) error {
	err := k.plain.Start(cmd)
	if err == nil && k.left > 0 {
		k.left--
		k.Kill(cmd)
	}
	return err
}

// TestSandboxesGoFirst: where memory runs out, what runs in a sandbox is killed before the process with which all sandboxes would end, and that before
// the kernel.
func TestSandboxesGoFirst(t *testing.T) { bothUsers(t, testSandboxesGoFirst) }

func testSandboxesGoFirst(t *testing.T) {
	if own, err := readInt("/proc/self/" + scoreFile); err != nil || own >= spawnerScore {
		t.Skipf("the tests have %d: %v", own, err)
	}
	s := newSpawner(t)
	r := launchWhole(t, s, pythonConfig(t, "import time\ntime.sleep(1000)"))
	score := func(pid string) int64 {
		n, err := readInt("/proc/" + pid + "/oom_score_adj")
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	status, err := readSmall("/proc/" + strconv.Itoa(r.pid) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	_, parent, _ := strings.Cut(string(status), "\nPPid:\t")
	spawner, _, _ := strings.Cut(parent, "\n")
	kernel, above, own := score("self"), score(spawner), score(strconv.Itoa(r.pid))
	if kernel >= above || above >= own {
		t.Errorf("the kernel %d, the spawner %d, a sandbox %d", kernel, above, own)
	}
	for _, pid := range treeOf(r.pid) {
		if n := score(strconv.Itoa(pid)); n != own {
			t.Errorf("in the sandbox one has %d, another %d", n, own)
		}
	}
}
