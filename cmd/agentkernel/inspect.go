package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/console"
	"agentkernel/cmd/agentkernel/internal/trace"
	"agentkernel/internal/kernel/history"
	"agentkernel/userland/agent"
)

type inspectCmd struct {
	PID    string `arg:"" help:"The process."`
	Source bool   `help:"Only the program text, all of it."`
}

func (inspectCmd) Help() string {
	return examples("agentkernel inspect 12", "agentkernel inspect 12 --source", "agentkernel inspect 12 --json | jq .state_keys")
}

// inspection is what inspect --json prints.
type inspection struct {
	Process  printed                    `json:"process"`
	Spec     json.RawMessage            `json:"spec"`       // as it was created, without the program text
	Source   string                     `json:"source"`     // the program text
	State    map[string]json.RawMessage `json:"state_keys"` // the working set, plain form
	Entries  int64                      `json:"entries"`    // length of the journal
	Children []agentkernel.PID          `json:"children"`
	Decide   []string                   `json:"decide,omitempty"` // the commands that decide about writes of unknown outcome
	Budget   *agentkernel.BudgetState   `json:"budget,omitempty"` // its own
	// Allowances are those that its calls are within; of one that has ended none.
	Allowances []agentkernel.AllowanceState `json:"allowances,omitempty"`
	Imported   string                       `json:"imported,omitempty"` // where the recording says that it ran
	Signals    []json.RawMessage            `json:"signals,omitempty"`  // that wait for the program, the oldest first

	hidden *agentkernel.Error // a kernel that may run it and cannot be asked; nil: there is none
}

func (c *inspectCmd) Run(a *app) error {
	pid, err := agentkernel.ParsePID(c.PID)
	if err != nil {
		return err
	}
	k, err := a.reading()
	if err != nil {
		return err
	}
	defer k.Close()
	i, err := a.inspect(k, pid)
	if err != nil {
		return err
	}
	i.hidden = k.hidden
	for n := range i.Decide {
		i.Decide[n] = a.withHome(i.Decide[n])
	}
	switch {
	case a.cli.JSON:
		return a.printJSON(i)
	case c.Source:
		a.con.Out(i.Source)
	default:
		a.con.Out(i.text(time.Now(), a.withHomeFormat))
	}
	return a.outputError()
}

func (a *app) inspect(k agentkernel.Kernel, pid agentkernel.PID) (*inspection, error) {
	p, err := a.find(k, pid)
	if err != nil {
		return nil, err
	}
	i := &inspection{Process: public(p), Spec: json.RawMessage("null"), State: map[string]json.RawMessage{}, Children: []agentkernel.PID{}}
	entries, err := a.leanJournal(k, pid)
	if err != nil {
		return nil, err
	}
	if len(entries) > 0 {
		i.Entries = entries[len(entries)-1].Seq
		i.Decide, i.Imported = decisions(p, entries), history.ImportedFrom(entries)
		if !p.State.Terminal() {
			i.Signals = signalsWaiting(entries)
		}
		if len(entries[0].Data) > 0 {
			i.Spec = entries[0].Data
		}
	}
	spec, err := k.Spec(a.ctx, pid)
	if err != nil {
		return nil, err
	}
	i.Source = spec.Program.Source
	state, err := k.State(a.ctx, pid)
	if err != nil {
		return nil, err
	}
	for key, v := range state {
		i.State[key] = plain(v)
	}
	if b, err := k.Budget(a.ctx, pid); err == nil { // else it has none, or no kernel runs, which counts
		i.Budget = &b
	}
	if !i.Process.State.Terminal() {
		i.Allowances, err = k.Allowances(a.ctx, i.Process.Namespace)
		if err != nil && agentkernel.CodeOf(err) != agentkernel.CodeUnavailable { // else no kernel runs
			return nil, err
		}
	}
	for page, err := range agentkernel.Pages(a.ctx, k, agentkernel.Filter{Parent: pid}) {
		if err != nil {
			return nil, err
		}
		for j := range page {
			i.Children = append(i.Children, page[j].PID)
		}
	}
	slices.Sort(i.Children)
	return i, nil
}

// signalsWaiting are the payloads of the user signals that a program has not taken: it takes the oldest first.
func signalsWaiting(entries []agentkernel.Entry) (waiting []json.RawMessage) {
	calls := map[int64]bool{}
	taken := 0
	for i := range entries {
		e := &entries[i]
		switch {
		case e.Kind == agentkernel.EntrySignal && e.Signal == agentkernel.SignalUser:
			waiting = append(waiting, plain(history.SignalOf(e).Payload))
		case e.Kind == agentkernel.EntryCall && e.Op == "signals.wait" && e.Origin == nil:
			calls[e.Call] = true
			if e.Done && e.Err == nil {
				taken++
			}
		case e.Kind == agentkernel.EntryResult && e.Err == nil && calls[e.Call]:
			taken++
		}
	}
	return waiting[min(taken, len(waiting)):]
}

