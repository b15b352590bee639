// Package diff compares two runs call by call: which calls are the same, which have other arguments or another
// result, which only one of the runs made; and whether they printed the same and ended alike.
//
// The calls are aligned by a longest common subsequence over operation and canonical arguments. The package holds
// pure functions: it must never ask a kernel or a store, and never change what it was given.
package diff

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentkernel"
	"agentkernel/internal/journal"
	"agentkernel/internal/kernel/history"
)

// Run is one of the two.
type Run struct {
	Process agentkernel.Process
	Entries []agentkernel.Entry // its whole journal
	Source  string              // the text of its program
}

// Options say what counts.
type Options struct {
	// Exact compares results that are never the same twice, too: the clock, random bytes, PIDs.
	Exact bool
}

// Kind is what became of a call from one run to the other.
type Kind string

// The kinds. Arguments and result are compared for the same operation and tool only.
const (
	Same      Kind = "same"
	Arguments Kind = "arguments" // other arguments
	Result    Kind = "result"    // the same arguments, another result or error, or none
	OnlyA     Kind = "only_a"
	OnlyB     Kind = "only_b"
)

// Diff is the comparison.
type Diff struct {
	A     Side `json:"a"`
	B     Side `json:"b"`
	Equal bool `json:"equal"` // calls, output and end
	// Approximate: the journals are so long and so different that a better alignment may exist.
	Approximate bool         `json:"approximate,omitempty"`
	Counts      map[Kind]int `json:"counts"`
	Created     []Field      `json:"created"` // what they were created with; does not count for Equal
	Calls       []Pair       `json:"calls"`
	Output      []Output     `json:"output"`
	End         []Field      `json:"end"`
}

// Side describes a run.
type Side struct {
	PID      agentkernel.PID `json:"pid"`
	Name     string          `json:"name"`
	State    string          `json:"state"`
	Calls    int             `json:"calls"`
	Duration time.Duration   `json:"duration_ns,omitempty"` // 0: it has not ended
}

// Field is a named thing that differs; "" where a side has none.
type Field struct {
	Name string          `json:"name"`
	A    json.RawMessage `json:"a,omitempty"`
	B    json.RawMessage `json:"b,omitempty"`
}

// Pair is a call of A beside that of B.
type Pair struct {
	Kind Kind  `json:"kind"`
	A    *Call `json:"a,omitempty"`
	B    *Call `json:"b,omitempty"`
}

// Call is a call as the comparison shows it. Arguments, results and errors stand only where they differ or only one
// side has the call.
type Call struct {
	Number int64              `json:"number"`
	Seq    int64              `json:"seq"`
	Name   string             `json:"name"`
	Args   json.RawMessage    `json:"args,omitempty"`
	Result json.RawMessage    `json:"result,omitempty"`
	Err    *agentkernel.Error `json:"error,omitempty"`
	Open   bool               `json:"open,omitempty"` // no result is known

	call *history.Call
}

// Output is the first line at which a stream differs.
type Output struct {
	Stream string `json:"stream"`
	Line   int    `json:"line"`
	A      string `json:"a"`
	B      string `json:"b"`
}

// Of compares two runs.
func Of(a, b Run, o Options) *Diff {
	sa, sb := newSide(a, o), newSide(b, o)
	d := &Diff{A: sa.describe(), B: sb.describe(), Counts: map[Kind]int{}, Calls: []Pair{},
		Created: fields(created(a.Entries), created(b.Entries)), End: ends(a.Process, b.Process), Output: outputs(a.Entries, b.Entries)}
	if a.Source != b.Source {
		d.Created = append(d.Created, firstLineApart(a.Source, b.Source))
	}
	ids := map[string]int32{}
	matches, exact := align(number(ids, sa.keys), number(ids, sb.keys))
	d.Approximate = !exact
	last := match{-1, -1}
	for _, m := range append(matches, match{len(sa.calls), len(sb.calls)}) {
		d.gap(sa, sb, last, m)
		if m.a < len(sa.calls) {
			d.pair(sa, sb, m)
		}
		last = m
	}
	d.Equal = d.Counts[Same] == len(d.Calls) && len(d.Output) == 0 && len(d.End) == 0
	return d
}

// gap aligns what stands between two matches by operation and tool: those are calls with other arguments.
func (d *Diff) gap(a, b *side, from, to match) {
	ids := map[string]int32{}
	names := func(s *side, from, to int) []string {
		var out []string
		for i := from; i < to; i++ {
			out = append(out, s.calls[i].Name())
		}
		return out
	}
	pairs, exact := align(number(ids, names(a, from.a+1, to.a)), number(ids, names(b, from.b+1, to.b)))
	d.Approximate = d.Approximate || !exact
	i, j := from.a+1, from.b+1
	for _, m := range append(pairs, match{to.a - from.a - 1, to.b - from.b - 1}) {
		for ; i < from.a+1+m.a; i++ {
			d.add(OnlyA, a.show(i), nil)
		}
		for ; j < from.b+1+m.b; j++ {
			d.add(OnlyB, nil, b.show(j))
		}
		if i < to.a && j < to.b {
			d.add(Arguments, a.show(i), b.show(j))
			i, j = i+1, j+1
		}
	}
}

