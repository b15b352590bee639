package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/console"
	"agentkernel/cmd/agentkernel/internal/why"
)

type psCmd struct {
	All       bool        `short:"a" help:"Also those that have ended."`
	Limit     int         `short:"n" placeholder:"N" zero:"all" help:"At most so many, newest first; 0: all (default: 100 with those that have ended, else all)." default:"-1"`
	Namespace string      `placeholder:"NAME" help:"Only this tenant's."`
	Parent    optionalPID `placeholder:"PID" help:"Only the children of this process."`
	State     []string    `enum:"ready,running,waiting,paused,halted,stopping,unfinished,exited,failed,killed" placeholder:"STATE" help:"Only those in one of these states: ready, running, waiting, paused, halted, stopping, unfinished; exited, failed or killed (implies --all)."`
	Name      string      `placeholder:"PATTERN" help:"Only those whose name matches: 'report*'."`
}

// psEnded is how many processes ps lists by default where it lists those that have ended: they only become more.
const psEnded = 100

func (psCmd) Help() string {
	return `Without a flag: all that have not ended. Where those that have ended are listed, too, the newest 100 are, and a line says how many
more there are; --limit 0 lists all.

` + examples("agentkernel ps", "agentkernel ps -a -n 20", "agentkernel ps -a -n 0", "agentkernel ps --state failed,killed -n 5", "agentkernel ps --name 'report*' --json")
}

func (c *psCmd) Run(a *app) error {
	if _, err := path.Match(c.Name, ""); err != nil {
		return agentkernel.Errorf(agentkernel.CodeInvalid, "ps", "--name %q is no pattern: %w", c.Name, err).WithHint("* stands for any text, ? for one character, [ab] for a or b")
	}
	filter := agentkernel.Filter{Namespace: c.Namespace, Unfinished: !c.All && !c.ended()}
	if c.Parent != "" {
		pid, err := agentkernel.ParsePID(string(c.Parent))
		if err != nil {
			return err
		}
		filter.Parent = pid
	}
	out := &processList{a: a}
	k, err := a.reading()
	switch {
	case isNothingYet(err):
	case err != nil:
		return err
	default:
		defer k.Close()
		out.k = k
		if err := c.list(a, k, filter, out); err != nil {
			return err
		}
		if err := a.noteHolds(k); err != nil {
			return err
		}
	}
	if err := out.end(); err != nil {
		return err
	}
	if out.n == 0 && !a.cli.JSON && !c.All && !c.picks() && a.con.Interactive() {
		a.con.Note("nothing runs; agentkernel ps -a shows what has ended")
	}
	return nil
}

// list lists the processes that are meant, page by page, and says so where it leaves some out.
func (c *psCmd) list(a *app, k agentkernel.Kernel, filter agentkernel.Filter, out *processList) error {
	limit := c.limit()
	if limit > 0 && !c.picks() {
		filter.Limit = limit + 1 // one more says whether there are more
	}
	var last agentkernel.PID
	for page, err := range agentkernel.Pages(a.ctx, k, filter) {
		if err != nil {
			return err
		}
		if c.picks() {
			page = c.pick(page)
		}
		cut := limit > 0 && out.n+len(page) > limit
		if cut {
			page = page[:limit-out.n]
		}
		if err := out.add(page); err != nil || a.con.Broken() != nil { // who reads has gone
			return err
		}
		if len(page) > 0 {
			last = page[len(page)-1].PID
		}
		if cut {
			return c.mentionMore(a, k, filter, last)
		}
	}
	return nil
}

// mentionMore says that older processes than those listed are meant, too.
func (c *psCmd) mentionMore(a *app, k agentkernel.Kernel, filter agentkernel.Filter, last agentkernel.PID) error {
	if c.Limit >= 0 { // it was asked for
		return nil
	}
	more := "older ones match, too"
	if !c.picks() {
		filter.Before, filter.Limit = last, 0
		n, err := k.Count(a.ctx, filter)
		if err != nil {
			return err
		}
		more = fmt.Sprintf("%d more", n)
	}
	a.con.Note("the newest %d are listed; %s: --limit N lists so many, --limit 0 all", c.limit(), more)
	return nil
}

// limit is how many processes are listed at most; 0: all.
func (c *psCmd) limit() int {
	switch {
	case c.Limit >= 0:
		return c.Limit
	case c.All || c.ended():
		return psEnded
	}
	return 0
}

// picks says whether the states and names of processes matter.
func (c *psCmd) picks() bool { return len(c.State) > 0 || c.Name != "" }

// ended says whether processes that have ended are asked for by their state.
func (c *psCmd) ended() bool {
	return slices.ContainsFunc(c.State, func(s string) bool { return agentkernel.State(s).Terminal() })
}

func (c *psCmd) pick(list []agentkernel.Process) []agentkernel.Process {
	return slices.DeleteFunc(list, func(p agentkernel.Process) bool {
		state := string(p.State)
		if !p.State.Terminal() {
			state = stateText(p)
		}
		matches, _ := path.Match(c.Name, p.Name) // the pattern is known to be one
		return len(c.State) > 0 && !slices.Contains(c.State, state) || c.Name != "" && !matches
	})
}

// processList prints processes part by part: as a table, or as one array of JSON.
type processList struct {
	a     *app
	k     agentkernel.Kernel // nil: there is none to be asked
	n     int                // processes printed
	asked int                // processes whose journal was read
	table *console.Columns
}

