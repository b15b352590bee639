package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentkernel"
	"agentkernel/internal/mcpserver"
	"agentkernel/internal/tool/tooltest"
)

// human answers questions with what the test prepared, in order, and remembers them.
type human struct {
	mu      sync.Mutex
	answers []string // once, session, no, decline, cancel
	asked   []string
	hold    chan struct{} // not nil: each answer waits for it
	waiting atomic.Int64
	kernel  agentkernel.Kernel // what the server asks for
}

func (h *human) options() *mcp.ClientOptions {
	return &mcp.ClientOptions{ElicitationHandler: func(ctx context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		h.waiting.Add(1)
		if h.hold != nil {
			select {
			case <-h.hold:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.asked = append(h.asked, r.Params.Message)
		if len(h.answers) == 0 {
			return &mcp.ElicitResult{Action: "cancel"}, nil
		}
		answer := h.answers[0]
		h.answers = h.answers[1:]
		switch answer {
		case "decline", "cancel":
			return &mcp.ElicitResult{Action: answer}, nil
		}
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"answer": answer}}, nil
	}}
}

func (h *human) will(answers ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answers, h.asked = answers, nil
}

func (h *human) questions() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.asked)
}

// askingServer allows nothing that may change things.
func askingServer(t *testing.T) mcpserver.Config {
	t.Helper()
	cfg := mcpConfig(openEmbedded(t, home(t)), tooltest.Config(t, map[string]tooltest.Server{"test": tooltest.Stdio(t)}))
	cfg.Spec.Allow = nil
	return cfg
}

// bothWaysOfAsking runs a test against a server that sends its questions (HTTP, protocol 2025-11-25), and one that
// returns them (2026-07-28).
func bothWaysOfAsking(t *testing.T, h func() *human, test func(t *testing.T, cs *mcp.ClientSession, h *human)) {
	t.Helper()
	t.Run("sent", func(t *testing.T) {
		person, cfg := h(), askingServer(t)
		person.kernel = cfg.Kernel
		cs := dialHTTP(t, serveHTTP(t, cfg), annToken, person.options())
		if v := cs.InitializeResult().ProtocolVersion; v >= "2026" {
			t.Fatalf("protocol %s", v)
		}
		test(t, cs, person)
	})
	t.Run("returned", func(t *testing.T) {
		person, cfg := h(), askingServer(t)
		person.kernel = cfg.Kernel
		cs := connectMCP(t, cfg, person.options())
		if v := cs.InitializeResult().ProtocolVersion; v < "2026" {
			t.Fatalf("protocol %s", v)
		}
		test(t, cs, person)
	})
}

func append1(file, text string) string {
	return fmt.Sprintf("append_line(path=%q, text=%q)", file, text)
}

const importAppend = "from tools.test import append_line\n"

func lines(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(b), "\n", " ")
}

// Once is once, a session is a session and what begins anew in it, and everything else is a no.
func TestMCPAsksTheHuman(t *testing.T) {
	bothWaysOfAsking(t, func() *human { return &human{} }, func(t *testing.T, cs *mcp.ClientSession, h *human) {
		file := filepath.Join(t.TempDir(), "lines")
		h.will("once", "no", "decline", "cancel")
		tool(t, cs, "execute_code", args{"code": importAppend + append1(file, "a")}, `result: "1"`)
		for range 3 {
			tool(t, cs, "execute_code", args{"code": append1(file, "b")}, "!--allow 'test.append_line'")
		}
		asked := h.questions()
		if len(asked) != 4 || !strings.Contains(asked[0], `"test.append_line", which may change things (write)`) || !strings.Contains(asked[0], `text="a"`) {
			t.Errorf("asked %q", asked)
		}
		h.will("session")
		tool(t, cs, "execute_code", args{"code": "for x in ['c', 'd', 'e']:\n    append_line(path=" + fmt.Sprintf("%q", file) + ", text=x)"}, "")
		tool(t, cs, "execute_code", args{"code": append1(file, "f")}, `result: "5"`)
		tool(t, cs, "execute_code", args{"code": importAppend + append1(file, "g"), "session": "new"}, `result: "6"`)
		tool(t, cs, "execute_code", args{"code": importAppend + append1(file, "h"), "session": "none"}, `result: "7"`)
		if n := len(h.questions()); n != 1 {
			t.Errorf("asked %d times", n)
		}
		h.will("once", "once") // another tool
		tool(t, cs, "execute_code", args{"code": "from tools.test import counter\ncounter()\ncounter()", "session": "none"}, "result: ")
		if n := len(h.questions()); n != 2 {
			t.Errorf("asked %d times", n)
		}
		// Nobody is there for a task in the background.
		task := tool(t, cs, "dispatch_background_task", args{"code": "from tools.test import counter\ncounter()"}, "task")
		tool(t, cs, "wait_for_background_task", args{"task_id": task["task_id"]}, "--allow 'test.counter'")
		if got := lines(t, file); got != "a c d e f g h " {
			t.Errorf("the tool wrote %q", got)
		}
	})
}

