package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/console"
)

// boundFlags bound one process, or each of many; they are no settings.
type boundFlags struct {
	deadlineFlag
	BudgetUSD    string `name:"budget-usd" placeholder:"USD" group:"limits" help:"What it and all below it may spend on calls that have a price: 2, 0.05."`
	BudgetTokens string `name:"budget-tokens" placeholder:"N" group:"limits" help:"Tokens of models that it and all below it may use: 200k, 1.5M."`
	BudgetCalls  string `name:"budget-calls" placeholder:"N" group:"limits" help:"Calls out of the kernel, to tools, to models and to the network, that it and all below it may make: 50, 2k."`
	BudgetTurns  string `name:"budget-turns" placeholder:"N" group:"limits" help:"Answers that it and all below it may ask of models: 50, 2k."`
	BudgetTime   string `name:"budget-time" placeholder:"DUR" group:"limits" help:"How long it and all below it may run, without what they wait for: 30s, 10m."`
	OnBudget     string `name:"on-budget" placeholder:"WHAT" group:"limits" help:"A call for which too little is left: pause before it (default), raise an error in the program, or kill it."`
}

// set puts what was given into a Spec. What was not given stays as it is there.
func (f *boundFlags) set(s *agentkernel.Spec) error {
	more, err := spending("--budget-", map[string]string{agentkernel.AmountUSD: f.BudgetUSD, agentkernel.AmountTokens: f.BudgetTokens,
		agentkernel.AmountCalls: f.BudgetCalls, agentkernel.AmountTurns: f.BudgetTurns, agentkernel.AmountTime: f.BudgetTime})
	if err := cmp.Or(f.deadlineFlag.set(s), err); err != nil {
		return err
	}
	s.Budget = more.Or(s.Budget)
	s.OnBudget = cmp.Or(agentkernel.OnBudget(f.OnBudget), s.OnBudget)
	return s.OnBudget.Validate()
}

// spending reads the flags that begin with prefix, by amount; "": not given.
func spending(prefix string, flags map[string]string) (agentkernel.Budget, error) {
	a := agentkernel.Amounts{}
	for _, name := range agentkernel.BudgetAmounts {
		if flags[name] == "" {
			continue
		}
		n, err := agentkernel.ParseAmount(name, flags[name])
		if err != nil {
			return agentkernel.Budget{}, agentkernel.Errorf(agentkernel.CodeInvalid, "usage", "%s%s: %s", prefix, name, agentkernel.AsError(err, agentkernel.CodeInvalid, "").Message())
		}
		a[name] = n
	}
	return agentkernel.Budget(agentkernel.SpendingOf(a)), nil
}

type budgetCmd struct {
	Show budgetShowCmd `cmd:"" help:"Show what the budget of a process is, or the allowances of a namespace, and what is spent of them."`
	Add  budgetAddCmd  `cmd:"" help:"Raise the budget of a process; what was paused for it goes on."`
}

func (budgetCmd) Help() string {
	return `A budget caps what a process and all below it spend. A call for which too little is left is not made: by default its process
is paused until the budget is raised. What calls under way may cost is held until they end.

An allowance does the same for all processes of a namespace together, in each day or month by UTC. It is the setting allowances.

` + examples(
		"agentkernel budget show",
		"agentkernel budget show 12",
		"agentkernel budget add 12 --usd 1",
		"agentkernel run report.py --budget-usd 2 --budget-calls 50",
	)
}

type budgetShowCmd struct {
	PID       optionalPID `arg:"" optional:"" name:"pid" help:"The process; without it, allowances are shown."`
	Namespace string      `placeholder:"NAME" help:"Show the allowances of this namespace alone."`
}

func (budgetShowCmd) Help() string {
	return examples("agentkernel budget show 12", "agentkernel budget show 12 --json | jq .spent.usd", "agentkernel budget show", "agentkernel budget show --namespace team")
}

func (c *budgetShowCmd) Run(a *app) error {
	if c.PID == "" {
		return a.allowances(c.Namespace)
	}
	if c.Namespace != "" {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "usage", "--namespace shows allowances, and a pid the budget of a process: give one of them")
	}
	return a.budget(string(c.PID), func(k agentkernel.Kernel, pid agentkernel.PID) (agentkernel.BudgetState, error) {
		return k.Budget(a.ctx, pid)
	})
}

