package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

var mcpSection = section{
	name: "mcp", title: "execute_code over MCP",
	about: "`6 * 7` by `execute_code` of `agentkernel mcp` on standard input and output, from the call to its answer, with the official Go SDK as the " +
		"client: in the client's session, which keeps its variables, and as a program of its own (`session: none`). Floor: an empty tool of a server of the same SDK, over the same kind of pipe.",
	run: measureMCP,
}

// addedGoal is what a small program may take beyond the empty tool.
const addedGoal = time.Millisecond

func measureMCP(ctx context.Context, b *bench) (tables []table, err error) {
	empty, err := goBuild(ctx, b.root, filepath.Join(b.tmp, "emptytool"), "./bench/emptytool")
	if err != nil {
		return nil, err
	}
	attached, err := b.commandLine()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, attached.stop()) }()
	embedded, err := b.commandLine()
	if err != nil {
		return nil, err
	}
	sessions := make([]*mcp.ClientSession, 3)
	for i, command := range [][]string{{empty}, {b.cli, "mcp"}, {b.cli, "mcp", "--embedded"}} {
		at := attached.at
		if i == 2 {
			at = embedded.at
		}
		if sessions[i], err = dialStdio(ctx, at, command); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, sessions[i].Close()) }()
	}
	n := b.pick(100, 50, 2)
	code := func(session string) map[string]any { return map[string]any{"code": "6 * 7", "session": session} }
	own := map[string]any{"code": "6 * 7"}
	contenders := []contender{
		{name: "an empty tool of the SDK", role: roleFloor, n: n, run: callTool(sessions[0], "nothing", map[string]any{}, "42")},
		{name: "`execute_code` in the session, attached", role: roleOurs, n: n, run: callTool(sessions[1], "execute_code", own, "result: 42")},
		{name: "`execute_code` in the session, `--embedded`", role: roleOurs, n: n, run: callTool(sessions[2], "execute_code", own, "result: 42")},
		{name: "`execute_code`, `session: none`, attached", role: roleOurs, n: n, run: callTool(sessions[1], "execute_code", code("none"), "result: 42")},
	}
	results, err := contest(ctx, b.pick(25, 8, 2), b.tell, contenders)
	if err != nil {
		return nil, err
	}
	rows := latencies(contenders, results)
	for i := 1; i < len(rows); i++ {
		rows[i].Ratio = results[i].ratio(results[0])
		added := results[i].added(results[0])
		rows[i].What += ": " + span(added) + " added"
		if i < 3 {
			rows[i].judge("p50 at most "+span(addedGoal)+" added", added <= addedGoal)
		}
	}
	return []table{{Rows: rows, Notes: []string{
		"Added is the median, over the rounds, of the difference of the blocks' p50s.",
		"Each call's result is in the journal, on the disk, before it is answered: one commit.",
	}}}, nil
}

// added is the median over the rounds of the difference of the blocks' p50s.
func (s series) added(floor series) time.Duration {
	differences := make([]float64, len(s))
	for i := range s {
		differences[i] = float64(blockP50(s[i]) - blockP50(floor[i]))
	}
	return time.Duration(median(differences))
}

func dialStdio(ctx context.Context, at surroundings, command []string) (*mcp.ClientSession, error) {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir, cmd.Env, cmd.Stderr = at.dir, at.env, os.Stderr
	return mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil).Connect(ctx, &mcp.CommandTransport{Command: cmd}, nil)
}

// callTool is one call, whose answer is checked.
func callTool(s *mcp.ClientSession, tool string, args map[string]any, want string) func(context.Context) error {
	params := &mcp.CallToolParams{Name: tool, Arguments: args}
	return func(ctx context.Context) error {
		res, err := s.CallTool(ctx, params)
		if err != nil {
			return err
		}
		if text, ok := res.Content[0].(*mcp.TextContent); !ok || res.IsError || !strings.Contains(text.Text, want) {
			return fmt.Errorf("%s answered %+v, not %q", tool, res.Content[0], want)
		}
		return nil
	}
}
