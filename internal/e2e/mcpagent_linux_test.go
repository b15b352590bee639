package e2e_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"agentkernel"
	"agentkernel/embedded"
	"agentkernel/internal/devllm"
	"agentkernel/internal/mcpserver"
	"agentkernel/internal/tool/tooltest"
	"agentkernel/userland/agent"
)

// mender is a model whose first program fails, and that mends it once it was shown why.
const mender = `
rules:
  - when: {turn: 1}
    answer: {text: I write the lines., calls: [{name: run_python, arguments: {code: "from tools.test import append_line\nappend_line(path='%[1]s', text='one')\nprint(1 + 'two')"}}]}
  - when: {turn: 2, tool_result: TypeError}
    answer: {calls: [{name: run_python, arguments: {code: "from tools.test import append_line\nappend_line(path='%[1]s', text='two')\nprint('both')"}}]}
  - when: {turn: 3, tool_result: both}
    answer: {calls: [{name: finish, arguments: {result: Two lines are in the log.}}]}
default: {error: {status: 400, message: this was not to be shown}}
`

// TestMCPTaskByModel: a task in plain language is done by the model that the kernel has, at once or in the background, with the permissions
// of any other program; a recipe is not looked for, and the client's model is not asked.
func TestMCPTaskByModel(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	server, declared := devModels(t, func(o *devllm.Options) {
		script, err := devllm.ParseScript("mender.yaml", fmt.Appendf(nil, mender, file))
		if err != nil {
			t.Fatal(err)
		}
		o.Script = script
	})
	t.Setenv("OPENAI_API_KEY", "sk-made-up")
	k := openEmbedded(t, home(t), func(c *embedded.Config) { c.Models = []string{declared} })
	cfg := mcpConfig(k, tooltest.Config(t, map[string]tooltest.Server{"test": tooltest.Stdio(t)}))
	cfg.Agent = func(_ context.Context, namespace, task string) (mcpserver.TaskPlan, error) {
		if namespace != "default/ann" { // whose skills the model is told of
			t.Errorf("the task is of the namespace %q", namespace)
		}
		program, err := agent.Program(agent.Task{Text: task})
		return mcpserver.TaskPlan{Program: program, Mode: "model", Budget: agentkernel.Budget{Turns: agent.Turns}}, err
	}
	m := &model{}
	cs := dialHTTP(t, serveHTTP(t, cfg), annToken, m.options())
	got := tool(t, cs, "execute_task", args{"task_description": poem}, "Two lines are in the log.")
	if got["mode"] != "model" || got["program"] != nil || got["stdout"] != "Two lines are in the log.\n" || lines(t, file) != "one two " {
		t.Errorf("%v, wrote %q", got, lines(t, file))
	}
	tool(t, cs, "execute_task", args{"task_description": "what is 15% of 240?"}, "Two lines are in the log.")
	task := fmt.Sprint(tool(t, cs, "dispatch_background_task", args{"task_description": poem}, "task ")["task_id"])
	ended := tool(t, cs, "wait_for_background_task", args{"task_id": task, "timeout": 60}, "completed")
	if ended["stdout"] != "Two lines are in the log.\n" || lines(t, file) != strings.Repeat("one two ", 3) || len(m.asked) != 0 {
		t.Errorf("%v, wrote %q, the client's model was asked %d times", ended, lines(t, file), len(m.asked))
	}
	pid, err := agentkernel.ParsePID(task)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := k.Budget(t.Context(), pid); err != nil || b.Limit.Turns != agent.Turns || b.Spent.Turns != 3 {
		t.Errorf("%+v %v", b, err)
	}
	if n := server.Totals(devllm.Filter{}).Statuses; n["200"] != 9 || len(n) != 1 {
		t.Errorf("the provider answered %v", n)
	}
	tool(t, cs, "dispatch_background_task", args{"task_description": poem, "code": "1"}, "!leave one of them out")
	tool(t, cs, "dispatch_background_task", args{"task_description": " "}, "!code is empty")
	spender := mcpConfig(k, "")
	spender.Plan, spender.Agent = nil, nil
	tool(t, dialHTTP(t, serveHTTP(t, spender), annToken, m.options()), "dispatch_background_task", args{"task_description": poem}, "!send code")
}