// What a program starts asks the same human, and the answer for the session holds for it, too.
func TestMCPAsksForChildren(t *testing.T) {
	bothWaysOfAsking(t, func() *human { return &human{} }, func(t *testing.T, cs *mcp.ClientSession, h *human) {
		file := filepath.Join(t.TempDir(), "lines")
		child := func(text string) string {
			return fmt.Sprintf("from kernel import spawn, wait\nwait(spawn(%q))[\"error\"]", importAppend+append1(file, text))
		}
		h.will("once", "no", "session")
		tool(t, cs, "execute_code", args{"code": child("a")}, "")
		tool(t, cs, "execute_code", args{"code": child("b")}, "may change things")
		tool(t, cs, "execute_code", args{"code": child("c"), "session": "none"}, "")
		tool(t, cs, "execute_code", args{"code": child("d")}, "")
		tool(t, cs, "execute_code", args{"code": importAppend + append1(file, "e")}, "")
		if asked, got := h.questions(), lines(t, file); len(asked) != 3 || got != "a c d e " {
			t.Errorf("asked %q, wrote %q", asked, got)
		}
	})
}

// What was allowed for the session goes with the client: a child that may outlive it has none of it, whether its parent was asked or was
// spared the question.
func TestMCPSessionIsNoLongerThanTheClient(t *testing.T) {
	bothWaysOfAsking(t, func() *human { return &human{} }, func(t *testing.T, cs *mcp.ClientSession, h *human) {
		file := filepath.Join(t.TempDir(), "lines")
		program := func(text string) string {
			return importAppend + append1(file, text) + fmt.Sprintf("\nfrom kernel import spawn, wait\nwait(spawn(%q, detached=True))[\"error\"]", importAppend+append1(file, "detached"))
		}
		h.will("session")
		tool(t, cs, "execute_code", args{"code": program("a"), "session": "none"}, "may change things")
		tool(t, cs, "execute_code", args{"code": program("b"), "session": "none"}, "may change things")
		tool(t, cs, "execute_code", args{"code": program("c")}, "may change things")
		if asked, got := h.questions(), lines(t, file); len(asked) != 1 || got != "a b c " {
			t.Errorf("asked %q, wrote %q", asked, got)
		}
		list, err := h.kernel.List(t.Context(), agentkernel.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range list {
			if s, err := h.kernel.Spec(t.Context(), p.PID); err != nil || len(s.Allow) > 0 {
				t.Errorf("process %d may call %q unasked, also when it is run again: %v", p.PID, s.Allow, err)
			}
		}
	})
}

// Questions at the same time are asked one after the other, and one that was settled meanwhile is not asked at all.
func TestMCPAsksOneAtATime(t *testing.T) {
	bothWaysOfAsking(t, func() *human { return &human{} }, func(t *testing.T, cs *mcp.ClientSession, h *human) {
		file := filepath.Join(t.TempDir(), "lines")
		h.will("session")
		code := "import asyncio\nfrom tools.test.aio import append_line\nasync def main():\n    await asyncio.gather(*[append_line(path=" +
			fmt.Sprintf("%q", file) + ", text=str(i)) for i in range(5)])\nasyncio.run(main())"
		tool(t, cs, "execute_code", args{"code": code}, "")
		if n := len(h.questions()); n != 1 || len(strings.Fields(lines(t, file))) != 5 {
			t.Errorf("asked %d times, wrote %q", n, lines(t, file))
		}
	})
}

// Whoever gives up while a human is asked leaves nothing behind, and what the human says later has no effect.
func TestMCPAskedAndGivenUp(t *testing.T) {
	bothWaysOfAsking(t, func() *human { return &human{hold: make(chan struct{})} }, func(t *testing.T, cs *mcp.ClientSession, h *human) {
		file := filepath.Join(t.TempDir(), "lines")
		tool(t, cs, "execute_code", args{"code": "keep = 5"}, "")
		h.will("once")
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			_, _ = cs.CallTool(ctx, &mcp.CallToolParams{Name: "execute_code", Arguments: args{"code": importAppend + append1(file, "x"), "session": "none"}})
		}()
		eventually(t, "the human is asked", func() bool { return h.waiting.Load() > 0 })
		cancel()
		<-gone
		if cs.InitializeResult().ProtocolVersion < "2026" { // the SDK's client returns before the server has heard of it
			eventually(t, "the program has ended, and the session alone is left", func() bool {
				left, err := h.kernel.List(t.Context(), agentkernel.Filter{Unfinished: true})
				return err == nil && len(left) == 1
			})
		}
		close(h.hold)
		tool(t, cs, "execute_code", args{"code": "keep"}, "result: 5")
		if got := lines(t, file); got != "" {
			t.Errorf("the tool wrote %q", got)
		}
	})
}

