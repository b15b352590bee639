//nolint:staticcheck // deprecated in 2026-07-28, and in use until then and a year beyond
package mcpserver

import (
	"context"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentkernel"
)

// Bounds of asking the client's model.
const (
	samplePatience  = 5 * time.Minute // its human may be asked, too
	maxSampleTokens = 4000
)

// samples says whether the client's model may be asked. The newest protocol plans to drop it, and lets servers send no
// requests of their own.
func (c *call) samples() bool {
	init := c.req.Session.InitializeParams()
	return init != nil && init.Capabilities != nil && init.Capabilities.Sampling != nil && !speaks(c.req.Session, returnsSince)
}

// sample asks the client's model; said are its user's turns and its own, one after the other.
func (c *call) sample(ctx context.Context, said []string) (string, error) {
	messages := make([]*mcp.SamplingMessage, len(said))
	for i, text := range said {
		messages[i] = &mcp.SamplingMessage{Role: []mcp.Role{"user", "assistant"}[i%2], Content: &mcp.TextContent{Text: text}}
	}
	ctx, cancel := context.WithTimeout(ctx, samplePatience)
	defer cancel()
	res, err := c.req.Session.CreateMessage(ctx, &mcp.CreateMessageParams{Messages: messages, SystemPrompt: instructions, MaxTokens: maxSampleTokens})
	if err != nil {
		return "", agentkernel.Errorf(agentkernel.CodeUnavailable, "execute_task", "no recipe covers the task, and the client did not let its model write the program: %w", err).
			WithHint("write the program yourself: execute_code")
	}
	text, ok := res.Content.(*mcp.TextContent)
	if !ok || strings.TrimSpace(text.Text) == "" {
		return "", agentkernel.Errorf(agentkernel.CodeUnavailable, "execute_task", "no recipe covers the task, and the client's model answered without a program").
			WithHint("write the program yourself: execute_code")
	}
	return text.Text, nil
}
