package diff

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"agentkernel"
	"agentkernel/internal/journal"
)

// passing are members of a spec that say nothing about what a run does.
var passing = []string{"idempotency_key", "interactive", "namespace", "parent", "past.again", "past.from", "past.pid", "priority", "program.source", "program.language"}

// created is what a run was created with, by dotted name.
func created(entries []agentkernel.Entry) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	if len(entries) == 0 || entries[0].Kind != agentkernel.EntryCreated {
		return out
	}
	flatten("", entries[0].Data, out)
	for _, name := range passing {
		delete(out, name)
	}
	return out
}

// firstLineApart is where two programs begin to differ.
func firstLineApart(a, b string) Field {
	line, x, y := apart(a, b)
	return Field{Name: "program text from line " + strconv.Itoa(line) + " on", A: text(x), B: text(y)}
}

func flatten(name string, v json.RawMessage, out map[string]json.RawMessage) {
	var members map[string]json.RawMessage
	if json.Unmarshal(v, &members) != nil || members == nil {
		if name != "" {
			out[name] = v
		}
		return
	}
	if name != "" {
		name += "."
	}
	for k, m := range members {
		flatten(name+k, m, out)
	}
}

// ending is how a run stands or ended.
func ending(p agentkernel.Process) map[string]json.RawMessage {
	out := map[string]json.RawMessage{"state": text(string(p.State))}
	if !p.State.Terminal() {
		return out
	}
	out["exit code"], _ = json.Marshal(p.ExitCode)
	if len(p.Result) > 0 && string(p.Result) != "null" {
		out["result"] = p.Result
	}
	if p.Error != nil {
		out["error"] = text(string(p.Error.Code) + ": " + p.Error.Message())
	}
	return out
}

func text(s string) json.RawMessage {
	b, err := json.Marshal(s)
	if err != nil { // a string always marshals
		return json.RawMessage(`""`)
	}
	return b
}

// ends lists what differs in the ends, the most important first.
func ends(a, b agentkernel.Process) []Field {
	order := []string{"state", "exit code", "error", "result"}
	out := fields(ending(a), ending(b))
	slices.SortFunc(out, func(x, y Field) int { return slices.Index(order, x.Name) - slices.Index(order, y.Name) })
	return out
}

// fields lists what differs, by name.
func fields(a, b map[string]json.RawMessage) []Field {
	names := map[string]bool{}
	for k := range a {
		names[k] = true
	}
	for k := range b {
		names[k] = true
	}
	out := []Field{}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !equal(a[name], b[name]) {
			out = append(out, Field{Name: name, A: a[name], B: b[name]})
		}
	}
	return out
}

func equal(a, b json.RawMessage) bool {
	if string(a) == string(b) {
		return true
	}
	ca, erra := journal.Canonical(a)
	cb, errb := journal.Canonical(b)
	return erra == nil && errb == nil && string(ca) == string(cb)
}
