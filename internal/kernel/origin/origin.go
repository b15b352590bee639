// Package origin answers the calls of a rerun from the journals of the process that it repeats and of those that that one
// repeated. That process is the past of the rerun for users, in Spec.Past and in what is stored, and its origin in code.
package origin

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"agentkernel"
	"agentkernel/internal/journal"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/kernel/unresolved"
	"agentkernel/internal/sys"
)

// Origin is the journal of another process, which has ended, as Spec.Past makes it the origin of this one. It decides which
// calls of the new process it answers. Calls are compared by operation and canonical arguments, in the order in which they
// were issued; whether the program waits for them at once (async) makes no difference. What an operation means for the order,
// sys.Rerun says. A nil Origin has nothing to say.
type Origin struct {
	rules    Rules
	pid      agentkernel.PID
	from     int64             // its calls from this number on are not answered; 0: all are
	lineage  []agentkernel.PID // pid, its own origin, and so on
	index    map[Key]*Call     // of all processes in the lineage
	strict   []*Call           // in the order of issue
	free     [][]*Call         // free[i] stands before strict[i], the last one behind all
	next     int               // of strict
	answered int64             // calls of the new process before the first difference that have been answered
	live     bool              // the first difference has come
	copies   map[int64]*Call   // calls of the new process whose result is still to be handed over
	ready    map[int64]*Call   // of copies, those that have been issued and wait for the program to take them
	left     []*Call           // what origins of the origin made and nobody took over

	// Once live; see Leave.
	done     map[[32]byte][]*Call
	children []*Call // calls that started a child, in order
	away     away    // children that are not in this store

	stands   map[Key]Key                                // of calls of the lineage that stand for others; see Key
	imported map[agentkernel.PID]*agentkernel.ProcessOf // processes of the lineage that came with a recording
	decided  map[int64]bool                             // calls that the origin has left in doubt, and about which somebody has decided; true: that they are made again
}

// Rules says what an operation means for a rerun.
type Rules func(op string) Rule

// Rule is what an operation means for a rerun.
type Rule struct {
	Order sys.Rerun
	Once  bool // what it has made is not made again although it is pure: it starts a child
	Opens bool // its answer is the handle of a stream
}

// Reader is what an Origin reads of a store.
type Reader interface {
	Process(ctx context.Context, pid agentkernel.PID) (agentkernel.ProcessRecord, error)
	Entries(ctx context.Context, pid agentkernel.PID, from int64, limit int) ([]agentkernel.Entry, error)
}

// Key names a call of a process.
type Key struct {
	PID  agentkernel.PID
	Call int64
}

// Call is a call of an origin with what came of it.
type Call struct {
	Key
	Entry  agentkernel.Entry
	Result *agentkernel.Entry // nil: none
	last   bool               // its result was an error, and the origin ended with that
	taken  bool               // by a call of the new process
	unsent bool               // the origin ended while it waited for its turn

	// Of one that started a child.
	name    string // of the child; set by Leave
	claimed claim  // by a new child
}

// Read reads the journals that answer a rerun of the process rec, which has ended.
func Read(ctx context.Context, store Reader, rec *agentkernel.ProcessRecord, from int64, rules Rules) (*Origin, error) {
	entries, err := store.Entries(ctx, rec.PID, 1, 0)
	if err != nil {
		return nil, err
	}
	h := New(rules, rec.PID, from, entries)
	return h, h.addLineage(ctx, store, rec.Spec.Past, entries)
}

