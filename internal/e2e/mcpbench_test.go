package e2e_test

import (
	"context"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// BenchmarkMCP compares a small program in a session with the SDK's own empty call, over stdio.
func BenchmarkMCP(b *testing.B) {
	cmd := stdioCommand(b, home(b), "")
	cs := dialMCP(b, &mcp.CommandTransport{Command: cmd}, nil)
	for name, params := range map[string]*mcp.CallToolParams{
		"ping":    nil,
		"version": {Name: "get_version"},
		"session": {Name: "execute_code", Arguments: args{"code": "6 * 7"}},
		"alone":   {Name: "execute_code", Arguments: args{"code": "6 * 7", "session": "none"}},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				var err error
				if params == nil {
					err = cs.Ping(context.Background(), nil)
				} else {
					_, err = cs.CallTool(context.Background(), params)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
