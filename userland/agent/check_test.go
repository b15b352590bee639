package agent_test

import (
	"encoding/json"
	"testing"

	"agentkernel"
	"agentkernel/internal/tool/tooltest"
	"agentkernel/userland/agent"
)

const capital = `
rules:
  - when: {turn: 1}
    answer: {text: I look it up., calls: [{name: run_python, arguments: {code: "print('ro' + 'me')"}}]}
  - when: {turn: 2, tool_result: rome}
    answer: {calls: [{name: finish, arguments: {result: rome}}]}
  - when: {turn: 3, tool_result: 'the result is not accepted: it is written in small letters. Look again'}
    answer: {text: "FINAL: ROME"}
  - when: {turn: 4, user: 'the result is not accepted: too loud. Look again'}
    answer: {text: "FINAL: Rome"}
default: {error: {status: 400, message: this was not to be shown}}
`

// TestChecked: who has started a task hears of its steps, and each result waits until he has said what is wrong with it. What is said of another
// result counts for nothing.
func TestChecked(t *testing.T) {
	r := newRig(t, capital)
	program, err := agent.Program(agent.Task{Text: "What is the capital of Italy?", Steps: true, Checked: true})
	if err != nil {
		t.Fatal(err)
	}
	var steps, values []any
	answers := map[int]string{1: "it is written in small letters", 2: "too loud", 3: ""}
	tools := []string{tooltest.Config(t, map[string]tooltest.Server{"test": tooltest.Stdio(t)})}
	p, err := r.kernel.Run(t.Context(), agentkernel.Spec{Program: program, Tools: tools, Budget: agentkernel.Budget{Turns: agent.Turns}}, func(e agentkernel.Event) error {
		line, ok := agent.ReadStep(e.Text)
		if e.Kind != agentkernel.EventLog || !ok {
			return nil
		}
		switch line.Kind {
		case "turn":
			steps = append(steps, line.Turn, line.Text)
		case "program":
			steps = append(steps, line.Code, line.ProgramPID != 0)
		case "output":
			steps = append(steps, line.Text)
		case "result":
			steps = append(steps, line.Result)
		case "checked":
			values = append(values, line.Number)
		case "check":
			values = append(values, line.Result)
			for _, payload := range []any{map[string]any{"result": line.Number - 1, "wrong": "late"}, 12, map[string]any{"result": line.Number, "wrong": answers[line.Number]}} {
				b, err := json.Marshal(payload)
				if err != nil {
					return err
				}
				if err := r.kernel.Signal(t.Context(), e.PID, agentkernel.SignalUser, agentkernel.SignalOptions{Payload: b}); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil || string(p.Result) != `"Rome"` {
		t.Fatalf("%s %v %v", p.Result, p.Error, err)
	}
	if got, want := text(t, steps), `[1,"I look it up.","print('ro' + 'me')",true,"rome\n",2,"",3,"FINAL: ROME",4,"FINAL: Rome","Rome"]`; got != want {
		t.Errorf("steps %s, want %s", got, want)
	}
	if got, want := text(t, values), `["rome",1,"ROME",2,"Rome",3]`; got != want {
		t.Errorf("results %s, want %s", got, want)
	}
}

func text(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
