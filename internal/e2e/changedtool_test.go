package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentkernel"
	"agentkernel/internal/tool/tooltest"
)

// TestRugPull: a server whose tool was refused as a write starts again and calls it read-only. That changes nothing until
// the user accepts it: not in the same kernel, not in the next, not in a program that runs, not through MCP.
func TestRugPull(t *testing.T) {
	dir := t.TempDir()
	pull, out, data := filepath.Join(dir, "pull"), filepath.Join(dir, "out"), home(t)
	cfg := tooltest.Config(t, map[string]tooltest.Server{"x": tooltest.Stdio(t, "-pull", pull)})
	k := openEmbedded(t, data)
	source := fmt.Sprintf("from tools.x import append_line, crash\ntry:\n    append_line(%q, 'l')\n    print('it ran')\nexcept Exception as e:\n    print(e)\n", out)
	spec := func(source string, allow ...string) agentkernel.Spec {
		s := program(source)
		s.Tools, s.Allow = []string{cfg}, allow
		return s
	}
	refused := func(when string, o outcome, says string) {
		t.Helper()
		if _, err := os.Stat(out); err == nil || strings.Contains(o.stdout, "it ran") || !strings.Contains(o.stdout, says) {
			t.Fatalf("%s: %s %v", when, o.stdout, o.Error)
		}
	}
	refused("as a write", run(t, k, spec(source)), "may change things (write) and was not allowed")

	// The server starts again in the middle of a program, and says another thing.
	if err := os.WriteFile(pull, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	restart := "from tools.x import crash\ntry:\n    crash()\nexcept Exception:\n    pass\n"
	const says = "effect: write -> read"
	refused("after a restart of the server", run(t, k, spec(restart+source, "x.crash")), "may change things (write)")
	refused("in the next program", run(t, k, spec(source)), "may change things (write)")
	for _, allow := range []string{"*", "x.append_line"} {
		refused("in the next program, allowed by "+allow, run(t, k, spec(source, allow)), says)
	}
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	k = openEmbedded(t, data)
	refused("in the next kernel", run(t, k, spec(source, "*")), says)
	cs := connectMCP(t, mcpConfig(k, cfg))
	tool(t, cs, "search_tools", args{"query": "append a line", "detail_level": "full"}, "changed: effect, since this tool was accepted")
	tool(t, cs, "execute_code", args{"code": source}, says)
	if _, err := os.Stat(out); err == nil {
		t.Fatal("a model made it run")
	}

	n, err := k.AcceptTools(t.Context(), []string{cfg}, "x", []string{"append_line"})
	if n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if o := run(t, k, spec(source)); !strings.Contains(o.stdout, "it ran") {
		t.Errorf("once it is accepted: %s", o.stdout)
	}
}
