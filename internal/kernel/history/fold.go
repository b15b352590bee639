package history

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"agentkernel"
	"agentkernel/internal/journal"
)

// BaseVersion is the Base.Version of a base that has all of the history. It is raised where bases of before lack something: a
// family whose calls are in journals begins to keep locals; 1 lacks Amounts.Days. 0 is an image of before bases: it holds a position
// alone, and Fold takes the whole journal with it.
const BaseVersion = 2

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
	// Locals is what Standing.Locals saves.
	Locals map[string]json.RawMessage `json:"locals,omitempty"`
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

// Locals is what is derived from a journal beside its history; see FoldInto.
type Locals interface {
	// Open takes the intent of a call that the base knows and that has no result there, and returns what there is with it. It
	// comes before the first Add.
	Open(e *agentkernel.Entry) Locals
	// Add takes an entry that stands behind all that were added before, and returns what there is then.
	Add(e *agentkernel.Entry) Locals
	// Data is what there is by a name; nil: nothing.
	Data(name string) any
	// Save is what a base has of it.
	Save() map[string]json.RawMessage
	Drop()
}

// Fold reads a journal from a base on: all of it (see Base.Whole), or the entries that base.Refs names and all behind
// base.Seq. It keeps what it was handed.
func Fold(base Base, entries []agentkernel.Entry) *History { return FoldInto(nil, base, entries) }

// FoldInto is Fold that adds to locals, too, which stand where base does; nil: to none.
func FoldInto(locals Locals, base Base, entries []agentkernel.Entry) *History {
	h := &History{Base: base, Standing: Standing{Seq: base.Seq, Servers: maps.Clone(base.Servers), Locals: locals}}
	if base.Whole() {
		if base.Version == 0 { // everything is in the entries, but for what an image of that time had alone
			h.Account.Allowed = slices.Clone(base.Allowed)
		}
	} else {
		h.Account, h.Pauses, h.Noted, h.Cell = base.Account, base.Pauses, base.Noted, base.Cell
		for _, call := range base.Again {
			h.Unresolved = h.Unresolved.orNew()
			h.Unresolved.Again[call] = true
		}
		entries = slices.DeleteFunc(slices.Clone(entries), func(e agentkernel.Entry) bool {
			return e.Seq <= base.Seq && !slices.Contains(base.Refs, e.Seq)
		})
	}
	peers := map[int64]string{} // by call
	for i := range entries {
		e := &entries[i]
		if e.Kind == agentkernel.EntryCall {
			if peer := Peer(e.Op, e.Args); peer != "" {
				peers[e.Call] = peer
			}
		}
		if e.Seq > base.Seq || base.Whole() {
			h.add(e, peers)
		} else {
			h.reference(e)
		}
		h.Seq = max(h.Seq, e.Seq) // also of what the base has
	}
	h.Queue = newQueue(entries, &base)
	return h
}

// add takes an entry that the base does not have.
func (h *History) add(e *agentkernel.Entry, peers map[int64]string) {
	noted := h.Noted
	h.Standing.Add(e)
	h.Cell.add(e)
	switch e.Kind {
	case agentkernel.EntryResult:
		h.Answered(peers[e.Call], e.Incarnation, e.Err)
	case agentkernel.EntryMoved:
		if e.Err != nil {
			h.Moved = e
		}
		h.Tools = nil
	case agentkernel.EntryTools:
		if !noted {
			h.Tools = e.Data
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
		if h.Locals != nil && !e.Done {
			h.Locals = h.Locals.Open(e)
		}
	}
}

// Answered notes which incarnation of a peer has answered a call; "": it did not say. A lost session is told once, to all
// calls that were made before.
func (s *Standing) Answered(peer, incarnation string, failure *agentkernel.Error) {
	switch {
	case incarnation != "":
		if s.Servers == nil {
			s.Servers = map[string]string{}
		}
		s.Servers[peer] = incarnation
	case failure != nil && failure.Code == agentkernel.CodeSessionLost:
		delete(s.Servers, peer)
	}
}

// Peer is whoever outside a call is made to, where the process may rely on that being the same one as before ("the server of
// a tool"); "": nobody.
func Peer(op string, args json.RawMessage) string {
	desc, _ := agentkernel.FindSyscall(op)
	if desc.Peer == "" {
		return ""
	}
	if peer, ok := journal.TextOf(args, desc.Peer); ok {
		return peer
	}
	return "?"
}
