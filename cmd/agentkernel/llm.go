package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/console"
	"agentkernel/internal/llm/models"
)

type llmCmd struct {
	List   llmListCmd   `cmd:"" help:"List the models that are declared: what they are, whether their keys are there, what they cost."`
	Test   llmTestCmd   `cmd:"" help:"Ask a model one short thing, and say how long it took and what it cost."`
	Key    llmKeyCmd    `cmd:"" help:"Give the running kernel the key of a model, which it keeps in memory alone."`
	Usage  llmUsageCmd  `cmd:"" help:"Show what calls to models have used and cost, by agent, model, day, namespace or tree."`
	Limits llmLimitsCmd `cmd:"" help:"Show the limits of providers that the running kernel knows, what is left of them, and what waits."`
	Prices llmPricesCmd `cmd:"" help:"Show what models cost, and install another table of prices."`
}

func (llmCmd) Help() string {
	return `Programs ask models by names of yours: ` + "`from kernel import llm; llm(\"...\")`" + `. The setting models says what stands behind a name;
docs/llm.md says how.

` + examples(
		"agentkernel llm list",
		"agentkernel llm test fast",
		"agentkernel llm key fast",
		"agentkernel llm usage --by agent,model --since 1d",
		"agentkernel llm limits",
		`agentkernel run -c 'from kernel import llm; print(llm("Say hello"))'`,
	)
}

type llmListCmd struct{}

func (llmListCmd) Help() string {
	return `Whether a key is there is said of the environment of this command: a kernel that runs already has its own. Of a key that is given (key=given) that
kernel says it.

` + examples("agentkernel llm list", "agentkernel llm list --json | jq -r '.[].alias'")
}

// listedModel is a model as it is listed.
type listedModel struct {
	Alias    string               `json:"alias"`
	Kind     string               `json:"kind"`
	Model    string               `json:"model"`
	URL      string               `json:"url,omitempty"`
	Key      string               `json:"key,omitempty"`       // where it is
	Missing  string               `json:"missing,omitempty"`   // why it is not there
	Input    *agentkernel.NanoUSD `json:"input_usd,omitempty"` // for a million tokens
	Output   *agentkernel.NanoUSD `json:"output_usd,omitempty"`
	Priced   string               `json:"priced,omitempty"` // where the prices are from
	Limits   string               `json:"limits,omitempty"` // that were declared
	Fallback string               `json:"fallback,omitempty"`

	Address string `json:"-"` // URL, or that of the kind
}

func (c *llmListCmd) Run(a *app) error {
	all, err := a.models()
	if err != nil {
		return err
	}
	if a.cli.JSON {
		return a.printJSON(all)
	}
	if len(all) == 0 {
		a.con.Note("no model is declared: in ~/.config/agentkernel/config.toml, models = [\"fast openai:gpt-5-mini\"]; docs/llm.md says how")
		return nil
	}
	rows := [][]string{{"MODEL", "IS", "KEY", "USD FOR 1M IN", "OUT", "LIMITS"}}
	for _, m := range all {
		key := m.Key
		switch {
		case m.Missing != "":
			key += " (missing)"
		case key == models.KeyGiven:
			key += " (there)"
		case key == "":
			key = "none"
		}
		in, out := "?", "?"
		if m.Input != nil {
			in, out = m.Input.String(), m.Output.String()
		}
		limits := m.Limits
		if m.Fallback != "" {
			limits = strings.TrimPrefix(limits+"; else "+m.Fallback, "; ")
		}
		rows = append(rows, []string{m.Alias, m.Kind + ":" + m.Model, key, in, out, limits})
	}
	a.con.Out(console.Table(rows, 3, 4))
	for _, m := range all {
		if m.Missing != "" {
			a.con.Note("%s: %s", m.Alias, m.Missing)
		}
	}
	return a.outputError()
}

// models are the models that the settings declare.
func (a *app) models() ([]listedModel, error) {
	declared, tables, err := a.loadModels()
	if err != nil {
		return nil, err
	}
	all, lines := []listedModel{}, map[string]int{}
	var states keyStates
	if anyGiven(declared) {
		states = a.keyStates()
	}
	for _, m := range declared {
		lines[m.Alias]++
		l := listedModel{Alias: m.Alias, Kind: m.Kind, Model: m.Name, URL: m.URL, Key: m.Key.Source, Limits: m.Limited(), Fallback: m.Fallback, Address: m.Address()}
		if m.Key.Given() {
			l.Missing = states.missing(models.DeploymentName(m.Alias, lines[m.Alias]))
		} else if _, err := m.Key.Read(a.ctx, os.LookupEnv); err != nil {
			l.Missing = err.Error()
		}
		if p, from := m.PriceOf(tables...); p != nil {
			l.Input, l.Output, l.Priced = &p.Input, &p.Output, from
		}
		all = append(all, l)
	}
	return all, nil
}

// remedy is what is to be done about a key that is missing.
func (m *listedModel) remedy() string {
	if m.Key == models.KeyGiven {
		return "give it, or declare the model with another key="
	}
	return "set it, or declare the model with another key="
}

type llmTestCmd struct {
	Model string `arg:"" optional:"" help:"The model; the first one, if none is named."`
}

func (llmTestCmd) Help() string {
	return `The question is asked by a program, as any other: it is in ps, trace and the journal, and waits its turn.

` + examples("agentkernel llm test", "agentkernel llm test smart --json")
}

