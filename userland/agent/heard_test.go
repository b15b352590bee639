package agent_test

import (
	"encoding/json"
	"strings"
	"testing"

	"agentkernel"
	"agentkernel/userland/agent"
)

const currencies = `
rules:
  - when: {turn: 1}
    answer: {text: I add them., calls: [{name: run_python, arguments: {code: "print(40 + 2)"}}]}
  - when: {turn: 2, user: use euros, anywhere: "42"}
    answer: {calls: [{name: finish, arguments: {result: 42 euros}}]}
  - when: {turn: 3, user: and say it in words, tool_result: the task goes on}
    answer: {text: "FINAL: forty-two euros"}
  - when: {turn: 4, user: 'Nine tenths of what the task may spend are spent (usd). End it soon'}
    answer: {calls: [{name: finish, arguments: {result: forty-two euros}}]}
default: {error: {status: 400, message: this was not to be shown}}
`

// TestHeard: what a task is told while the model thinks reaches it with the next turn, behind the results of its calls, and makes it go on
// where the model has just ended it. That little is left of a budget does not: it ends anyway.
func TestHeard(t *testing.T) {
	r := newRig(t, currencies)
	warning := map[string]any{"budget": map[string]any{"amount": "usd", "spent": 1.85}}
	said := []any{"use euros", "and say it in words", warning, 12}
	r.before = func() {
		if len(said) == 0 {
			return
		}
		running, err := r.kernel.List(t.Context(), agentkernel.Filter{Unfinished: true})
		if err != nil || len(running) != 1 {
			t.Errorf("%d run: %v", len(running), err)
			return
		}
		payload, err := json.Marshal(said[0])
		if err == nil {
			err = r.kernel.Signal(t.Context(), running[0].PID, agentkernel.SignalUser, agentkernel.SignalOptions{Payload: payload})
		}
		if said = said[1:]; err != nil {
			t.Error(err)
		}
	}
	p, stdout, stderr := r.do(agent.Task{Text: "Add 40 and 2."}, nil)
	if p.ExitCode != 0 || stdout != "forty-two euros\n" || len(said) != 1 {
		t.Errorf("exit code %d, %q, %d were not said: %s", p.ExitCode, stdout, len(said), stderr)
	}
	for _, line := range []string{"  told: use euros\n", "  told: and say it in words\n", "  nine tenths of a budget are spent: usd\n"} {
		if strings.Count(stderr, line) != 1 {
			t.Errorf("%q is not shown once: %s", line, stderr)
		}
	}
}
