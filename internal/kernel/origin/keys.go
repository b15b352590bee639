package origin

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"agentkernel"
	"agentkernel/internal/kernel/advice"
	"agentkernel/internal/shellword"
	"agentkernel/internal/sys"
)

// stand notes that a call of the origin stands for one of a process before it.
func (h *Origin) stand(c *Call) {
	if key, ok := keyOf(&c.Entry); ok && (c.Entry.Effect == agentkernel.EffectWrite || c.Entry.Effect == agentkernel.EffectIdempotent ||
		h.rules(c.Entry.Op).Once && !c.Entry.Origin.As) {
		h.stands[c.Key] = key
	}
}

// CallKey is the key of a call for whoever deduplicates effects: "<store uuid>/<pid>/<call>". A call that stands for one of the origin,
// as of says, has the key of the one that was made first: a server that remembers keys has seen it, if it was made.
func (h *Origin) CallKey(own Key, of *agentkernel.OriginCall, uuid func(agentkernel.PID) string) string {
	if h == nil || of == nil {
		return own.text(uuid(own.PID))
	}
	key := Key{of.PID, of.Call}
	for {
		next, stands := h.stands[key]
		if from := h.imported[key.PID]; from != nil { // its journal names processes of the store that it comes from
			if !stands {
				next = Key{from.PID, key.Call}
			}
			return next.text(from.Store)
		}
		if !stands || next.PID >= key.PID { // a past is older than its rerun
			return key.text(uuid(key.PID))
		}
		key = next
	}
}

func (c Key) text(store string) string {
	return store + "/" + c.PID.String() + "/" + strconv.FormatInt(c.Call, 10)
}

// Decided notes that a human has decided about a call that the origin left in doubt.
func (h *Origin) Decided(call int64, d agentkernel.Decision) {
	if h != nil {
		h.decided[call] = h.decided[call] || d == agentkernel.DecisionRetry
	}
}

// Taken is what is said of a call of an operation that TakeDone has found one for. a: what its family says of it.
func (c *Call) Taken(call int64, op string, a *sys.Admission, made bool) string {
	name, pattern := op, op
	if a != nil {
		name, pattern = a.Name, a.Pattern
	}
	switch {
	case made:
		return fmt.Sprintf("call %d (%s) may have been made by process %d as call %d: it is made with the key of that one", call, name, c.PID, c.Key.Call)
	case c.unsure():
		return fmt.Sprintf(advice.MaybeMadeBefore, call, name, c.PID, c.Key.Call, shellword.Quoted(pattern))
	}
	return fmt.Sprintf(advice.MadeBefore, call, name, c.PID, c.Key.Call, shellword.Quoted(pattern))
}

// Started is what is said of a call that starts another child than one of the origin, in whose place it stands.
func (c *Call) Started(call int64, child *agentkernel.ProcessRecord) string {
	does := "what process %d made there is not made again"
	if !child.State.Terminal() {
		does = "process %d goes on, and what it made may be made again"
	}
	return fmt.Sprintf("call %d starts another child than call %d of process %d did: "+does, call, c.Key.Call, c.PID, child.PID)
}

// Answered says how far the origin went: how many of so many calls it has answered, but for those that somebody decided about.
func (h *Origin) Answered(calls int64) string {
	var what string
	lead, decided := ", but for ", h.decisions(calls)
	switch h.answered {
	case 0:
		what = "no call"
	case calls:
		what = fmt.Sprintf("calls 1-%d", calls)
		if calls == 1 {
			what = "call 1"
		}
	default:
		what, lead = fmt.Sprintf("%d of calls 1-%d", h.answered-int64(len(decided)), calls), ", not "
	}
	text := fmt.Sprintf("%s answered from the journal of process %d", what, h.pid)
	for _, call := range decided {
		what := "was decided"
		if h.decided[call] {
			what = "was made again by decision"
		}
		text += fmt.Sprintf("%scall %d, which %s", lead, call, what)
		lead = ", and "
	}
	return text
}

// decisions are those of the first so many calls that somebody decided about.
func (h *Origin) decisions(calls int64) []int64 {
	all := slices.Sorted(maps.Keys(h.decided))
	n, _ := slices.BinarySearch(all, calls+1)
	return all[:n]
}

// NoneLive is what is said at the end of a process of so many calls that never went beyond its origin. again are the patterns of what was
// to be made again there.
func (h *Origin) NoneLive(calls int64, again []string) string {
	none := "none was live"
	for _, again := range h.decided {
		if again {
			none = "no other was live"
		}
	}
	if h.answered < calls {
		none = "none is a difference: state, log, exit and the like belong to the new process"
	}
	if len(again) > 0 {
		none += advice.AgainIsBeyond
	}
	return h.Answered(calls) + "; " + none
}