// testProgram asks for one word.
const testProgram = `import sys
from kernel import llm
try:
    out = llm.complete([{"role": "user", "content": "Answer with the one word: pong"}], model=sys.argv[1] if sys.argv[1:] else None, max_tokens=1000)
except Exception as e:
    out = {"error": str(e)}
    if str(e).startswith(("not_found", "invalid_argument")): # of a model that makes vectors
        try:
            vectors = llm.embed(["pong"], model=sys.argv[1] if sys.argv[1:] else None)
            out = {"text": "a vector of " + str(len(vectors[0])) + " numbers", "model": sys.argv[1] if sys.argv[1:] else "", "usage": None, "cost_usd": None}
        except Exception:
            pass
out
`

// testWait is how long a test waits for an answer.
const testWait = 30 * time.Second

// tested is what came of a test.
type tested struct {
	PID   agentkernel.PID `json:"pid"`
	Model string          `json:"model"` // as the server names it
	Text  string          `json:"text"`
	Took  float64         `json:"seconds"`
	Cost  *float64        `json:"cost_usd"`
	Usage json.RawMessage `json:"usage"`
	// Limits are those of its key that the kernel has learned or was told; none: the server says nothing of them.
	Limits []agentkernel.ModelLimit `json:"limits"`
}

func (c *llmTestCmd) Run(a *app) error {
	all, err := a.models()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(m listedModel) bool { return c.Model == "" || m.Alias == c.Model })
	if i >= 0 && all[i].Missing != "" {
		return agentkernel.Errorf(agentkernel.CodeUnavailable, "llm test", "%s: %s", all[i].Alias, all[i].Missing).
			WithHint("%s; a kernel that runs has the environment in which it was started: agentkernel shutdown", all[i].remedy())
	}
	k, err := a.kernel()
	if err != nil {
		return err
	}
	defer k.Close()
	spec := agentkernel.Spec{Program: agentkernel.Program{Name: "llm test", Source: testProgram}, Namespace: a.cfg.Namespace,
		Limits: agentkernel.Limits{CallWait: agentkernel.Duration(testWait)}, OnBudget: agentkernel.BudgetRaise} // an allowance that is used up is an answer
	if c.Model != "" {
		spec.Program.Args = []string{c.Model}
	}
	begun := time.Now()
	p, err := k.Spawn(a.ctx, spec)
	if err != nil {
		return err
	}
	pid := p.PID
	if err := a.untilSignal(func(ctx context.Context) (err error) {
		p, err = k.Wait(ctx, pid)
		return err
	}); err != nil {
		return err
	}
	if !p.State.Terminal() { // told to end: nobody waits for the answer any more
		if err := k.Signal(a.ctx, pid, agentkernel.SignalKill); err != nil {
			return err
		}
		a.con.Note("interrupted; process %d is killed", pid)
		return exitCode(agentkernel.ExitInterrupted)
	}
	if p.Error != nil {
		e := *p.Error
		e.Traceback = "" // it is not the user's program
		return &e
	}
	var answer struct {
		tested
		Error string `json:"error"` // "code: message"
	}
	if err := json.Unmarshal(p.Result, &answer); err != nil {
		return agentkernel.Errorf(agentkernel.CodeInternal, "llm test", "the answer cannot be read: %w", err)
	}
	if code, text, failed := strings.Cut(answer.Error, ": "); failed {
		a.otherSettings(k)
		before, hint, _ := agentkernel.PassedOn(text)
		e := agentkernel.Errorf(agentkernel.Code(code), "llm test", "%s", strings.TrimRight(before, " ("))
		if hint != "" {
			e = e.WithHint("%s", hint)
		}
		return e
	}
	t := answer.tested
	t.PID, t.Took, t.Text = p.PID, time.Since(begun).Seconds(), strings.TrimSpace(t.Text)
	t.Limits = a.limitsOf(k, c.Model)
	if a.cli.JSON {
		return a.printJSON(t)
	}
	cost := "its price is not known"
	if t.Cost != nil {
		cost = fmt.Sprintf("$%.6f", *t.Cost)
	} else if string(t.Usage) == "null" { // of vectors
		cost = "agentkernel llm usage has its cost"
	}
	a.con.Out(fmt.Sprintf("%s answered %q in %.2f s · %s\n", t.Model, t.Text, t.Took, cost))
	if text := limitsText(t.Limits); text != "" {
		a.con.Out("limits: " + text + "\n")
	}
	return a.outputError()
}

// limitsOf are the limits of the key of a model that the kernel knows; "": of the first.
func (a *app) limitsOf(k agentkernel.Kernel, alias string) []agentkernel.ModelLimit {
	found := []agentkernel.ModelLimit{}
	l, err := k.ModelLimits(a.ctx)
	if err != nil {
		return found
	}
	for _, d := range l.Deployments {
		if name, _, _ := strings.Cut(d.Name, "#"); d.Tree != 0 || alias != "" && name != alias {
			continue
		}
		for i := range l.Keys {
			if g := &l.Keys[i]; g.Key == d.Key && g.Family == d.Family {
				return append(found, g.Limits...)
			}
		}
	}
	return found
}

// limitsText is limits in one line: "500 requests/min (499 left), 200,000 tokens/min (declared, 198,960 left)".
func limitsText(limits []agentkernel.ModelLimit) string {
	var parts []string
	for i := range limits {
		m := &limits[i]
		from := ""
		if m.Source != "headers" {
			from = limitSource(m) + ", "
		}
		parts = append(parts, fmt.Sprintf("%s %s (%s%s left)", limitAmount(m), limitName(m), from, thousands(m.Left)))
	}
	return strings.Join(parts, ", ")
}
