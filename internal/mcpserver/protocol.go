package mcpserver

import (
	"context"
	"errors"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Versions of the protocol since which it has what this server uses. A client gets nothing that is newer than the version
// that it agreed on: strict clients refuse fields that their version does not know.
const (
	annotationsSince = "2025-03-26" // of tools; the message of a progress notification
	richerSince      = "2025-06-18" // structured results, output schemas, links to resources, titles, elicitation
	// returnsSince is the first version in which a server sends no requests: questions are returned.
	returnsSince = "2026-07-28"
)

// codeResourceUnknown says that there is no such resource, before returnsSince; later it is that of wrong parameters.
const codeResourceUnknown = -32002

// speaks says whether a session's protocol is at least of a version.
func speaks(ss *mcp.ServerSession, since string) bool {
	init := ss.InitializeParams()
	return init == nil || init.ProtocolVersion >= since
}

// agreed is the version that initialize answers to a client that asks for one.
func agreed(asked string) string {
	supported := mcp.SupportedProtocolVersions() // newest first
	if asked < returnsSince && slices.Contains(supported, asked) {
		return asked
	}
	for _, v := range supported {
		if v < returnsSince {
			return v
		}
	}
	return asked
}

// byProtocol answers each client in the version of the protocol that was agreed on.
func (h *server) byProtocol(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		ss, ok := req.GetSession().(*mcp.ServerSession)
		if !ok {
			return next(ctx, method, req)
		}
		if init, ok := req.GetParams().(*mcp.InitializeParams); ok && init != nil {
			// The SDK remembers what was asked for, and it and we take that for what was agreed on.
			init.ProtocolVersion = agreed(init.ProtocolVersion)
			if _, err := h.clients.of(ss, req.GetExtra()); err != nil { // its session is known by whose it is from here on
				return nil, err
			}
		}
		res, err := next(ctx, method, req)
		if unknown, ok := errors.AsType[*jsonrpc.Error](err); ok && method == "resources/read" &&
			unknown.Code == jsonrpc.CodeInvalidParams && !speaks(ss, returnsSince) {
			older := *unknown
			older.Code = codeResourceUnknown
			return nil, &older
		}
		if err != nil || speaks(ss, richerSince) {
			return res, err
		}
		return plainer(res, speaks(ss, annotationsSince)), nil
	}
}

// plainer is a result without what came with richerSince. The SDK shares what it lists between clients, so that the parts
// that change are copied.
func plainer(res mcp.Result, annotations bool) mcp.Result {
	switch res := res.(type) {
	case *mcp.InitializeResult:
		if res.ServerInfo != nil {
			res.ServerInfo = &mcp.Implementation{Name: res.ServerInfo.Name, Version: res.ServerInfo.Version}
		}
	case *mcp.ListToolsResult:
		for i, tool := range res.Tools {
			t := &mcp.Tool{Name: tool.Name, Description: tool.Description, InputSchema: tool.InputSchema}
			if annotations {
				t.Annotations = tool.Annotations
			}
			res.Tools[i] = t
		}
	case *mcp.ListPromptsResult:
		for i, prompt := range res.Prompts {
			p := *prompt
			p.Title = ""
			res.Prompts[i] = &p
		}
	case *mcp.CallToolResult:
		res.StructuredContent = nil
	}
	return res
}
