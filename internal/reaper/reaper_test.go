package reaper

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/internal/inherited"
	"agentkernel/internal/quickexit"
)

// The test binary plays a kernel when this variable names a records directory: it starts the script of the
// second variable and waits to be killed.
const (
	envKernel = "REAPER_TEST_KERNEL"
	envScript = "REAPER_TEST_SCRIPT"
	envGuard  = "REAPER_TEST_GUARD" // not "": below a guard
)

func TestMain(m *testing.M) {
	quickexit.Main()
	Main() // does not return in a guard
	if dir := os.Getenv(envKernel); dir != "" {
		playKernel(dir, os.Getenv(envScript))
	}
	inherited.Keep() // tests compare what commands have open
	os.Exit(m.Run())
}

func playKernel(dir, script string) {
	r, err := New(dir, "k-"+strconv.Itoa(os.Getpid()))
	if err == nil {
		cmd := exec.Command("sh", "-c", script)
		alive := os.NewFile(3, "alive")
		cmd.ExtraFiles = []*os.File{alive}
		start := r.Start
		if os.Getenv(envGuard) != "" {
			start = r.Guarded().Start
		}
		if err = start(cmd); err == nil {
			_, err = alive.WriteString("started\n")
		}
	}
	if err != nil {
		_, _ = os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
	_, _ = os.Stdin.Read(make([]byte, 1))
}

// witness is a pipe whose write end every process of a test inherits as descriptor 3: end of file comes
// when the last of them is gone, however they hid. Processes write a line when they are where they should be.
type witness struct {
	r, w  *os.File
	lines *bufio.Reader
}

func newWitness(t *testing.T) *witness {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close(); _ = w.Close() })
	// A test that waits for ever says nothing; one that misses its deadline does.
	if err := r.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return &witness{r: r, w: w, lines: bufio.NewReader(r)}
}

// await waits for n lines, then lets go of the test's own end.
func (w *witness) await(t *testing.T, n int) {
	t.Helper()
	for range n {
		if line, err := w.lines.ReadString('\n'); err != nil {
			t.Fatalf("processes did not come up: %q, %v", line, err)
		}
	}
	_ = w.w.Close()
}

func (w *witness) allGone(t *testing.T) {
	t.Helper()
	if rest, err := io.ReadAll(w.lines); err != nil || len(rest) > 0 {
		t.Fatalf("processes are left, or had an effect: %q, %v", rest, err)
	}
}

// goneAtOnce is allGone for what must be gone already: the effect would come later.
func (w *witness) goneAtOnce(t *testing.T) {
	t.Helper()
	if err := w.r.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	w.allGone(t)
}

// Scripts that leave descendants behind; each ends with `wait` for a pipe that never speaks, or by itself.
// An effect would follow two seconds later.
var scripts = []struct {
	name     string
	script   string
	lines    int  // written when all are up
	linux    bool // needs the mark in the environment
	leftover int  // processes that outlive the leader
}{
	{"one process", `echo up >&3; sleep 60`, 1, false, 0},
	{"children in the group", `(echo up >&3; sleep 60) & (echo up >&3; sleep 60) & echo up >&3; wait`, 3, false, 2},
	{"leader gone, group stays", `(echo up >&3; sleep 60) & :`, 1, false, 1},
	{"leader gone, group without the mark", `env -i /bin/sh -c 'echo up >&3; sleep 60' & :`, 1, false, 1},
	{"own session, parent alive", `setsid sh -c 'echo up >&3; sleep 60' & wait`, 1, true, 1},
	{"forked twice into its own session", `(setsid sh -c 'echo up >&3; sleep 2; echo effect >&3' &) ; echo up >&3; sleep 60`, 2, true, 1},
	{"forked twice, leader gone", `(setsid sh -c '(setsid sh -c "echo up >&3; sleep 2; echo effect >&3") & echo up >&3; sleep 60' &)`, 2, true, 2},
}

func newReaper(t *testing.T) *Reaper {
	t.Helper()
	r, err := New(t.TempDir(), "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func startScript(t *testing.T, r *Reaper, script string, alive *os.File) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sh", "-c", script)
	cmd.ExtraFiles = []*os.File{alive}
	if err := r.Start(cmd); err != nil {
		t.Fatal(err)
	}
	return cmd
}

