package agent_test

import (
	"os"
	"path/filepath"
	"testing"

	"agentkernel"
	"agentkernel/userland/agent"
)

const inParts = `
rules:
  - when: {anywhere: Sum up all, turn: 1}
    answer: {calls: [{name: run_python, arguments: {code: "open('n.txt', 'w').write('9')\nopen('mine.txt', 'w').write('1')"}}]}
  - when: {anywhere: Sum up all, turn: 2, tool_result: ended well}
    answer: {calls: [{name: delegate, arguments: {task: Read n.txt.}}]}
  - when: {anywhere: Sum up all, turn: 3, tool_result: 'n is 5'}
    answer: {calls: [{name: run_python, arguments: {code: "import os\nprint(sorted(os.listdir()), open('n.txt').read())"}}]}
  - when: {anywhere: Sum up all, turn: 4, tool_result: "['mine.txt', 'n.txt'] 9"}
    answer: {calls: [{name: finish, arguments: {result: "5"}}]}
  - when: {anywhere: Read n.txt, turn: 1, system: "working directory is the user's folder"}
    answer: {calls: [{name: run_python, arguments: {code: "import os\nprint(os.listdir(), open('n.txt').read())\nopen('n.txt', 'w').write('6')\nopen('its.txt', 'w').write('2')"}}]}
  - when: {anywhere: Read n.txt, turn: 2, tool_result: "['n.txt'] 5"}
    answer: {calls: [{name: finish, arguments: {result: n is 5}}]}
default: {error: {status: 400, message: this was not to be shown}}
`

// TestAgentsInFolder: a sub-agent sees the folder as the task found it. What it changes there waits under its own pid, and is neither the
// task's nor the user's before somebody applies it.
func TestAgentsInFolder(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "n.txt"), []byte("5"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, inParts)
	p, stdout, stderr := r.do(agent.Task{Text: "Sum up all.", Agents: 1, Folder: true}, func(s *agentkernel.Spec) {
		s.Workspace, s.Tools = &agentkernel.Workspace{Path: folder, Publish: true}, nil
	})
	if stdout != "5\n" {
		t.Fatalf("%q: %s", stdout, stderr)
	}
	list, err := r.kernel.List(t.Context(), agentkernel.Filter{Parent: p.PID})
	if err != nil || len(list) != 1 {
		t.Fatalf("%d children: %v", len(list), err)
	}
	has := func(want map[string]string) {
		t.Helper()
		names, err := os.ReadDir(folder)
		if err != nil || len(names) != len(want) {
			t.Errorf("%v: %v", names, err)
		}
		for name, text := range want {
			if b, err := os.ReadFile(filepath.Join(folder, name)); string(b) != text {
				t.Errorf("%s is %q, not %q: %v", name, b, text, err)
			}
		}
	}
	has(map[string]string{"n.txt": "9", "mine.txt": "1"}) // the task publishes, its children never do
	if c, err := r.kernel.Changes(t.Context(), list[0].PID); err != nil || c.State != agentkernel.LayerKept || len(c.Changes) != 2 {
		t.Errorf("%+v: %v", c, err)
	}
	if _, err := r.kernel.Apply(t.Context(), list[0].PID, agentkernel.ApplyOptions{Paths: []string{"its.txt"}}); err != nil {
		t.Error(err)
	}
	has(map[string]string{"n.txt": "9", "mine.txt": "1", "its.txt": "2"})
	if _, err := r.kernel.Apply(t.Context(), list[0].PID, agentkernel.ApplyOptions{}); agentkernel.CodeOf(err) != agentkernel.CodeConflict {
		t.Errorf("what both have changed is applied: %v", err)
	}
}
