package history

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"agentkernel"
)

// BaseVersion is the Base.Version of a base that has all of the history. 0 is an image of before bases: it holds a position alone, and Fold takes the whole
// journal with it.
const BaseVersion = 1

// Base is where a fold begins: the zero Base at the start of the journal, any other behind entry Seq, with which it travels
// in an image.
type Base struct {
	Version int   `json:"base,omitempty"`
	Seq     int64 `json:"-"` // of the image
	Account
	Reply   int64             `json:"reply,omitempty"`   // the sync call whose result the program waits for; 0: any async one
	Arrived []int64           `json:"arrived,omitempty"` // calls whose results are in the journal, and were not delivered
	Servers map[string]string `json:"sessions,omitempty"`
	Pauses  Pauses            `json:"pauses,omitzero"`
	Noted   bool              `json:"noted,omitempty"`
	Cell    Cell              `json:"cell,omitzero"`
	Again   []int64           `json:"again,omitempty"` // see Unresolved
	// Refs are the entries before Seq that Fold takes with those behind it: calls without a result, results that were not
	// delivered, questions, the last move.
	Refs []int64 `json:"refs,omitempty"`
	// What the journal does not have, and no limit goes by.
	Waits   int64         `json:"waits,omitempty"`
	Running time.Duration `json:"running,omitempty"`
}

// ParseBase reads the kernel's part of an image that was made after entry seq.
func ParseBase(data []byte, seq int64) (Base, error) {
	var b Base
	err := json.Unmarshal(data, &b)
	b.Seq = seq
	return b, err
}

// Whole says that Fold takes the whole journal with the base.
func (b *Base) Whole() bool { return b.Version != BaseVersion }

// Fold reads a journal from a base on: all of it (see Base.Whole), or the entries that base.Refs names and all behind
// base.Seq. It keeps what it was handed.
func Fold(base Base, entries []agentkernel.Entry) *History {
	h := &History{Base: base, Seq: base.Seq, Servers: maps.Clone(base.Servers)}
	if base.Whole() {
		// Everything is in the entries, but for what an image of that time had alone.
		h.Account.Allowed = slices.Clone(base.Allowed)
	} else {
		h.Account, h.Pauses, h.Noted, h.Cell = base.Account, base.Pauses, base.Noted, base.Cell
		for _, call := range base.Again {
			h.Unresolved = h.Unresolved.orNew()
			h.Unresolved.Again[call] = true
		}
	}
	if !base.Whole() {
		entries = slices.DeleteFunc(slices.Clone(entries), func(e agentkernel.Entry) bool {
			return e.Seq <= base.Seq && !slices.Contains(base.Refs, e.Seq)
		})
	}
	servers := map[int64]string{} // of tool calls
	for i := range entries {
		e := &entries[i]
		if e.Kind == agentkernel.EntryCall && e.Op == opTool {
			servers[e.Call] = Target(e).Server
		}
		if e.Seq > base.Seq || base.Whole() {
			h.add(e, servers)
		} else {
			h.reference(e)
		}
		h.Seq = max(h.Seq, e.Seq)
	}
	h.Queue = newQueue(entries, &base)
	return h
}

// add takes an entry that the base does not have.
func (h *History) add(e *agentkernel.Entry, servers map[int64]string) {
	h.Account.Add(e)
	h.Unresolved = h.Unresolved.Add(e)
	h.Cell.add(e)
	h.Pauses.Add(e)
	switch e.Kind {
	case agentkernel.EntryResult:
		h.Servers = Answered(h.Servers, servers[e.Call], e.Note, e.Err)
	case agentkernel.EntryMoved:
		if e.Err != nil {
			h.Moved = e
		}
		h.Tools, h.Noted = nil, false // those were of the backend that it has left
	case agentkernel.EntryTools:
		if !h.Noted {
			h.Tools, h.Noted = e.Data, true
		}
	case agentkernel.EntryPublish:
		h.Publication = e.Data
	}
}

// reference takes an entry that the base names.
func (h *History) reference(e *agentkernel.Entry) {
	switch e.Kind {
	case agentkernel.EntryPaused:
		h.Unresolved = h.Unresolved.Add(e)
	case agentkernel.EntryMoved:
		h.Moved = e
	case agentkernel.EntryCall:
		h.Cell.asked(e)
	}
}

// Answered notes which incarnation of a server has answered a call; "": it did not say. A lost session is told once, to all
// calls that were made before.
func Answered(servers map[string]string, server, incarnation string, failure *agentkernel.Error) map[string]string {
	switch {
	case incarnation != "":
		if servers == nil {
			servers = map[string]string{}
		}
		servers[server] = incarnation
	case failure != nil && failure.Code == agentkernel.CodeSessionLost:
		delete(servers, server)
	}
	return servers
}

// Tool names a tool of a server.
type Tool struct {
	Server string `json:"server"`
	Tool   string `json:"tool"`
}

// Target is the tool that a journalled tool.call was for.
func Target(e *agentkernel.Entry) Tool {
	var t Tool
	if json.Unmarshal(e.Args, &t) != nil {
		return Tool{Server: "?", Tool: "?"}
	}
	return t
}
