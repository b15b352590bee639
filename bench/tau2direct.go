package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentkernel/bench/retail"
)

// byCalls is a model with function calling and its client.
func (x *tau2Bench) byCalls(ctx context.Context, t retail.Task, calls []retail.Call, shop *retail.Shop) error {
	x.provider.begin(func(string) (string, []code) { return callScript(calls), nil })
	here, there := mcp.NewInMemoryTransports()
	serving, err := shop.Server().Connect(ctx, there, nil)
	if err != nil {
		return err
	}
	defer serving.Close()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil).Connect(ctx, here, nil)
	if err != nil {
		return err
	}
	defer session.Close()
	var tools []any
	for tool, err := range session.Tools(ctx, nil) {
		if err != nil {
			return err
		}
		tools = append(tools, map[string]any{"type": "function", "function": map[string]any{"name": tool.Name, "description": tool.Description, "parameters": tool.InputSchema}})
	}
	messages := []message{{Role: "system", Content: x.policy}, {Role: "user", Content: t.Wish}}
	for range len(calls) + 1 {
		said, err := x.ask(ctx, messages, tools)
		if err != nil {
			return err
		}
		if len(said.ToolCalls) == 0 {
			if said.Content != allDone {
				return fmt.Errorf("the model says %q", said.Content)
			}
			return nil
		}
		answers, err := answersOf(ctx, session, said.ToolCalls)
		if err != nil {
			return err
		}
		messages = append(append(messages, said), answers...)
	}
	return errors.New("the model does not come to an end")
}

// ask asks for the next turn of a conversation.
func (x *tau2Bench) ask(ctx context.Context, messages []message, tools []any) (message, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(map[string]any{"model": "gpt-dev", "messages": messages, "tools": tools, "max_completion_tokens": 4096}); err != nil {
		return message{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, x.provider.url+"/v1/chat/completions", &b)
	if err != nil {
		return message{}, err
	}
	r.Header.Set("Authorization", "Bearer sk-bench")
	r.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return message{}, err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	var answer struct{ Choices []struct{ Message message } }
	if err == nil {
		err = json.Unmarshal(raw, &answer)
	}
	if err != nil || len(answer.Choices) != 1 {
		return message{}, fmt.Errorf("status %d, %w: %.200s", res.StatusCode, err, raw)
	}
	return answer.Choices[0].Message, nil
}

// answersOf makes the calls that the model wants.
func answersOf(ctx context.Context, session *mcp.ClientSession, calls []toolCall) (answers []message, err error) {
	for _, c := range calls {
		result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: c.Function.Name, Arguments: json.RawMessage(c.Function.Arguments)})
		if err != nil {
			return nil, err
		}
		var text strings.Builder
		for _, part := range result.Content {
			if t, ok := part.(*mcp.TextContent); ok {
				text.WriteString(t.Text)
			}
		}
		answers = append(answers, message{Role: "tool", Content: text.String(), ToolCallID: c.ID})
	}
	return answers, nil
}