func TestKillTakesEveryDescendant(t *testing.T) {
	for _, tc := range scripts {
		t.Run(tc.name, func(t *testing.T) {
			if tc.linux && runtime.GOOS != "linux" {
				t.Skip("marks are read on Linux only")
			}
			for _, waited := range []bool{false, true} {
				r, w := newReaper(t), newWitness(t)
				cmd := startScript(t, r, tc.script, w.w)
				w.await(t, tc.lines)
				if waited && strings.HasPrefix(tc.name, "leader gone") {
					_ = cmd.Wait() // as a caller does who notices the end before anything else
					r.Kill(cmd)
				} else {
					r.Kill(cmd)
					_ = cmd.Wait()
				}
				w.allGone(t)
				r.Kill(cmd) // safe again
				if names, _ := filepath.Glob(filepath.Join(r.dir, "[0-9]*")); len(names) != 0 {
					t.Errorf("records left: %v", names)
				}
			}
		})
	}
}

func TestKillSparesSiblings(t *testing.T) {
	r, mine, other := newReaper(t), newWitness(t), newWitness(t)
	a := startScript(t, r, scripts[5].script, mine.w)
	b := startScript(t, r, `echo up >&3; read x; echo done >&3`, other.w)
	mine.await(t, 2)
	other.await(t, 1)
	r.Kill(a)
	_ = a.Wait()
	mine.allGone(t)
	if p, ok := look(b.Process.Pid); !ok {
		t.Errorf("a sibling is gone too: %+v", p)
	}
	r.Kill(b)
	_ = b.Wait()
}

func TestSurvivorsOfAKilledKernel(t *testing.T) {
	for _, tc := range scripts {
		t.Run(tc.name, func(t *testing.T) {
			if runtime.GOOS != "linux" {
				t.Skip("marks are read on Linux only")
			}
			dir, w := t.TempDir(), newWitness(t)
			kernel := exec.Command(os.Args[0])
			kernel.Env = append(os.Environ(), envKernel+"="+dir, envScript+"="+tc.script)
			kernel.ExtraFiles = []*os.File{w.w}
			kernel.Stderr = os.Stderr
			stdin, err := kernel.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = stdin.Close() }()
			if err := kernel.Start(); err != nil {
				t.Fatal(err)
			}
			w.await(t, tc.lines+1)
			_ = kernel.Process.Kill()
			// Not waited for: to its parent a killed kernel may stay a zombie for long.
			n, err := KillSurvivors(dir)
			if err != nil || n < tc.leftover {
				t.Errorf("KillSurvivors = %d, %v; %d were left for sure", n, err, tc.leftover)
			}
			w.allGone(t)
			_ = kernel.Wait()
			if names, _ := os.ReadDir(dir); len(names) != 0 {
				t.Errorf("records left: %v", names)
			}
			if n, err := KillSurvivors(dir); n != 0 || err != nil {
				t.Errorf("a second time: %d, %v", n, err)
			}
		})
	}
}

func TestDirectChildrenDieWithTheKernelUnaided(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("no parent-death signal")
	}
	w := newWitness(t)
	kernel := exec.Command(os.Args[0])
	kernel.Env = append(os.Environ(), envKernel+"="+t.TempDir(), envScript+"=echo up >&3; exec sleep 60")
	kernel.ExtraFiles = []*os.File{w.w}
	stdin, err := kernel.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stdin.Close() }()
	if err := kernel.Start(); err != nil {
		t.Fatal(err)
	}
	w.await(t, 2)
	_ = kernel.Process.Kill()
	_ = kernel.Wait()
	w.allGone(t)
}

func TestChildrenOutliveTheThreadThatAsked(t *testing.T) {
	r, w := newReaper(t), newWitness(t)
	asked := make(chan *exec.Cmd)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		cmd := exec.Command("cat")
		in, err1 := cmd.StdinPipe()
		out, err2 := cmd.StdoutPipe()
		if err := errors.Join(err1, err2, r.Start(cmd)); err != nil {
			t.Error(err)
		}
		go func() { // after the thread has gone, the child still answers
			_, _ = io.WriteString(in, "up\n")
			line, _ := bufio.NewReader(out).ReadString('\n')
			_, _ = io.WriteString(w.w, line)
			asked <- cmd
		}()
	}()
	cmd := <-asked
	w.await(t, 1)
	r.Kill(cmd)
	_ = cmd.Wait()
}

