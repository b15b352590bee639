package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The catalogue is a haystack: a server of many tools that nobody needs. Their descriptions and schemas are as long as those
// of the real servers' tools in the same run.
var (
	areas = []string{"ticket", "invoice", "customer", "order", "shipment", "contract", "employee", "vacation", "meeting", "calendar", "campaign",
		"newsletter", "repository", "pipeline", "deployment", "incident", "dashboard", "metric", "budget", "expense", "supplier", "warehouse", "product", "survey", "account"}
	verbs = []string{"create", "fetch", "list", "query", "update", "archive", "restore", "assign", "comment_on", "tag", "untag", "link", "export",
		"import", "count", "watch", "unwatch", "approve", "close", "duplicate"}
)

// serveCatalogue serves n tools on standard input and output.
func serveCatalogue(ctx context.Context, n int) error {
	s := mcp.NewServer(&mcp.Implementation{Name: "catalogue", Version: "1"}, &mcp.ServerOptions{PageSize: 1000})
	for i := range min(n, len(areas)*len(verbs)) {
		s.AddTool(catalogueTool(areas[i/len(verbs)], verbs[i%len(verbs)]), func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, nil
		})
	}
	return s.Run(ctx, &mcp.StdioTransport{})
}

func catalogueTool(area, verb string) *mcp.Tool {
	words := strings.ReplaceAll(verb, "_", " ")
	schema := fmt.Sprintf(`{"type":"object","properties":{"%[1]s_id":{"type":"string","description":"Identifier of the %[1]s"},`+
		`"workspace":{"type":"string","description":"Workspace that the %[1]s belongs to"},`+
		`"fields":{"type":"array","items":{"type":"string"},"description":"Names of the fields to return"},`+
		`"dry_run":{"type":"boolean","default":false,"description":"Validate the request without applying it"}},"required":["%[1]s_id"]}`, area)
	return &mcp.Tool{Name: area + "_" + verb, InputSchema: json.RawMessage(schema),
		Description: fmt.Sprintf("%s a %s in the company's records. Returns the %s with the requested fields, or an error if it does not exist "+
			"or the caller may not %s it. Every change is written to the audit log.", strings.ToUpper(words[:1])+words[1:], area, area, words)}
}
