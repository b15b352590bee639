package main

import (
	"cmp"
	"encoding/json"

	"agentkernel"
	"agentkernel/userland/agent"
	"agentkernel/userland/template"
)

type doCmd struct {
	Task   []string `arg:"" optional:"" help:"The task in plain language; - reads standard input."`
	Model  string   `placeholder:"ALIAS" help:"Which model writes the programs: an alias of the setting models (default: the first one)."`
	Schema string   `placeholder:"FILE" help:"JSON Schema that the result has to fit."`
	Image  []string `sep:"none" placeholder:"FILE" help:"Picture that the model is shown with the task (PNG, JPEG, GIF, WebP, up to 3.75 MB); repeatable."`
	Skill  string   `name:"save-skill" placeholder:"NAME" help:"When the task is done, keep its program as a skill that later programs import: from skills.NAME import f."`
	Turns  int      `placeholder:"N" help:"How many answers of models it may take, those that its programs ask for included (default 20)."`
	Agents int      `placeholder:"N" help:"How many sub-agents the model may have do parts of the task, in all (default none)."`
	boundFlags
	specFlags
}

func (doCmd) Help() string {
	return `A model writes a program, the kernel runs it in a sandbox, the model looks at what it printed, mends it, and ends with a result. Standard
output has the result alone; what happens meanwhile is on standard error, turn by turn, with what it has cost so far.

The model is one of the setting models (docs/llm.md). Without one, a recipe does what it covers in full, as agentkernel task does.
Tools come from --tools and from a directory tools/ here. One that changes things needs --allow, or a yes at the terminal; without a
terminal it is denied. With --workspace programs run in the folder, and what they change waits for agentkernel apply. Each bound ends the task with a message and a code other than 0: --turns, --budget-usd and the other budgets.
Killed in the middle, agentkernel recover continues it; no answer is paid for twice. With --json each step is a line, and the last one has the result.

The model can look at pictures: those of --image, and those that programs make. It is told of the skills that there are; a program becomes one
with --save-skill alone.

` + examples(
		"agentkernel do 'Which region grew fastest in sales.csv?' --tools mcp.json",
		"agentkernel do 'List the open issues about login' --tools mcp.json --model smart --turns 8",
		"agentkernel do 'Write the totals to report.txt' --tools mcp.json --allow 'filesystem.write_file'",
		"agentkernel do 'Make a chart of sales.csv' --workspace .",
		"agentkernel do 'Sum up sales.csv by region' --tools mcp.json --schema totals.json > totals.out",
		"agentkernel do 'Which of these two charts is wrong?' --image a.png --image b.png",
		"agentkernel do 'Total of sales.csv by region' --tools mcp.json --save-skill totals",
		"agentkernel do 'What is 15% of 240?' --budget-usd 0.10 --json | jq 'select(.kind == \"end\").result'",
	)
}

func (c *doCmd) Run(a *app) error {
	text, err := a.taskText(c.Task, "agentkernel do 'Which region grew fastest in sales.csv?'; agentkernel do --help has examples")
	if err != nil {
		spec, wrong := a.spec(&c.specFlags, agentkernel.Program{Language: agentkernel.Python})
		return c.refuse(a, cmp.Or(wrong, c.bound(&spec), err)) // a flag that cannot be is said first, as everywhere
	}
	models, _, err := a.loadModels()
	if err != nil {
		return c.refuse(a, err)
	}
	if len(models) == 0 && len(c.BringModel) == 0 {
		return c.withoutModel(a, text)
	}
	if err := a.knownModel(c.Model, models, c.BringModel); err != nil {
		return c.refuse(a, err)
	}
	tools := &listedTools{a: a}
	spec, err := c.spec(a, text, tools)
	if err != nil {
		return c.refuse(a, err)
	}
	w := c.watch(a)
	w.look = a.newLook()
	if c.Skill != "" {
		w.steps = &steps{lines: a.cli.JSON, skill: &agentkernel.Skill{Namespace: spec.Namespace, Name: c.Skill, Description: description(text)}}
	}
	return a.runShown(spec, w, nil)
}