// New sorts the journal of process pid. Calls are numbered as they are issued; their entries may come later,
// and not in that order.
func New(rules Rules, pid agentkernel.PID, from int64, entries []agentkernel.Entry) *Origin {
	h := &Origin{rules: rules, pid: pid, from: from, lineage: []agentkernel.PID{pid}, index: map[Key]*Call{}, copies: map[int64]*Call{}, ready: map[int64]*Call{},
		stands: map[Key]Key{}, imported: map[agentkernel.PID]*agentkernel.ProcessOf{}, decided: map[int64]bool{}}
	var all []*Call
	var end ending
	lastIssued := int64(0)
	for i := range entries {
		e := &entries[i]
		c := h.index[Key{pid, e.Call}]
		switch {
		case e.Kind == agentkernel.EntryOutput && e.Stream == "stderr":
			end.words = e
		case e.Kind == agentkernel.EntryOutput:
			end.printed = e.Seq
		case e.Kind == agentkernel.EntryTerminal:
			end.entry = e
		case e.Kind == agentkernel.EntryCreated && e.Imported != nil:
			h.imported[pid] = e.Imported
		case e.Kind == agentkernel.EntryResult && c != nil:
			c.Result = e
		case (e.Kind == agentkernel.EntryRetry || e.Kind == agentkernel.EntrySettled) && c != nil:
			c.unsent = history.LeavesUnsent(e)
		case e.Kind == agentkernel.EntryCall && c == nil:
			c = &Call{Key: Key{pid, e.Call}, Entry: *e, unsent: history.LeavesUnsent(e)}
			if e.Done {
				c.Result = e
			}
			h.index[c.Key] = c
			h.stand(c)
			all = append(all, c)
			if rules(e.Op).Order == sys.Strict {
				lastIssued = e.Seq
			}
		}
	}
	slices.SortStableFunc(all, func(a, b *Call) int { return cmp.Compare(a.Key.Call, b.Key.Call) })
	h.free = append(h.free, nil)
	for _, c := range all {
		switch rules(c.Entry.Op).Order {
		case sys.Strict:
			c.last = c.Result != nil && c.Result.Err != nil && c.Result.Seq >= lastIssued && end.with(c.Result)
			h.strict = append(h.strict, c)
			h.free = append(h.free, nil)
		case sys.Free:
			h.free[len(h.free)-1] = append(h.free[len(h.free)-1], c)
		}
	}
	return h
}

// ending is how a process ended.
type ending struct {
	entry   *agentkernel.Entry // nil: it has not
	words   *agentkernel.Entry // the last that it wrote to stderr
	printed int64              // Seq of the last that it wrote to stdout
}

