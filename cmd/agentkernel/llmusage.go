package main

import (
	"context"
	"encoding/csv"
	"fmt"
	"strconv"
	"strings"
	"time"

	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/console"
	"agentkernel/internal/config"
)

type llmUsageCmd struct {
	By        []string `placeholder:"KEY" default:"agent,model" help:"What each row is about: agent (the name of the process), model, day, namespace, tree; several with commas (default: agent,model)."`
	Since     string   `placeholder:"WHEN" help:"Calls from then on: 1d, 12h, 2026-11-01 (UTC), or a time with its zone (default: all that the journals have)."`
	Until     string   `placeholder:"WHEN" help:"Calls before then, written the same way."`
	Namespace string   `placeholder:"NAME" help:"Only this tenant's."`
	Tree      string   `placeholder:"PID" help:"Only those of the tree with this process at its root."`
	CSV       bool     `name:"csv" help:"Answer as CSV, with exact amounts."`
}

func (llmUsageCmd) Help() string {
	return `What calls to models have used, from the journals: of processes that were pruned nothing is left. It starts no kernel. USD is what
was charged, to the nano-dollar that budgets count; the table rounds it.

` + examples("agentkernel llm usage --since 1d", "agentkernel llm usage --by day,model --since 30d --csv >usage.csv", "agentkernel llm usage --by tree --json | jq '.rows[0]'")
}

func (c *llmUsageCmd) Run(a *app) error {
	if c.CSV && a.cli.JSON {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "usage", "--csv and --json are two forms: give one of them")
	}
	q, err := c.query(time.Now())
	if err != nil {
		return err
	}
	u := agentkernel.ModelUsage{Rows: []agentkernel.UsageRow{}}
	k, err := a.reading()
	switch {
	case isNothingYet(err):
	case err != nil:
		return err
	default:
		defer k.Close()
		err = a.withProgress(a.ctx, "reading journals", func(ctx context.Context) error {
			u, err = k.ModelUsage(ctx, q)
			return err
		})
		if err != nil {
			return err
		}
	}
	switch {
	case a.cli.JSON:
		return a.printJSON(u)
	case c.CSV:
		return a.usageCSV(q.By, &u)
	case u.Total == (agentkernel.UsageRow{}):
		a.con.Note("no call to a model is in the journals%s", sinceText(q.Since))
		return nil
	}
	a.con.Out(usageTable(q.By, &u))
	a.noteUsage(&u.Total)
	return a.outputError()
}

// query is what is asked for.
func (c *llmUsageCmd) query(now time.Time) (q agentkernel.UsageQuery, err error) {
	for _, key := range c.By {
		q.By = append(q.By, agentkernel.UsageKey(strings.TrimSpace(key)))
	}
	q.Namespace = c.Namespace
	if c.Tree != "" {
		if q.Tree, err = agentkernel.ParsePID(c.Tree); err != nil {
			return q, err
		}
	}
	if q.Since, err = moment("--since", c.Since, now); err != nil {
		return q, err
	}
	if q.Until, err = moment("--until", c.Until, now); err != nil {
		return q, err
	}
	return q, q.Validate()
}

// moment reads a time: how long ago, a day, or a time with its zone; zero: none is given.
func moment(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if span, err := config.ParseSpan(text); err == nil && span >= 0 {
		return now.Add(-span), nil
	}
	for _, form := range []string{time.DateOnly, time.RFC3339} {
		if at, err := time.Parse(form, text); err == nil {
			return at, nil
		}
	}
	return time.Time{}, agentkernel.Errorf(agentkernel.CodeInvalid, "usage", "%s %.40q is no time: write 1d, 12h, 2026-11-01 or 2026-11-01T08:00:00Z", flag, text)
}

func sinceText(since time.Time) string {
	if since.IsZero() {
		return ""
	}
	return " since " + since.Local().Format(time.DateTime)
}

// cells are the keys of a row.
func usageKeyCells(by []agentkernel.UsageKey, r *agentkernel.UsageRow) (cells []string) {
	for _, key := range by {
		switch key {
		case agentkernel.UsageAgent:
			cells = append(cells, r.Agent)
		case agentkernel.UsageModel:
			cells = append(cells, r.Model)
		case agentkernel.UsageDay:
			cells = append(cells, r.Day)
		case agentkernel.UsageNamespace:
			cells = append(cells, r.Namespace)
		case agentkernel.UsageTree:
			cells = append(cells, r.Tree.String())
		}
	}
	return cells
}

// usageColumn is a column of the table. One that is optional is left out where it has nothing to say.
type usageColumn struct {
	head     string
	optional bool
	of       func(r *agentkernel.UsageRow) int64
	text     func(n int64) string
}

