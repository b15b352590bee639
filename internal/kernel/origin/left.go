package origin

import (
	"crypto/sha256"
	"encoding/json"
	"slices"

	"agentkernel"
	"agentkernel/internal/journal"
)

// Leave goes beyond the first difference: of all that the origin knows only what must not be made again is kept.
func (h *Origin) Leave() {
	h.live, h.done, h.children = true, map[[32]byte][]*Call{}, nil
	youngest := slices.Concat(h.strict, h.left) // a process stands before those that it went on from
	ended := h.readings(youngest)
	for _, c := range slices.Concat(h.left, h.strict) {
		if !c.taken && c.kept() && (!h.rules(c.Entry.Op).Opens || ended[c.handle()]) {
			h.keep(c)
		}
	}
	for _, c := range youngest {
		if h.rules(c.Entry.Op).Once && !c.taken && c.finished() {
			c.name = nameOf(c.Entry.Args)
			h.children = append(h.children, c)
		}
	}
	h.away = h.stayed()
	h.strict, h.free, h.left, h.index = nil, nil, nil, nil
}

// keep keeps the answer of a call for one of the new process.
func (h *Origin) keep(c *Call) {
	k := callHash(c.Entry.Op, c.Entry.Args)
	h.done[k] = append(h.done[k], c)
}

// readings keeps what was read of streams, for a program that has the handle of one: it can be had there alone. It says which were read to
// their ends.
func (h *Origin) readings(calls []*Call) (ended map[string]bool) {
	ended = map[string]bool{}
	for _, c := range calls {
		if h.rules(c.Entry.Op).Opens && c.handle() != "" {
			ended[c.handle()] = false
		}
	}
	if len(ended) == 0 {
		return nil
	}
	for _, c := range calls {
		of, _ := journal.TextOf(c.Entry.Args, "handle")
		if _, opened := ended[of]; !opened || c.Entry.Effect != agentkernel.EffectRead || !c.finished() {
			continue
		}
		ended[of] = ended[of] || string(c.Result.Data) == "[]"
		if !c.taken {
			h.keep(c)
		}
	}
	return ended
}

// handle is that of the stream that the call has opened; "": none.
func (c *Call) handle() (text string) {
	if c.finished() && json.Unmarshal(c.Result.Data, &text) != nil {
		return ""
	}
	return text
}

// kept says whether the call is one that a program which does something else before it should not make again as if it were new.
func (c *Call) kept() bool {
	switch c.Entry.Effect {
	case agentkernel.EffectWrite:
		return c.made()
	case agentkernel.EffectIdempotent: // any error but one of the tool itself may be about the answer alone
		return !c.Entry.Done && !c.unsent && (c.Result == nil || c.Result.Err == nil || c.Result.Err.Code != agentkernel.CodeTool)
	case agentkernel.EffectPaid:
		return c.finished()
	}
	return false
}

// finished says that the call was made and has an answer that is no error.
func (c *Call) finished() bool { return c.Result != nil && c.Result.Err == nil }

// unsure says that nobody knows whether the call was made.
func (c *Call) unsure() bool {
	if c.Result == nil || c.Result.Err == nil {
		return c.Result == nil
	}
	return c.Entry.Effect == agentkernel.EffectIdempotent || c.Result.Err.Code == agentkernel.CodeOutcomeUnknown || c.Result.Err.Code == agentkernel.CodeInterrupted
}

// TakeDone finds a call that the origin made beyond the first difference, and that must not be made again as if it were new. again says
// that somebody asks for it to be made again: then it finds only one of which nobody knows whether it was made. made: the call is made in
// its place, with its key; else what came of it is the answer.
func (h *Origin) TakeDone(op string, effect agentkernel.Effect, args json.RawMessage, again bool) (c *Call, made bool) {
	if !h.live {
		return nil, false
	}
	k := callHash(op, args)
	for i, c := range h.done[k] {
		if c.Entry.Effect != effect || again && !c.unsure() {
			continue
		}
		h.done[k] = slices.Delete(h.done[k], i, i+1)
		c.taken = true
		return c, again || effect == agentkernel.EffectIdempotent && !c.finished()
	}
	return nil, false
}

func callHash(op string, args json.RawMessage) [32]byte {
	return sha256.Sum256(append([]byte(op+"\x00"), args...))
}

// claim says by what a new child has one of the origin as its own origin. A better one takes the child from a worse one: each of both
// goes on from it then, since what it did must not be done again.
type claim int

const (
	unclaimed claim = iota
	byOrder         // it is the first that is left
	byName          // the program gave both the same name
	bySame          // the calls that started both are the same
)

// likeness is by what a call with these arguments may claim the child that another has started.
func (c *Call) likeness(name string, args json.RawMessage) claim {
	switch {
	case string(c.Entry.Args) == string(args):
		return bySame
	case name != "" && c.name == name:
		return byName
	}
	return byOrder
}

// claim gives the child that the call has started to a new one.
func (c *Call) claim(by claim) {
	c.claimed, c.taken = max(c.claimed, by), c.taken || by == bySame
}

// TakeChild finds the child that the origin started beyond the first difference in the place of one that the program starts now: with the
// same call, or with another that gives it the same name, or else in the same order. A mended program starts children of another
// source, and what the old ones did is not to be done again. same: the calls are the same.
func (h *Origin) TakeChild(args json.RawMessage) (c *Call, child agentkernel.PID, same bool) {
	if h == nil || !h.live {
		return nil, 0, false
	}
	var best *Call
	name, by := nameOf(args), unclaimed
	for _, c := range h.children {
		like := c.likeness(name, args)
		if !c.taken && c.claimed < like && (like > by || like == by && c.claimed < best.claimed) {
			best, by = c, like
		}
	}
	if best == nil || json.Unmarshal(best.Result.Data, &child) != nil {
		return nil, 0, false
	}
	best.claim(by)
	return best, child, by == bySame
}

// nameOf is the name that a program gave a child; "": none.
func nameOf(args json.RawMessage) string {
	name, _ := journal.TextOf(args, "name")
	return name
}
