package trace

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/console"
	"agentkernel/internal/kernel/history"
)

// OpenWait is a call of which no result is known: it is waited for, or the process ended before it came.
type OpenWait struct {
	PID    agentkernel.PID    `json:"pid"`
	Name   string             `json:"name"`  // of the process
	State  agentkernel.State  `json:"state"` // of the process
	Call   int64              `json:"call,omitempty"`
	Seq    int64              `json:"seq,omitempty"`
	What   string             `json:"what"` // "github.create_issue"
	Effect agentkernel.Effect `json:"effect,omitempty"`
	Args   json.RawMessage    `json:"args,omitempty"`
	Since  time.Time          `json:"since,omitzero"`
	Waited time.Duration      `json:"waited_ns,omitempty"`
	// Held: the kernel knows of the call and has not let it through; it is not in the journal yet.
	Held bool `json:"held,omitempty"`
}

// OpenWaits lists the calls without a result of a process and its children, the oldest process first.
func OpenWaits(t *Tree, now time.Time) []OpenWait {
	p := &t.Process
	end := now
	if !p.Ended.IsZero() {
		end = p.Ended
	}
	out := []OpenWait{}
	journalled := map[string]int{}
	list := history.Calls(t.Entries)
	for i := range list {
		if c := &list[i]; c.Open() {
			journalled[c.Name()]++
			out = append(out, OpenWait{PID: p.PID, Name: p.Name, State: p.State, Call: c.Number, Seq: c.Seq, What: c.Name(), Effect: c.Effect,
				Args: c.Args, Since: c.Start, Waited: c.Took(end)})
		}
	}
	for _, w := range p.WaitsFor {
		w = strings.TrimPrefix(w, "tool.call ")
		if journalled[w]--; journalled[w] < 0 {
			out = append(out, OpenWait{PID: p.PID, Name: p.Name, State: p.State, What: w, Held: true})
		}
	}
	for _, child := range Order(t.Children) {
		out = append(out, OpenWaits(child, now)...)
	}
	return out
}

// OpenText writes them as a table.
func OpenText(list []OpenWait) string {
	rows := [][]string{{"PID", "NAME", "STATE", "CALL", "WAITED", "EFFECT", "FOR"}}
	for _, w := range list {
		call, waited, what := fmt.Sprint(w.Call), console.Span(w.Waited), Call(w.What, argumentsOf(w), argsWidth)
		if w.Held {
			call, waited, what = "-", "-", w.What+"  (not let through yet: a yes or no at the terminal, or the start of its server)"
		}
		rows = append(rows, []string{w.PID.String(), w.Name, string(w.State), call, waited, string(w.Effect), what})
	}
	return console.Table(rows, 0, 3, 4)
}

func argumentsOf(w OpenWait) []Pair {
	if _, inner, ok := toolCall(w.Args); ok {
		return members(inner)
	}
	return members(w.Args)
}
