package agent_test

import (
	"strings"
	"testing"

	"agentkernel/userland/agent"
)

const loops = `
rules:
  - when: {turn: 1}
    answer: {calls: [{name: run_python, arguments: {code: "from tools.test import append_line\nfor n in range(70):\n    try:\n        append_line(path='x', text='y')\n    except PermissionError:\n        pass"}}]}
  - when: {turn: 2, tool_result: '/limit_exceeded: repeats limit reached: test.append_line was made 50 times in a row/'}
    answer: {calls: [{name: finish, arguments: {result: it is denied}}]}
default: {error: {status: 400, message: this was not to be shown}}
`

// TestAStuckProgram: a program that makes the same call over and over ends, and the model is told why. The task waited for it, and nobody was told.
func TestAStuckProgram(t *testing.T) {
	r := newRig(t, loops)
	p, stdout, stderr := r.do(agent.Task{Text: "Write a line."}, nil)
	if p.ExitCode != 0 || stdout != "it is denied\n" || !strings.Contains(stderr, "  failed: limit_exceeded: repeats limit reached: test.append_line") {
		t.Errorf("exit code %d, %q: %s", p.ExitCode, stdout, stderr)
	}
}