// with says whether the process ended with the error that a call had as its result: it did not catch it, or raised
// another that quotes it. A program that has no exceptions ended with it if it failed and printed no more than what
// the command kernel says of it. In any other case the program survived the error.
func (end ending) with(result *agentkernel.Entry) bool {
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
		return strings.Contains(text, said) || e.Code == failure.Code && text == failure.Message() || stopped(e, failure)
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

// stopped says that a process ended as it was asked to, by somebody or by its deadline, with the interrupt that its call had as its result.
func stopped(end, failure *agentkernel.Error) bool {
	return failure.Code == agentkernel.CodeInterrupted && end.Code == agentkernel.CodeKilled && (end.Op == "stop" || end.Op == agentkernel.OpDeadline)
}

// made says whether the call did, or may have done, what it was to do. An error of the tool itself says that it did
// not; one of the kernel says so only if the call was refused or certainly not sent, and then it has
// another code than these.
func (c *Call) made() bool {
	if c.Entry.Done {
		return c.Result.Err == nil
	}
	if c.unsent {
		return false
	}
	if c.Result == nil || c.Result.Err == nil {
		return true
	}
	switch c.Result.Err.Code {
	case agentkernel.CodeAnswerLost, agentkernel.CodeOutcomeUnknown, agentkernel.CodeInterrupted, agentkernel.CodeLimit:
		return true
	}
	return false
}

// InDoubt is the answer for a write of which nobody knows whether it happened.
func (c *Call) InDoubt(op, brief string) *agentkernel.Error {
	if c.Result != nil && c.Result.Err.Code == agentkernel.CodeOutcomeUnknown {
		return c.Result.Err
	}
	return unresolved.Unknown(op, brief, fmt.Errorf("process %d ended before it was answered", c.PID))
}

// Unknown says that nobody knows whether a write happened, and that the program of the origin did not go on
// with that answer.
func (c *Call) Unknown() bool {
	if c.Entry.Effect != agentkernel.EffectWrite || c.Entry.Done || c.unsent {
		return false
	}
	if c.Result == nil {
		return true
	}
	err := c.Result.Err
	return c.last && err != nil && (err.Code == agentkernel.CodeOutcomeUnknown || err.Code == agentkernel.CodeInterrupted)
}

// answers says whether the origin has an answer for whoever makes the call again; if not, why.
func (c *Call) answers() string {
	switch {
	case c.Unknown() || c.Result != nil && !c.last:
		return ""
	case c.Result == nil:
		return fmt.Sprintf("call %d of process %d has no result", c.Key.Call, c.PID)
	case c.Entry.Effect == agentkernel.EffectWrite && c.made():
		return ""
	}
	return fmt.Sprintf("it failed in process %d, which ended with that: %s", c.PID, journal.Short(json.RawMessage(c.Result.Err.GuestText()), 200))
}

// Match finds the answer to a call. why is set at the first difference, which makes everything live.
func (h *Origin) Match(op string, args json.RawMessage) (c *Call, why string) {
	switch rule := h.rules(op).Order; {
	case h.live || rule == sys.Own:
		return nil, ""
	case rule == sys.Free:
		if c = h.takeFree(op, args); c != nil {
			h.answered++
		}
		return c, ""
	}
	if h.next == len(h.strict) {
		return nil, fmt.Sprintf("the journal of process %d ends there", h.pid)
	}
	c = h.strict[h.next]
	if h.from > 0 && c.Key.Call >= h.from {
		return nil, fmt.Sprintf("only calls before %d were to be answered", h.from)
	}
	if c.Entry.Op != op || string(c.Entry.Args) != string(args) {
		return nil, fmt.Sprintf("it is another than call %d of process %d\n%s", c.Key.Call, h.pid,
			journal.Diff(history.Describe(c.Entry.Op, false, c.Entry.Args), history.Describe(op, false, args)))
	}
	if why := c.answers(); why != "" {
		return nil, why
	}
	h.take(c)
	h.answered++
	return c, ""
}

func (h *Origin) takeFree(op string, args json.RawMessage) *Call {
	for _, c := range h.free[h.next] {
		if c.taken || c.Entry.Op != op || string(c.Entry.Args) != string(args) || h.from > 0 && c.Key.Call >= h.from {
			continue
		}
		if c.Result == nil || c.Result.Err != nil {
			return nil
		}
		c.taken = true
		return c
	}
	return nil
}

// take marks a call as taken over, and goes on behind it if it is the next one.
func (h *Origin) take(c *Call) {
	c.taken = true
	if !h.live && h.next < len(h.strict) && h.strict[h.next] == c {
		h.next++
	}
}

// IsOf says whether a process belongs to what this process takes over.
func (h *Origin) IsOf(pid agentkernel.PID) bool { return h != nil && slices.Contains(h.lineage, pid) }

// Drop forgets an async call whose result nobody waits for any more.
func (h *Origin) Drop(call int64) {
	if h != nil {
		delete(h.copies, call)
		delete(h.ready, call)
	}
}

// Issued notes that the program waits for the result of a call of which the origin has one.
func (h *Origin) Issued(call int64, c *Call) { h.ready[call] = c }

// Holds says whether the origin has the result of a call that the program has not taken yet.
func (h *Origin) Holds(call int64) bool { return h.Waits() && h.ready[call] != nil }

// Waits says whether the origin has results that the program has not taken yet.
func (h *Origin) Waits() bool { return h != nil && len(h.ready) > 0 }

// Next takes the result that was handed to the program of the origin first; nil: there is none.
func (h *Origin) Next() (call int64, c *Call) {
	if h == nil {
		return 0, nil
	}
	for id, r := range h.ready {
		if c == nil || r.Result.Seq < c.Result.Seq {
			call, c = id, r
		}
	}
	h.Drop(call)
	return call, c
}

// Copy is the call whose result is still to be handed over for a call of the new process; nil: none.
func (h *Origin) Copy(call int64) *Call {
	if h == nil {
		return nil
	}
	return h.copies[call]
}

// Live says whether the first difference has come.
func (h *Origin) Live() bool { return h == nil || h.live }

// From names the call as one that was answered from there.
func (c Key) From() *agentkernel.OriginCall { return &agentkernel.OriginCall{PID: c.PID, Call: c.Call} }

// As names the call as that of a spawn whose child takes over the child of a new one.
func (c Key) As() *agentkernel.OriginCall {
	return &agentkernel.OriginCall{PID: c.PID, Call: c.Call, As: true}
}

// keyOf is the call of an origin that an entry names; ok is false if it names none.
func keyOf(e *agentkernel.Entry) (c Key, ok bool) {
	if e.Origin == nil {
		return c, false
	}
	return Key{e.Origin.PID, e.Origin.Call}, true
}

// Self puts what a rerun may choose of itself into what the origin was told. The PID stays that of the origin: programs put it
// into names.
func Self(mine, recorded json.RawMessage) json.RawMessage {
	var self, old map[string]json.RawMessage
	if json.Unmarshal(mine, &self) != nil {
		return recorded
	}
	if json.Unmarshal(recorded, &old) == nil && old["pid"] != nil {
		self["pid"] = old["pid"]
	}
	merged, err := json.Marshal(self)
	if err != nil {
		return recorded
	}
	return merged
}
