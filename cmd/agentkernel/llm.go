package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
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
	return `Whether a key is there is said of the kernel that runs, which has the environment in which it was started; without one, of the environment of this
command, with which the next kernel starts.

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
	Fix     string `json:"-"` // what is to be done about a key that is missing
	There   bool   `json:"-"` // the running kernel has said whether the key is there
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
		a.con.Note("no model is declared")
		a.con.Hint(a.declareModel())
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
	a.mentionModels(nil)
	for _, m := range all {
		if m.Missing != "" {
			a.con.Note("%s: %s", m.Alias, m.Missing)
			a.con.Hint(m.Fix)
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
	var states *keyStates
	if len(declared) > 0 {
		states = a.keyStates()
	}
	for _, m := range declared {
		lines[m.Alias]++
		l := listedModel{Alias: m.Alias, Kind: m.Kind, Model: m.Name, URL: m.URL, Key: m.Key.Source, Limits: m.Limited(), Fallback: m.Fallback, Address: m.Address()}
		name := models.DeploymentName(m.Alias, lines[m.Alias])
		l.Missing, l.Fix = a.missing(states, m.Key, name)
		_, l.There = states.deployment(name)
		if p, from := m.PriceOf(tables...); p != nil {
			l.Input, l.Output, l.Priced = &p.Input, &p.Output, from
		}
		all = append(all, l)
	}
	return all, nil
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
	if info := a.running(); len(all) == 0 && (info == nil || info.Settings["models"] == "") {
		return agentkernel.Errorf(agentkernel.CodeUnavailable, "llm test", "no model is declared").WithHint("%s", a.declareModel())
	}
	i := slices.IndexFunc(all, func(m listedModel) bool { return c.Model == "" || m.Alias == c.Model })
	if i >= 0 && all[i].Missing != "" {
		return agentkernel.Errorf(agentkernel.CodeUnavailable, "llm test", "%s: %s", all[i].Alias, all[i].Missing).
			WithHint("%s", all[i].Fix)
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
	a.mentionModels(nil)
	begun := time.Now()
	p, err := k.Spawn(a.ctx, spec)
	if err != nil {
		return err
	}
	if p, err = a.awaitTest(k, p); err != nil {
		return err
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
	a.otherSettings(k) // then another model was asked than the declared one, or none
	if answer.Error != "" {
		return saidByProgram("llm test", answer.Error)
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

// awaitTest waits for the end of a test, and says what it waits for when that takes more than a moment.
func (a *app) awaitTest(k *session, p agentkernel.Process) (agentkernel.Process, error) {
	w := &watch{a: a, k: k, pid: p.PID, look: a.newLook()}
	err := a.untilSignal(func(ctx context.Context) (err error) {
		watching, stop := context.WithCancel(ctx)
		var waits sync.WaitGroup
		defer waits.Wait()
		defer stop()
		waits.Go(func() { w.tell(watching) })
		waiting, refuses := context.WithCancelCause(ctx)
		defer refuses(nil)
		waits.Go(func() { a.probe(watching, k, w.pid, refuses) })
		if p, err = k.Wait(waiting, w.pid); err != nil && errors.As(context.Cause(waiting), new(*agentkernel.Error)) {
			err = context.Cause(waiting)
		}
		return err
	})
	if e, ok := errors.AsType[*agentkernel.Error](err); ok && strings.Contains(e.Message(), refused) {
		_ = k.Signal(a.ctx, w.pid, agentkernel.SignalKill) // else its call would be made again and again
	}
	if err != nil || p.State.Terminal() {
		return p, err
	}
	if err := k.Signal(a.ctx, w.pid, agentkernel.SignalKill); err != nil { // told to end: nobody waits for the answer any more
		return p, err
	}
	a.con.Note("interrupted; process %d is killed", w.pid)
	return p, exitCode(agentkernel.ExitInterrupted)
}

// probePatience is how long a test waits for a server that was left alone, since it refused another's connection, to be asked again.
const probePatience = 4 * time.Second

// probe ends a test whose server is not there: what others wait for, a test says at once.
func (a *app) probe(ctx context.Context, k *session, pid agentkernel.PID, end context.CancelCauseFunc) {
	var first time.Time
	each(ctx, 50*time.Millisecond, func() bool {
		p, err := k.Process(ctx, pid)
		if err != nil {
			return true
		}
		for _, w := range p.WaitsFor {
			if !strings.Contains(w, "connection refused") {
				continue
			}
			if first.IsZero() {
				first = time.Now()
			}
			call, why, own := strings.Cut(w, ", "+refused)
			if !own && time.Since(first) < probePatience { // its server was left alone, and is asked again soon
				continue
			}
			_, model, _ := strings.Cut(call, " ")
			model, _, _ = strings.Cut(model, ",")
			where, _, _ := strings.Cut(why, ",")
			end(agentkernel.Errorf(agentkernel.CodeUnavailable, "llm test", "%s: %s%s: nothing listens there", model, refused, where).
				WithHint("start its server, or correct its url=: agentkernel doctor looks there, agentkernel llm list names what is declared"))
			return false
		}
		return true
	})
}

// saidByProgram is the error that a program has printed as it caught it, "code: message (hint)", for the person whom its hint was meant for.
func saidByProgram(op, text string) *agentkernel.Error {
	code, text, _ := strings.Cut(text, ": ")
	before, hint, _ := agentkernel.PassedOn(text)
	e := agentkernel.Errorf(agentkernel.Code(code), op, "%s", strings.TrimSpace(before))
	if hint != "" {
		e = e.WithHint("%s", hint)
	}
	return e
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
