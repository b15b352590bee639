package main

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/console"
	"agentkernel/embedded"
	"agentkernel/internal/datadir"
	"agentkernel/internal/store/sqlite"
)

type sqlCmd struct {
	Query   string        `arg:"" help:"One SELECT statement; - reads it from standard input."`
	Limit   int           `short:"n" placeholder:"N" default:"1000" zero:"all" help:"At most so many rows (default 1000; 0: all)."`
	Timeout time.Duration `placeholder:"SPAN" default:"10s" help:"End the statement after this time (default 10s)."`
	CSV     bool          `name:"csv" help:"Comma-separated values, with a line of names."`
	Full    bool          `help:"Whole values in the table."`
}

func (sqlCmd) Help() string {
	return `Reads the database, also while a kernel runs, and never changes it. Views made for questions:
  processes  pid, name, state, created, ended, ms, running_ms, calls, error ...
  calls      pid, call, name, server, tool, effect, ms, outcome, args, result, error ...
  output     pid, seq, at, stream, text
All columns, and the tables behind them: docs/schema.md. Times are UTC.

` + examples(`agentkernel sql "select name, count(*), sum(ms) from calls group by name order by 3 desc"`,
		`agentkernel sql "select pid, name, args from calls where effect in ('write', 'idempotent') and at >= date('now')"`,
		`agentkernel sql --csv "select * from processes where state = 'failed'" > failed.csv`,
		`agentkernel sql --json "select error, count(*) n from processes group by 1" | jq '.rows[]'`)
}

func (c *sqlCmd) Run(a *app) error {
	text, err := c.text(a)
	if err != nil {
		return err
	}
	q, err := a.query()
	if err != nil {
		return err
	}
	defer q.Close()
	ctx, cancel := context.WithTimeout(a.ctx, c.Timeout)
	defer cancel()
	t, err := q.Run(ctx, text, c.Limit)
	switch {
	case err != nil:
		return err
	case a.cli.JSON:
		return a.printJSON(rowsOf(t))
	case c.CSV:
		err = writeCSV(a.con, t)
	default:
		a.con.Out(tableText(t, c.Full))
	}
	if t.More {
		a.con.Say("… the first %d rows; --limit 0 gives all", len(t.Rows))
	}
	return errors.Join(err, a.outputError())
}

func (c *sqlCmd) text(a *app) (string, error) {
	if c.Query != "-" {
		return c.Query, nil
	}
	b, err := io.ReadAll(io.LimitReader(a.in, 1<<20))
	if err != nil {
		return "", agentkernel.Errorf(agentkernel.CodeInvalid, "sql", "standard input cannot be read: %w", err)
	}
	return string(b), nil
}

// query opens the database for SQL. It never starts or makes anything.
func (a *app) query() (*sqlite.Query, error) {
	home, err := a.home()
	if err != nil {
		return nil, err
	}
	if !datadir.At(home).Begun() {
		return nil, errNothingYet(home)
	}
	q, damage, err := embedded.OpenQuery(a.ctx, home)
	if err == nil && damage != nil {
		a.sayDamaged(damage)
	}
	return q, err
}

// sqlResult is what sql --json prints.
type sqlResult struct {
	Columns []string         `json:"columns"`
	Rows    []map[string]any `json:"rows"`
	More    bool             `json:"more"` // there are rows beyond the limit
}

// rowsOf makes each row an object. SQLite has made the names of columns distinct.
func rowsOf(t *sqlite.Table) sqlResult {
	r := sqlResult{Columns: t.Columns, Rows: []map[string]any{}, More: t.More}
	for _, row := range t.Rows {
		m := map[string]any{}
		for i, v := range row {
			if f, ok := v.(float64); ok && !json.Valid([]byte(strconv.FormatFloat(f, 'g', -1, 64))) {
				v = nil // JSON has no infinity
			}
			m[r.Columns[i]] = v
		}
		r.Rows = append(r.Rows, m)
	}
	return r
}

func sqlText(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return fmt.Sprint(v)
}

func writeCSV(con *console.Console, t *sqlite.Table) error {
	var b strings.Builder
	w := csv.NewWriter(&b)
	rows := [][]string{t.Columns}
	for _, r := range t.Rows {
		cells := make([]string, len(r))
		for i, v := range r {
			cells[i] = sqlText(v)
		}
		rows = append(rows, cells)
	}
	err := w.WriteAll(rows)
	con.Out(b.String())
	return err
}

// tableText lays the rows out; columns of numbers stand to the right.
func tableText(t *sqlite.Table, full bool) string {
	const width = 80
	rows := [][]string{append([]string{}, t.Columns...)}
	number := make([]bool, len(t.Columns))
	for i := range number {
		number[i] = len(t.Rows) > 0
	}
	for _, r := range t.Rows {
		cells := make([]string, len(r))
		for i, v := range r {
			cells[i] = sqlText(v)
			if f, ok := v.(float64); ok && !full {
				cells[i] = strconv.FormatFloat(f, 'f', 3, 64)
			}
			if _, isText := v.(string); isText {
				number[i] = false
			}
			if !full && utf8.RuneCountInString(cells[i]) > width {
				cells[i] = string([]rune(cells[i])[:width-1]) + "…"
			}
		}
		rows = append(rows, cells)
	}
	var right []int
	for i, ok := range number {
		if ok {
			right = append(right, i)
		}
	}
	return console.Table(rows, right...)
}