// sheet is a list of name and value lines.
type sheet struct {
	rows [][]string
	says func(format string) string // makes the commands of a format those that are meant
}

func (s *sheet) add(name, format string, args ...any) {
	if v := fmt.Sprintf(s.says(format), args...); v != "" {
		s.rows = append(s.rows, []string{name, v})
	}
}

func (i *inspection) text(now time.Time, says func(format string) string) string {
	p, s := i.Process.Process, &sheet{says: says}
	s.add("pid", "%d", p.PID)
	s.add("name", "%s", p.Name)
	if i.Imported != "" {
		s.add("imported", "%s; all that stands here is what its recording says", i.Imported)
	}
	s.add("state", "%s", stateText(p))
	if call := p.Asks(); p.Paused && call != "" {
		s.add("paused because", "it waits for your answer whether it may call %s: %s", call, resumes(p.PID, call))
	} else {
		s.add("paused because", "%s", p.PauseNote)
		s.add("goes on with", "%s", p.EndsShortage())
	}
	if p.Halted != "" {
		s.add("halted", "%s; agentkernel ps says since when, why, and how it goes on", p.Halted)
	}
	if !p.Deadline.IsZero() {
		s.add("deadline", "%s%s", p.Deadline.Local().Format(time.DateTime), strings.Replace(deadlineIn(&p, now), "deadline ", ", ", 1))
	}
	if !p.StopBy.IsZero() && !p.State.Terminal() {
		s.add("stops by", "%s: it was asked to stop, and is killed then", p.StopBy.Local().Format(time.DateTime))
	}
	for _, command := range i.Decide {
		s.add("decide with", "%s", command)
	}
	if n := len(i.Signals); n > 0 {
		s.add("signals", "%s not taken yet, the oldest: %s", counted(int64(n), "is", "are"), trace.Value(i.Signals[0], 200))
	}
	s.add("waiting for", "%s", strings.Join(p.WaitsFor, ", "))
	if !p.WaitsSince.IsZero() {
		s.add("waiting since", "%s (%s)", p.WaitsSince.Local().Format(time.DateTime), console.Age(now.Sub(p.WaitsSince)))
	}
	if i.hidden != nil && p.State == agentkernel.StateUnfinished {
		s.add("run by", "perhaps by a kernel that cannot be asked: %s", i.hidden.Message())
		s.add("hint", "%s", i.hidden.Hint)
	} else {
		s.add("woken by", "%s", strings.Join(p.WakeCauses(), ", or "))
	}
	if left := p.WakesIn(now); left > 0 {
		s.add("timer rings", "%s (in %s)", p.WakeAt.Local().Format(time.DateTime), console.Age(left))
	}
	if len(p.Result) > 0 && string(p.Result) != "null" {
		s.add("result", "%s", trace.Value(p.Result, 200))
	}
	if p.Error != nil {
		s.add("error", "%s: %s", p.Error.Code, firstLine(p.Error.Message()))
		s.add("hint", "%s", p.Error.Hint)
	}
	if p.State.Terminal() {
		s.add("exit code", "%d", p.ExitCode)
	}
	i.lifetime(s, now)
	if p.Parent != 0 {
		s.add("parent", "%d", p.Parent)
	}
	if len(i.Children) > 0 {
		s.add("children", "%s", strings.Trim(fmt.Sprint(i.Children), "[]"))
	}
	s.add("namespace", "%s", p.Namespace)
	s.add("priority", "%d", p.Priority)
	s.add("backend", "%s", p.Backend)
	if m := p.Moved; m != nil {
		s.add("moved", "from %s: %s", m.From, m.Why)
	}
	s.add("language", "%s", p.Language)
	if !p.Replayable {
		s.add("replayable", "no: after the death of its kernel it fails or begins anew (--restart)")
	}
	s.add("engine", "%s", p.Fingerprint)
	if p.Recoveries > 0 {
		s.add("recovered", "%s", counted(int64(p.Recoveries), "time", "times"))
	}
	i.walls(s)
	i.usage(s)
	i.granted(s)
	text := console.Table(s.rows)
	for _, key := range slices.Sorted(maps.Keys(i.State)) {
		text += fmt.Sprintf("state[%q] = %s\n", key, trace.Value(i.State[key], 120))
	}
	return text + i.program()
}

// lifetime is when the process began and ended.
func (i *inspection) lifetime(s *sheet, now time.Time) {
	p := &i.Process.Process
	s.add("created", "%s (%s ago)", p.Created.Local().Format(time.DateTime), console.Age(now.Sub(p.Created)))
	switch took := p.Ended.Sub(p.Created); {
	case p.Ended.IsZero():
	case took < 0:
		s.add("ended", "%s (a clock was set back meanwhile)", p.Ended.Local().Format(time.DateTime))
	default:
		s.add("ended", "%s (after %s)", p.Ended.Local().Format(time.DateTime), console.Span(took))
	}
}

