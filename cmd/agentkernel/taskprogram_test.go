package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"agentkernel"
)

// listing is a kernel that counts what it is asked for tools.
type listing struct {
	*fakeKernel
	asked  int
	closed int
}

func (k *listing) ToolServers(context.Context, []string) ([]agentkernel.ToolServer, error) {
	return []agentkernel.ToolServer{{Name: "shop"}}, nil
}

func (k *listing) ListTools(context.Context, []string, string) ([]agentkernel.Tool, error) {
	k.asked++
	return []agentkernel.Tool{{Server: "shop", Name: "sell", PythonServer: "shop", PythonName: "sell"}}, nil
}

func (k *listing) Changes(context.Context, agentkernel.PID) (agentkernel.Changes, error) {
	return agentkernel.Changes{}, nil
}

func (k *listing) Close() error {
	k.closed++
	return nil
}

// TestATaskOpensOneKernel: all that a command asks before its task runs, it asks the kernel in which the task runs, and tool servers once.
func TestATaskOpensOneKernel(t *testing.T) {
	for name, c := range map[string]struct {
		args   []string
		models string
		asked  int
	}{
		"a task":                                 {[]string{"do", "sum up"}, "fast openai:gpt-5-mini", 0},
		"with tools, a folder and a bound":       {[]string{"do", "sum up", "--workspace", ".", "--budget-usd", "1"}, "fast openai:gpt-5-mini", 1},
		"with tools and a bound":                 {[]string{"do", "sum up", "--budget-usd", "1"}, "fast openai:gpt-5-mini", 0},
		"a recipe that looks for a tool":         {[]string{"do", "total quantity by region in sales.csv"}, "", 1},
		"a task of template mode with such tool": {[]string{"task", "total quantity by region in sales.csv"}, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			k := &listing{fakeKernel: r.kernel}
			ran := false
			k.run = func(context.Context, agentkernel.Spec, func(agentkernel.Event) error) (agentkernel.Process, error) {
				ran = true
				return agentkernel.Process{PID: 12, State: agentkernel.StateExited, Result: []byte(`"done"`)}, nil
			}
			tools := filepath.Join(r.dir, "mcp.json")
			if err := os.WriteFile(tools, []byte(`{"mcpServers": {"shop": {"command": "/bin/false"}}}`), 0o600); err != nil {
				t.Fatal(err)
			}
			r.any, r.env = k, []string{"AGENTKERNEL_MODELS=" + c.models}
			r.run(append(c.args, "--embedded", "--tools", tools)...)
			if r.opened != 1 || k.closed != 1 || k.asked != c.asked {
				t.Errorf("%d kernels were opened, %d closed; the server was asked %d times, want %d; %s", r.opened, k.closed, k.asked, c.asked, r.err.String())
			}
			if !ran && c.models != "" {
				t.Errorf("the task did not run: %s", r.err.String())
			}
		})
	}
}

// TestAConversationOpensOneKernel: as a task.
func TestAConversationOpensOneKernel(t *testing.T) {
	r, _ := newTalk(t)
	if code := r.run("chat", "--embedded"); code != 0 || r.opened != 1 {
		t.Errorf("exit code %d, %d kernels were opened: %s", code, r.opened, r.err.String())
	}
}
