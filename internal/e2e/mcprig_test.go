package e2e_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentkernel"
	"agentkernel/client"
	"agentkernel/embedded"
	"agentkernel/internal/datadir"
	"agentkernel/internal/mcpserver"
	"agentkernel/userland/template"
)

// roleMCP makes this test binary an MCP server on standard input and output.
const (
	roleMCP   = "mcp"
	envTools  = "AGENTKERNEL_E2E_TOOLS"
	envAttach = "AGENTKERNEL_E2E_ATTACH" // to the kernel that serves the data directory's socket
)

func mcpConfig(k agentkernel.Kernel, tools string) mcpserver.Config {
	cfg := mcpserver.Config{Kernel: k, Version: testVersion, Spec: agentkernel.Spec{Allow: []string{"*"}},
		Plan: func(task string, tools []agentkernel.Tool) (mcpserver.TaskPlan, error) {
			plan, err := template.Make(task, tools)
			return mcpserver.TaskPlan{Program: plan.Program, Mode: "template", Recipe: plan.Recipe}, err
		}}
	if tools != "" {
		cfg.Spec.Tools = []string{tools}
	}
	return cfg
}

func childMCP() error {
	k, err := childMCPKernel(os.Getenv(envHome))
	if err != nil {
		return err
	}
	defer k.Close()
	return mcpserver.ServeStdio(context.Background(), mcpConfig(k, os.Getenv(envTools)))
}

func childMCPKernel(home string) (agentkernel.Kernel, error) {
	if os.Getenv(envAttach) == "" {
		return embedded.Open(context.Background(), embedded.Config{Home: home, Engine: os.Getenv("AGENTKERNEL_MONTY"), Version: testVersion})
	}
	dir, err := datadir.Open(home)
	if err != nil {
		return nil, err
	}
	return client.Dial(context.Background(), client.Options{Socket: dir.Socket(), Version: testVersion, Patience: time.Minute})
}

// bearer adds a token to every request.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

const (
	annToken = "token-of-ann-0123456789"
	boToken  = "token-of-bo-0123456789"
)

// serveHTTP serves a kernel over HTTP to the bearers of the two tokens and gives the address.
func serveHTTP(t *testing.T, cfg mcpserver.Config) string {
	t.Helper()
	return serveHandler(t, cfg, mcpserver.HTTPConfig{Tokens: map[string]string{annToken: "ann", boToken: "bo"}, Origins: []string{"https://app.example.org"}})
}

func serveHandler(t *testing.T, cfg mcpserver.Config, over mcpserver.HTTPConfig) string {
	t.Helper()
	s, err := mcpserver.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	h, err := s.Handler(over)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(h)
	t.Cleanup(func() {
		s.Close()
		srv.CloseClientConnections()
		srv.Close()
	})
	return srv.URL
}

func dialMCP(t testing.TB, transport mcp.Transport, opt *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	cs, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, opt).Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cs.Close() })
	return cs
}

func dialHTTP(t *testing.T, url, token string, opt *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	return dialMCP(t, &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: bearer(token)}}, opt)
}

// stdioCommand is an MCP server as assistants start it.
func stdioCommand(t testing.TB, home, tools string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), envChild+"="+roleMCP, envHome+"="+home, envTools+"="+tools, "AGENTKERNEL_MONTY="+engine(t))
	cmd.Stderr = os.Stderr
	return cmd
}

// overBothTransports runs a test against a server of its own over stdio and over HTTP, and against one whose
// kernel is behind a socket.
func overBothTransports(t *testing.T, tools string, test func(t *testing.T, cs *mcp.ClientSession)) {
	t.Helper()
	t.Run("stdio", func(t *testing.T) {
		test(t, dialMCP(t, &mcp.CommandTransport{Command: stdioCommand(t, home(t), tools)}, nil))
	})
	t.Run("http", func(t *testing.T) {
		test(t, dialHTTP(t, serveHTTP(t, mcpConfig(openEmbedded(t, home(t)), tools)), annToken, nil))
	})
	t.Run("attached", func(t *testing.T) {
		test(t, connectMCP(t, mcpConfig(openClient(t, home(t)), tools)))
	})
}

// tool calls a tool: want is in its text, which is an error's if it begins with "!". It gives the structured
// answer.
func tool(t *testing.T, cs *mcp.ClientSession, name string, args any, want string) map[string]any {
	t.Helper()
	res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	var text strings.Builder
	for _, c := range res.Content {
		if tc, ok := c.(*mcp.TextContent); ok {
			text.WriteString(tc.Text)
		}
	}
	want, failure := strings.CutPrefix(want, "!")
	if !strings.Contains(text.String(), want) || res.IsError != failure {
		t.Errorf("%s %.200v: %.600q (error: %v), not %q", name, args, text.String(), res.IsError, want)
	}
	var structured map[string]any
	raw, err := json.Marshal(res.StructuredContent)
	if err == nil {
		err = json.Unmarshal(raw, &structured)
	}
	if err != nil {
		t.Errorf("%s: %v", name, err)
	}
	return structured
}

type args map[string]any
