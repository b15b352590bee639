package datadir

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/internal/quickexit"
)

// TestMain lets the test binary play the kernel that is killed: it takes the lock, says so and waits.
func TestMain(m *testing.M) {
	quickexit.Main()
	if path := os.Getenv("DATADIR_TEST_HOLD"); path != "" {
		holdForEver(path)
	}
	os.Exit(m.Run())
}

func holdForEver(path string) {
	d, err := Open(path)
	if err == nil {
		_, err = d.Lock(Holder{OSPID: os.Getpid(), Version: "9.9", Mode: "background", Started: time.Now()})
	}
	if err != nil {
		_, _ = os.Stdout.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
	_, _ = os.Stdout.WriteString("held\n")
	if os.Getenv("DATADIR_TEST_HEIR") != "" {
		bequeath(path)
	}
	_, _ = os.Stdin.Read(make([]byte, 1)) // until the test ends or kills us
}

// bequeath ends this process and leaves the lock to a child, as a kernel does that is killed while it starts
// a program. The child ends with the test's pipe.
func bequeath(path string) {
	null, err := os.Open(os.DevNull)
	if err == nil {
		// The descriptor of the lock is the one whose file that is; everything else is closed on exec.
		names, _ := os.ReadDir("/proc/self/fd")
		for _, n := range names {
			if to, _ := os.Readlink("/proc/self/fd/" + n.Name()); to == filepath.Join(path, lockFile) {
				fd, _ := strconv.Atoi(n.Name())
				cmd := exec.Command("cat")
				cmd.Stdin, cmd.Stdout = os.Stdin, null
				cmd.ExtraFiles = []*os.File{os.NewFile(uintptr(fd), "lock")}
				err = cmd.Start()
			}
		}
	}
	if err != nil {
		panic(err)
	}
	os.Exit(0)
}

func hold(t *testing.T, path string) *exec.Cmd {
	t.Helper()
	cmd, _ := holder(t, path)
	return cmd
}

// holder starts a process that holds the directory until the pipe is closed or it is killed.
func holder(t *testing.T, path string, env ...string) (*exec.Cmd, io.Closer) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), "DATADIR_TEST_HOLD="+path), env...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
		t.Fatalf("holder said %q, %v", line, err)
	}
	return cmd, in
}

// TestLockOfTheDead: a kernel was killed, and a child that it had just forked still has its descriptors.
func TestLockOfTheDead(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the test finds the descriptor in /proc")
	}
	d, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dead, child := holder(t, d.Path(), "DATADIR_TEST_HEIR=1")
	if state, err := dead.Process.Wait(); err != nil || !state.Success() {
		t.Fatal(state, err)
	}
	if _, err := d.lock(Holder{}, 0); agentkernel.CodeOf(err) != agentkernel.CodeConflict {
		t.Fatalf("the child does not hold the lock: %v", err)
	}
	got := make(chan error, 1)
	go func() {
		lock, err := d.lock(Holder{OSPID: os.Getpid()}, time.Hour)
		if err == nil {
			err = lock.Unlock()
		}
		got <- err
	}()
	if err := child.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Error(err)
	}
}

func TestLockNamesTheHolderAndOutlivesNobody(t *testing.T) {
	d, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	holder := hold(t, d.Path())

	_, err = d.Lock(Holder{OSPID: os.Getpid()})
	e := agentkernel.AsError(err, agentkernel.CodeInternal, "")
	if e == nil || e.Code != agentkernel.CodeConflict || !strings.Contains(e.Message(), "9.9") ||
		!strings.Contains(e.Message(), strconv.Itoa(holder.Process.Pid)) || e.Hint == "" {
		t.Fatalf("Lock while held: %#v", e)
	}
	if h, ok := d.Holder(); !ok || h.OSPID != holder.Process.Pid {
		t.Errorf("Holder = %+v, %v", h, ok)
	}

	// kill -9, then the lock is free although nobody tidied up.
	if err := holder.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = holder.Wait()
	if h, ok := d.Holder(); ok {
		t.Errorf("a dead holder is still named: %+v", h)
	}
	lock, err := d.Lock(Holder{OSPID: os.Getpid(), Version: "1"})
	if err != nil {
		t.Fatal(err)
	}
	if h, ok := d.Holder(); !ok || h.OSPID != os.Getpid() || h.Version != "1" {
		t.Errorf("Holder = %+v, %v", h, ok)
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	if h, ok := d.Holder(); ok {
		t.Errorf("a holder that unlocked is still named: %+v", h)
	}
}

func TestLockWait(t *testing.T) {
	d, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	first, err := d.Lock(Holder{OSPID: os.Getpid()})
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.LockWait(ended, Holder{}); agentkernel.CodeOf(err) != agentkernel.CodeConflict {
		t.Errorf("LockWait with an ended context: %v", err)
	}
	got := make(chan error, 1)
	go func() {
		second, err := d.LockWait(t.Context(), Holder{})
		if err == nil {
			err = second.Unlock()
		}
		got <- err
	}()
	if err := first.Unlock(); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Errorf("LockWait after Unlock: %v", err)
	}
}

