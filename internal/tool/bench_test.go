package tool_test

import (
	"context"
	"encoding/json"
	"os/exec"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentkernel"
	"agentkernel/internal/tool"
	"agentkernel/internal/tool/tooltest"
)

// What the Hub costs above the bare SDK: the same server, the same call.
func BenchmarkCall(b *testing.B) {
	args := json.RawMessage(`{"value":1}`)
	b.Run("sdk", func(b *testing.B) {
		client := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
		session, err := client.Connect(context.Background(), &mcp.CommandTransport{Command: exec.Command(tooltest.Build(b))},
			&mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
		if err != nil {
			b.Fatal(err)
		}
		defer session.Close()
		for b.Loop() {
			if _, err := session.CallTool(context.Background(), &mcp.CallToolParams{Name: "echo", Arguments: args}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("hub", func(b *testing.B) {
		src := open(b, tool.Config{}, map[string]tooltest.Server{"test": tooltest.Stdio(b)})
		c := agentkernel.ToolCall{Server: "test", Tool: "echo", Arguments: args, Key: "store/1/1"}
		for b.Loop() {
			if _, err := src.Call(context.Background(), c); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("hub-64-goroutines", func(b *testing.B) {
		src := open(b, tool.Config{}, map[string]tooltest.Server{"test": tooltest.Stdio(b)})
		c := agentkernel.ToolCall{Server: "test", Tool: "echo", Arguments: args}
		b.SetParallelism(32)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := src.Call(context.Background(), c); err != nil {
					b.Error(err)
				}
			}
		})
	})
}

// A set for each process must be cheap.
func BenchmarkSet(b *testing.B) {
	h := newHub(b, tool.Config{})
	path := tooltest.Config(b, map[string]tooltest.Server{"a": {"command": "x"}, "b": {"command": "y"}})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := h.Set([]string{path}); err != nil {
			b.Fatal(err)
		}
	}
}
