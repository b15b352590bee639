package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentkernel"
)

// Background tasks are processes with a name by which their user finds them again: they show in ps, survive
// restarts, have limits and are really ended.

// maxTasks is how many tasks a listing looks at, the newest first.
const maxTasks = 1000

func (h *server) taskTools() []*definition {
	return []*definition{
		handle(&definition{name: "dispatch_background_task", destroys: true,
			say: "Start code or a task in words; returns a task_id. Survives restarts."}, dispatchTask),
		handle(&definition{name: "get_background_task_status", reads: true, say: "State, output and result of a task."}, taskStatus),
		handle(&definition{name: "wait_for_background_task", reads: true,
			say: "Wait until a task has ended; after timeout it runs on."}, waitForTask),
		handle(&definition{name: "list_background_tasks", reads: true, say: "Your tasks, newest first."}, listTasks),
		handle(&definition{name: "cancel_background_task", destroys: true, say: "End a task at once."}, cancelTask),
	}
}

type dispatchInput struct {
	Code    string  `json:"code,omitempty"`
	Task    string  `json:"task_description,omitempty"`
	Timeout float64 `json:"timeout,omitempty" say:"seconds, default none"`
	Backend string  `json:"backend,omitempty"`
	Key     string  `json:"idempotency_key,omitempty" where:"hosts"`
}

type taskState struct {
	TaskID  string          `json:"task_id"`
	Status  string          `json:"status"` // running, paused, unfinished, completed, failed, cancelled
	Created string          `json:"created"`
	Seconds float64         `json:"seconds"`
	Result  json.RawMessage `json:"result,omitempty"`
	Stdout  string          `json:"stdout,omitempty"`
	Stderr  string          `json:"stderr,omitempty"`
	Error   *programError   `json:"error,omitempty"`
	Note    string          `json:"note,omitempty"`
	// Artifacts are as of execute_code, once the task has ended.
	Artifacts []artifact `json:"artifacts,omitempty"`
	outcome   *executeOutput
}

// attached are the images of a task's result and the addresses of what is left out.
func (s *taskState) attached(links bool) []mcp.Content {
	if s.outcome == nil {
		return nil
	}
	return s.outcome.attached(links)
}

// taskName marks the processes that are tasks of a user.
func (c *call) taskName() string {
	if c.client.user == "" {
		return "<task>"
	}
	return "<task of " + c.client.user + ">"
}

func dispatchTask(ctx context.Context, c *call, in dispatchInput) (*taskState, error) {
	in.Code = unwrapped(in.Code)
	timeout, err := seconds(in.Timeout, 0)
	if err != nil {
		return nil, err
	}
	spec, err := c.dispatched(ctx, in, timeout)
	if err != nil {
		return nil, err
	}
	spec.Program.Name = c.taskName()
	key, err := c.ownKey(in.Key)
	if err != nil {
		return nil, err
	}
	a := c.attempt(key, in.Code, in.Task, in.Backend, timeout.String())
	spec.IdempotencyKey = a.key
	p, err := c.kernel().Spawn(ctx, spec)
	if err == nil && p.State == agentkernel.StateUnfinished { // of the same request, before its kernel died
		p, err = c.recovered(ctx, p)
	}
	c.settle(ctx, a, nil, err)
	if err != nil {
		return nil, c.lost(err, "the task may have been started")
	}
	return c.state(p), nil
}

// dispatched is the process of a task: code, or what does what a sentence says.
func (c *call) dispatched(ctx context.Context, in dispatchInput, timeout time.Duration) (spec agentkernel.Spec, err error) {
	code, task := strings.TrimSpace(in.Code) != "", strings.TrimSpace(in.Task) != ""
	switch {
	case code && task:
		return spec, agentkernel.Errorf(agentkernel.CodeInvalid, "dispatch_background_task", "code and task_description are both there").WithHint("leave one of them out")
	case code:
		return c.spec(in.Code, &executeInput{Backend: in.Backend}, timeout), nil
	case !task:
		return spec, agentkernel.Errorf(agentkernel.CodeInvalid, "dispatch_background_task", "code is empty")
	case c.h.cfg.Plan == nil && c.h.cfg.Agent == nil:
		return spec, agentkernel.Errorf(agentkernel.CodeUnsupported, "dispatch_background_task", "this server does no tasks in plain language").WithHint("send code")
	}
	plan, err := c.plan(ctx, in.Task)
	if err != nil {
		return spec, err
	}
	if spec = c.planned(plan, timeout); in.Backend != "" {
		spec.Backend = in.Backend
	}
	return spec, nil
}

