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
	Queued string             `json:"queued,omitempty"` // why it has not been sent, or is to be sent again: "queued 2.1 s: ..."
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
	journalled := map[string][]int{} // where out has the calls of a name
	list := history.Calls(t.Entries)
	for i := range list {
		if c := &list[i]; c.Open() {
			journalled[c.Name()] = append(journalled[c.Name()], len(out))
			out = append(out, OpenWait{PID: p.PID, Name: p.Name, State: p.State, Call: c.Number, Seq: c.Seq, What: c.Name(), Effect: c.Effect,
				Args: c.Args, Since: c.Start, Waited: c.Took(end)})
		}
	}
	for _, w := range p.WaitsFor {
		name, about := waiting(w)
		if at := journalled[name]; len(at) > 0 {
			out[at[0]].Queued, journalled[name] = about, at[1:]
			continue
		}
		out = append(out, OpenWait{PID: p.PID, Name: p.Name, State: p.State, What: strings.TrimPrefix(w, "tool.call "), Held: true})
	}
	for _, child := range Order(t.Children) {
		out = append(out, OpenWaits(child, now)...)
	}
	return out
}

// waiting is the name of the call that an entry of Process.WaitsFor is about, and why it waits its turn, if it does. The entry
// says more of a call than its name: "llm.ask fast, queued 2.1 s: ...", "proc.wait 13".
func waiting(entry string) (name, why string) {
	if strings.HasPrefix(entry, agentkernel.YourAnswer) || entry == agentkernel.ItsServers || entry == agentkernel.ItsHost {
		return entry, ""
	}
	call, why, _ := strings.Cut(entry, ", ")
	name, _, _ = strings.Cut(strings.TrimPrefix(call, "tool.call "), " ")
	return name, why
}

// held says what keeps a call from being made that no journal has yet.
func held(entry string) string {
	switch {
	case strings.HasPrefix(entry, agentkernel.YourAnswer):
		return "  (not let through yet: a yes or no at the terminal)"
	case strings.Contains(entry, " "): // what a process waits for that is no call, or a call that is about to be made
		return ""
	}
	return "  (not let through yet: a yes or no at the terminal, or the start of its server)"
}

// OpenText writes them as a table.
func OpenText(list []OpenWait) string {
	rows := [][]string{{"PID", "NAME", "STATE", "CALL", "WAITED", "EFFECT", "FOR"}}
	for _, w := range list {
		call, waited, what := fmt.Sprint(w.Call), console.Span(w.Waited), Call(w.What, argumentsOf(w), argsWidth)
		if w.Held {
			call, waited, what = "-", "-", w.What+held(w.What)
		}
		if w.Queued != "" {
			what += "  (" + w.Queued + ")"
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
