package tool_test

import (
	"crypto/rand"
	"testing"

	"agentkernel"
	"agentkernel/internal/reaper"
	"agentkernel/internal/tool"
	"agentkernel/internal/tool/tooltest"
)

// The kernel's own launcher: it starts, restarts and stops servers like the plain one.
func TestWithTheReaper(t *testing.T) {
	r, err := reaper.New(t.TempDir(), rand.Text())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	src := open(t, tool.Config{Launcher: r}, map[string]tooltest.Server{"test": tooltest.Stdio(t)})
	for range 2 {
		if got, err := call(t, src, "test", "echo", obj{"value": 1}); err != nil || got != `"1"` {
			t.Fatalf("%s, %v", got, err)
		}
		_, err := call(t, src, "test", "leave_child", obj{})
		wantCode(t, err, agentkernel.CodeUnavailable, "exited with status 4")
	}
	if got, err := call(t, src, "test", "env", obj{"name": reaper.EnvOwner}); err != nil || got == `""` {
		t.Errorf("the server does not carry the kernel's mark: %s, %v", got, err)
	}
}
