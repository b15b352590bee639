package e2e_test

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentkernel"
	"agentkernel/internal/mcpserver"
	"agentkernel/internal/tool/tooltest"
)

// TestMCPServerEnds: a server that is told to end answers its calls as where a connection broke. What they run goes on, and has
// its outcome told by the next server.
func TestMCPServerEnds(t *testing.T) {
	dir := home(t)
	v := startVictim(t, dir)
	defer v.kill()
	k := v.client(t, dir)
	cfg := mcpConfig(k, tooltest.Config(t, map[string]tooltest.Server{"test": tooltest.Stdio(t)}))
	file := filepath.Join(t.TempDir(), "lines")
	code := fmt.Sprintf("from tools.test import append_line\nfrom kernel import signals\nappend_line(path=%q, text='once')\nsignals.wait()\n6 * 7", file)
	calls := []*mcp.CallToolParams{
		{Name: "execute_code", Arguments: args{"code": code, "idempotency_key": "a cell"}},
		{Name: "execute_code", Arguments: args{"code": code, "idempotency_key": "alone", "session": "none"}},
	}
	serve := func() (cs *mcp.ClientSession, end func()) {
		ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s, err := mcpserver.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- s.ServeHTTP(ctx, ln, mcpserver.HTTPConfig{Tokens: map[string]string{annToken: "ann"}})
		}()
		return dialHTTP(t, "http://"+ln.Addr().String(), annToken, nil), func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("the server ended with %v", err)
			}
		}
	}
	type answer struct {
		n    int
		text string
		fail bool
	}
	ask := func(cs *mcp.ClientSession) chan answer {
		answers := make(chan answer, len(calls))
		for n, call := range calls {
			go func() {
				res, err := cs.CallTool(t.Context(), call)
				if err != nil {
					answers <- answer{n, "no answer: " + err.Error(), true}
					return
				}
				text, _ := res.Content[0].(*mcp.TextContent)
				answers <- answer{n, text.Text, res.IsError}
			}()
		}
		return answers
	}
	waiting := func() (pids []agentkernel.PID) {
		all, err := k.List(t.Context(), agentkernel.Filter{Unfinished: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range all {
			if strings.Join(p.WaitsFor, " ") == "signals.wait" {
				pids = append(pids, p.PID)
			}
		}
		return pids
	}

	cs, end := serve()
	answers := ask(cs)
	eventually(t, "all wait", func() bool { return len(waiting()) == len(calls) })
	before := waiting()
	end()
	for range calls {
		a := <-answers
		said := a.text
		for _, want := range []string{"unavailable: the ", "its server ended", map[int]string{0: " in session ", 1: " as process "}[a.n], "make the same call again"} {
			if !a.fail || !strings.Contains(said, want) {
				t.Errorf("call %d: %q, without %q", a.n, said, want)
			}
		}
	}
	if after := waiting(); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Fatalf("after the end %v wait, before it %v", after, before)
	}

	cs, end = serve()
	defer end()
	answers = ask(cs)
	for _, pid := range before {
		if err := k.Signal(t.Context(), pid, agentkernel.SignalUser); err != nil {
			t.Fatal(err)
		}
	}
	for range calls {
		if a := <-answers; a.fail || !strings.Contains(a.text, "42") {
			t.Errorf("call %d, made again: %q", a.n, a.text)
		}
	}
	if got := lines(t, file); got != "once once " {
		t.Errorf("written: %q", got)
	}
}