func usageColumns() []usageColumn {
	usd := func(n int64) string { return "$" + agentkernel.NanoUSD(n).Rounded(usdPlaces) }
	return []usageColumn{
		{"CALLS", false, func(r *agentkernel.UsageRow) int64 { return r.Calls }, thousands},
		{"FAILED", true, func(r *agentkernel.UsageRow) int64 { return r.Failed }, thousands},
		{"OPEN", true, func(r *agentkernel.UsageRow) int64 { return r.Open }, thousands},
		{"INPUT", false, func(r *agentkernel.UsageRow) int64 { return r.Input }, thousands},
		{"CACHED", false, func(r *agentkernel.UsageRow) int64 { return r.Cached }, thousands},
		{"WRITTEN", true, func(r *agentkernel.UsageRow) int64 { return r.CacheWrite }, thousands},
		{"OUTPUT", false, func(r *agentkernel.UsageRow) int64 { return r.Output }, thousands},
		{"REASONING", false, func(r *agentkernel.UsageRow) int64 { return r.Reasoning }, thousands},
		{"UNKNOWN", true, unknownTokens, thousands},
		{usdHead, false, func(r *agentkernel.UsageRow) int64 { return int64(r.USD) }, usd},
		{"UNCERTAIN", true, func(r *agentkernel.UsageRow) int64 { return int64(r.UncertainUSD) }, usd},
		{"HELD", true, func(r *agentkernel.UsageRow) int64 { return int64(r.HeldUSD) }, usd},
	}
}

// usdHead is over what was charged.
const usdHead = "USD"

// usdPlaces is how many digits behind the point dollars have in a table.
const usdPlaces = 6

// unknownTokens are those of which nobody knows what they were, because they were reserved and not counted.
func unknownTokens(r *agentkernel.UsageRow) int64 {
	return r.Tokens - r.Input - r.Cached - r.CacheWrite - r.Output - r.Reasoning
}

// thousands is a number with its thousands apart.
func thousands(n int64) string {
	text := strconv.FormatInt(n, 10)
	for at := len(text) - 3; at > 0 && text[at-1] != '-'; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// usageTable is a report as a table, with its total at the end.
func usageTable(by []agentkernel.UsageKey, u *agentkernel.ModelUsage) string {
	var columns []usageColumn
	for _, c := range usageColumns() {
		if !c.optional || c.of(&u.Total) != 0 {
			columns = append(columns, c)
		}
	}
	var head []string
	for _, key := range by {
		head = append(head, strings.ToUpper(string(key)))
	}
	var right []int
	for i, c := range columns {
		head, right = append(head, c.head), append(right, len(by)+i)
	}
	rows := [][]string{head}
	add := func(cells []string, r *agentkernel.UsageRow) {
		for _, c := range columns {
			text := c.text(c.of(r))
			if c.head == usdHead && r.USD == 0 && r.Unpriced > 0 {
				text = "?"
			}
			cells = append(cells, text)
		}
		rows = append(rows, cells)
	}
	for i := range u.Rows {
		add(usageKeyCells(by, &u.Rows[i]), &u.Rows[i])
	}
	if len(u.Rows) != 1 {
		total := make([]string, len(by))
		if len(by) > 0 {
			total[0] = "total"
		}
		add(total, &u.Total)
	}
	return console.Table(rows, right...)
}

// noteUsage says what the sums do not.
func (a *app) noteUsage(total *agentkernel.UsageRow) {
	if total.Uncertain > 0 {
		a.con.Note("%s of unknown outcome: charged with all that they might have cost ($%s)", count(total.Uncertain, "request"), total.UncertainUSD)
	}
	if total.Unpriced > 0 {
		a.con.Note("%s to models whose price nobody knows, which count as $0: agentkernel llm prices", count(total.Unpriced, "request"))
	}
	switch {
	case total.Open > 0 && total.HeldUSD == 0:
		a.con.Note("%s under way, for which no money is held", count(total.Open, "call"))
	case total.Open > 0:
		a.con.Note("%s under way, holding $%s that is not in USD", count(total.Open, "call"), total.HeldUSD)
	}
}

func count(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return thousands(n) + " " + what + "s"
}

// usageCSV prints a report for spreadsheets: a row for each, without the total.
func (a *app) usageCSV(by []agentkernel.UsageKey, u *agentkernel.ModelUsage) error {
	var b strings.Builder
	w := csv.NewWriter(&b)
	var head []string
	for _, key := range by {
		head = append(head, string(key))
	}
	head = append(head, "calls", "failed", "tokens", "input", "cached", "cache_write", "output", "reasoning", "usd", "uncertain", "uncertain_usd", "unpriced", "open", "held_usd")
	if err := w.Write(head); err != nil {
		return err
	}
	rows := u.Rows
	if len(by) == 0 {
		rows = []agentkernel.UsageRow{u.Total}
	}
	for i := range rows {
		r := &rows[i]
		cells := usageKeyCells(by, r)
		for c := range cells {
			cells[c] = plainCell(cells[c])
		}
		for _, n := range []any{r.Calls, r.Failed, r.Tokens, r.Input, r.Cached, r.CacheWrite, r.Output, r.Reasoning, r.USD, r.Uncertain, r.UncertainUSD, r.Unpriced, r.Open, r.HeldUSD} {
			cells = append(cells, fmt.Sprint(n))
		}
		if err := w.Write(cells); err != nil {
			return err
		}
	}
	w.Flush()
	a.con.Out(b.String())
	return a.outputError()
}

// plainCell keeps a spreadsheet from taking the name of a process for a formula, and a terminal from obeying it.
func plainCell(text string) string {
	text = console.Line(text)
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}
