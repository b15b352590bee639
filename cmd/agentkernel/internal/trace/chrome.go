package trace

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/console"
	"agentkernel/internal/kernel/history"
)

// Chrome writes the tree as a file of trace events, which chrome://tracing and ui.perfetto.dev open ("Trace Event
// Format", JSON object form). A process is a process there; its life, with pauses and the times without a kernel, is its
// first line, its calls the lines below, calls at the same time on lines of their own. Times count from the
// creation of the first process, in microseconds.
func Chrome(w io.Writer, t *Tree, o Options) error {
	c := &chrome{o: o, zero: t.Process.Created}
	c.process(t)
	out := struct {
		Events []chromeEvent     `json:"traceEvents"`
		Unit   string            `json:"displayTimeUnit"`
		Other  map[string]string `json:"otherData"`
	}{c.events, "ms", map[string]string{"pid": t.Process.PID.String(), "program": console.Clean(t.Process.Name), "start": c.zero.UTC().Format(time.RFC3339Nano)}}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(out)
}

// chromeEvent is one event; which members it has depends on its phase.
type chromeEvent struct {
	Name  string         `json:"name"`
	Cat   string         `json:"cat,omitempty"`
	Phase string         `json:"ph"` // "X": complete, "i": instant, "M": metadata
	TS    int64          `json:"ts"`
	Dur   *int64         `json:"dur,omitempty"` // "X"
	PID   int64          `json:"pid"`
	TID   int            `json:"tid"`
	Scope string         `json:"s,omitempty"` // "i": "p", drawn over the whole process
	Args  map[string]any `json:"args,omitempty"`
}

// The lines of a process.
const (
	lifeLine    = 0
	programLine = 1 // calls that the program stood at; those at the same time come below
)

type chrome struct {
	o      Options
	zero   time.Time
	events []chromeEvent
}

func (c *chrome) at(t time.Time) int64 { return t.Sub(c.zero).Microseconds() }

func (c *chrome) add(e chromeEvent) { c.events = append(c.events, e) }

func (c *chrome) name(p *agentkernel.Process, what string, tid int, name string) {
	c.add(chromeEvent{Name: what, Phase: "M", PID: int64(p.PID), TID: tid, Args: map[string]any{"name": name}})
}

func (c *chrome) span(p *agentkernel.Process, cat, name string, tid int, from, to time.Time, args map[string]any) {
	dur := max(c.at(to)-c.at(from), 0)
	c.add(chromeEvent{Name: cmp.Or(oneLine(name), "?"), Cat: cat, Phase: "X", TS: c.at(from), Dur: &dur, PID: int64(p.PID), TID: tid, Args: args})
}

func (c *chrome) instant(p *agentkernel.Process, name string, at time.Time, args map[string]any) {
	c.add(chromeEvent{Name: cmp.Or(oneLine(name), "?"), Cat: "event", Phase: "i", TS: c.at(at), PID: int64(p.PID), TID: lifeLine, Scope: "p", Args: args})
}

func (c *chrome) process(t *Tree) {
	p := &t.Process
	end := p.Ended
	if end.IsZero() {
		end = c.o.Now
	}
	c.name(p, "process_name", lifeLine, fmt.Sprintf("pid %d · %s · %s", p.PID, console.Clean(p.Name), p.State))
	c.name(p, "thread_name", lifeLine, "life")
	c.span(p, "process", p.Name, lifeLine, p.Created, end, map[string]any{"state": p.State, "exit_code": p.ExitCode, "running_ms": float64(p.Usage.Running.Microseconds()) / 1e3})
	c.life(t, end)
	lines := c.calls(t, end)
	for i := range lines {
		name := "program"
		if i > 0 {
			name = fmt.Sprintf("at the same time %d", i)
		}
		c.name(p, "thread_name", programLine+i, name)
	}
	for _, child := range Order(t.Children) {
		c.process(child)
	}
}

