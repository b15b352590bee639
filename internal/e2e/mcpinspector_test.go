package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"agentkernel/internal/tool/tooltest"
)

// Every tool, driven by the Inspector: each call is a client of its own, which starts a server of its own over stdio, or
// begins a session of its own over HTTP. All of them share one kernel.
func TestMCPByTheInspector(t *testing.T) {
	folder := npmFolder(t, "@modelcontextprotocol/server-memory", "inspector-cli", "build")
	cfg := tooltest.Config(t, map[string]tooltest.Server{"test": tooltest.Stdio(t)})
	t.Run("stdio", func(t *testing.T) {
		t.Parallel()
		dir := home(t)
		serveKernel(t, openEmbedded(t, dir), dir)
		cmd := stdioCommand(t, dir, cfg)
		inspection{folder, cmd.Args, append(cmd.Env, envAttach+"=1")}.drive(t, everyTool)
	})
	t.Run("http", func(t *testing.T) {
		t.Parallel()
		url := serveHTTP(t, mcpConfig(openEmbedded(t, home(t)), cfg))
		inspection{folder, []string{url, "--transport", "http", "--header", "Authorization: Bearer " + annToken}, os.Environ()}.drive(t, everyTool)
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
		var text string
		if len(got.Content) > 0 {
			text = got.Content[0].Text
		}
		s.check(t, i, text, got.IsError)
	}
	var names []string
	for _, tl := range list.Tools {
		names = append(names, tl.Name)
	}
	allCalled(t, names, steps)
}

// inspectorValue writes a value as the Inspector reads it: JSON.
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
