package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentkernel"
	"agentkernel/internal/mcpserver"
	"agentkernel/internal/tool/tooltest"
)

// mcpClient is an MCP client of a server in front of a real kernel with a real tool server.
func mcpClient(t *testing.T, allow ...string) *mcp.ClientSession {
	t.Helper()
	cfg := tooltest.Config(t, map[string]tooltest.Server{"test": tooltest.Stdio(t), "broken": tooltest.Stdio(t, "-no-start", "no licence")})
	return connectMCP(t, mcpserver.Config{Kernel: openEmbedded(t, home(t)), Spec: agentkernel.Spec{Tools: []string{cfg}, Allow: allow}})
}

// connectMCP serves a kernel and connects a client in memory.
func connectMCP(t *testing.T, cfg mcpserver.Config, options ...*mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	cfg.Version = testVersion
	server, err := mcpserver.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	near, far := mcp.NewInMemoryTransports()
	ss, err := server.Connect(t.Context(), far, nil)
	if err != nil {
		t.Fatal(err)
	}
	var opt *mcp.ClientOptions
	if len(options) > 0 {
		opt = options[0]
	}
	cs, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, opt).Connect(t.Context(), near, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cs.Close()
		_ = ss.Wait()
		server.Close()
	})
	return cs
}

func callMCP(t *testing.T, cs *mcp.ClientSession, tool string, args any) (text string, structured map[string]any, failed bool) {
	t.Helper()
	res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	for _, c := range res.Content {
		if tc, ok := c.(*mcp.TextContent); ok {
			text += tc.Text
		}
	}
	raw, err := json.Marshal(res.StructuredContent)
	if err == nil {
		_ = json.Unmarshal(raw, &structured)
	}
	return text, structured, res.IsError
}

func TestMCPExecuteCode(t *testing.T) {
	cs := mcpClient(t)
	for name, c := range map[string]struct {
		code, text string
		failed     bool
	}{
		"output and result": {"print('hi')\n6 * 7", "hi\nresult: 42", false},
		"only output":       {"print('hi')", "hi\n", false},
		"nothing":           {"x = 1", "(no output; print what you need)", false},
		"tool":              {"from tools.test import echo\nprint(echo(value='x'))", "x", false},
		"error with line":   {"x = 1\ny = x / 0", "line 2", true},
		"refused":           {"from tools.test import append_line\nappend_line(path='/x', text='y')", "--allow 'test.append_line'", true},
		"unsupported":       {"import numpy", "numpy", true},
		"unknown tool":      {"from tools.test import ecko", "echo", true},
		"empty":             {"  ", "code is empty", true},
		"syntax":            {"x = (", "line 1", true},
	} {
		t.Run(name, func(t *testing.T) {
			text, _, failed := callMCP(t, cs, "execute_code", map[string]any{"code": c.code})
			if !strings.Contains(text, c.text) || failed != c.failed {
				t.Errorf("got %q, failed: %v; want %q", text, failed, c.text)
			}
		})
	}
	_, structured, _ := callMCP(t, cs, "execute_code", map[string]any{"code": "[1, 2.5, 'x']"})
	if got := fmt.Sprintf("%v %v", structured["result"], structured["state"]); got != "[1 2.5 x] idle" {
		t.Errorf("structured: %s", got)
	}
	text, structured, failed := callMCP(t, cs, "execute_code", map[string]any{"code": "from kernel import sleep\nsleep(60)", "timeout": 0.2})
	if !failed || !strings.Contains(text, "ran longer than 200ms") {
		t.Errorf("timeout: %q %v", text, structured)
	}
}

func TestMCPOutputIsCapped(t *testing.T) {
	cs := mcpClient(t)
	text, _, _ := callMCP(t, cs, "execute_code", map[string]any{"code": "for i in range(100000):\n    print('line', i)"})
	if len(text) > 64<<10 || !strings.HasPrefix(text, "line 0\n") || !strings.HasSuffix(strings.TrimSpace(text), "line 99999") || !strings.Contains(text, "bytes left out") {
		t.Errorf("%d bytes: %.80q ... %q", len(text), text, text[max(0, len(text)-80):])
	}
}

func TestMCPSearchTools(t *testing.T) {
	cs := mcpClient(t)
	text, structured, _ := callMCP(t, cs, "search_tools", map[string]any{"query": "append a line to files", "detail_level": "full"})
	if !strings.HasPrefix(text, "from tools.test import append_") || !strings.Contains(text, "append_line(") {
		t.Errorf("got %s", text)
	}
	if !strings.Contains(text, "broken: ") || !strings.Contains(text, "no licence") {
		t.Errorf("the server that does not start is not mentioned: %s", text)
	}
	if n, ok := structured["total"].(float64); !ok || n < 10 {
		t.Errorf("total: %v", structured["total"])
	}
	if text, _, failed := callMCP(t, cs, "search_tools", map[string]any{"query": "x", "detail_level": "all"}); !failed {
		t.Errorf("a wrong detail_level: %s", text)
	}
	if text, _, _ := callMCP(t, cs, "search_tools", map[string]any{"query": "zzzz"}); !strings.Contains(text, "nothing found") {
		t.Errorf("got %s", text)
	}
}

func noPackages(context.Context, string, []string) (string, error) { return "", nil }

// What a client is told of the tools, to the last byte (output schemas and annotations included), at four
// bytes a token.
func TestMCPSurfaceIsSmall(t *testing.T) {
	for name, c := range map[string]struct {
		cfg         mcpserver.Config
		tools, most int
	}{
		"all":                    {mcpserver.Config{Plan: func(string, []agentkernel.Tool) (mcpserver.TaskPlan, error) { return mcpserver.TaskPlan{}, nil }}, 19, 1500},
		"minimal":                {mcpserver.Config{Minimal: true}, 2, 500},
		"all, with packages":     {mcpserver.Config{Packages: noPackages, Plan: func(string, []agentkernel.Tool) (mcpserver.TaskPlan, error) { return mcpserver.TaskPlan{}, nil }}, 19, 1500},
		"minimal, with packages": {mcpserver.Config{Packages: noPackages, Minimal: true}, 2, 500},
	} {
		t.Run(name, func(t *testing.T) {
			c.cfg.Kernel = openEmbedded(t, home(t))
			list, err := connectMCP(t, c.cfg).ListTools(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			raw, err := json.Marshal(list.Tools)
			if err != nil {
				t.Fatal(err)
			}
			tokens := len(raw) / 4
			t.Logf("%d tools cost %d tokens", len(list.Tools), tokens)
			if tokens > c.most || len(list.Tools) != c.tools {
				t.Errorf("%d tools cost %d tokens: %s", len(list.Tools), tokens, raw)
			}
		})
	}
}
