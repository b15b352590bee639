// Package trace turns the journal of a process into a tree that people can read: calls with their
// arguments, durations and results, parallel calls as groups, waits, pauses, recoveries and output, the
// children of the process below the call that started them.
//
// It works on entries alone: it must never ask a kernel or a store, and never change what it was given.
package trace

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/history"
)

// Tree is a process with its journal and its children.
type Tree struct {
	Process  agentkernel.Process
	Entries  []agentkernel.Entry
	Children map[agentkernel.PID]*Tree
}

// kind is what a step of the tree shows.
type kind int

const (
	stepCall kind = iota
	stepGroup
	stepOutput
	stepMark
	stepEnd
	stepFold // many calls alike
)

// step is one line of the tree, with the lines below it.
type step struct {
	kind     kind
	at       time.Time
	end      time.Time // calls and groups; zero: no result
	instant  bool      // result in the same entry: the kernel answered at once
	call     agentkernel.Entry
	result   json.RawMessage
	err      *agentkernel.Error
	note     string          // what the result's entry says besides
	mark     string          // stepMark, stepEnd
	bad      bool            // the mark reports trouble
	stream   string          // stepOutput
	text     strings.Builder // stepOutput
	children []*step
	child    *Tree // proc.spawn
}

// builder walks a journal once.
type builder struct {
	tree     *Tree
	root     step
	open     map[int64]*step // calls without a result yet, by number
	group    *step           // parallel calls in progress
	inFlight int             // async calls of the group without a result
	last     time.Time
	pauses   history.Pauses
}

func steps(t *Tree) []*step {
	b := &builder{tree: t, open: map[int64]*step{}}
	for _, e := range t.Entries {
		b.entry(e)
		b.last = e.At
	}
	b.closeGroup()
	return b.root.children
}

func (b *builder) entry(e agentkernel.Entry) {
	b.pauses.Add(&e)
	switch e.Kind {
	case agentkernel.EntryCall:
		b.callEntry(e)
	case agentkernel.EntryResult:
		b.resultEntry(e)
	case agentkernel.EntryOutput:
		b.output(e)
	case agentkernel.EntryPaused:
		b.add(&step{kind: stepMark, at: e.At, bad: true, mark: join("paused", noteOf(e))})
	case agentkernel.EntryResumed:
		b.add(&step{kind: stepMark, at: e.At, mark: join("resumed", since("after", b.pauses.At, e.At))})
	case agentkernel.EntryRecover:
		b.add(&step{kind: stepMark, at: e.At, bad: true, mark: join("recovered: its kernel had stopped",
			since("nothing ran for", history.DownSince(&e, b.last), e.At), recoverDetail(e))})
	case agentkernel.EntrySignal:
		if w, ok := history.WarningOf(&e); ok {
			b.add(&step{kind: stepMark, at: e.At, bad: true, mark: w.String()})
			break
		}
		b.add(&step{kind: stepMark, at: e.At, bad: true, mark: join("signal "+cmp.Or(textField(e.Data, "signal"), e.Note), deadlineOf(&e))})
	case agentkernel.EntryResolve:
		b.add(&step{kind: stepMark, at: e.At, mark: decided(e)})
	case agentkernel.EntryRetry:
		b.again(&e)
	case agentkernel.EntryPast:
		b.add(&step{kind: stepMark, at: e.At, mark: e.Note})
	case agentkernel.EntryMoved:
		b.add(&step{kind: stepMark, at: e.At, bad: true, mark: movedMark(e)})
	case agentkernel.EntryAborted:
		b.closeGroup()
		b.add(&step{kind: stepMark, at: e.At, bad: true, mark: "the cell was aborted"})
	case agentkernel.EntryAllowed:
		b.add(&step{kind: stepMark, at: e.At, mark: allowedMark(e)})
	case agentkernel.EntryBudget:
		b.add(&step{kind: stepMark, at: e.At, mark: "its budget was raised by " + raisedBy(&e)})
	case agentkernel.EntrySettled:
		b.add(&step{kind: stepMark, at: e.At, bad: e.Settle == nil, mark: settledMark(b.tree, &e)})
		if s := b.open[e.Call]; s != nil && len(e.Reserve) > 0 {
			s.call.Reserve = e.Reserve
		}
	case agentkernel.EntryAttached:
		b.closeGroup() // the program begins again, or goes on; what was under way may not have an answer
		b.add(&step{kind: stepMark, at: e.At, mark: "host " + strconv.FormatInt(hostOf(&e), 10) + " took it up"})
	case agentkernel.EntryTerminal:
		b.closeGroup()
		b.terminal(e)
	}
}

// settledMark says what a stream has used up, or, if that was said before, that it was given whole; or what a call has that never had an answer.
func settledMark(t *Tree, e *agentkernel.Entry) string {
	before := func(is func(*agentkernel.Entry) bool) bool {
		return slices.ContainsFunc(t.Entries, func(b agentkernel.Entry) bool { return b.Call == e.Call && b.Seq < e.Seq && is(&b) })
	}
	call := "call " + strconv.FormatInt(e.Call, 10)
	text := "the stream of " + call + " has ended: "
	switch {
	case len(e.Reserve) > 0:
		text = call + " waits for its turn again: "
	case !before(func(b *agentkernel.Entry) bool { return b.Kind == agentkernel.EntryResult || b.Done }):
		text = call + " was left without an answer: "
	case before(func(b *agentkernel.Entry) bool { return b.Kind == agentkernel.EntrySettled && len(b.Reserve) == 0 }):
		return "the stream of " + call + " was read to its end"
	}
	switch used := amountsText(e.Settle); {
	case e.Settle == nil:
		return text + "nobody knows what it has used, so all that it held is charged"
	case used == "":
		return text + "nothing was used"
	default:
		return text + used
	}
}

