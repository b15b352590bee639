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

// typescriptSDK is where the official client lies that `make mcp` installs; without it the test is skipped, and
// fails if CI is set.
func typescriptSDK(t *testing.T) string {
	t.Helper()
	tooltest.NPM(t, "@modelcontextprotocol/server-everything") // says loudly what is missing
	root, err := tooltest.Root()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(root, ".cache", "mcp", "node_modules", "@modelcontextprotocol", "sdk")
}

// step is one call by the TypeScript client; want is in the text, which is an error's if it begins with "!".
type step struct {
	Tool      string `json:"tool"`
	Arguments args   `json:"arguments"`
	want      string
}

// Every tool, driven by the client that most assistants have in them.
func TestMCPByTheTypeScriptSDK(t *testing.T) {
	sdk := typescriptSDK(t)
	cfg := tooltest.Config(t, map[string]tooltest.Server{"test": tooltest.Stdio(t)})
	steps := []step{
		0:  {"execute_code", args{"code": "from tools.test import add\nx = add(a=40, b=2)['sum']\nprint(x)"}, "42\n"},
		1:  {"execute_code", args{"code": "from kernel import sleep\nsleep(1.2)\nx + 1"}, "result: 43"},
		2:  {"execute_code", args{"code": "x", "session": "$0.session"}, "result: 42"},
		3:  {"execute_code", args{"code": "x / 0"}, "!ZeroDivisionError"},
		4:  {"execute_code", args{"code": "x", "session": "new"}, "!NameError"},
		5:  {"execute_task", args{"task_description": "what is 15% of 240?"}, "36"},
		6:  {"search_tools", args{"query": "append a line", "detail_level": "full"}, "append_line(path: str, text: str)"},
		7:  {"list_servers", nil, "tools.test"},
		8:  {"list_available_tools", nil, "append_line"},
		9:  {"get_server_tools", args{"server_name": "test"}, "append_line("},
		10: {"save_state", args{"state_data": args{"a": []int{1}}}, `"version":1`},
		11: {"get_state", args{}, `"a":[1]`},
		12: {"save_skill", args{"name": "s", "code": "def f():\n    return 'ü'\n"}, "from skills.s import f"},
		13: {"get_skill", args{"name": "s"}, "return 'ü'"},
		14: {"list_skills", nil, "skills.s"},
		15: {"search_skills", args{"query": "s f"}, "skill"},
		16: {"delete_skill", args{"name": "s"}, `"deleted":"s"`},
		17: {"dispatch_background_task", args{"code": "from kernel import sleep\nsleep(30)"}, "running"},
		18: {"get_background_task_status", args{"task_id": "$17.task_id"}, "running"},
		19: {"wait_for_background_task", args{"task_id": "$17.task_id", "timeout": 0.1}, "running"},
		20: {"list_background_tasks", nil, "running"},
		21: {"cancel_background_task", args{"task_id": "$17.task_id"}, "cancelled"},
		22: {"cancel_background_task", args{"task_id": "$17.task_id"}, "!ended already"},
		23: {"get_version", nil, testVersion},
		24: {"execute_code", args{"cod": "1"}, "!arguments of execute_code"},
	}
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
		want, failure := strings.CutPrefix(s.want, "!")
		a := got.Answers[i]
		if !strings.Contains(a.Text, want) || a.Error != failure || a.Thrown {
			t.Errorf("step %d, %s %v: %q (error %v), not %q", i, s.Tool, s.Arguments, a.Text, a.Error, s.want)
		}
	}
	if got.Answers[1].Progress == 0 {
		t.Error("no progress was heard of a call of more than a second")
	}
	for _, name := range got.Tools {
		if !slices.ContainsFunc(steps, func(s step) bool { return s.Tool == name }) {
			t.Errorf("%s was not called", name)
		}
	}
	if got.Resources != 4 || got.Prompts != 1 {
		t.Errorf("%d resources, %d prompts", got.Resources, got.Prompts)
	}
}
