package mcpserver

import (
	"context"
	"crypto/rand"
	"strings"
	"time"

	"agentkernel"
)

// A task in plain language is done by a model of the kernel's, if one is configured. Else it becomes a program by a recipe, if one covers
// every word of it: that costs nothing and is tested. Anything else is written by the client's own model, where the client
// lets servers ask it (MCP sampling).

// Modes of a task, beside those of plans.
const (
	modeSampling = "sampling" // the client's model wrote the program
	modeModel    = "model"    // a model of the kernel's wrote programs, and ended with a result
)

// agentTimeout bounds a task that a model does in several turns.
const agentTimeout = 10 * time.Minute

type taskInput struct {
	Task string `json:"task_description"`
}

type taskOutput struct {
	Mode    string `json:"mode"`
	Program string `json:"program,omitempty"` // of mode model there are several, which trace shows
	executeOutput
}

// executeTask writes the program of a task and runs it.
func executeTask(ctx context.Context, c *call, in taskInput) (*taskOutput, error) {
	if strings.TrimSpace(in.Task) == "" {
		return nil, agentkernel.Errorf(agentkernel.CodeInvalid, "execute_task", "task_description is empty")
	}
	key, err := c.ownKey("")
	if err != nil {
		return nil, err
	}
	a := c.attempt(key, in.Task)
	if a.plan != nil { // a model would write another one
		return c.runPlan(ctx, a, *a.plan)
	}
	plan, err := c.plan(ctx, in.Task)
	switch {
	case agentkernel.CodeOf(err) == agentkernel.CodeUnsupported && c.h.cfg.Agent == nil && c.samples():
		return c.sampledTask(ctx, a, in.Task)
	case err != nil:
		return nil, err
	}
	return c.runPlan(ctx, a, plan)
}

// runPlan runs the program of a task.
func (c *call) runPlan(ctx context.Context, a *attempt, plan TaskPlan) (*taskOutput, error) {
	timeout := defaultTimeout
	if plan.Mode == modeModel {
		timeout = agentTimeout
	}
	spec := c.planned(plan, timeout)
	a.plan = &plan
	out, err := c.runOnce(ctx, a, spec, timeout)
	if err != nil {
		return nil, err
	}
	done := &taskOutput{Mode: plan.Mode, Program: plan.Program.Source, executeOutput: *out}
	if plan.Mode == modeModel {
		done.Program = ""
	}
	return done, nil
}

// planned is the process of a plan.
func (c *call) planned(plan TaskPlan, timeout time.Duration) agentkernel.Spec {
	spec := c.spec("", &executeInput{}, timeout)
	modules := spec.Program.Modules
	spec.Program = plan.Program
	if spec.Program.Modules == nil {
		spec.Program.Modules = modules
	}
	if plan.Budget != (agentkernel.Budget{}) { // one that waits for more would hang where nobody looks
		spec.Budget, spec.OnBudget = plan.Budget, agentkernel.BudgetRaise
	}
	return spec
}

// plan gives the program of a task: that of a model of the kernel's, or a recipe's, without tools first: servers are started only for one
// that needs them.
func (c *call) plan(ctx context.Context, task string) (TaskPlan, error) {
	if c.h.cfg.Agent != nil {
		return c.h.cfg.Agent(ctx, c.namespace(), task)
	}
	plan, err := c.h.cfg.Plan(task, nil)
	if agentkernel.CodeOf(err) != agentkernel.CodeUnsupported {
		return plan, err
	}
	found, searchErr := c.kernel().SearchTools(ctx, c.h.cfg.Spec.ToolFiles(), agentkernel.ToolQuery{Limit: agentkernel.MaxToolMatches})
	if searchErr != nil || len(found.Tools) == 0 {
		return plan, err
	}
	return c.h.cfg.Plan(task, found.Tools)
}

// sampledTask lets the client's model write the program. One that is refused before anything of it has run is handed back
// once, with the reason; one that has run is not: what it did would be done twice.
func (c *call) sampledTask(ctx context.Context, a *attempt, task string) (*taskOutput, error) {
	prompt, err := c.h.taskPrompt(ctx, c.req.Session, task)
	if err != nil {
		return nil, err
	}
	said := []string{prompt + "\nAnswer with the program alone.\n"}
	for again := true; ; again = false {
		answer, err := c.sample(ctx, said)
		if err != nil {
			return nil, err
		}
		program := agentkernel.Program{Name: "task.py", Language: agentkernel.Python, Source: fenced(answer)}
		out, err := c.runPlan(ctx, a, TaskPlan{Program: program, Mode: modeSampling})
		refused := notRun(out, err)
		if refused == "" || !again {
			return out, err
		}
		a = &attempt{key: rand.Text(), asked: a.asked}
		said = append(said, answer, "It was not run: "+refused+"\nAnswer with the whole mended program alone.\n")
	}
}

// notRun says why a program was refused before anything of it has run; "": it was not.
func notRun(out *taskOutput, err error) string {
	code, says := agentkernel.CodeOf(err), ""
	if err != nil {
		says = agentkernel.AsError(err, "", "").TextFor(agentkernel.OverMCP)
	} else if out.Error != nil && !out.ran {
		code, says = agentkernel.Code(out.Error.Code), out.Error.text()
	}
	switch code {
	case agentkernel.CodeSyntax, agentkernel.CodeUnsupported, agentkernel.CodeNotFound:
		return says
	}
	return ""
}

const fence = "```"

// unwrapped is the code of a model that has put all of it between fences, as it would in an answer.
func unwrapped(code string) string {
	if trimmed := strings.TrimSpace(code); strings.HasPrefix(trimmed, fence) {
		return fenced(trimmed)
	}
	return code
}

// fenced is the first block of code in an answer, or all of it.
func fenced(answer string) string {
	_, rest, found := strings.Cut("\n"+answer, "\n"+fence)
	if !found {
		return answer
	}
	_, code, found := strings.Cut(rest, "\n") // the language stands behind the fence
	if !found {
		return answer
	}
	code, _, _ = strings.Cut("\n"+code, "\n"+fence)
	return strings.TrimPrefix(code, "\n") + "\n"
}

func (o *taskOutput) text() string {
	by := o.Mode + " mode (no model)"
	switch o.Mode {
	case modeSampling:
		by = "written by your client's model"
	case modeModel:
		return o.executeOutput.text()
	}
	return by + ", program:\n" + strings.TrimRight(o.Program, "\n") + "\n---\n" + o.executeOutput.text()
}