// A state that was never given out, or was used, opens nothing.
func TestMCPForeignRequestState(t *testing.T) {
	h := &human{answers: []string{"session"}}
	cs := connectMCP(t, askingServer(t), h.options())
	for _, state := range []string{"x", "AAAAAAAAAAAAAAAAAAAAAAAAAA"} {
		res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "execute_code", Arguments: args{"code": "1"}, RequestState: state})
		if err != nil || !res.IsError || !strings.Contains(res.Content[0].(*mcp.TextContent).Text, "not answered in time") {
			t.Errorf("%q: %+v %v", state, res, err)
		}
	}
}

// A client that offers no questions is told the flag; so is one that opens web pages only.
func TestMCPCannotAsk(t *testing.T) {
	for name, opt := range map[string]*mcp.ClientOptions{"none": nil, "pages only": {
		Capabilities:       &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{URL: &mcp.URLElicitationCapabilities{}}},
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) { panic("asked") },
	}} {
		t.Run(name, func(t *testing.T) {
			cs := dialHTTP(t, serveHTTP(t, askingServer(t)), annToken, opt)
			tool(t, cs, "execute_code", args{"code": importAppend + append1("/nowhere", "x")}, "!--allow 'test.append_line'")
		})
	}
}

// A tool that is called "*" is one tool, also where all calls of it are allowed.
func TestMCPApprovalIsForOneTool(t *testing.T) {
	lies := filepath.Join(t.TempDir(), "lies.json")
	says, err := json.Marshal(map[string]any{"tools": map[string]any{"tools": []map[string]any{
		{"name": "*", "inputSchema": map[string]any{"type": "object"}}, {"name": "other", "inputSchema": map[string]any{"type": "object"}}}},
		"results": map[string]any{"*": map[string]any{"content": []any{}}, "other": map[string]any{"content": []any{}}}})
	if err == nil {
		err = os.WriteFile(lies, says, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	cfg := mcpConfig(openEmbedded(t, home(t)), tooltest.Config(t, map[string]tooltest.Server{"lies": tooltest.Stdio(t, "-lies", lies)}))
	cfg.Spec.Allow = nil
	h := &human{}
	cs := connectMCP(t, cfg, h.options())
	h.will("session", "no")
	tool(t, cs, "execute_code", args{"code": "from kernel import tool\ntool.call('lies', '*')\ntool.call('lies', '*')\ntool.call('lies', 'other')"}, "!lies.other may change things")
	if n := len(h.questions()); n != 2 {
		t.Errorf("asked %d times", n)
	}
	tool(t, cs, "execute_code", args{"code": "from kernel import tool\ntool.call('lies', 'other')", "session": "none"}, "!lies.other may change things")
}

// The folders that a client names are told to whoever writes programs.
func TestMCPRoots(t *testing.T) {
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	//nolint:staticcheck // roots are deprecated in the newest protocol and in use
	client.AddRoots(&mcp.Root{URI: "file:///home/me/my%20work", Name: "work"}, &mcp.Root{URI: "https://example.org/x"})
	cs, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: serveHTTP(t, askingServer(t)), HTTPClient: &http.Client{Transport: bearer(annToken)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cs.Close() })
	tool(t, cs, "list_servers", nil, `the user works in "work" (/home/me/my work)`)
	prompt, err := cs.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "program", Arguments: map[string]string{"task": "append a line to a file"}})
	if err != nil || !strings.Contains(prompt.Messages[0].Content.(*mcp.TextContent).Text, "https://example.org/x") {
		t.Errorf("%+v %v", prompt, err)
	}
}
