package mcpserver

import (
	"context"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentkernel"
)

// toolsInPrompt is how many tools the prompt describes in full.
const toolsInPrompt = 8

// addPrompts offers one prompt: a task together with the functions that fit it, so that the model can write
// the program without searching first.
func (h *server) addPrompts(s *mcp.Server) {
	s.AddPrompt(&mcp.Prompt{Name: "program", Title: "Write a program for a task", Description: "The task with the functions that fit it.",
		Arguments: []*mcp.PromptArgument{{Name: "task", Description: "what is to be done", Required: true}}},
		func(ctx context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			task := strings.TrimSpace(req.Params.Arguments["task"])
			if task == "" {
				return nil, agentkernel.Errorf(agentkernel.CodeInvalid, "prompt", "the argument task is missing")
			}
			found, err := h.cfg.Kernel.SearchTools(ctx, h.cfg.Spec.ToolFiles(), agentkernel.ToolQuery{Text: task, Limit: toolsInPrompt})
			if err != nil {
				return nil, err
			}
			var b strings.Builder
			b.WriteString(task + "\n\nWrite one Python program for execute_code that does this and prints only the answer.")
			if len(found.Tools) > 0 {
				b.WriteString(" These functions may help; search_tools finds others.\n\n")
			}
			for i := range found.Tools {
				b.WriteString(describe(&found.Tools[i], "full").text() + "\n")
			}
			return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: b.String()}}}}, nil
		})
}
