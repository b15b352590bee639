package kernel

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"agentkernel"
	"agentkernel/internal/journal"
)

// past is the journal of another process, which has ended, as Spec.Past makes it the past of this one. It
// decides which calls of the new process it answers; rerun.go does what follows. Calls are compared by
// operation and canonical arguments, in the order in which they were issued; whether the program waits
// for them at once (async) makes no difference. What an operation means for the order, pastRule says.
type past struct {
	pid     agentkernel.PID
	from    int64                    // calls of the past from this number on are not answered; 0: all are
	lineage []agentkernel.PID        // pid, its own past, and so on
	index   map[pastKey]*pastCall    // of all processes in the lineage
	strict  []*pastCall              // in the order of issue
	free    [][]*pastCall            // free[i] stands before strict[i], the last one behind all
	next    int                      // of strict
	live    bool                     // the first difference has come
	copies  map[int64]*pastCall      // calls of the new process whose result is still to be handed over
	ready   []readyCall              // those that have been issued and wait for the program to take them
	left    []*pastCall              // writes and spawns that pasts of the past made and that nobody took over
	done    map[[32]byte][]*pastCall // writes and spawns that were made and not taken over, once live
}

// pastKey names a call of a process.
type pastKey struct {
	pid  agentkernel.PID
	call int64
}

// pastCall is a call of the past with what came of it.
type pastCall struct {
	pastKey
	entry  agentkernel.Entry
	result *agentkernel.Entry // nil: none
	last   bool               // its result was an error, and the past ended with that
	taken  bool               // by a call of the new process
}

// readyCall is an async call whose result the past knows.
type readyCall struct {
	f *inflight
	c *pastCall
}

// order says when the result was handed to the program of the past.
func (c *pastCall) order() int64 { return c.result.Seq }

// pastRule says what an operation means in a rerun.
type pastRule int

const (
	// strict calls must come in the order of the past; the first that does not is the first difference.
	strict pastRule = iota
	// free calls are answered by the past if it made the same between the same two strict calls; one that it
	// did not make runs, and is no difference: a new look at the clock does not make the program another.
	free
	// own calls work on what belongs to the process itself, which begins anew, and always run.
	own
)

func pastRuleOf(op string) pastRule {
	switch family, _, _ := strings.Cut(op, "."); {
	case op == "proc.self" || family == "time" || family == "rand":
		return free
	case op == "proc.exit" || family == "state" || family == "log":
		return own
	}
	return strict
}

// newPast sorts the journal of process pid. Calls are numbered as they are issued; their entries may come later,
// and not in that order.
func newPast(pid agentkernel.PID, from int64, entries []agentkernel.Entry) *past {
	h := &past{pid: pid, from: from, lineage: []agentkernel.PID{pid}, index: map[pastKey]*pastCall{}, copies: map[int64]*pastCall{}}
	var all []*pastCall
	var end pastEnd
	lastIssued := int64(0)
	for i := range entries {
		e := &entries[i]
		c := h.index[pastKey{pid, e.Call}]
		switch {
		case e.Kind == agentkernel.EntryOutput && e.Stream == "stderr":
			end.words = e
		case e.Kind == agentkernel.EntryOutput:
			end.printed = e.Seq
		case e.Kind == agentkernel.EntryTerminal:
			end.entry = e
		case e.Kind == agentkernel.EntryResult && c != nil:
			c.result = e
		case e.Kind == agentkernel.EntryCall && c == nil:
			c = &pastCall{pastKey: pastKey{pid, e.Call}, entry: *e}
			if e.Done {
				c.result = e
			}
			h.index[c.pastKey] = c
			all = append(all, c)
			if pastRuleOf(e.Op) == strict {
				lastIssued = e.Seq
			}
		}
	}
	slices.SortStableFunc(all, func(a, b *pastCall) int { return cmp.Compare(a.call, b.call) })
	h.free = append(h.free, nil)
	for _, c := range all {
		switch pastRuleOf(c.entry.Op) {
		case strict:
			c.last = c.result != nil && c.result.Err != nil && c.result.Seq >= lastIssued && end.with(c.result)
			h.strict = append(h.strict, c)
			h.free = append(h.free, nil)
		case free:
			h.free[len(h.free)-1] = append(h.free[len(h.free)-1], c)
		}
	}
	return h
}

// pastEnd is how a process ended.
type pastEnd struct {
	entry   *agentkernel.Entry // nil: it has not
	words   *agentkernel.Entry // the last that it wrote to stderr
	printed int64              // Seq of the last that it wrote to stdout
}

// with says whether the process ended with the error that a call had as its result: it did not catch it, or raised
// another that quotes it. A program that has no exceptions ended with it if it failed and printed no more than what
// the command kernel says of it. In any other case the program survived the error.
func (end pastEnd) with(result *agentkernel.Entry) bool {
	if end.entry == nil {
		return false
	}
	failure := result.Err
	said := string(failure.Code) + ": " + failure.Message() // no hint: another version may have said it in other words
	if e := end.entry.Err; e != nil {
		text := e.Message()
		if strings.HasSuffix(e.Exception, "ExceptionGroup") {
			text = e.Traceback // the message does not say what is in the group
		}
		return strings.Contains(text, said) || e.Code == failure.Code && text == failure.Message()
	}
	var exit struct {
		Code int `json:"exit_code"`
	}
	var words string
	if json.Unmarshal(end.entry.Data, &exit) != nil || exit.Code == 0 || end.printed > result.Seq || end.words == nil ||
		json.Unmarshal(end.words.Data, &words) != nil {
		return false
	}
	i := strings.LastIndex(words, "kernel: "+said)
	return i >= 0 && !strings.Contains(strings.TrimSuffix(words[i+len("kernel: "+said):], "\n"), "\n")
}

