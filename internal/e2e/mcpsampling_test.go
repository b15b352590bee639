//nolint:staticcheck // deprecated in 2026-07-28, and in use until then and a year beyond
package e2e_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentkernel/internal/tool/tooltest"
)

// model is the client's: it answers in turn, and keeps what it was asked.
type model struct {
	answers []string
	asked   []*mcp.CreateMessageParams
}

func (m *model) options() *mcp.ClientOptions {
	return &mcp.ClientOptions{CreateMessageHandler: func(_ context.Context, r *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
		m.asked = append(m.asked, r.Params)
		if len(m.asked) > len(m.answers) {
			return nil, errors.New("the user says no")
		}
		return &mcp.CreateMessageResult{Model: "test", Role: "assistant", Content: &mcp.TextContent{Text: m.answers[len(m.asked)-1]}}, nil
	}}
}

// message is the text of one message that the model was sent.
func (m *model) message(t *testing.T, call, n int) string {
	t.Helper()
	return m.asked[call].Messages[n].Content.(*mcp.TextContent).Text
}

// withModel is a client whose model may be asked.
func withModel(t *testing.T, tools string, m *model) *mcp.ClientSession {
	t.Helper()
	url := serveHTTP(t, mcpConfig(openEmbedded(t, home(t)), tools))
	return dialHTTP(t, url, annToken, m.options())
}

const poem = "write two lines about the sea into the log"

// A task that no recipe covers is written by the client's model, which is told the functions that fit; the program runs
// with the permissions of any other.
func TestMCPTaskBySampling(t *testing.T) {
	tools := tooltest.Config(t, map[string]tooltest.Server{"test": tooltest.Stdio(t)})
	file := filepath.Join(t.TempDir(), "log")
	good := "Here it is:\n```python\nfrom tools.test import append_line\nfor text in ['blue', 'wet']:\n    append_line(path='" + file + "', text=text)\nprint('two lines')\n```\nDone."
	bad := "```python\nfrom tools.test import append_lines\n```"

	t.Run("at once", func(t *testing.T) {
		m := &model{answers: []string{good}}
		cs := withModel(t, tools, m)
		got := tool(t, cs, "execute_task", args{"task_description": poem}, "written by your client's model")
		if got["mode"] != "sampling" || got["stdout"] != "two lines\n" || strings.Contains(got["program"].(string), "```") || lines(t, file) != "blue wet " {
			t.Errorf("%v", got)
		}
		if len(m.asked) != 1 || !strings.Contains(m.message(t, 0, 0), poem) || !strings.Contains(m.message(t, 0, 0), "append_line(path: str, text: str)") || m.asked[0].MaxTokens == 0 {
			t.Errorf("asked: %+v", m.asked)
		}
		if tool(t, cs, "execute_task", args{"task_description": "what is 15% of 240?"}, "template mode (no model)"); len(m.asked) != 1 {
			t.Error("the model was asked for what a recipe covers")
		}
	})
	t.Run("mended", func(t *testing.T) {
		m := &model{answers: []string{bad, "print('mended')"}}
		tool(t, withModel(t, tools, m), "execute_task", args{"task_description": poem}, "---\nmended\n")
		if len(m.asked) != 2 || len(m.asked[1].Messages) != 3 || m.message(t, 1, 1) != bad || !strings.Contains(m.message(t, 1, 2), "did you mean append_line") {
			t.Errorf("asked: %+v", m.asked)
		}
	})
	t.Run("wrong twice", func(t *testing.T) {
		m := &model{answers: []string{bad, "def f(:"}}
		tool(t, withModel(t, tools, m), "execute_task", args{"task_description": poem}, "!syntax_error")
		if len(m.asked) != 2 {
			t.Errorf("asked %d times", len(m.asked))
		}
	})
	t.Run("what has run is not run again", func(t *testing.T) {
		m := &model{answers: []string{strings.Replace(good, "print(", "1/0\nprint(", 1), good}}
		before := len(lines(t, file))
		tool(t, withModel(t, tools, m), "execute_task", args{"task_description": poem}, "!ZeroDivisionError")
		if len(m.asked) != 1 || len(lines(t, file)) != before+len("blue\nwet\n") {
			t.Errorf("asked %d times; %q", len(m.asked), lines(t, file))
		}
	})
	t.Run("refused", func(t *testing.T) {
		tool(t, withModel(t, tools, &model{}), "execute_task", args{"task_description": poem}, "!the user says no")
		tool(t, withModel(t, tools, &model{answers: []string{" \n"}}), "execute_task", args{"task_description": poem}, "!without a program")
		tool(t, withModel(t, tools, &model{}), "execute_task", args{"task_description": " "}, "!task_description is empty")
	})
}
