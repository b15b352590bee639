package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agentkernel/internal/tool/tooltest"
)

// unshared gives the command that runs another one without any network, nil if that is not permitted here.
func unshared(t *testing.T) []string {
	t.Helper()
	for _, command := range [][]string{{"unshare", "-n"}, {"unshare", "-rn"}} {
		// Proved, not believed: of the interfaces only a loopback that is down is left.
		out, err := exec.Command(command[0], append(command[1:], "cat", "/proc/net/dev")...).Output()
		if err == nil && strings.Count(string(out), ":") == 1 && strings.Contains(string(out), "lo:") {
			return command
		}
	}
	const msg = "SKIPPED, NOTHING PROVED: unshare -n is not permitted here, so a replay without network was not tried"
	if os.Getenv("CI") == "true" {
		t.Fatal(msg)
	}
	t.Skip(msg)
	return nil
}

// TestReplayWithoutToolsAndNetwork: a run of forty calls that failed at the 31st is exported, and replays equal from
// an empty data directory, without its tool server, its configuration or any network.
func TestReplayWithoutToolsAndNetwork(t *testing.T) {
	command := unshared(t)
	dir := t.TempDir()
	home := func(name string) string {
		path := filepath.Join(dir, name)
		t.Cleanup(func() { stopKernelOf(path) })
		return path
	}
	here, there := home("here"), home("there")
	config := filepath.Join(dir, "mcp.json")
	tooltest.WriteConfig(t, config, map[string]tooltest.Server{"demo": tooltest.Stdio(t)})
	program := filepath.Join(dir, "steps.py")
	source := `
import asyncio, random, time
from tools.demo import append_line
from tools.demo.aio import add
async def sums():
    return sum(r["sum"] for r in await asyncio.gather(*(add(a=i, b=1) for i in range(5))))
print(asyncio.run(sums()), random.random(), time.time())
for i in range(6, 41):
    append_line(path=` + "'" + dir + `/' + ('missing/' if i == 31 else '') + "log.txt", text=str(i))
`
	if err := os.WriteFile(program, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(want int, args ...string) string {
		t.Helper()
		cmd := exec.Command(args[0], args[1:]...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		cmd.Env = append(os.Environ(), "AGENTKERNEL_ENGINE="+engineForTests(t), "HOME="+dir)
		out, err := cmd.Output()
		if got := exitStatus(err); got != want {
			t.Fatalf("%q ended with %d, want %d\n%s%s", args, got, want, out, stderr.Bytes())
		}
		return string(out)
	}
	run(1, "agentkernel", "run", program, "--tools", config, "--allow", "demo", "--home", here)
	file := filepath.Join(dir, "bug.akr")
	run(0, "agentkernel", "export", "1", "-o", file, "--home", here)
	stopKernelOf(here)
	for _, path := range []string{config, program, filepath.Join(dir, "log.txt")} {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	for _, where := range [][]string{{"--home", there}, {"--home", home("embedded"), "--embedded"}} {
		args := append(append([]string{}, command...), append([]string{"agentkernel", "replay", file}, where...)...)
		if out := run(0, args...); !strings.HasPrefix(out, "equal · steps.py · 3") {
			t.Errorf("%v: %s", where, out)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "log.txt")); err == nil {
		t.Error("the replay wrote to the log")
	}
	altered, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	altered[len(altered)/2] ^= 1
	if err := os.WriteFile(file, altered, 0o600); err != nil {
		t.Fatal(err)
	}
	run(2, "agentkernel", "replay", file, "--home", there)
}
