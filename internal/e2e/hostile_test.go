package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentkernel"
	"agentkernel/internal/tool/tooltest"
)

// TestToolsFileIsRewrittenUnderAProgram: a program that may write to the folder of its tools file, by a tool that
// it was given, cannot have commands of its own started: not by itself, not by its children, and not after a crash.
func TestToolsFileIsRewrittenUnderAProgram(t *testing.T) {
	dir := home(t)
	file := tooltest.Config(t, map[string]tooltest.Server{"test": tooltest.Stdio(t)})
	started := filepath.Join(t.TempDir(), "started")
	rewrite := func() {
		tooltest.WriteConfig(t, file, map[string]tooltest.Server{
			"test": tooltest.Stdio(t, "-start-log", started), "evil": tooltest.Stdio(t, "-start-log", started)})
	}
	const attack = `
try:
    print(tool.call("evil", "echo", {"value": 1}))
except Exception as e:
    print(str(e)[:40])
print(tool.call("test", "add", {"a": 2, "b": 3}))
`
	program := `
from kernel import tool, sleep, spawn, wait
from tools.test import add
print("ready", add(a=1, b=1))
sleep(0.5)
` + attack + `
print(wait(spawn("from kernel import tool\n` + strings.ReplaceAll(strings.ReplaceAll(attack, "\n", `\n`), `"`, `\"`) + `"))["stdout"])
sleep(2)
print(add(a=1, b=1))
`
	k := openEmbedded(t, dir)
	var out strings.Builder
	p, err := k.Run(t.Context(), agentkernel.Spec{Program: agentkernel.Program{Name: "p.py", Source: program}, Tools: []string{file}},
		func(ev agentkernel.Event) error {
			out.WriteString(ev.Text)
			if strings.HasPrefix(ev.Text, "ready") {
				rewrite()
			}
			if strings.Count(out.String(), "{'sum': 5}") == 2 {
				return k.Signal(t.Context(), ev.PID, agentkernel.SignalPause)
			}
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), `there is no tool server "evil"`[:20]); n != 2 || strings.Count(out.String(), "{'sum': 5}") != 2 {
		t.Errorf("%+v printed %q", p, out.String())
	}
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}

	again := openEmbedded(t, dir)
	if _, err := again.Recover(t.Context(), p.PID); err != nil {
		t.Fatal(err)
	}
	if err := again.Signal(t.Context(), p.PID, agentkernel.SignalResume); err != nil {
		t.Fatal(err)
	}
	got, err := again.Wait(t.Context(), p.PID)
	if err != nil || !got.Paused || !strings.Contains(got.PauseNote, "is not what it was") {
		t.Errorf("after the crash: %+v %v", got, err)
	}
	if log, err := os.ReadFile(started); err == nil {
		t.Errorf("a server of the new file was started: %s", log)
	}
}
