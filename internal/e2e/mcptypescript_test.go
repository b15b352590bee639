package e2e_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentkernel/internal/tool/tooltest"
)

// npmFolder is where a package lies that `make mcp` installs with a demo server; without it the test is skipped, and
// fails if CI is set.
func npmFolder(t *testing.T, server string, path ...string) string {
	t.Helper()
	tooltest.NPM(t, server) // says loudly what is missing
	root, err := tooltest.Root()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(root, ".cache", "mcp", "node_modules", "@modelcontextprotocol", filepath.Join(path...))
}

// step is one call by a foreign client; want is in the text, which is an error's if it begins with "!". An argument
// "$13.task_id" is a member of an earlier answer.
type step struct {
	Tool      string `json:"tool"`
	Arguments args   `json:"arguments"`
	want      string
}

// everyTool are calls of every tool; each may come from a client of its own.
var everyTool = []step{
	0:  {"execute_code", args{"code": "from tools.test import add\nx = add(a=40, b=2)['sum']\nprint(x)"}, "42\n"},
	1:  {"execute_task", args{"task_description": "what is 15% of 240?"}, "36"},
	2:  {"search_tools", args{"query": "append a line", "detail_level": "full", "max_results": 1}, "append_line(path: str, text: str)"},
	3:  {"list_servers", nil, "tools.test"},
	4:  {"list_available_tools", nil, "append_line"},
	5:  {"get_server_tools", args{"server_name": "test"}, "append_line("},
	6:  {"save_state", args{"state_data": args{"a": []int{1}}}, `"version":1`},
	7:  {"get_state", args{}, `"a":[1]`},
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

// check compares the answer to a step.
func (s step) check(t *testing.T, i int, text string, failed bool) {
	t.Helper()
	want, failure := strings.CutPrefix(s.want, "!")
	if !strings.Contains(text, want) || failed != failure {
		t.Errorf("step %d, %s %v: %q (error %v), not %q", i, s.Tool, s.Arguments, text, failed, s.want)
	}
}

// allCalled checks that the client saw tools and that the steps left none out.
func allCalled(t *testing.T, tools []string, steps []step) {
	t.Helper()
	if len(tools) == 0 {
		t.Error("the client saw no tools")
	}
	for _, name := range tools {
		if !slices.ContainsFunc(steps, func(s step) bool { return s.Tool == name }) {
			t.Errorf("%s was not called", name)
		}
	}
}

// Every tool, driven by the client that most assistants have in them, which is one client for all calls.
func TestMCPByTheTypeScriptSDK(t *testing.T) {
	sdk := npmFolder(t, "@modelcontextprotocol/server-everything", "sdk")
	cfg := tooltest.Config(t, map[string]tooltest.Server{"test": tooltest.Stdio(t)})
	steps := slices.Concat(everyTool, []step{
		{"execute_code", args{"code": "from kernel import sleep\nsleep(1.2)\nx + 1"}, "result: 43"},
		{"execute_code", args{"code": "x", "session": "$0.session"}, "result: 42"},
		{"execute_code", args{"code": "x / 0"}, "!ZeroDivisionError"},
		{"execute_code", args{"code": "x", "session": "new"}, "!NameError"},
		{"cancel_background_task", args{"task_id": "$13.task_id"}, "!ended already"},
		{"execute_code", args{"cod": "1"}, "!arguments of execute_code"},
	})
	t.Run("stdio", func(t *testing.T) {
		cmd := stdioCommand(t, home(t), cfg)
		env := map[string]string{}
		for _, e := range cmd.Env {
			name, value, _ := strings.Cut(e, "=")
			env[name] = value
		}
		driveTypeScript(t, map[string]any{"sdk": sdk, "command": cmd.Path, "args": cmd.Args[1:], "env": env}, steps)
	})
	t.Run("http", func(t *testing.T) {
		url := serveHTTP(t, mcpConfig(openEmbedded(t, home(t)), cfg))
		driveTypeScript(t, map[string]any{"sdk": sdk, "url": url, "token": annToken}, steps)
	})
}

func driveTypeScript(t *testing.T, given map[string]any, steps []step) {
	t.Helper()
	given["steps"] = steps
	in, err := json.Marshal(given)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "node", filepath.Join("testdata", "client.mjs"))
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Tools   []string `json:"tools"`
		Answers []struct {
			Text       string         `json:"text"`
			Error      bool           `json:"error"`
			Thrown     bool           `json:"thrown"`
			Structured map[string]any `json:"structured"`
			Progress   int            `json:"progress"`
		} `json:"answers"`
		Resources, Prompts int
	}
	if err := json.Unmarshal(out, &got); err != nil || len(got.Answers) != len(steps) {
		t.Fatalf("%v: %s", err, out)
	}
	for i, s := range steps {
		a := got.Answers[i]
		s.check(t, i, a.Text, a.Error)
		if a.Thrown {
			t.Errorf("step %d, %s: the client threw", i, s.Tool)
		}
	}
	if got.Answers[len(everyTool)].Progress == 0 {
		t.Error("no progress was heard of a call of more than a second")
	}
	allCalled(t, got.Tools, steps)
	if got.Resources != 5 || got.Prompts != 1 {
		t.Errorf("%d resources, %d prompts", got.Resources, got.Prompts)
	}
}