// raisedBy is by how much a budget was raised.
func raisedBy(e *agentkernel.Entry) string { return amountsText(history.BudgetOf(e).Amounts()) }

// amountsText is what budgets bound of amounts: "$1.00, 50 calls".
func amountsText(by agentkernel.Amounts) string {
	var parts []string
	for _, name := range agentkernel.BudgetAmounts {
		if n := by[name]; n != 0 {
			parts = append(parts, agentkernel.AmountPhrase(name, n))
		}
	}
	return strings.Join(parts, ", ")
}

// hostOf is which host has taken a process up: its epoch.
func hostOf(e *agentkernel.Entry) int64 {
	var a struct {
		Epoch int64 `json:"epoch"`
	}
	_ = json.Unmarshal(e.Data, &a) // a recording may have anything there
	return a.Epoch
}

// deadlineOf says that a signal came because of a deadline.
func deadlineOf(e *agentkernel.Entry) string {
	if history.SignalOf(e).Deadline.IsZero() {
		return ""
	}
	return "its deadline was reached"
}

func (b *builder) add(s *step) {
	parent := &b.root
	if b.group != nil {
		parent = b.group
	}
	parent.children = append(parent.children, s)
}

// again is a call that is made once more, or for the first time after somebody was waited for.
func (b *builder) again(e *agentkernel.Entry) {
	mark := step{kind: stepMark, at: e.At, bad: true, mark: "call " + strconv.FormatInt(e.Call, 10) + " is made once more"}
	s := b.open[e.Call]
	if s != nil && s.call.Reserve[agentkernel.AmountUnsent] > 0 {
		mark.bad, mark.mark = false, "call "+strconv.FormatInt(e.Call, 10)+" goes out: what it waited for is there"
		s.call.Reserve = e.Reserve
	}
	if s != nil && s.call.TakenOver() { // it is made after all
		s.call.Origin = &agentkernel.OriginCall{PID: s.call.Origin.PID, Call: s.call.Origin.Call, As: true}
	}
	b.add(&mark)
}

func (b *builder) callEntry(e agentkernel.Entry) {
	s := &step{kind: stepCall, at: e.At, call: e, note: e.Note}
	if e.Async && b.group == nil {
		g := &step{kind: stepGroup, at: e.At}
		b.add(g)
		b.group = g
	}
	b.add(s)
	if e.Done {
		s.instant, s.end, s.result, s.err = true, e.At, e.Data, e.Err
		b.link(s)
		return
	}
	b.open[e.Call] = s
	if e.Async {
		b.inFlight++
	}
}

func (b *builder) resultEntry(e agentkernel.Entry) {
	s := b.open[e.Call]
	if s == nil {
		b.add(&step{kind: stepMark, at: e.At, bad: true, mark: "a result without its call"})
		return
	}
	delete(b.open, e.Call)
	s.end, s.result, s.err = e.At, e.Data, e.Err
	s.note = join(s.note, e.Note)
	b.link(s)
	if !s.call.Async {
		return
	}
	if b.inFlight--; b.inFlight == 0 {
		if b.group != nil {
			b.group.end = e.At
		}
		b.closeGroup()
	}
}

// closeGroup ends the group of parallel calls; one that turned out to be a single call is no group.
func (b *builder) closeGroup() {
	g := b.group
	b.group, b.inFlight = nil, 0
	if g == nil || len(g.children) != 1 {
		return
	}
	for i, s := range b.root.children {
		if s == g {
			b.root.children[i] = g.children[0]
		}
	}
}

// link hangs the child of a proc.spawn under its call.
func (b *builder) link(s *step) {
	if s.call.Op != "proc.spawn" || s.err != nil {
		return
	}
	var pid agentkernel.PID
	if json.Unmarshal(s.result, &pid) == nil {
		s.child = b.tree.Children[pid]
	}
}

// output joins what one stream printed without a call between.
func (b *builder) output(e agentkernel.Entry) {
	var text string
	if json.Unmarshal(e.Data, &text) != nil {
		text = string(e.Data)
	}
	siblings := b.root.children
	if b.group != nil {
		siblings = b.group.children
	}
	if n := len(siblings); n > 0 && siblings[n-1].kind == stepOutput && siblings[n-1].stream == e.Stream {
		siblings[n-1].text.WriteString(text)
		return
	}
	s := &step{kind: stepOutput, at: e.At, stream: e.Stream}
	s.text.WriteString(text)
	b.add(s)
}

func (b *builder) terminal(e agentkernel.Entry) {
	var end struct {
		State    agentkernel.State  `json:"state"`
		ExitCode int                `json:"exit_code"`
		Result   json.RawMessage    `json:"result"`
		Error    *agentkernel.Error `json:"error"`
	}
	if err := json.Unmarshal(e.Data, &end); err != nil {
		b.add(&step{kind: stepEnd, at: e.At, bad: true, mark: "ended"})
		return
	}
	s := &step{kind: stepEnd, at: e.At, mark: string(end.State), result: end.Result, err: cmp.Or(e.Err, end.Error)}
	if len(s.result) == 0 { // a journal need not repeat what the process's row holds
		s.result = b.tree.Process.Result
	}
	if end.State == agentkernel.StateExited && end.ExitCode != 0 {
		s.mark = join(string(end.State) + " with code " + itoa(end.ExitCode))
	}
	s.bad = end.State != agentkernel.StateExited || end.ExitCode != 0
	b.add(s)
}

// Order gives children by PID.
func Order(children map[agentkernel.PID]*Tree) []*Tree {
	var out []*Tree
	for _, pid := range slices.Sorted(maps.Keys(children)) {
		out = append(out, children[pid])
	}
	return out
}
