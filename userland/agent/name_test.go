package agent_test

import (
	"testing"

	"agentkernel/userland/agent"
)

// A process that does a task is called by the first words of the task.
func TestNameOfATask(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Count.":                                 "Count.",
		"  Make a\n chart\x1b[2J of sales.csv ":  "Make a chart [2J of sales.csv",
		"Which region of sales.csv grew fastest": "Which region of sales.csv grew…",
		"a, b, c, and then all of the others in": "a, b, c, and then all of the…",
		"äöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäöü": "äöüäöüäöüäöüäöüäöüäöüäöüäöüäöüäö…",
		"\x00": "task",
	} {
		p, err := agent.Program(agent.Task{Text: text})
		if err != nil || p.Name != want {
			t.Errorf("%q is called %q, want %q: %v", text, p.Name, want, err)
		}
	}
}