// task finds a task of the client's user.
func (c *call) task(ctx context.Context, id string) (agentkernel.Process, error) {
	none := agentkernel.Errorf(agentkernel.CodeNotFound, c.tool, "there is no background task %.80q", id).WithHint("list_background_tasks")
	pid, err := agentkernel.ParsePID(id)
	if err != nil {
		return agentkernel.Process{}, none
	}
	p, err := c.kernel().Process(ctx, pid)
	switch {
	case agentkernel.CodeOf(err) == agentkernel.CodeNotFound:
		return p, none
	case err != nil:
		return p, err
	case p.Name != c.taskName() || p.Namespace != c.namespace():
		return p, none
	}
	return p, nil
}

func (c *call) state(p agentkernel.Process) *taskState {
	end := p.Ended
	if end.IsZero() {
		end = c.h.cfg.Now()
	}
	s := &taskState{TaskID: p.PID.String(), Created: p.Created.UTC().Format(time.RFC3339), Seconds: max(end.Sub(p.Created), 0).Round(time.Millisecond).Seconds()}
	switch {
	case p.Paused:
		s.Status, s.Note = "paused", agentkernel.OverMCP.Hint(p.PauseNote)
	case p.State == agentkernel.StateUnfinished:
		s.Status, s.Note = "unfinished", "its kernel ended; wait_for_background_task continues it"
	case p.State == agentkernel.StateExited && p.ExitCode == 0:
		s.Status = "completed"
	case p.State == agentkernel.StateKilled && p.Error != nil && p.Error.Code == agentkernel.CodeKilled:
		s.Status = "cancelled"
	case p.State.Terminal():
		s.Status = "failed"
	default:
		s.Status = "running"
	}
	return s
}

