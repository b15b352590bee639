package tool_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/internal/tool"
	"agentkernel/internal/tool/tooltest"
)

// Whoever calls functions of a program that has ended is told so, and not what became of a connection.
func TestProgramThatHasEnded(t *testing.T) {
	const says = `the tools of server "own" are functions of the program that started this process, and it has ended or has closed its agent (os process 4711)`
	gone := func(t *testing.T, err error) {
		t.Helper()
		e := wantCode(t, err, agentkernel.CodeUnavailable, says)
		if !strings.Contains(e.Hint, "run the program again") {
			t.Errorf("the hint is %q", e.Hint)
		}
	}
	t.Run("before it was called", func(t *testing.T) {
		s := newHTTPServer(t, nil)
		s.Close()
		_, err := call(t, open(t, httpConfig(), map[string]tooltest.Server{"own": s.entry().With("program", 4711)}), "own", "count", obj{})
		gone(t, err)
	})
	t.Run("between two calls", func(t *testing.T) {
		s := newHTTPServer(t, nil)
		s.Config.SetKeepAlivesEnabled(false) // as the SDKs: what is left of a connection would hide that nothing was sent
		src := open(t, httpConfig(), map[string]tooltest.Server{"own": s.entry().With("program", 4711)})
		if _, err := call(t, src, "own", "count", obj{}); err != nil {
			t.Fatal(err)
		}
		s.CloseClientConnections()
		s.Close()
		r, err := src.Call(context.Background(), agentkernel.ToolCall{Server: "own", Tool: "count"})
		gone(t, err)
		if !r.NotSent {
			t.Error("nothing was sent")
		}
	})
	t.Run("another program has its port", func(t *testing.T) {
		s := newHTTPServer(t, nil)
		s.refuse.Store(http.StatusUnauthorized)
		_, err := call(t, open(t, httpConfig(), map[string]tooltest.Server{"own": s.entry().With("program", 4711)}), "own", "count", obj{})
		gone(t, err)
	})
}

// A process means the functions of the program that started it: another program that has its tools file now does not get its calls.
func TestProgramThatHasAnothersFile(t *testing.T) {
	was, is := newHTTPServer(t, nil), newHTTPServer(t, nil)
	path := tooltest.Config(t, map[string]tooltest.Server{"own": was.entry().With("program", 4711)})
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	tooltest.WriteConfig(t, path, map[string]tooltest.Server{"own": is.entry().With("program", 4712)})
	_, err = newHub(t, httpConfig()).Set([]string{agentkernel.PinFile(path, tool.Digest(content))})
	e := wantCode(t, err, agentkernel.CodeUnavailable, `functions of the program that started this process, and it has ended`)
	if strings.Contains(e.Hint, "trust") {
		t.Errorf("the hint is %q", e.Hint)
	}
	if is.calls.Load() != 0 {
		t.Error("the other program was called")
	}
}

// A program may serve its functions many times over, each time with another token. The last one counts.
func TestProgramsDoNotPileUp(t *testing.T) {
	s := newHTTPServer(t, nil)
	path := filepath.Join(t.TempDir(), "tools.json")
	hub := newHub(t, tool.Config{})
	token := func(i int) string { return fmt.Sprintf("token-number-%d-of-the-program", i) }
	for i := range 5 {
		tooltest.WriteConfig(t, path, map[string]tooltest.Server{"own": {"url": s.URL + "/mcp", "program": 4711, "headers": map[string]string{"Authorization": "Bearer " + token(i)}}})
		src, err := hub.Set([]string{path})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := call(t, src, "own", "count", obj{}); err != nil {
			t.Fatal(err)
		}
	}
	if servers, secrets := tool.Held(hub); servers != 1 || slices.ContainsFunc(secrets, func(s string) bool { return strings.Contains(s, token(3)) }) || !slices.Contains(secrets, token(4)) {
		t.Errorf("%d servers and these secrets: %q", servers, secrets)
	}
}

// Whether the program is there can be asked without a call, and a server that does not come back is told of in the same words each time.
func TestProgramIsLookedFor(t *testing.T) {
	s := newHTTPServer(t, nil)
	src := open(t, httpConfig(), map[string]tooltest.Server{"own": s.entry().With("program", 4711)})
	if err := src.(agentkernel.ToolHosts).Gone(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Close()
	ofProgram := func(err error) *agentkernel.Error {
		t.Helper()
		if !errors.Is(err, agentkernel.ErrOfProgram) {
			t.Fatalf("ErrOfProgram is not in the chain of %v", err)
		}
		return wantCode(t, err, agentkernel.CodeUnavailable, agentkernel.OfProgram)
	}
	ofProgram(src.(agentkernel.ToolHosts).Gone(t.Context()))
	cfg := httpConfig()
	cfg.Clock = func() time.Time { return time.Unix(0, 0) }
	src = open(t, cfg, map[string]tooltest.Server{"own": s.entry().With("program", 4711)})
	for range 7 {
		_, err := src.Tools(t.Context(), "own")
		if e := ofProgram(err); !strings.HasPrefix(e.Message(), "the tools of server") {
			t.Fatal(e)
		}
	}
}
