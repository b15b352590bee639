package agent_test

import (
	"strings"
	"testing"

	"agentkernel"
	"agentkernel/userland/agent"
)

const colours = `
rules:
  - when: {anywhere: Compare the colours, turn: 1}
    answer:
      calls:
        - {name: delegate, arguments: {task: Count red things.}}
        - {name: delegate, arguments: {task: Count blue things., turns: 1}}
        - {name: delegate, arguments: {task: Count green things.}}
        - {name: finish, arguments: {result: too early}}
  - when: {anywhere: Compare the colours, turn: 2, tool_result: look at what the program printed}
    answer: {calls: [{name: delegate, arguments: {turns: 3}}, {name: delegate, arguments: {task: "x", turns: none}}]}
  - when: {anywhere: Compare the colours, turn: 3, tool_result: 'a number from 1 on'}
    answer: {calls: [{name: finish, arguments: {result: there are 3 red things}}]}
  - when: {anywhere: Count red, turn: 1}
    answer: {calls: [{name: run_python, arguments: {code: "print(1 + 2)"}}]}
  - when: {anywhere: Count red, turn: 2, tool_result: "3"}
    answer: {calls: [{name: finish, arguments: {result: 3 red things}}]}
  - when: {anywhere: Count blue, turn: 1}
    answer: {calls: [{name: run_python, arguments: {code: "print(4)"}}]}
default: {error: {status: 400, message: this was not to be shown}}
`

// TestAgents: parts of a task are done by children with turns of their own within its budget. What they say comes back, also why there is no
// result, and no more are started than may be.
func TestAgents(t *testing.T) {
	r := newRig(t, colours)
	p, stdout, stderr := r.do(agent.Task{Text: "Compare the colours.", Agents: 2}, nil)
	if p.ExitCode != 0 || stdout != "there are 3 red things\n" {
		t.Errorf("exit code %d, %q: %s", p.ExitCode, stdout, stderr)
	}
	for _, line := range []string{
		"  agent 1: Count red things.\n", "  agent 2: Count blue things.\n", "  agent 1 ended well · 1 line: 3 red things\n",
		"  agent 2 has no result: the task is not done: a bound is used up: ",
		"  not done: this task has no more than 2 sub-agents: do it yourself\n", "  not done: delegate takes the argument task: ",
		"  not done: turns is how many answers the sub-agent may take: a number from 1 on\n",
	} {
		if strings.Count(stderr, line) != 1 {
			t.Errorf("%q is not shown once:\n%s", line, stderr)
		}
	}
	list, err := r.kernel.List(t.Context(), agentkernel.Filter{Parent: p.PID})
	if err != nil || len(list) != 2 {
		t.Errorf("%d children: %v", len(list), err)
	}
	b, err := r.kernel.Budget(t.Context(), p.PID)
	if err != nil || b.Spent.Turns != 3+2+1 {
		t.Errorf("%+v %v", b, err)
	}
}

// TestTurnsThatNoBudgetHas: a number that the kernel does not take is the model's to mend, and no end of the task.
func TestTurnsThatNoBudgetHas(t *testing.T) {
	r := newRig(t, `
rules:
  - when: {turn: 1}
    answer: {calls: [{name: delegate, arguments: {task: Count., turns: 9223372036854775808}}, {name: delegate, arguments: {task: Count., turns: true}}]}
  - when: {turn: 2, tool_result: there is no sub-agent}
    answer: {calls: [{name: finish, arguments: {result: mended}}]}
`)
	p, stdout, stderr := r.do(agent.Task{Text: "Compare.", Agents: 2}, nil)
	if p.ExitCode != 0 || stdout != "mended\n" || strings.Count(stderr, "  not done: there is no sub-agent: ") != 2 {
		t.Errorf("exit code %d, %q: %s", p.ExitCode, stdout, stderr)
	}
}
