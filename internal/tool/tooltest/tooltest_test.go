package tooltest_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/internal/tool"
	"agentkernel/internal/tool/tooltest"
)

// The test server must be able to outlive its kernel, or crash tests would show too little.
func TestAnActOutlivesItsServer(t *testing.T) {
	for _, flags := range [][]string{{"-delay", "300ms"}, {"-delay", "300ms", "-outlive"}} {
		t.Run(flags[len(flags)-1], func(t *testing.T) {
			pids := filepath.Join(t.TempDir(), "pids")
			lines := filepath.Join(t.TempDir(), "lines")
			hub, err := tool.New(tool.Config{StopGrace: 10 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			defer hub.Close()
			src, err := hub.Set([]string{tooltest.Config(t, map[string]tooltest.Server{"late": tooltest.Stdio(t, append(flags, "-start-log", pids)...)})})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := src.Tools(t.Context(), "late"); err != nil { // or the start would use up the call's time
				t.Fatal(err)
			}
			args, _ := json.Marshal(map[string]any{"path": lines, "text": "late"})
			_, err = src.Call(context.Background(), agentkernel.ToolCall{Server: "late", Tool: "append_line", Arguments: args, Timeout: 100 * time.Millisecond})
			if agentkernel.CodeOf(err) != agentkernel.CodeTimeout {
				t.Fatal(err)
			}
			var pid int
			if b, err := os.ReadFile(pids); err != nil {
				t.Fatal(err)
			} else if err := json.Unmarshal(b, &pid); err != nil {
				t.Fatal(err)
			}
			if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if err := hub.Close(); err != nil { // closes its stdin and waits: it ends only when it has acted
				t.Fatal(err)
			}
			if b, err := os.ReadFile(lines); err != nil || string(b) != "late\n" {
				t.Errorf("%q, %v: the line was not written after SIGTERM and the end of stdin", b, err)
			}
		})
	}
}
