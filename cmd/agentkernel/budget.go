package main

import (
	"cmp"
	"fmt"
	"strings"

	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/console"
	"agentkernel/internal/config"
)

// boundFlags bound one process, or each of many; they are no settings.
type boundFlags struct {
	deadlineFlag
	BudgetUSD    string `name:"budget-usd" placeholder:"USD" group:"limits" help:"What it and all below it may spend on calls that have a price: 2, 0.05."`
	BudgetTokens string `name:"budget-tokens" placeholder:"N" group:"limits" help:"Tokens of models that it and all below it may use: 200k, 1.5M."`
	BudgetCalls  string `name:"budget-calls" placeholder:"N" group:"limits" help:"Calls out of the kernel, to tools and to the network, that it and all below it may make: 50, 2k."`
	OnBudget     string `name:"on-budget" placeholder:"WHAT" group:"limits" help:"A call for which too little is left: pause before it (default), raise an error in the program, or kill it."`
}

// set puts what was given into a Spec. What was not given stays as it is there.
func (f *boundFlags) set(s *agentkernel.Spec) error {
	more, err := spending("--budget-", f.BudgetUSD, f.BudgetTokens, f.BudgetCalls)
	if err := cmp.Or(f.deadlineFlag.set(s), err); err != nil {
		return err
	}
	s.Budget.USD, s.Budget.Tokens, s.Budget.Calls = cmp.Or(more.USD, s.Budget.USD), cmp.Or(more.Tokens, s.Budget.Tokens), cmp.Or(more.Calls, s.Budget.Calls)
	if f.OnBudget != "" && s.Budget == (agentkernel.Budget{}) {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "usage", "--on-budget says what happens at the end of a budget, and there is none").
			WithHint("give it one: --budget-usd 2, --budget-tokens 200k or --budget-calls 50")
	}
	s.OnBudget = cmp.Or(agentkernel.OnBudget(f.OnBudget), s.OnBudget)
	return s.OnBudget.Validate()
}

// spending reads the flags that begin with prefix; "": not given.
func spending(prefix, usd, tokens, calls string) (b agentkernel.Budget, err error) {
	refused := func(name string, err error) error {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "usage", "%s%s: %w", prefix, name, err)
	}
	if usd != "" {
		if b.USD, err = agentkernel.ParseUSD(usd); err == nil && b.USD <= 0 {
			err = fmt.Errorf("%q is not above zero; leave it out for no bound", usd)
		}
		if err != nil {
			return b, refused("usd", err)
		}
	}
	for _, f := range []struct {
		name, text string
		n          *int64
	}{{"tokens", tokens, &b.Tokens}, {"calls", calls, &b.Calls}} {
		if f.text != "" {
			if *f.n, err = config.ParseCount(f.text); err != nil {
				return b, refused(f.name, err)
			}
		}
	}
	return b, nil
}

type budgetCmd struct {
	Show budgetShowCmd `cmd:"" help:"Show what the budget of a process is, and what is spent of it."`
	Add  budgetAddCmd  `cmd:"" help:"Raise the budget of a process; what was paused for it goes on."`
}

func (budgetCmd) Help() string {
	return `A budget caps what a process and all below it spend. A call for which too little is left is not made: by default its process
is paused until the budget is raised. What calls under way may cost is held until they end.

` + examples(
		"agentkernel budget show 12",
		"agentkernel budget add 12 --usd 1",
		"agentkernel run report.py --budget-usd 2 --budget-calls 50",
	)
}

type budgetShowCmd struct {
	PID string `arg:"" name:"pid" help:"The process."`
}

func (budgetShowCmd) Help() string {
	return examples("agentkernel budget show 12", "agentkernel budget show 12 --json | jq .spent.usd")
}

func (c *budgetShowCmd) Run(a *app) error {
	return a.budget(c.PID, func(k agentkernel.Kernel, pid agentkernel.PID) (agentkernel.BudgetState, error) {
		return k.Budget(a.ctx, pid)
	})
}

