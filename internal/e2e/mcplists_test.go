package e2e_test

import (
	"strings"
	"testing"

	"agentkernel"
	"agentkernel/internal/tool/tooltest"
)

// A kernel that has just started finds tools without starting a server; the first program that imports one starts it.
func TestMCPSearchStartsNothing(t *testing.T) {
	dir := home(t)
	cfg := tooltest.Config(t, map[string]tooltest.Server{"test": tooltest.Stdio(t), "other": tooltest.Stdio(t, "-page-size", "3")})
	running := func(k agentkernel.Kernel) string {
		t.Helper()
		servers, err := k.ToolServers(t.Context(), []string{cfg})
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, s := range servers {
			if s.Running {
				out = append(out, s.Name)
			}
		}
		return strings.Join(out, " ")
	}
	k := openEmbedded(t, dir)
	tool(t, connectMCP(t, mcpConfig(k, cfg)), "search_tools", args{"query": "append a line"}, "append_line")
	if got := running(k); got != "other test" && got != "test other" {
		t.Errorf("nothing was known, and %q runs", got)
	}
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	k = openEmbedded(t, dir)
	cs := connectMCP(t, mcpConfig(k, cfg))
	tool(t, cs, "search_tools", args{"query": "append a line", "detail_level": "full"}, "append_line(path: str, text: str)")
	tool(t, cs, "list_available_tools", nil, "append_line")
	if got := running(k); got != "" {
		t.Errorf("a search started %s", got)
	}
	tool(t, cs, "execute_code", args{"code": "from tools.test import add\nadd(a=1, b=2)['sum']"}, "result: 3")
	if got := running(k); got != "test" {
		t.Errorf("an import of one server started %q", got)
	}
	tooltest.WriteConfig(t, cfg, map[string]tooltest.Server{"test": tooltest.Stdio(t), "third": tooltest.Stdio(t)})
	tool(t, cs, "list_servers", nil, "tools.third")
	tool(t, cs, "search_tools", args{"query": "append a line", "max_results": 5}, "from tools.third import append_line")
	if got := tool(t, cs, "list_available_tools", nil, "tools.third")["tools"].(map[string]any); got["other"] != nil {
		t.Errorf("a server that is configured no more is listed: %v", got)
	}
}