// add prints further processes.
func (l *processList) add(list []agentkernel.Process) error {
	if !l.a.cli.JSON {
		rows, head := processRows(list, time.Now()), processHead(list)
		if l.addWords(list, rows) {
			head = processHead([]agentkernel.Process{{Error: &agentkernel.Error{}}})
		}
		if l.table == nil {
			l.table = console.NewColumns(0, 1, 2, 4, 5, 6)
			rows = append([][]string{head}, rows...)
		}
		l.a.con.Out(l.table.Rows(rows))
		l.n += len(list)
		return nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	for _, p := range list {
		if l.n++; l.n == 1 {
			b.WriteByte('[')
		} else {
			b.WriteByte(',')
		}
		if err := enc.Encode(public(p)); err != nil {
			return agentkernel.Errorf(agentkernel.CodeInternal, "json", "%w", err)
		}
		b.Truncate(b.Len() - 1) // the end of the line
	}
	l.a.con.Out(b.String())
	return nil
}

// Bounds of what is read for the last words of programs: of so many processes, and of none that did or said more than this.
const (
	askedWords     = 20
	callsOfWords   = 200
	outputOfWords  = 64 << 10
	columnOfRemark = 8
)

// addWords puts the last words of those that ended with a code of their own, the newest of them, into the rows: nothing else says why.
func (l *processList) addWords(list []agentkernel.Process, rows [][]string) (any bool) {
	for i := range list {
		p := &list[i]
		if l.k == nil || l.asked == askedWords {
			return any
		}
		if p.State != agentkernel.StateExited || p.ExitCode == 0 || p.Error != nil || p.Usage.Output == 0 || p.Usage.Output > outputOfWords ||
			p.Usage.Syscalls > callsOfWords || p.Usage.BytesIn > outputOfWords {
			continue
		}
		l.asked++
		if entries, err := l.k.Journal(l.a.ctx, p.PID, 1, 0); err == nil {
			if words := inColumn(why.LastWords(entries)); words != "" {
				rows[i][columnOfRemark], any = words, true
			}
		}
	}
	return any
}

// end prints what comes behind the last process.
func (l *processList) end() error {
	switch {
	case l.a.cli.JSON && l.n == 0:
		l.a.con.Out("[]\n")
	case l.a.cli.JSON:
		l.a.con.Out("]\n")
	case l.table == nil:
		if err := l.add(nil); err != nil {
			return err
		}
	}
	return l.a.outputError()
}

// printed is a process as commands print it: values are in plain form, and one that has not ended has no exit code, for 0 would say that
// it has ended well.
type printed struct {
	agentkernel.Process
	ExitCode *int `json:"exit_code,omitempty"`
}

// public is a process as commands print it.
func public(p agentkernel.Process) printed {
	if len(p.Result) > 0 {
		p.Result = plain(p.Result)
	}
	out := printed{Process: p}
	if p.State.Terminal() {
		code := p.ExitCode
		out.ExitCode = &code
	}
	return out
}

func processTable(list []agentkernel.Process, now time.Time) string {
	return console.Table(append([][]string{processHead(list)}, processRows(list, now)...), 0, 1, 2, 4, 5, 6)
}

func processHead(list []agentkernel.Process) []string {
	last := "WAITING FOR"
	if slices.ContainsFunc(list, func(p agentkernel.Process) bool { return p.Error != nil }) {
		last += " / ERROR"
	}
	return []string{"PID", "PARENT", "PRI", "STATE", "AGE", "TIME", "CALLS", "NAME", last}
}

func processRows(list []agentkernel.Process, now time.Time) [][]string {
	var rows [][]string
	for _, p := range list {
		parent := "-"
		if p.Parent != 0 {
			parent = p.Parent.String()
		}
		rows = append(rows, []string{p.PID.String(), parent, fmt.Sprint(p.Priority), stateText(p), console.Age(now.Sub(p.Created)),
			ranFor(p), fmt.Sprint(p.Usage.Syscalls), p.Name, remark(p, now)})
	}
	return rows
}

// ranFor is how long a process has run. Of one whose kernel died the journal does not say it; its image does, if it was parked.
func ranFor(p agentkernel.Process) string {
	if p.State == agentkernel.StateUnfinished && p.Usage.Running == 0 {
		return "-"
	}
	return console.Span(p.Usage.Running)
}

func stateText(p agentkernel.Process) string {
	switch {
	case p.Paused && !p.State.Terminal():
		return "paused"
	case p.Halted != "" && !p.State.Terminal():
		return "halted"
	case !p.StopBy.IsZero() && !p.State.Terminal():
		return "stopping"
	case p.State == agentkernel.StateExited && p.ExitCode != 0:
		return fmt.Sprintf("exited %d", p.ExitCode)
	}
	return string(p.State)
}

// inColumn is a text as the last column has room for it.
func inColumn(text string) string {
	const width = 60
	if r := []rune(text); len(r) > width {
		return string(r[:width-1]) + "…"
	}
	return text
}

// remark is the last column: what a process waits for, or why it is not running.
func remark(p agentkernel.Process, now time.Time) string {
	text := ""
	switch {
	case p.Paused && !p.State.Terminal():
		text = p.PauseNote
		if raise := p.RaiseBudget(); raise != "" {
			text = "budget · " + raise
		} else if again := p.AllowanceAgain(); again != "" {
			text = "allowance · until " + again
		}
	case p.Error != nil:
		text = firstLine(p.Error.Message())
	case len(p.WaitsFor) > 0:
		text = p.WaitsFor[0]
		if n := len(p.WaitsFor) - 1; n > 0 {
			text += fmt.Sprintf(" +%d", n)
		}
		if left := p.WakesIn(now); left > 0 && !p.WakeAt.Equal(p.Deadline) {
			text += " · " + console.Age(left) + " left"
		}
	case p.State == agentkernel.StateReady:
		text = "its turn" // why says who has it
	}
	text = inColumn(text)
	if deadline := deadlineIn(&p, now); deadline != "" {
		text = strings.TrimPrefix(text+" · "+deadline, " · ")
	}
	return text
}