func (d *Diff) pair(a, b *side, m match) {
	x, y := &a.calls[m.a], &b.calls[m.b]
	alike := x.Err == nil && y.Err == nil && !x.Open() && !y.Open() && string(x.Result) == string(y.Result)
	if !alike && a.answer(m.a) != b.answer(m.b) {
		d.add(Result, a.show(m.a), b.show(m.b))
		return
	}
	d.add(Same, a.brief(m.a), b.brief(m.b))
}

func (d *Diff) add(k Kind, a, b *Call) {
	d.Calls = append(d.Calls, Pair{k, a, b})
	d.Counts[k]++
}

// side is a run in the making.
type side struct {
	run      Run
	calls    []history.Call
	keys     []string
	exact    bool
	children map[agentkernel.PID]string // its children, by the order of their birth: PIDs differ from run to run
}

func newSide(r Run, o Options) *side {
	s := &side{run: r, calls: history.Calls(r.Entries), exact: o.Exact, children: map[agentkernel.PID]string{}}
	for i := range s.calls {
		c := &s.calls[i]
		var pid agentkernel.PID
		if c.Op == "proc.spawn" && json.Unmarshal(c.Result, &pid) == nil {
			s.children[pid] = "child " + strconv.Itoa(len(s.children)+1)
		}
	}
	for i := range s.calls {
		c := &s.calls[i]
		s.keys = append(s.keys, c.Op+"\x00"+string(s.withoutPID(c, c.Args)))
	}
	return s
}

// withoutPID names a child in the arguments or the result of proc.wait by its birth.
func (s *side) withoutPID(c *history.Call, v json.RawMessage) json.RawMessage {
	if c.Op != "proc.wait" || s.exact {
		return v
	}
	var members map[string]json.RawMessage
	var pid agentkernel.PID
	if json.Unmarshal(v, &members) != nil || json.Unmarshal(members["pid"], &pid) != nil || s.children[pid] == "" {
		return v
	}
	members["pid"] = json.RawMessage(strconv.Quote(s.children[pid]))
	out, err := json.Marshal(members)
	if err != nil {
		return v
	}
	return out
}

// answer is what came of a call, as text that is equal for equal answers.
func (s *side) answer(i int) string {
	c := &s.calls[i]
	switch {
	case c.Open():
		return "open"
	case c.Err != nil:
		return "error " + string(c.Err.Code) + " " + c.Err.Message()
	case !s.exact && varies(c.Op):
		return "varies"
	}
	v := s.withoutPID(c, c.Result)
	if canonical, err := journal.Canonical(v); err == nil {
		v = canonical
	}
	return "result " + string(v)
}

// varies says that the result of an operation is another one each time, whatever the program does.
func varies(op string) bool {
	return slices.Contains([]string{"time.now", "rand.bytes", "proc.self", "proc.spawn"}, op)
}

func (s *side) brief(i int) *Call {
	c := &s.calls[i]
	return &Call{Number: c.Number, Seq: c.Seq, Name: c.Name(), call: c}
}

func (s *side) show(i int) *Call {
	c := s.brief(i)
	c.Args, c.Result, c.Err, c.Open = c.call.Args, c.call.Result, c.call.Err, c.call.Open()
	return c
}

func (s *side) describe() Side {
	p := &s.run.Process
	state := string(p.State)
	if p.Paused && !p.State.Terminal() {
		state = "paused"
	}
	d := Side{PID: p.PID, Name: p.Name, State: state, Calls: len(s.calls)}
	if !p.Ended.IsZero() {
		d.Duration = p.Ended.Sub(p.Created)
	}
	return d
}

// number gives equal texts the same number.
func number(ids map[string]int32, keys []string) []int32 {
	out := make([]int32, len(keys))
	for i, k := range keys {
		id, ok := ids[k]
		if !ok {
			id = int32(len(ids)) //nolint:gosec // a journal has far fewer calls
			ids[k] = id
		}
		out[i] = id
	}
	return out
}

// outputs finds for each stream the first line that differs.
func outputs(a, b []agentkernel.Entry) []Output {
	out := []Output{}
	for _, stream := range []string{"stdout", "stderr"} {
		x, y := printed(a, stream), printed(b, stream)
		if x == y {
			continue
		}
		line, lineX, lineY := apart(x, y)
		out = append(out, Output{Stream: stream, Line: line, A: lineX, B: lineY})
	}
	return out
}

// apart finds the first line at which two texts differ.
func apart(x, y string) (line int, lineX, lineY string) {
	same := 0
	for same < len(x) && same < len(y) && x[same] == y[same] {
		same++
	}
	at := strings.LastIndexByte(x[:same], '\n') + 1
	return strings.Count(x[:at], "\n") + 1, firstLine(x[at:]), firstLine(y[at:])
}

func printed(entries []agentkernel.Entry, stream string) string {
	var b strings.Builder
	for i := range entries {
		var text string
		if e := &entries[i]; e.Kind == agentkernel.EntryOutput && e.Stream == stream && json.Unmarshal(e.Data, &text) == nil {
			b.WriteString(text)
		}
	}
	return b.String()
}

func firstLine(s string) string { line, _, _ := strings.Cut(s, "\n"); return line }
