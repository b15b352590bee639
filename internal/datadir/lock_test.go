package datadir

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"agentkernel"
)

// TestMain lets the test binary play the kernel that is killed: it takes the lock, says so and waits.
func TestMain(m *testing.M) {
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
	_, _ = os.Stdin.Read(make([]byte, 1)) // until the test ends or kills us
}

func hold(t *testing.T, path string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "DATADIR_TEST_HOLD="+path)
	if _, err := cmd.StdinPipe(); err != nil {
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
	return cmd
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