// A killed holder leaves its line behind, and its number may be another process's. To signal that one would be a mistake.
func TestHeldLooksAtTheLock(t *testing.T) {
	d, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if h, ok := d.Held(); ok {
		t.Errorf("nobody was ever there, and %+v holds it", h)
	}
	holder := hold(t, d.Path())
	pid := holder.Process.Pid
	if h, ok := d.Held(); !ok || h.OSPID != pid {
		t.Errorf("Held = %+v, %v; want %d", h, ok, pid)
	}
	if got, want := d.HeldBy(pid), runtime.GOOS == "linux"; got != want {
		t.Errorf("HeldBy(%d) = %v", pid, got)
	}
	line, err := os.ReadFile(d.file(lockFile))
	if err != nil {
		t.Fatal(err)
	}
	mine := []byte(strings.Replace(string(line), strconv.Itoa(pid), strconv.Itoa(os.Getpid()), 1))
	if err := os.WriteFile(d.file(lockFile), mine, 0o600); err != nil {
		t.Fatal(err)
	}
	if d.HeldBy(os.Getpid()) {
		t.Error("a process that the line names, and that does not have the file, holds the lock")
	}
	if err := holder.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = holder.Wait()
	if _, ok := d.Holder(); !ok {
		t.Fatal("the line names nobody")
	}
	if h, ok := d.Held(); ok {
		t.Errorf("a dead holder's number holds the lock: %+v", h)
	}
	waiting, err := os.Open(d.file(lockFile)) // as one who waits for the lock has
	if err != nil {
		t.Fatal(err)
	}
	defer waiting.Close()
	if d.HeldBy(os.Getpid()) {
		t.Error("a process that has the file open holds the lock")
	}
}

// TestABackupIsWaitedFor: it holds the directory for a moment, and nobody can ask it for anything.
func TestABackupIsWaitedFor(t *testing.T) {
	d, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ holds, wants, hint string }{
		{ModeBackup, ModeBackup, "when that backup has ended"}, {ModeRestore, "embedded", "when that restore has ended"},
		{"serve", ModeBackup, "writes the backup itself"}, {"serve", ModeRestore, "then: agentkernel restore"}, {"serve", "embedded", "without --embedded"},
	} {
		lock, err := d.Lock(Holder{OSPID: os.Getpid(), Mode: c.holds})
		if err != nil {
			t.Fatal(err)
		}
		_, err = d.lock(Holder{OSPID: os.Getpid(), Mode: c.wants}, 0)
		if e := agentkernel.AsError(err, "", ""); e == nil || e.Code != agentkernel.CodeConflict || !strings.Contains(e.Hint, c.hint) {
			t.Errorf("%s is held, %s wants it: %+v", c.holds, c.wants, e)
		}
		got := make(chan error, 1)
		if c.holds == ModeBackup {
			go func() {
				next, err := d.Lock(Holder{OSPID: os.Getpid(), Mode: c.wants})
				if err == nil {
					err = next.Unlock()
				}
				got <- err
			}()
		} else {
			got <- nil
		}
		if err := lock.Unlock(); err != nil {
			t.Fatal(err)
		}
		if err := <-got; err != nil {
			t.Error(err)
		}
	}
}