// outcome is a task with what it printed and how it ended.
func (c *call) outcome(ctx context.Context, p agentkernel.Process) (*taskState, error) {
	s := c.state(p)
	w := &watch{c: c, ctx: ctx}
	err := c.kernel().Events(ctx, p.PID, 1, false, func(ev agentkernel.Event) error {
		if ev.Kind == agentkernel.EventOutput {
			return w.event(ev)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	out := w.output(p, p.Result, p.Error)
	if p.State.Terminal() {
		c.addArtifacts(ctx, out, new(sync.Map))
	}
	s.Artifacts = out.Artifacts
	s.Result, s.Stdout, s.Stderr, s.Error, s.outcome = out.Result, out.Stdout, out.Stderr, out.Error, out
	if out.Note != "" {
		s.Note = out.Note
	}
	return s, nil
}

type taskID struct {
	TaskID string `json:"task_id"`
}

func taskStatus(ctx context.Context, c *call, in taskID) (*taskState, error) {
	return patiently(ctx, endPatience, func() (*taskState, error) {
		p, err := c.task(ctx, in.TaskID)
		if err != nil {
			return nil, err
		}
		return c.outcome(ctx, p)
	})
}

// Between two questions whether there is a kernel; the pause doubles.
const (
	firstPause = 20 * time.Millisecond
	lastPause  = 640 * time.Millisecond
)

// patiently asks for what changes nothing, for so long as no kernel answers: one that has ended is followed by the next.
func patiently[T any](ctx context.Context, patience time.Duration, ask func() (T, error)) (out T, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		if out, err = ask(); !noKernel(err) || !rested(ctx, pause) {
			return out, err
		}
	}
}

// noKernel says whether no kernel has answered: it went away, is going, or is not there yet.
func noKernel(err error) bool {
	e, ok := errors.AsType[*agentkernel.Error](err)
	return ok && e.Code == agentkernel.CodeUnavailable && (e.Op == agentkernel.OpKernel || e.Op == "attach" || noKernel(e.Err))
}

// rested waits; false: ctx ended.
func rested(ctx context.Context, pause time.Duration) bool {
	select {
	case <-time.After(pause):
		return true
	case <-ctx.Done():
		return false
	}
}

type waitInput struct {
	TaskID  string   `json:"task_id"`
	Timeout *float64 `json:"timeout,omitempty" say:"seconds, default 60"` // 0 does not wait
}

func waitForTask(ctx context.Context, c *call, in waitInput) (*taskState, error) {
	timeout := time.Minute
	if in.Timeout != nil {
		var err error
		if timeout, err = seconds(*in.Timeout, 0); err != nil {
			return nil, err
		}
	}
	p, err := patiently(ctx, max(timeout, endPatience), func() (agentkernel.Process, error) { return c.task(ctx, in.TaskID) })
	if err != nil {
		return nil, err
	}
	watch := c.watch(ctx, nil)
	p, err = c.awaitTask(ctx, p, timeout)
	watch.stop()
	if err != nil {
		return nil, c.lost(err, "the task may have ended")
	}
	return patiently(ctx, endPatience, func() (*taskState, error) { return c.outcome(ctx, p) })
}

// maxKernels is how many kernels may die while somebody waits for a task: one may be its own doing.
const maxKernels = 3

// awaitTask waits until a task has ended, or for so long. One whose kernel died before or dies meanwhile goes on with the next;
// where none takes it up, or each dies of it, it is unfinished.
func (c *call) awaitTask(ctx context.Context, p agentkernel.Process, timeout time.Duration) (agentkernel.Process, error) {
	bounded, cancel := context.WithTimeoutCause(ctx, timeout, errTimeout)
	defer cancel()
	first, end := p.Recoveries, time.Now().Add(timeout)
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		now, err := c.awaitOnce(ctx, bounded, p)
		left := noKernel(err) || agentkernel.CodeOf(err) == agentkernel.CodeConflict || err == nil && now.State == agentkernel.StateUnfinished
		if !left || ctx.Err() != nil {
			return now, err
		}
		p, err = patiently(ctx, max(time.Until(end), endPatience), func() (agentkernel.Process, error) { return c.kernel().Process(ctx, p.PID) })
		if err != nil || p.State.Terminal() || p.State == agentkernel.StateUnfinished && p.Recoveries-first >= maxKernels || !rested(bounded, pause) {
			return p, err
		}
	}
}

// awaitOnce is awaitTask with one kernel.
func (c *call) awaitOnce(ctx, bounded context.Context, p agentkernel.Process) (_ agentkernel.Process, err error) {
	if p.State == agentkernel.StateUnfinished {
		if p, err = c.recovered(ctx, p); err != nil {
			return p, err
		}
	}
	if p.State.Terminal() || bounded.Err() != nil && ctx.Err() == nil {
		return p, nil
	}
	if _, err = c.kernel().Wait(bounded, p.PID); err != nil && !errors.Is(context.Cause(bounded), errTimeout) {
		return p, err
	}
	return c.kernel().Process(ctx, p.PID)
}

type nothing struct{}

type taskList struct {
	Tasks []*taskState `json:"tasks"`
}

func listTasks(ctx context.Context, c *call, _ nothing) (*taskList, error) {
	all, err := c.kernel().List(ctx, agentkernel.Filter{Namespace: c.namespace(), Limit: maxTasks})
	if err != nil {
		return nil, err
	}
	out := &taskList{Tasks: []*taskState{}}
	for _, p := range all {
		if p.Name == c.taskName() {
			out.Tasks = append(out.Tasks, c.state(p))
		}
	}
	return out, nil
}

func (l *taskList) text() string {
	if len(l.Tasks) == 0 {
		return "no background tasks"
	}
	var b strings.Builder
	for _, t := range l.Tasks {
		fmt.Fprintf(&b, "%s  %s  %.1f s  %s\n", t.TaskID, t.Status, t.Seconds, t.Created)
	}
	return b.String()
}

func (s *taskState) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "task %s: %s after %.1f s", s.TaskID, s.Status, s.Seconds)
	if s.Note != "" {
		b.WriteString(" (" + s.Note + ")")
	}
	b.WriteByte('\n')
	if o := s.outcome; o != nil && (o.Stdout+o.Stderr+string(o.Result)+o.preview != "" || len(o.Artifacts) > 0 || o.Error != nil) {
		said := *o
		said.Note = "" // it stands above
		b.WriteString(said.text())
	}
	return b.String()
}

func cancelTask(ctx context.Context, c *call, in taskID) (*taskState, error) {
	p, err := c.task(ctx, in.TaskID)
	if err != nil {
		return nil, err
	}
	if p.State.Terminal() {
		return nil, agentkernel.Errorf(agentkernel.CodeConflict, c.tool, "task %s has ended already: %s", in.TaskID, c.state(p).Status)
	}
	if err := c.kernel().Signal(ctx, p.PID, agentkernel.SignalKill); err != nil {
		return nil, err
	}
	if p, err = c.kernel().Process(ctx, p.PID); err != nil {
		return nil, err
	}
	return c.state(p), nil
}