// calls draws the calls, each on the first line that is free, and gives how many lines there are.
func (c *chrome) calls(t *Tree, end time.Time) int {
	var busy []time.Time // until when each line is taken
	list := history.Calls(t.Entries)
	for i := range list {
		call := &list[i]
		first := 0
		if call.Async {
			first = 1
		}
		to := call.Start.Add(call.Took(end))
		line := first
		for line < len(busy) && busy[line].After(call.Start) {
			line++
		}
		for len(busy) <= line {
			busy = append(busy, time.Time{})
		}
		busy[line] = to
		name := call.Name()
		if call.Open() {
			name += " (no result)"
		}
		c.span(&t.Process, category(call), name, programLine+line, call.Start, to, c.callArgs(call))
	}
	return len(busy)
}

func category(call *history.Call) string {
	switch {
	case call.Err != nil:
		return "error," + string(call.Effect)
	case call.Effect == "":
		return "call"
	}
	return string(call.Effect)
}

func (c *chrome) callArgs(call *history.Call) map[string]any {
	limit := 200
	if c.o.Full {
		limit = 0
	}
	args := map[string]any{"call": call.Number, "text": CallText(call.Op, call.Args, limit)}
	switch {
	case call.Open():
		args["open"] = true
	case call.Err != nil:
		args["error"] = console.Clean(string(call.Err.Code) + ": " + cut(call.Err.Message(), limit))
	default:
		args["result"], args["bytes"] = Value(call.Result, limit), len(call.Result)
	}
	return args
}

// life draws what happened to the process: pauses and times without a kernel as stretches, the rest as moments.
func (c *chrome) life(t *Tree, end time.Time) {
	p := &t.Process
	var last time.Time
	var pauses history.Pauses
	resume := func(at time.Time) {
		if pauses.Paused {
			c.span(p, "paused", "paused", lifeLine, pauses.At, at, nil)
		}
		pauses.Paused = false
	}
	for i := range t.Entries {
		e := &t.Entries[i]
		switch e.Kind {
		case agentkernel.EntryPaused:
			pauses.Add(e)
			c.instant(p, join("paused", noteOf(*e)), e.At, nil)
		case agentkernel.EntryResumed:
			resume(e.At)
			c.instant(p, "resumed", e.At, nil)
		case agentkernel.EntryRecover:
			if !pauses.Paused { // stretches must not overlap
				c.span(p, "stopped", "no kernel", lifeLine, last, e.At, nil)
			}
			c.instant(p, join("recovered", recoverDetail(*e)), e.At, nil)
		case agentkernel.EntrySignal:
			name := "signal " + e.Note
			if w, ok := history.WarningOf(e); ok {
				name = w.String()
			}
			c.instant(p, name, e.At, nil)
		case agentkernel.EntryResolve:
			c.instant(p, decided(*e), e.At, nil)
		case agentkernel.EntryPast:
			c.instant(p, e.Note, e.At, nil)
		case agentkernel.EntryMoved:
			c.instant(p, movedMark(*e), e.At, nil)
		case agentkernel.EntryAborted:
			c.instant(p, "the cell was aborted", e.At, nil)
		case agentkernel.EntryAllowed:
			c.instant(p, allowedMark(*e), e.At, nil)
		case agentkernel.EntryBudget:
			c.instant(p, "budget raised", e.At, map[string]any{"by": e.Data})
		case agentkernel.EntrySettled:
			c.instant(p, settledMark(t, e), e.At, nil)
		case agentkernel.EntryAttached:
			c.instant(p, "a host took it up", e.At, map[string]any{"by": e.Data})
		case agentkernel.EntryOutput:
			c.instant(p, "output", e.At, map[string]any{"stream": oneLine(e.Stream), "text": cut(outputOf(*e), 200)})
		case agentkernel.EntryTerminal:
			resume(e.At)
			c.instant(p, string(p.State), e.At, nil)
		}
		last = e.At
	}
	resume(end)
	if p.State == agentkernel.StateUnfinished && !p.Paused && end.After(last) && !last.IsZero() {
		c.span(p, "stopped", "no kernel", lifeLine, last, end, nil)
	}
}

func outputOf(e agentkernel.Entry) string {
	var text string
	if json.Unmarshal(e.Data, &text) != nil {
		text = string(e.Data)
	}
	return console.Clean(text)
}
