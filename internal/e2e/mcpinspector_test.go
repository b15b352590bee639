package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentkernel/internal/tool/tooltest"
)

// inspector is the folder of the MCP Inspector's command, which `make mcp` installs; without it the test is skipped, and
// fails if CI is set.
func inspector(t *testing.T) string {
	t.Helper()
	tooltest.NPM(t, "@modelcontextprotocol/server-memory") // says loudly what is missing
	root, err := tooltest.Root()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(root, ".cache", "mcp", "node_modules", "@modelcontextprotocol", "inspector-cli", "build")
}

// Every tool, driven by the Inspector: each call is a client of its own, which starts a server of its own over stdio, or
// begins a session of its own over HTTP. All of them share one kernel.
func TestMCPByTheInspector(t *testing.T) {
	folder := inspector(t)
	cfg := tooltest.Config(t, map[string]tooltest.Server{"test": tooltest.Stdio(t)})
	steps := []step{
		0:  {"execute_code", args{"code": "from tools.test import add\nprint(add(a=40, b=2)['sum'])"}, "42\n"},
		1:  {"execute_task", args{"task_description": "what is 15% of 240?"}, "36"},
		2:  {"search_tools", args{"query": "append a line", "detail_level": "full", "max_results": 1}, "append_line(path: str, text: str)"},
		3:  {"list_servers", nil, "tools.test"},
		4:  {"list_available_tools", nil, "append_line"},
		5:  {"get_server_tools", args{"server_name": "test"}, "append_line("},
		6:  {"save_state", args{"state_data": args{"a": []int{1}}}, `"version":1`},
		7:  {"get_state", nil, `"a":[1]`},
		8:  {"save_skill", args{"name": "s", "code": "def f():\n    return 'ü'\n", "tags": []string{"x"}}, "from skills.s import f"},
		9:  {"get_skill", args{"name": "s"}, "return 'ü'"},
		10: {"list_skills", nil, "skills.s"},
		11: {"search_skills", args{"query": "s f"}, "skill"},
		12: {"delete_skill", args{"name": "s"}, `"deleted":"s"`},
		13: {"dispatch_background_task", args{"code": "from kernel import sleep\nsleep(600)"}, "running"},
		14: {"get_background_task_status", args{"task_id": "$13.task_id"}, "running"},
		15: {"wait_for_background_task", args{"task_id": "$13.task_id", "timeout": 0.1}, "running"},
		16: {"list_background_tasks", nil, "running"},
		17: {"cancel_background_task", args{"task_id": "$13.task_id"}, "cancelled"},
		18: {"get_version", nil, testVersion},
		19: {"execute_code", args{"code": "1/0"}, "!ZeroDivisionError"},
	}
	t.Run("stdio", func(t *testing.T) {
		t.Parallel()
		dir := home(t)
		serveKernel(t, openEmbedded(t, dir), dir)
		cmd := stdioCommand(t, dir, cfg)
		inspection{folder, cmd.Args, append(cmd.Env, envAttach+"=1")}.drive(t, steps)
	})
	t.Run("http", func(t *testing.T) {
		t.Parallel()
		url := serveHTTP(t, mcpConfig(openEmbedded(t, home(t)), cfg))
		inspection{folder, []string{url, "--transport", "http", "--header", "Authorization: Bearer " + annToken}, os.Environ()}.drive(t, steps)
	})
}

// inspection is the Inspector pointed at a server.
type inspection struct {
	folder string
	target []string
	env    []string
}

// drive makes the calls one by one and checks that no tool was left out.
func (n inspection) drive(t *testing.T, steps []step) {
	t.Helper()
	var list struct {
		Tools []struct{ Name string }
	}
	n.run(t, &list, "--method", "tools/list")
	var answers []map[string]any
	for i, s := range steps {
		call := []string{"--method", "tools/call", "--tool-name", s.Tool}
		for name, value := range s.Arguments {
			call = append(call, "--tool-arg", name+"="+inspectorValue(t, value, answers))
		}
		var got struct {
			Content           []struct{ Text string }
			StructuredContent map[string]any
			IsError           bool
		}
		n.run(t, &got, call...)
		answers = append(answers, got.StructuredContent)
		want, failure := strings.CutPrefix(s.want, "!")
		if len(got.Content) == 0 || !strings.Contains(got.Content[0].Text, want) || got.IsError != failure {
			t.Errorf("step %d, %s %v: %+v, not %q", i, s.Tool, s.Arguments, got, s.want)
		}
	}
	for _, tl := range list.Tools {
		if !slices.ContainsFunc(steps, func(s step) bool { return s.Tool == tl.Name }) {
			t.Errorf("%s was not called", tl.Name)
		}
	}
	if len(list.Tools) == 0 {
		t.Error("the Inspector saw no tools")
	}
}

// inspectorValue writes a value as the Inspector reads it: JSON. "$13.task_id" is a member of an earlier answer.
func inspectorValue(t *testing.T, value any, answers []map[string]any) string {
	t.Helper()
	if ref, ok := value.(string); ok && strings.HasPrefix(ref, "$") {
		var i int
		var member string
		if _, err := fmt.Sscanf(ref, "$%d.%s", &i, &member); err != nil {
			t.Fatal(err)
		}
		value = answers[i][member]
	}
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// run runs the Inspector once. It finds its own version in the folder above the one that it is started in.
func (n inspection) run(t *testing.T, into any, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "node", slices.Concat([]string{"index.js"}, n.target, args)...)
	cmd.Dir, cmd.Env = n.folder, n.env
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%q: %v\n%s", args, err, errOut.String())
	}
	if err := json.Unmarshal(out, into); err != nil {
		t.Fatalf("%q: %v: %s", args, err, out)
	}
}
