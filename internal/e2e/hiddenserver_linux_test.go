package e2e_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"agentkernel/internal/tool/tooltest"
)

// What a tool server has put into another session, without environment and without a parent, ends with its kernel: the next one
// finds nothing of it at work.
func TestAServerThatHidesEndsWithItsKernel(t *testing.T) {
	dir, file := home(t), filepath.Join(t.TempDir(), "pid")
	hidden := `env -i setsid -f sh -c 'echo $$ >"$0.new"; mv "$0.new" "$0"; exec sleep 600' "$0"
until test -s "$0"; do sleep 0.02; done
exec "$1"`
	cfg := tooltest.Config(t, map[string]tooltest.Server{"test": {"command": "sh", "args": []string{"-c", hidden, file, tooltest.Build(t)}}})
	v := startVictim(t, dir)
	s := program("from tools.test import echo\nprint(echo(value=7))")
	s.Tools, s.Allow = []string{cfg}, []string{"test.*"}
	p, err := v.client(t, dir).Spawn(t.Context(), s)
	if err == nil {
		p, err = v.client(t, dir).Wait(t.Context(), p.PID)
	}
	if err != nil || p.Error != nil {
		t.Fatal(p.Error, err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || syscall.Kill(pid, 0) != nil {
		t.Fatalf("the hidden process is not there: %s, %v", b, err)
	}
	v.kill()
	startVictim(t, dir)
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d outlives its kernel: %v", pid, err)
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}
