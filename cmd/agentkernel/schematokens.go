package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/assistant"
	"agentkernel/internal/mcpserver"
)

// serverCost is what a server's tools cost a model that reads their schemas.
type serverCost struct {
	tools, tokens int
	list          []agentkernel.Tool
	problem       string // why it could not be asked
}

// untried says whether a server was asked and did not answer. One that is disabled is not asked.
func (c serverCost) untried() bool {
	return c.problem != "" && !strings.Contains(c.problem, "is disabled")
}

// serverOutcome is what install says of one server.
type serverOutcome struct {
	Name   string `json:"name"`
	Action string `json:"action"` // moved, kept with the client, or there: in the tools file already
	Reason string `json:"reason,omitempty"`
	Tools  *int   `json:"tools"` // null: not counted
	Tokens *int   `json:"tokens"`
}

// askServers starts the servers of the tools file as it would be and asks each for its tools. One that refuses access
// stays with the client, which may be able to log in, and so does one that does not answer.
func (a *app) askServers(in *assistant.Install) (map[string]serverCost, error) {
	content, err := in.ToolsFile()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "agentkernel-install-")
	if err != nil {
		return nil, agentkernel.Errorf(agentkernel.CodeStorage, "install", "%w", err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "mcp.json")
	content, err = in.Place.AsIfThere(content)
	if err == nil {
		err = os.WriteFile(file, content, 0o600)
	}
	if err != nil {
		return nil, agentkernel.Errorf(agentkernel.CodeStorage, "install", "%w", err)
	}
	costs := map[string]serverCost{}
	err = a.withProgress(a.ctx, "asking the servers for their tools", func(ctx context.Context) error {
		costs, err = askForTools(ctx, file)
		return err
	})
	if err != nil {
		return nil, err
	}
	for name, c := range costs {
		c.problem = strings.ReplaceAll(c.problem, file, in.Place.Tools) // it lay elsewhere to be tried
		costs[name] = c
		switch {
		case strings.Contains(c.problem, "refused access"):
			in.Stay(name, "it refuses access: "+c.problem)
		case c.untried(): // it may work where the client starts it, and would be lost behind us
			in.Stay(name, "it could not be tried: "+c.problem+"; --no-count moves it all the same")
		}
	}
	return costs, nil
}

// askForTools asks all servers of a tools file at once.
func askForTools(ctx context.Context, file string) (map[string]serverCost, error) {
	source, closeAll, err := toolSource([]string{file})
	if err != nil {
		return nil, err
	}
	defer func() { _ = closeAll() }()
	servers, err := source.Servers(ctx)
	if err != nil {
		return nil, err
	}
	costs := make([]serverCost, len(servers))
	var asking sync.WaitGroup
	for i, s := range servers {
		asking.Go(func() {
			tools, err := source.Tools(ctx, s.Name)
			if err != nil {
				costs[i].problem = agentkernel.AsError(err, agentkernel.CodeUnavailable, "").Message()
				return
			}
			costs[i].tools, costs[i].tokens = len(tools), schemaCost(schemasOf(tools))
			costs[i].list = tools
		})
	}
	asking.Wait()
	byName := make(map[string]serverCost, len(servers))
	for i, s := range servers {
		byName[s.Name] = costs[i]
	}
	return byName, ctx.Err()
}

func schemasOf(tools []agentkernel.Tool) []schemaTool {
	out := make([]schemaTool, len(tools))
	for i, t := range tools {
		out[i] = schemaTool{t.Name, t.Description, t.InputSchema}
	}
	return out
}

// ownTokens is what AgentKernel's own tools cost, and what its server tells a model once.
func ownTokens(full bool) int {
	var tools []schemaTool
	for _, t := range mcpserver.Surface() {
		if full || t.Minimal {
			tools = append(tools, schemaTool{t.Name, t.Description, t.Input})
		}
	}
	return schemaCost(tools) + (len(mcpserver.Instructions())+3)/4
}

// outcomes says what becomes of each server: those of the client's file first, then those that have moved before.
func outcomes(in *assistant.Install, asked map[string]serverCost) []serverOutcome {
	out := []serverOutcome{}
	for _, s := range in.Servers {
		o := serverOutcome{Name: s.Name, Action: "moves", Reason: s.Kept}
		if s.Kept != "" {
			o.Action = "kept"
		}
		o.count(asked)
		out = append(out, o)
	}
	for _, name := range in.Already() {
		if !slices.ContainsFunc(out, func(o serverOutcome) bool { return o.Name == name }) {
			o := serverOutcome{Name: name, Action: "there"}
			o.count(asked)
			out = append(out, o)
		}
	}
	return out
}

func (o *serverOutcome) count(asked map[string]serverCost) {
	c, ok := asked[o.Name]
	switch {
	case !ok || o.Action == "kept":
	case c.untried():
		o.Reason = "not counted: " + c.problem
	case c.problem != "": // nobody pays for it, before or after
		o.Tools, o.Tokens, o.Reason = new(int), new(int), "disabled"
	default:
		o.Tools, o.Tokens = &c.tools, &c.tokens
	}
}