// allowances prints what has become of the allowances of a namespace; "": of all.
func (a *app) allowances(namespace string) error {
	k, err := a.kernel()
	if err != nil {
		return err
	}
	defer k.Close()
	states, err := k.Allowances(a.ctx, namespace)
	if err != nil {
		return err
	}
	if a.cli.JSON {
		return a.printJSON(struct {
			Allowances []agentkernel.AllowanceState `json:"allowances"`
		}{states})
	}
	a.otherSettings(k)
	if len(states) == 0 {
		a.con.Note("there are no allowances: the setting allowances gives some, such as \"default day usd 5\"")
		return nil
	}
	rows := [][]string{{"NAMESPACE", "PERIOD", "", "LIMIT", "SPENT", "HELD", "LEFT", "UNTIL"}}
	for _, s := range states {
		for _, r := range budgetRows(s.Limit, s.Spent, s.Held) {
			if r.limit == 0 {
				continue
			}
			rows = append(rows, slices.Concat([]string{s.Namespace, string(s.Period)}, r.cells(), []string{s.Until.UTC().Format("2006-01-02 15:04 UTC")}))
		}
	}
	a.con.Out(console.Table(rows, 3, 4, 5, 6))
	return a.outputError()
}

type budgetAddCmd struct {
	PID    string `arg:"" name:"pid" help:"The process."`
	USD    string `name:"usd" placeholder:"USD" help:"So many dollars more."`
	Tokens string `placeholder:"N" help:"So many tokens more: 10k, 1M."`
	Calls  string `placeholder:"N" help:"So many calls more."`
	Turns  string `placeholder:"N" help:"So many answers of models more."`
	Time   string `placeholder:"DUR" help:"So much running time more: 30s, 10m."`
}

func (budgetAddCmd) Help() string {
	return `Only what the budget bounds can be raised. What was paused because too little was left, the process or one below it, goes on.

` + examples("agentkernel budget add 12 --usd 1", "agentkernel budget add 12 --tokens 10k --calls 5")
}

func (c *budgetAddCmd) Run(a *app) error {
	more, err := spending("--", map[string]string{agentkernel.AmountUSD: c.USD, agentkernel.AmountTokens: c.Tokens,
		agentkernel.AmountCalls: c.Calls, agentkernel.AmountTurns: c.Turns, agentkernel.AmountTime: c.Time})
	if err == nil && more == (agentkernel.Budget{}) {
		err = agentkernel.Errorf(agentkernel.CodeInvalid, "usage", "nothing is to be added").WithHint("say by how much: --usd 1, --tokens 10k, --calls 5, --turns 3, --time 10m")
	}
	if err != nil {
		return err
	}
	var short []agentkernel.Process
	err = a.budget(c.PID, func(k agentkernel.Kernel, pid agentkernel.PID) (agentkernel.BudgetState, error) {
		before, err := k.Budget(a.ctx, pid)
		if err == nil {
			short, err = stillShort(a.ctx, k, pid, &before, more)
		}
		if err == nil || agentkernel.CodeOf(err) == agentkernel.CodeNotFound {
			before, err = k.AddBudget(a.ctx, pid, more)
		}
		return before, ofAllowance(a.ctx, k, pid, err)
	})
	for _, p := range short {
		a.con.Say("process %d stays paused: %s", p.PID, shortageText(&p))
	}
	return err
}

// stillShort are the processes that stay paused when so much is added to a budget: it does not suffice for their calls, or they are paused for
// another one. It is asked before that is done, while they are paused.
func stillShort(ctx context.Context, k agentkernel.Kernel, pid agentkernel.PID, had *agentkernel.BudgetState, more agentkernel.Budget) (short []agentkernel.Process, err error) {
	limit, spent, held, added := had.Limit.Amounts(), had.Spent.Amounts(), had.Held.Amounts(), more.Amounts()
	for page, err := range agentkernel.Pages(ctx, k, agentkernel.Filter{Unfinished: true}) {
		if err != nil {
			return nil, err
		}
		for _, p := range page {
			s := p.Shortage()
			switch {
			case s == nil || s.Budget != pid && p.PID != pid:
				continue
			case s.Budget == pid:
				n := s.Amount
				if s.Limit, s.Spent, s.Held = limit[n]+added[n], max(s.Spent, spent[n]), held[n]; s.Wants <= s.Limit-s.Spent {
					continue
				}
				p.PauseNote = s.PauseNote()
			}
			short = append(short, p)
		}
	}
	return short, nil
}

