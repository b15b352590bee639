package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentkernel"
	"agentkernel/embedded"
	"agentkernel/internal/mcpserver"
)

var tasksSection = section{
	name: "tasks", title: "Background tasks of an MCP client",
	about: "An MCP client dispatches tasks with `dispatch_background_task` and waits for each with `wait_for_background_task`. Tasks that wait take no slot, so a hundred of them need " +
		"little more than one. Tasks that compute share the slots: the time that these dictate is the number of tasks, times the time of one alone, over the number of slots. Cancel: a task that computes for ever is ended " +
		"with `cancel_background_task`; the second row ends when the slot that it held has run another program.",
	run: measureTasks,
}

func measureTasks(ctx context.Context, b *bench) ([]table, error) {
	n := b.pick(100, 40, 3)
	wait, err := b.waitingTasks(ctx, n)
	if err != nil {
		return nil, err
	}
	compute, err := b.computingTasks(ctx, n)
	if err != nil {
		return nil, err
	}
	cancel, err := b.cancelledTasks(ctx, b.pick(100, 30, 2))
	if err != nil {
		return nil, err
	}
	return []table{{Rows: append([]row{wait, compute}, cancel...)}}, nil
}

// taskClient is an MCP client in front of a kernel in this process.
type taskClient struct {
	session *mcp.ClientSession
	close   func() error
}

func (b *bench) taskClient(ctx context.Context, slots int) (*taskClient, error) {
	k, err := b.open(ctx, embedded.Config{Slots: slots})
	if err != nil {
		return nil, err
	}
	server, err := mcpserver.New(mcpserver.Config{Kernel: k, Version: "bench", Spec: agentkernel.Spec{Limits: agentkernel.Limits{Time: agentkernel.Duration(time.Hour)}}})
	if err != nil {
		return nil, errors.Join(err, k.Close())
	}
	near, far := mcp.NewInMemoryTransports()
	if _, err := server.Connect(ctx, far, nil); err != nil {
		return nil, errors.Join(err, k.Close())
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil).Connect(ctx, near, nil)
	if err != nil {
		return nil, errors.Join(err, k.Close())
	}
	return &taskClient{session, func() error {
		err := session.Close()
		server.Close()
		return errors.Join(err, k.Close())
	}}, nil
}

// taskAnswer is what the tools say of a task.
type taskAnswer struct {
	ID     string  `json:"task_id"`
	Status string  `json:"status"`
	Result float64 `json:"result"`
}

func (c *taskClient) call(ctx context.Context, tool string, args map[string]any) (taskAnswer, error) {
	var a taskAnswer
	res, err := c.session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return a, err
	}
	if res.IsError {
		return a, fmt.Errorf("%s: %s", tool, res.Content[0].(*mcp.TextContent).Text)
	}
	raw, err := json.Marshal(res.StructuredContent)
	if err == nil {
		err = json.Unmarshal(raw, &a)
	}
	return a, err
}

// all dispatches n tasks and waits for them; each must give 42.
func (c *taskClient) all(ctx context.Context, n int, code string) (time.Duration, error) {
	begun := time.Now()
	ids := make([]string, n)
	for i := range ids {
		a, err := c.call(ctx, "dispatch_background_task", map[string]any{"code": code})
		if err != nil {
			return 0, err
		}
		ids[i] = a.ID
	}
	for _, id := range ids {
		a, err := c.call(ctx, "wait_for_background_task", map[string]any{"task_id": id, "timeout": sectionPatience.Seconds()})
		if err != nil {
			return 0, err
		}
		if a.Status != "completed" || a.Result != 42 {
			return 0, fmt.Errorf("task %s is %s with %v", id, a.Status, a.Result)
		}
	}
	return time.Since(begun), nil
}

func (b *bench) waitingTasks(ctx context.Context, n int) (row, error) {
	c, err := b.taskClient(ctx, 1)
	if err != nil {
		return row{}, err
	}
	wait := float64(b.pick(1000, 1000, 50)) / 1000
	took, err := c.all(ctx, n, fmt.Sprintf("from kernel import sleep\nsleep(%v)\n6 * 7", wait))
	if err = errors.Join(err, c.close()); err != nil {
		return row{}, err
	}
	r := figure(fmt.Sprintf("%d tasks that wait %v s each, one slot", n, wait), roleOurs, "%s", span(took))
	r.judge("at most 1.5 s", took <= 1500*time.Millisecond)
	return r, nil
}

func (b *bench) computingTasks(ctx context.Context, n int) (row, error) {
	slots := runtime.NumCPU()
	c, err := b.taskClient(ctx, slots)
	if err != nil {
		return row{}, err
	}
	code := fmt.Sprintf("x = 0\nfor i in range(%d):\n    x = x + i\n42", b.pick(1_500_000, 1_000_000, 10_000))
	alone, took := time.Duration(0), time.Duration(0)
	for range 3 { // the fastest: nothing else ran
		one, oneErr := c.all(ctx, 1, code)
		if err = oneErr; err != nil {
			break
		}
		if alone == 0 || one < alone {
			alone = one
		}
	}
	if err == nil {
		took, err = c.all(ctx, n, code)
	}
	if err = errors.Join(err, c.close()); err != nil {
		return row{}, err
	}
	dictated := alone * time.Duration(n) / time.Duration(slots)
	r := figure(fmt.Sprintf("%d tasks that compute %s each, %d slots", n, span(alone), slots), roleOurs, "%s; the slots dictate %s", span(took), span(dictated))
	r.judgeRatio(float64(took)/float64(dictated), 1.25, "that")
	return r, nil
}

func (b *bench) cancelledTasks(ctx context.Context, n int) ([]row, error) {
	c, err := b.taskClient(ctx, 1)
	if err != nil {
		return nil, err
	}
	var answered, freed []time.Duration
	for range n {
		if err = c.cancelOne(ctx, &answered, &freed); err != nil {
			break
		}
	}
	if err = errors.Join(err, c.close()); err != nil {
		return nil, err
	}
	rows := []row{
		latency(contender{name: "cancel of a task that computes, to the answer", role: roleOurs}, series{answered}),
		latency(contender{name: "... until its slot has run another program", role: roleOurs}, series{freed}),
	}
	for i := range rows {
		rows[i].judge("p99 at most 100 ms", rows[i].P99 <= micros(100*time.Millisecond))
	}
	return rows, nil
}

// cancelOne cancels one task once it computes: it has printed, and its slot is the only one.
func (c *taskClient) cancelOne(ctx context.Context, answered, freed *[]time.Duration) error {
	task, err := c.call(ctx, "dispatch_background_task", map[string]any{"code": "print('on')\nwhile True:\n    pass"})
	if err != nil {
		return err
	}
	for begun := false; !begun; {
		res, err := c.session.CallTool(ctx, &mcp.CallToolParams{Name: "get_background_task_status", Arguments: map[string]any{"task_id": task.ID}})
		if err != nil {
			return err
		}
		text, ok := res.Content[0].(*mcp.TextContent)
		begun = ok && len(text.Text) > 0 && text.Text[len(text.Text)-3:] == "on\n"
	}
	begun := time.Now()
	a, err := c.call(ctx, "cancel_background_task", map[string]any{"task_id": task.ID})
	if err != nil || a.Status != "cancelled" {
		return errors.Join(err, fmt.Errorf("the task is %s", a.Status))
	}
	*answered = append(*answered, time.Since(begun))
	if _, err := c.all(ctx, 1, "42"); err != nil {
		return err
	}
	*freed = append(*freed, time.Since(begun))
	return nil
}