type budgetAddCmd struct {
	PID    string `arg:"" name:"pid" help:"The process."`
	USD    string `name:"usd" placeholder:"USD" help:"So many dollars more."`
	Tokens string `placeholder:"N" help:"So many tokens more: 10k, 1M."`
	Calls  string `placeholder:"N" help:"So many calls more."`
}

func (budgetAddCmd) Help() string {
	return `Only what the budget bounds can be raised. What was paused because too little was left, the process or one below it, goes on.

` + examples("agentkernel budget add 12 --usd 1", "agentkernel budget add 12 --tokens 10k --calls 5")
}

func (c *budgetAddCmd) Run(a *app) error {
	more, err := spending("--", c.USD, c.Tokens, c.Calls)
	if err == nil && more == (agentkernel.Budget{}) {
		err = agentkernel.Errorf(agentkernel.CodeInvalid, "usage", "nothing is to be added").WithHint("say by how much: --usd 1, --tokens 10k, --calls 5")
	}
	if err != nil {
		return err
	}
	return a.budget(c.PID, func(k agentkernel.Kernel, pid agentkernel.PID) (agentkernel.BudgetState, error) {
		return k.AddBudget(a.ctx, pid, more)
	})
}

// budget prints the budget of a process that ask answers.
func (a *app) budget(word string, ask func(agentkernel.Kernel, agentkernel.PID) (agentkernel.BudgetState, error)) error {
	pid, err := agentkernel.ParsePID(word)
	if err != nil {
		return err
	}
	k, err := a.kernel()
	if err != nil {
		return err
	}
	defer k.Close()
	b, err := ask(k, pid)
	if err != nil {
		return err
	}
	if a.cli.JSON {
		return a.printJSON(b)
	}
	rows := [][]string{{"", "LIMIT", "SPENT", "HELD", "LEFT"}}
	for _, r := range budgetRows(b) {
		limit, left := "-", "-"
		if r.limit != 0 {
			limit, left = amountText(r.name, r.limit), amountText(r.name, max(0, r.limit-r.spent-r.held))
		}
		rows = append(rows, []string{r.name, limit, amountText(r.name, r.spent), amountText(r.name, r.held), left})
	}
	a.con.Out(console.Table(rows, 1, 2, 3, 4))
	return a.outputError()
}

// budgetRow is what there is of one amount.
type budgetRow struct {
	name               string
	limit, spent, held int64
}

// budgetRows are the amounts that are bounded, or that something was spent of.
func budgetRows(b agentkernel.BudgetState) (rows []budgetRow) {
	limit, spent, held := b.Limit.Amounts(), b.Spent.Amounts(), b.Held.Amounts()
	for _, name := range []string{agentkernel.AmountUSD, agentkernel.AmountTokens, agentkernel.AmountCalls} {
		if r := (budgetRow{name, limit[name], spent[name], held[name]}); r != (budgetRow{name: name}) {
			rows = append(rows, r)
		}
	}
	return rows
}

func amountText(name string, n int64) string {
	if name == agentkernel.AmountUSD {
		return "$" + agentkernel.NanoUSD(n).String()
	}
	return fmt.Sprint(n)
}

// budgetLine is a budget in one line: "$2.00, $0.13 spent, $0.05 held; 50 calls, 7 spent".
func budgetLine(b agentkernel.BudgetState) string {
	var parts []string
	for _, r := range budgetRows(b) {
		if r.limit == 0 {
			continue
		}
		part := amountText(r.name, r.limit)
		if r.name != agentkernel.AmountUSD {
			part += " " + r.name
		}
		part += ", " + amountText(r.name, r.spent) + " spent"
		if r.held > 0 {
			part += ", " + amountText(r.name, r.held) + " held"
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "; ")
}

// goesOn is the command with which a paused process goes on.
func goesOn(p *agentkernel.Process) string {
	if raise := p.RaiseBudget(); raise != "" {
		return raise
	}
	return resumes(p.PID, p.Asks())
}
