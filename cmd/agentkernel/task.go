package main

import (
	"encoding/json"
	"io"
	"os"
	"strings"

	"agentkernel"
	"agentkernel/internal/strictjson"
	"agentkernel/userland/template"
)

type taskCmd struct {
	Task  []string `arg:"" optional:"" help:"The task in plain language; - reads standard input."`
	Plan  bool     `help:"Only write the program: it goes to standard output, nothing runs."`
	Given string   `placeholder:"FILE" help:"With --plan: read {\"task\", \"tools\"} from FILE (- is standard input) and look at no configuration. For SDKs."`
	specFlags
}

func (taskCmd) Help() string {
	return `A recipe writes the program (arithmetic, fibonacci(N), summaries and totals of a CSV or JSON file), no model is asked, and
what no recipe covers in full is refused: agentkernel do has a model do it. The program is shown on standard error before it runs. One tool: agentkernel tools call.

` + examples(
		"agentkernel task 'Calculate fibonacci(30)'",
		"agentkernel task 'total quantity by region in sales.csv' --workspace .",
		"agentkernel task --plan 'average of 3, 5 and 10' > average.py",
	)
}

// given is what an SDK hands in: it knows the tools already.
type given struct {
	Task  string             `json:"task"`
	Tools []agentkernel.Tool `json:"tools"`
}

func (c *taskCmd) Run(a *app) error {
	if c.Given != "" {
		return c.planGiven(a)
	}
	text, err := a.taskText(c.Task, "agentkernel task 'Calculate fibonacci(30)'; agentkernel task --help has examples")
	if err != nil {
		return a.refuse(err)
	}
	spec, err := a.spec(&c.specFlags, agentkernel.Program{Language: agentkernel.Python})
	if err != nil {
		return a.refuse(err)
	}
	plan, err := a.planTask(text, &spec)
	if err != nil {
		return a.refuse(err)
	}
	if c.Plan {
		return a.printPlan(plan)
	}
	if a.cli.JSON {
		if err := a.printJSON(plan); err != nil {
			return err
		}
	}
	return a.runRecipe(spec, plan, &watch{})
}

// runRecipe runs what a recipe wrote, and shows it first.
func (a *app) runRecipe(spec agentkernel.Spec, plan template.Plan, w *watch) error {
	if !a.cli.JSON {
		a.con.Say("template mode (no model is asked), recipe %s:\n%s", plan.Recipe, indented(plan.Program.Source))
	}
	name := spec.Program.Name
	spec.Program = plan.Program
	if name != "" {
		spec.Program.Name = name
	}
	return a.runShown(spec, w, nil)
}

// planTask asks without tools first: servers are started only for a task that needs one. With a workspace none does.
func (a *app) planTask(text string, spec *agentkernel.Spec) (template.Plan, error) {
	if spec.Workspace != nil {
		return template.MakeInFolder(text)
	}
	files := spec.ToolFiles()
	plan, err := template.Make(text, nil)
	if err == nil || !template.Refused(err) || len(files) == 0 {
		return plan, err
	}
	if _, err := a.hold(); err != nil { // the program of the plan runs in the same kernel
		return plan, err
	}
	list, err := (&listedTools{a: a}).of(files)
	if err != nil {
		return plan, err
	}
	for _, s := range list.Servers {
		if s.Problem != "" {
			a.con.Say("tools of %s are left out: %s", s.Name, s.Problem)
		}
	}
	return template.Make(text, list.Tools)
}

// planGiven plans for a caller that knows the tools: no settings, no kernel, no data directory.
func (c *taskCmd) planGiven(a *app) error {
	if !c.Plan || len(c.Task) > 0 {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "task", "--given goes with --plan and without a task: the file has it").
			WithHint("agentkernel task --plan --given FILE")
	}
	b, err := c.readGiven(a)
	if err != nil {
		return err
	}
	var g given
	if err := json.Unmarshal(b, &g); err != nil {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "task", "%s is not {\"task\": ..., \"tools\": [...]}: %s", c.Given, strictjson.Explain(err, "it", b))
	}
	plan, err := template.Make(g.Task, g.Tools)
	if err != nil {
		return err
	}
	return a.printPlan(plan)
}

func (c *taskCmd) readGiven(a *app) ([]byte, error) {
	in, name := a.in, "standard input"
	if c.Given != "-" {
		f, err := os.Open(c.Given)
		if err != nil {
			return nil, fileError(c.Given, err)
		}
		defer f.Close()
		in, name = f, c.Given
	}
	b, err := io.ReadAll(io.LimitReader(in, maxSource+1))
	if err != nil {
		return nil, fileError(name, err)
	}
	if len(b) > maxSource {
		return nil, agentkernel.Errorf(agentkernel.CodeInvalid, "task", "%s is larger than 16 MB", name).
			WithHint("give fewer tools")
	}
	return b, nil
}

// taskText is a task: the words of the command line, or standard input for "-".
func (a *app) taskText(words []string, hint string) (string, error) {
	if len(words) == 1 && words[0] == "-" {
		return readSource(a.in, "standard input")
	}
	if len(words) == 0 {
		return "", agentkernel.Errorf(agentkernel.CodeInvalid, "task", "no task was named").WithHint("%s", hint)
	}
	return strings.Join(words, " "), nil
}

func (a *app) printPlan(plan template.Plan) error {
	if a.cli.JSON {
		return a.printJSON(plan)
	}
	a.con.Out(plan.Program.Source)
	a.con.Note("template mode (no model is asked), recipe %s; nothing was run", plan.Recipe)
	return a.outputError()
}

// indented is a program as part of a message.
func indented(source string) string {
	return "  | " + strings.ReplaceAll(strings.TrimRight(source, "\n"), "\n", "\n  | ")
}
