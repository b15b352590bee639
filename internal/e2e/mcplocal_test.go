package e2e_test

import (
	"testing"

	"agentkernel"
	"agentkernel/internal/tool/tooltest"
)

// Local tools are seen over MCP as those of servers are, whether the kernel is here or behind a socket.
func TestMCPLocalTools(t *testing.T) {
	tools := tooltest.Config(t, map[string]tooltest.Server{"test": tooltest.Stdio(t)})
	for _, k := range []agentkernel.Kernel{openEmbedded(t, home(t)), openClient(t, home(t))} {
		cfg := mcpConfig(k, tools)
		cfg.Spec.Program.Modules = map[string]string{"tools.maths.double": "def double(x: int) -> int:\n    \"\"\"Doubles a number.\"\"\"\n    return 2 * x\n"}
		cs := connectMCP(t, cfg)
		tool(t, cs, "list_servers", nil, "tools.maths")
		tool(t, cs, "list_available_tools", nil, "tools.maths: double\ntools.test: ")
		tool(t, cs, "get_server_tools", args{"server_name": "maths"}, "double(x: int) -> int")
		tool(t, cs, "get_server_tools", args{"server_name": "test"}, "append_line(path: str, text: str)")
		tool(t, cs, "search_tools", args{"query": "double a number", "detail_level": "full"}, "from tools.maths import double\n  double(x: int) -> int  # local")
		tool(t, cs, "execute_code", args{"code": "from tools.maths import double\ndouble(21)"}, "result: 42")
	}
}
