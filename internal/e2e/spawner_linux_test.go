package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/embedded"
	"agentkernel/internal/sandbox/confine"
)

// A program in CPython outlives the spawner of its sandbox, whether that is killed as it starts, while the program runs or while it is
// recovered: it does nothing twice and prints nothing twice.
func TestSpawnerIsKilled(t *testing.T) {
	far, dir := &book{lines: map[string]int{}}, home(t)
	open := func() *embedded.Kernel {
		return openEmbedded(t, dir, withSandboxes(t), func(c *embedded.Config) {
			c.Tools = func([]string) (agentkernel.ToolSource, error) { return far, nil }
		})
	}
	k := open()
	const lines = 100
	s := program(fmt.Sprintf("from tools.book import write\nfrom kernel import sleep\nfor i in range(%d):\n    write(line=str(i))\n    print(i)\n    sleep(0.02)", lines))
	s.Backend, s.Tools, s.Allow = "process", []string{"/book.json"}, []string{"book"}
	killed := killSpawners(t, 2) // as they start
	p, err := k.Spawn(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	<-killed
	written := func(n int) func() bool {
		return func() bool {
			far.mu.Lock()
			defer far.mu.Unlock()
			return len(far.lines) >= n
		}
	}
	eventually(t, "it runs", written(10))
	<-killSpawners(t, 1)
	eventually(t, "it runs again", written(20))
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	k = open()
	killed = killSpawners(t, 2)
	if _, err := k.Recover(t.Context(), p.PID); err != nil {
		t.Fatal(err)
	}
	<-killed
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if p, err = k.Wait(ctx, p.PID); err != nil || p.State != agentkernel.StateExited {
		t.Fatalf("%+v, error %v, %v", p, p.Error, err)
	}
	var want strings.Builder
	for i := range lines {
		fmt.Fprintln(&want, i)
		if n := far.lines[fmt.Sprintf(`{"line":"%d"}`, i)]; n != 1 {
			t.Errorf("line %d was written %d times", i, n)
		}
	}
	if out := stdoutOf(t, k, p.PID); out != want.String() {
		t.Errorf("it printed %q", out)
	}
}

// killSpawners kills so many spawners of this process as soon as it sees them.
func killSpawners(t *testing.T, times int) (done <-chan struct{}) {
	t.Helper()
	killed, before := make(chan struct{}), 0
	go func() {
		defer close(killed)
		for left := times; left > 0 && t.Context().Err() == nil; {
			for _, pid := range childrenOf(t, os.Getpid()) {
				line, _ := os.ReadFile(filepath.Join("/proc", fmt.Sprint(pid), "cmdline"))
				if pid != before && left > 0 && strings.Contains(string(line), confine.Argument) && syscall.Kill(pid, syscall.SIGKILL) == nil {
					before = pid
					left--
				}
			}
		}
	}()
	return killed
}