// made says whether the call did, or may have done, what it was to do. An error of the tool itself says that it did
// not; one of the kernel says so only if the call was refused or certainly not sent, and then it has
// another code than these.
func (c *pastCall) made() bool {
	if c.entry.Done {
		return c.result.Err == nil
	}
	if c.result == nil || c.result.Err == nil {
		return true
	}
	switch c.result.Err.Code {
	case agentkernel.CodeAnswerLost, agentkernel.CodeOutcomeUnknown, agentkernel.CodeInterrupted, agentkernel.CodeLimit:
		return true
	}
	return false
}

// unknown says that nobody knows whether a write happened, and that the program of the past did not go on
// with that answer.
func (c *pastCall) unknown() bool {
	if c.entry.Effect != agentkernel.EffectWrite || c.entry.Done {
		return false
	}
	if c.result == nil {
		return true
	}
	code := agentkernel.CodeOf(errOrNil(c.result.Err))
	return c.last && (code == agentkernel.CodeOutcomeUnknown || code == agentkernel.CodeInterrupted)
}

// answers says whether the past has an answer for whoever makes the call again; if not, why.
func (c *pastCall) answers() string {
	switch {
	case c.unknown() || c.result != nil && !c.last:
		return ""
	case c.result == nil:
		return fmt.Sprintf("call %d of pid %d has no result", c.call, c.pid)
	case c.entry.Effect == agentkernel.EffectWrite && c.made():
		return ""
	}
	return fmt.Sprintf("it failed in pid %d, which ended with that: %s", c.pid, journal.Short(json.RawMessage(c.result.Err.GuestText()), 200))
}

// match finds the answer to a call. why is set at the first difference, which makes everything live.
func (h *past) match(op string, args json.RawMessage) (c *pastCall, why string) {
	switch rule := pastRuleOf(op); {
	case h.live || rule == own:
		return nil, ""
	case rule == free:
		return h.takeFree(op, args), ""
	}
	if h.next == len(h.strict) {
		return nil, fmt.Sprintf("the journal of pid %d ends there", h.pid)
	}
	c = h.strict[h.next]
	if h.from > 0 && c.call >= h.from {
		return nil, fmt.Sprintf("only calls before %d were to be answered", h.from)
	}
	if c.entry.Op != op || string(c.entry.Args) != string(args) {
		return nil, fmt.Sprintf("it is another than call %d of pid %d\n%s", c.call, h.pid,
			journal.Diff(describeCall(c.entry.Op, false, c.entry.Args), describeCall(op, false, args)))
	}
	if why := c.answers(); why != "" {
		return nil, why
	}
	h.take(c)
	return c, ""
}

func (h *past) takeFree(op string, args json.RawMessage) *pastCall {
	for _, c := range h.free[h.next] {
		if c.taken || c.entry.Op != op || string(c.entry.Args) != string(args) || h.from > 0 && c.call >= h.from {
			continue
		}
		if c.result == nil || c.result.Err != nil {
			return nil
		}
		c.taken = true
		return c
	}
	return nil
}

// take marks a call as taken over, and goes on behind it if it is the next one.
func (h *past) take(c *pastCall) {
	c.taken = true
	if !h.live && h.next < len(h.strict) && h.strict[h.next] == c {
		h.next++
	}
}

// takeDone finds a call that the past made beyond the first difference, and that must not be made again
// without being asked for.
func (h *past) takeDone(op string, effect agentkernel.Effect, args json.RawMessage) *pastCall {
	if !h.live {
		return nil
	}
	k := callHash(op, args)
	for i, c := range h.done[k] {
		if c.entry.Effect == effect {
			h.done[k] = slices.Delete(h.done[k], i, i+1)
			c.taken = true
			return c
		}
	}
	return nil
}

// leave goes beyond the first difference: of all that the past knows only what must not be made again is kept.
func (h *past) leave() {
	h.live, h.done = true, map[[32]byte][]*pastCall{}
	for _, c := range slices.Concat(h.left, h.strict) {
		if !c.taken && c.made() && (c.entry.Effect == agentkernel.EffectWrite || c.entry.Op == "proc.spawn") {
			k := callHash(c.entry.Op, c.entry.Args)
			h.done[k] = append(h.done[k], c)
		}
	}
	h.strict, h.free, h.left, h.index = nil, nil, nil, nil
}

func callHash(op string, args json.RawMessage) [32]byte {
	return sha256.Sum256(append([]byte(op+"\x00"), args...))
}

// isOf says whether a process belongs to what this process takes over.
func (h *past) isOf(pid agentkernel.PID) bool { return h != nil && slices.Contains(h.lineage, pid) }

// drop forgets an async call whose result nobody waits for any more.
func (h *past) drop(call int64) {
	if h != nil {
		delete(h.copies, call)
		h.ready = slices.DeleteFunc(h.ready, func(r readyCall) bool { return r.f.id == call })
	}
}
