package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentkernel"
	"agentkernel/internal/devllm"
	"agentkernel/internal/tool/tooltest"
	"agentkernel/userland/agent"
)

// asksForALine is a model that has a program write a line, and is shown whether it was allowed.
func asksForALine(file string) string {
	return fmt.Sprintf(`
rules:
  - when: {turn: 1}
    answer: {calls: [{name: run_python, arguments: {code: "from tools.lines import append_line\nappend_line(path='%s', text='x')\nprint('written')"}}]}
  - when: {turn: 2, tool_result: '/It printed:\nwritten/'}
    answer: {calls: [{name: finish, arguments: {result: it was allowed}}]}
  - when: {turn: 2, tool_result: '/permission_denied: lines.append_line may change things/'}
    answer: {calls: [{name: finish, arguments: {result: it was denied}}]}
default: {error: {status: 400, message: this was not to be shown}}
`, file)
}

// TestTaskAsks: a program that a model wrote asks whoever follows its task, who is told which process asks, and the model is shown what became of it.
// Without anybody to ask the call is denied. A kernel that is killed while the question is open asks again, and the line is written once.
func TestTaskAsks(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-made-up")
	for _, c := range []struct {
		name   string
		answer agentkernel.Answer // "": nobody is there
		kill   bool
		says   string
		lines  string
	}{
		{"yes", agentkernel.AnswerYes, false, "it was allowed\n", "x\n"},
		{"no", agentkernel.AnswerNo, false, "it was denied\n", ""},
		{"nobody", "", false, "it was denied\n", ""},
		{"yes, to the next kernel", agentkernel.AnswerYes, true, "it was allowed\n", "x\n"},
		{"no, to the next kernel", agentkernel.AnswerNo, true, "it was denied\n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, file := home(t), filepath.Join(t.TempDir(), "lines.txt")
			script, err := devllm.ParseScript("answers.yaml", []byte(asksForALine(file)))
			if err != nil {
				t.Fatal(err)
			}
			_, model := devModels(t, func(o *devllm.Options) { o.Script = script })
			t.Setenv(envModels, model)
			program, err := agent.Program(agent.Task{Text: "write a line"})
			if err != nil {
				t.Fatal(err)
			}
			v := startVictim(t, dir)
			k := v.client(t, dir)
			asked, pid := 0, agentkernel.PID(0)
			hears := func(ev agentkernel.Event) error {
				if pid == 0 {
					pid = ev.PID
				}
				if ev.Kind != agentkernel.EventAsk {
					return nil
				}
				asked++
				q, err := k.Process(t.Context(), ev.PID)
				if err != nil || q.Name != "program-1.py" || q.Parent != pid || q.Asks() != "lines.append_line" || ev.Ask.Call != "lines.append_line" {
					t.Errorf("asked %+v by %+v, %v", ev.Ask, q, err)
				}
				if c.kill && asked == 1 {
					v.kill()
					return nil
				}
				return k.Answer(t.Context(), ev.PID, ev.Ask.ID, c.answer)
			}
			p, err := k.Run(t.Context(), agentkernel.Spec{Program: program, Interactive: c.answer != "",
				Tools: []string{tooltest.Config(t, map[string]tooltest.Server{"lines": tooltest.Stdio(t)})}}, hears)
			want := 1
			if c.answer == "" {
				want = 0
			}
			if c.kill {
				if err == nil {
					t.Fatalf("the kernel was killed, and yet it ended: %+v", p)
				}
				v = startVictim(t, dir)
				k, want = v.client(t, dir), 2
				if err = k.Events(t.Context(), pid, 1, true, hears); err == nil {
					p, err = k.Process(t.Context(), pid)
				}
			}
			if out := stdoutOf(t, k, pid); err != nil || p.State != agentkernel.StateExited || out != c.says || asked != want {
				t.Errorf("%s, %v %v, printed %q, asked %d times", p.State, p.Error, err, out, asked)
			}
			text, err := os.ReadFile(file)
			if err != nil && !os.IsNotExist(err) || strings.TrimSpace(string(text)) != strings.TrimSpace(c.lines) {
				t.Errorf("the lines are %q, %v", text, err)
			}
		})
	}
}