// shortageText says what a process that stays paused needs.
func shortageText(p *agentkernel.Process) string {
	s := p.Shortage()
	switch {
	case s.Budget == 0:
		return s.String() + " · " + agentkernel.RaiseAllowance
	case s.More() > 0:
		return fmt.Sprintf("the call that waits needs %s more · %s", agentkernel.AmountPhrase(s.Amount, s.More()), p.RaiseBudget())
	}
	return s.String() + " · " + p.RaiseBudget()
}

// ofAllowance is the error of a process without a budget that is paused all the same, with what helps that.
func ofAllowance(ctx context.Context, k agentkernel.Kernel, pid agentkernel.PID, err error) error {
	if agentkernel.CodeOf(err) != agentkernel.CodeNotFound {
		return err
	}
	p, lost := k.Process(ctx, pid)
	if lost != nil || p.AllowanceAgain() == "" {
		return err
	}
	return agentkernel.Errorf(agentkernel.CodeNotFound, "budget", "process %d has no budget of its own; it is paused for an allowance: %s", pid, p.Shortage()).WithPID(pid).
		WithHint("%s", agentkernel.RaiseAllowance)
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
	for _, r := range budgetRows(b.Limit, b.Spent, b.Held) {
		rows = append(rows, r.cells())
	}
	a.con.Out(console.Table(rows, 1, 2, 3, 4))
	if b.Held != (agentkernel.Spending{}) {
		p, err := k.Process(a.ctx, pid)
		if err != nil {
			return err
		}
		if cut := cutOff(&p); cut != "" {
			a.con.Say("nothing is under way: what is held is of %s", cut)
		}
	}
	return a.outputError()
}

// cutOff says of which calls the budget of a process holds something that no kernel runs; "": one does, or it has ended.
func cutOff(p *agentkernel.Process) string {
	if p.State != agentkernel.StateUnfinished {
		return ""
	}
	return fmt.Sprintf("calls that the end of its kernel cut off, and nobody knows what they cost · %s continues it", takenUp(p))
}

// budgetRow is what there is of one amount.
type budgetRow struct {
	name               string
	limit, spent, held int64
}

// cells are the row in a table.
func (r *budgetRow) cells() []string {
	limit, left := "-", "-"
	if r.limit != 0 {
		limit, left = agentkernel.AmountText(r.name, r.limit), agentkernel.AmountText(r.name, max(0, r.limit-r.spent-r.held))
	}
	return []string{r.name, limit, agentkernel.AmountText(r.name, r.spent), agentkernel.AmountText(r.name, r.held), left}
}

// only is so much of the amount, and nothing of others.
func (r *budgetRow) only(n int64) agentkernel.Spending {
	return agentkernel.SpendingOf(agentkernel.Amounts{r.name: n})
}

// budgetRows are the amounts that are bounded, or that something was spent of.
func budgetRows(limited, used, reserved agentkernel.Spending) (rows []budgetRow) {
	limit, spent, held := limited.Amounts(), used.Amounts(), reserved.Amounts()
	for _, name := range agentkernel.BudgetAmounts {
		if r := (budgetRow{name, limit[name], spent[name], held[name]}); r != (budgetRow{name: name}) {
			rows = append(rows, r)
		}
	}
	return rows
}

// budgetLine is a budget in one line: "$2.00, $0.13 spent, $0.05 held; 50 calls, 7 spent".
func budgetLine(limit, spent, held agentkernel.Spending) string {
	var parts []string
	for _, r := range budgetRows(limit, spent, held) {
		if r.limit == 0 {
			continue
		}
		part := agentkernel.AmountPhrase(r.name, r.limit) + ", " + agentkernel.AmountText(r.name, r.spent) + " spent"
		if r.held > 0 {
			part += ", " + agentkernel.AmountText(r.name, r.held) + " held"
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
	if again := p.AllowanceAgain(); again != "" {
		return "goes on by itself at " + again
	}
	return resumes(p.PID, p.Asks())
}

// takenUp is the command with which an unfinished process goes on that no kernel carries. One that somebody has paused, or that is paused at the
// end of a budget, a recovery leaves paused.
func takenUp(p *agentkernel.Process) string {
	if p.Paused && p.AllowanceAgain() == "" {
		return goesOn(p)
	}
	return "agentkernel recover " + p.PID.String()
}