// Bounds of what inspect shows of a program and of its arguments.
const (
	sourceLines = 40
	sourceBytes = 4000
	argsShown   = 300
)

// program is the beginning of the program text, and how to see all of it.
func (i *inspection) program() string {
	source := strings.TrimRight(i.Source, "\n")
	all := strings.Split(source, "\n")
	shown := all[:min(len(all), sourceLines)]
	if agent.Does(&agentkernel.Program{Source: i.Source}) { // that loop is nobody's own
		shown = nil
	}
	for len(shown) > 0 && len(strings.Join(shown, "\n")) > sourceBytes {
		shown = shown[:len(shown)-1]
	}
	text := ""
	if len(shown) > 0 {
		text = "\n" + indented(strings.Join(shown, "\n")) + "\n"
	}
	if n := len(all) - len(shown); n > 0 && source != "" {
		text += fmt.Sprintf("program: %s%s: agentkernel inspect %d --source\n", counted(int64(n), "line", "lines"), map[bool]string{true: " more"}[len(shown) > 0], i.Process.PID)
	}
	return text
}

// clipped is text as far as it is shown on one line; how names the command that shows all of it.
func clipped(text, how string) string {
	if runes := []rune(text); len(runes) > argsShown {
		return fmt.Sprintf("%s ... (%d characters: %s)", string(runes[:argsShown]), len(runes), how)
	}
	return text
}

func (i *inspection) usage(s *sheet) {
	u := i.Process.Usage
	waited := "; waited " + counted(u.Waits, "time", "times")
	if i.Process.State == agentkernel.StateUnfinished && u.Running == 0 {
		s.add("running time", "not known: its kernel died before the process was parked")
		waited = ""
	} else {
		s.add("running time", "%s", console.Span(u.Running))
	}
	s.add("system calls", "%d, of them %s%s", u.Syscalls, counted(u.ToolCalls, "tool call", "tool calls"), waited)
	s.add("data", "%s of tool results stayed inside, %s printed", console.Bytes(u.BytesIn), console.Bytes(u.Output))
	s.add("journal", "%d entries: agentkernel trace %d", i.Entries, i.Process.PID)
}

// granted shows what the process may do, as it was created.
func (i *inspection) granted(s *sheet) {
	var spec agentkernel.Spec
	if json.Unmarshal(i.Spec, &spec) != nil {
		return
	}
	if past := spec.Past; past != nil {
		s.add("rerun of", "%d", past.PID)
	}
	s.add("arguments", "%s", clipped(strings.Join(spec.Program.Args, " "), "agentkernel inspect --json "+i.Process.PID.String()))
	s.add("tools", "%s", strings.Join(spec.Tools, ", "))
	if spec.Workspace != nil {
		if spec.Workspace.ReadOnly {
			s.add("workspace", "%s, read-only", spec.Workspace.Path)
		} else {
			s.add("workspace", "%s: agentkernel diff %d", spec.Workspace.Path, i.Process.PID)
		}
	}
	for _, v := range spec.Volumes {
		s.add("volume "+v.Name, "%s", v.Path)
	}
	s.add("may change", "%s", strings.Join(spec.Allow, ", "))
	s.add("may fetch from", "%s", strings.Join(spec.AllowHosts, ", "))
	s.add("brings models", "%s", strings.Join(spec.Models, ", "))
	s.add("may not", "%s", strings.Join(spec.Deny, ", "))
	if !strings.HasPrefix(spec.IdempotencyKey, "\x00") { // else the kernel has made it, for a child
		s.add("idempotency key", "%s", spec.IdempotencyKey)
	}
	i.budget(s, &spec)
	if l := spec.Limits; l != (agentkernel.Limits{}) {
		l = l.WithDefaults(agentkernel.DefaultLimits())
		s.add("limits", "time %s, memory %s, output %s, calls %d", l.Time, console.Bytes(l.Memory), console.Bytes(l.Output), l.Calls)
	}
}

// budget shows what the process may spend, and what of it is spent.
func (i *inspection) budget(s *sheet, spec *agentkernel.Spec) {
	if i.Budget != nil {
		s.add("budget", "%s", budgetLine(i.Budget.Limit, i.Budget.Spent, i.Budget.Held))
		if cut := cutOff(&i.Process.Process); cut != "" && i.Budget.Held != (agentkernel.Spending{}) {
			s.add("held", "of %s", cut)
		}
	} else if spec.Budget != (agentkernel.Budget{}) {
		s.add("budget", "agentkernel budget show %d", i.Process.PID)
	}
	for _, w := range i.Allowances {
		s.add("allowance", "of namespace %s for the %s: %s; until %s", w.Namespace, w.Period, budgetLine(w.Limit, w.Spent, w.Held), w.Until.UTC().Format("2006-01-02 15:04 UTC"))
	}
	for _, above := range spec.Budgets {
		s.add("within", "the budget of process %d: agentkernel budget show %d", above, above)
	}
}
