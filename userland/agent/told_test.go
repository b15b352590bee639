package agent_test

import (
	"encoding/json"
	"strings"
	"testing"

	"agentkernel"
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

// said is a line of the log of a task.
type said struct {
	Step *struct {
		Turn                         int
		Said, Program, Output, Error string
		Result                       any
		PID                          agentkernel.PID
	}
	Result *struct {
		Number int
		Value  any
	}
	Answered int
}

// TestTold: who has started a task hears of its steps, and each result waits until he has said what is wrong with it. What is said of another
// result counts for nothing.
func TestTold(t *testing.T) {
	r := newRig(t, capital)
	program, err := agent.Program(agent.Task{Text: "What is the capital of Italy?", Steps: true, Checked: true})
	if err != nil {
		t.Fatal(err)
	}
	var lines []said
	answers := map[int]string{1: "it is written in small letters", 2: "too loud", 3: ""}
	p, err := r.kernel.Run(t.Context(), agentkernel.Spec{Program: program, Budget: agentkernel.Budget{Turns: agent.Turns}}, func(e agentkernel.Event) error {
		if e.Kind != agentkernel.EventLog {
			return nil
		}
		var line struct{ Task said }
		if err := json.Unmarshal([]byte(strings.TrimPrefix(e.Text, "debug: ")), &line); err != nil {
			t.Errorf("%s: %v", e.Text, err)
		}
		lines = append(lines, line.Task)
		if line.Task.Result == nil {
			return nil
		}
		n := line.Task.Result.Number
		for _, payload := range []any{map[string]any{"result": n - 1, "wrong": "late"}, "noise", map[string]any{"result": n, "wrong": answers[n]}} {
			b, err := json.Marshal(payload)
			if err != nil {
				return err
			}
			if err := r.kernel.Signal(t.Context(), e.PID, agentkernel.SignalUser, agentkernel.SignalOptions{Payload: b}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || string(p.Result) != `"Rome"` {
		t.Fatalf("%s %v %v", p.Result, p.Error, err)
	}
	var steps, values []any
	for _, line := range lines {
		switch {
		case line.Step != nil && line.Step.Program != "":
			steps = append(steps, line.Step.Said, line.Step.Output, line.Step.PID > p.PID)
		case line.Step != nil:
			steps = append(steps, line.Step.Turn, line.Step.Result)
		case line.Result != nil:
			values = append(values, line.Result.Value)
		default:
			values = append(values, line.Answered)
		}
	}
	if got, want := text(t, steps), `["I look it up.","rome\n",true,4,"Rome"]`; got != want {
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
