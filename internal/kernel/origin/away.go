package origin

import (
	"encoding/json"

	"agentkernel"
	"agentkernel/internal/kernel/advice"
	"agentkernel/internal/kernel/history"
)

// away are the children that stayed where a process of the lineage was recorded: an import brings none.
type away map[agentkernel.PID]elsewhere

// elsewhere is one of them.
type elsewhere struct {
	with agentkernel.PID // the import that started it
	from int64           // the first call of the origin that a rerun has to make itself to have it here
}

// stayed finds them among the calls of the origin.
func (h *Origin) stayed() away {
	if len(h.imported) == 0 {
		return nil
	}
	var children history.Children
	for _, c := range h.strict {
		if h.rules(c.Entry.Op).Once && c.finished() {
			children.Started(c.Key.Call, c.Result.Data)
		}
	}
	for _, c := range h.strict {
		children.Named(c.Key.Call, c.Entry.Args)
	}
	all := away{}
	for _, c := range h.strict {
		if !h.rules(c.Entry.Op).Once || !c.finished() {
			continue
		}
		var child agentkernel.PID
		if with := h.root(c.Key).PID; h.imported[with] != nil && json.Unmarshal(c.Result.Data, &child) == nil {
			all[child] = elsewhere{with, children.From(child)}
		}
	}
	return all
}

// root is the call that was made first, for which this one stands.
func (h *Origin) root(key Key) Key {
	for h.imported[key.PID] == nil {
		next, stands := h.stands[key]
		if !stands || next.PID >= key.PID { // a past is older than its rerun
			break
		}
		key = next
	}
	return key
}

// NoChild is the answer for a program that asks for a child which its process pid does not have here.
func (h *Origin) NoChild(op string, child, pid agentkernel.PID) *agentkernel.Error {
	none := agentkernel.Errorf(agentkernel.CodeNotFound, op, "process %d is not a child of process %d", child, pid)
	if h == nil || h.away[child].from == 0 {
		return none
	}
	at := h.away[child]
	return agentkernel.Errorf(agentkernel.CodeNotFound, op, "%s: it stayed in the store that process %d was exported from", none.Message(), at.with).
		WithHint(advice.StartAgainFrom, at.from)
}
