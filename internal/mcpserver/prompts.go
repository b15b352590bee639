package mcpserver

import (
	"context"
	"net/url"
	"strings"
	"time"

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
			text, err := h.taskPrompt(ctx, req.Session, task)
			if err != nil {
				return nil, err
			}
			return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: text}}}}, nil
		})
}

// taskPrompt is a task with what is needed to write its program.
func (h *server) taskPrompt(ctx context.Context, session *mcp.ServerSession, task string) (string, error) {
	found, err := h.cfg.Kernel.SearchTools(ctx, h.cfg.Spec.ToolFiles(), agentkernel.ToolQuery{Text: task, Limit: toolsInPrompt, Modules: h.local()})
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(task + "\n\nWrite one Python program for execute_code that does this and prints only the answer.")
	if len(found.Tools) > 0 {
		b.WriteString(" These functions may help; search_tools finds others.\n\n")
	}
	for i := range found.Tools {
		b.WriteString(describe(&found.Tools[i], "full").text() + "\n")
	}
	if folders := rootsOf(ctx, session); len(folders) > 0 {
		b.WriteString("\nThe user works in " + strings.Join(folders, ", ") + ". Only tools can read there.\n")
	}
	return b.String(), nil
}

// rootsPatience is how long a client may take to name its folders.
const rootsPatience = 5 * time.Second

// rootsOf are the folders that a client names as the user's. They are context for whoever writes a program, and
// nothing more: what may be touched is decided by the configuration of the tools.
func rootsOf(ctx context.Context, ss *mcp.ServerSession) []string {
	init := ss.InitializeParams()
	//nolint:staticcheck // deprecated in 2026-07-28, and in use until then and a year beyond
	if init == nil || init.Capabilities == nil || init.Capabilities.RootsV2 == nil || speaks(ss, returnsSince) {
		return nil // the newest protocol plans to drop them
	}
	ctx, cancel := context.WithTimeout(ctx, rootsPatience)
	defer cancel()
	//nolint:staticcheck // deprecated in 2026-07-28, and in use until then and a year beyond
	res, err := ss.ListRoots(ctx, nil)
	if err != nil {
		return nil
	}
	var out []string
	for _, r := range res.Roots {
		folder := r.URI
		if u, err := url.Parse(r.URI); err == nil && u.Scheme == "file" && u.Host == "" {
			folder = u.Path
		}
		if r.Name != "" {
			folder = quoted(r.Name) + " (" + folder + ")"
		}
		out = append(out, strings.ToValidUTF8(folder, "\ufffd"))
	}
	return out
}