func TestReusedPIDsAreNotTouched(t *testing.T) {
	innocent := exec.Command("cat")
	innocent.SysProcAttr = nil
	confine(innocent, true) // its own group, so that the group's number matches too
	in, err := innocent.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := innocent.Start(); err != nil {
		t.Fatal(err)
	}
	p, ok := look(innocent.Process.Pid)
	if !ok {
		t.Fatal("the process is not there")
	}
	for name, c := range map[string]struct {
		boot string
		rec  child
	}{
		"another start time":  {boot(), child{PID: p.pid, Start: p.start - 100, Session: p.session, Mark: "old/1"}},
		"another boot":        {"another", child{PID: p.pid, Start: p.start, Session: p.session, Mark: "old/1"}},
		"no start time":       {boot(), child{PID: p.pid, Session: p.session, Mark: "old/1"}},
		"the test itself":     {boot(), self(t)},
		"the test's ancestor": {boot(), parent(t)},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			own := filepath.Join(dir, "old")
			if err := os.Mkdir(own, 0o700); err != nil {
				t.Fatal(err)
			}
			writeJSON(t, filepath.Join(own, kernelFile), kernelRecord{PID: 1 << 30, Start: 1, Boot: c.boot})
			c.rec.save(own)
			if n, err := KillSurvivors(dir); n != 0 || err != nil {
				t.Errorf("KillSurvivors = %d, %v", n, err)
			}
		})
	}
	_ = in.Close()
	if err := innocent.Wait(); err != nil {
		t.Errorf("the innocent process did not end by itself: %v", err)
	}
}

func self(t *testing.T) child {
	p, ok := look(os.Getpid())
	if !ok {
		t.Fatal("no self")
	}
	return child{PID: p.pid, Start: p.start, Session: p.session, Mark: "old/1"}
}

func parent(t *testing.T) child {
	p, ok := look(os.Getppid())
	if !ok {
		t.Fatal("no parent")
	}
	return child{PID: p.pid, Start: p.start, Session: p.session, Mark: "old/1"}
}

// alive starts a process that nobody here may end. done ends it, and says how it ended.
func alive(t *testing.T) (p proc, done func() error) {
	t.Helper()
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	p, _ = look(cmd.Process.Pid)
	return p, func() error {
		_ = in.Close()
		return cmd.Wait()
	}
}

func TestLivingKernelIsNotTakenForDead(t *testing.T) {
	p, done := alive(t)
	defer func() { _ = done() }()
	ctx, cancel := contextWithin(t, 20*time.Millisecond)
	defer cancel()
	err := awaitKernel(ctx, kernelRecord{PID: p.pid, Start: p.start, Boot: boot()})
	if agentkernel.CodeOf(err) != agentkernel.CodeConflict {
		t.Errorf("awaitKernel = %v", err)
	}
}

// TestACopyOfALivingKernelsRecords: who copies the data directory of a kernel that runs has its records there, too: it is neither waited
// for nor ended, nor are its children.
func TestACopyOfALivingKernelsRecords(t *testing.T) {
	p, done := alive(t)
	dir := t.TempDir()
	own := filepath.Join(dir, "old")
	if err := os.Mkdir(own, 0o700); err != nil {
		t.Fatal(err)
	}
	if numberOf(own) == "" || numberOf(own) == numberOf(dir) {
		t.Fatalf("%q %q", numberOf(own), numberOf(dir))
	}
	writeJSON(t, filepath.Join(own, kernelFile), kernelRecord{PID: p.pid, Start: p.start, Boot: boot(), At: numberOf(dir)})
	child{PID: p.pid, Start: p.start, Session: p.session, Mark: "old/1"}.save(own)
	if n, err := KillSurvivors(dir); n != 0 || err != nil {
		t.Errorf("KillSurvivors = %d, %v", n, err)
	}
	if _, err := os.Stat(own); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the records are still there: %v", err)
	}
	if err := done(); err != nil {
		t.Errorf("the process of the other kernel did not end by itself: %v", err)
	}
}