// watch stands before the task: with --json each step is a line.
func (c *doCmd) watch(a *app) *watch {
	w := &watch{a: a}
	if a.cli.JSON {
		w.steps = &steps{lines: true}
	}
	return w
}

// refuse reports an error before anything ran; with --json as the end, which is the only line then.
func (c *doCmd) refuse(a *app, err error) error {
	return c.watch(a).report(agentkernel.Process{}, err)
}

// spec is the process that does the task.
func (c *doCmd) spec(a *app, text string, tools *listedTools) (agentkernel.Spec, error) {
	task, err := c.task(a, text)
	if err != nil {
		return agentkernel.Spec{}, err
	}
	modules, err := a.offeredTools()
	if err != nil {
		return agentkernel.Spec{}, err
	}
	spec, err := a.spec(&c.specFlags, agentkernel.Program{Language: agentkernel.Python, Modules: modules})
	if err == nil {
		err = a.filesNamed(text, &spec)
	}
	if err == nil {
		err = a.addTask(&spec, task, false, tools)
	}
	if err != nil {
		return spec, err
	}
	return spec, cmp.Or(c.bound(&spec), spec.Validate())
}

// task is the task as the flags say it.
func (c *doCmd) task(a *app, text string) (task agent.Task, err error) {
	task = agent.Task{Text: text, Model: c.Model, Watched: a.watched(), Steps: a.cli.JSON, Save: c.Skill, Agents: c.Agents}
	if c.Skill != "" {
		if err := agentkernel.CheckSkillName(c.Skill); err != nil {
			return task, err
		}
	}
	if c.Agents < 0 {
		return task, agentkernel.Errorf(agentkernel.CodeInvalid, "usage", "--agents %d is no number of sub-agents", c.Agents)
	}
	if task.Images, err = readPictures(c.Image); err != nil || c.Schema == "" {
		return task, err
	}
	schema, err := readFile(c.Schema)
	if err != nil {
		return task, err
	}
	if task.Schema = json.RawMessage(schema); !json.Valid(task.Schema) {
		return task, agentkernel.Errorf(agentkernel.CodeInvalid, "do", "%s is no JSON: a schema is, such as {\"type\": \"number\"}", c.Schema)
	}
	if err := agent.CheckSchema(task.Schema); err != nil {
		return task, agentkernel.Errorf(agentkernel.CodeInvalid, "do", "%s: %s", c.Schema, asError(err).Message())
	}
	return task, nil
}

// bound sets what the task may spend. A bound that is reached ends it: a task that waits for somebody to raise it would hang where nobody looks.
func (c *doCmd) bound(spec *agentkernel.Spec) error {
	if c.Turns != 0 && c.BudgetTurns != "" {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "usage", "--turns and --budget-turns are the same bound").WithHint("leave one of them out")
	}
	if spec.OnBudget == "" {
		spec.OnBudget = agentkernel.BudgetRaise
	}
	spec.Budget.Turns = agent.Turns
	if c.Turns != 0 {
		spec.Budget.Turns = int64(c.Turns)
	}
	return c.set(spec)
}

// withoutModel does what a recipe covers.
func (c *doCmd) withoutModel(a *app, text string) error {
	spec, err := a.spec(&c.specFlags, agentkernel.Program{Language: agentkernel.Python})
	if err == nil {
		err = c.bound(&spec)
	}
	if err != nil {
		return c.refuse(a, err)
	}
	if c.Model != "" || c.Schema != "" || len(c.Image) > 0 || c.Skill != "" || c.Agents > 0 {
		return c.refuse(a, agentkernel.Errorf(agentkernel.CodeUnavailable, "do", "no model is configured, and a recipe takes none of --model, --schema, --image, --save-skill and --agents").WithHint("%s", a.declareModel()))
	}
	plan, err := a.planTask(text, &spec)
	if template.Refused(err) {
		err = agentkernel.Errorf(agentkernel.CodeUnavailable, "do", "no model is configured, and no recipe covers this task").WithHint("%s", a.declareModel())
	}
	if err != nil {
		return c.refuse(a, err)
	}
	return a.runRecipe(spec, plan, c.watch(a))
}
