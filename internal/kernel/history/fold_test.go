package history_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"agentkernel"
	"agentkernel/internal/kernel/history"
)

// life is a process that writes a journal, and knows at each entry what its image would hold.
type life struct {
	t       *rapid.T
	entries []agentkernel.Entry
	bases   []history.Base // that are in force: nothing has unwound them
	calls   int64

	open    map[int64]int64 // calls without a result, to the entry of their intent
	async   map[int64]bool
	current int64            // the sync call for which the program waits; 0: any async one
	results map[int64]int64  // undelivered, to their entry
	order   []int64          // of those, the async ones as they came
	asked   map[int64]int64  // unresolved, to the entry that asks
	again   []int64          // calls that may be made again
	server  map[int64]string // of tool calls
	cell    int64            // the proc.next that was answered last; 0: none, or its cell has ended
	moved   int64
	paused  bool
	session bool
}

func (l *life) add(e agentkernel.Entry) int64 {
	e.PID, e.Seq = 7, int64(len(l.entries))+1
	e.At = time.UnixMicro(1e15 + e.Seq*1e6).UTC()
	l.entries = append(l.entries, e)
	return e.Seq
}

func (l *life) flip(label string) bool { return rapid.Bool().Draw(l.t, label) }

func (l *life) call(op string, async bool) int64 {
	l.calls++
	e := agentkernel.Entry{Kind: agentkernel.EntryCall, Call: l.calls, Op: op, Async: async, Effect: agentkernel.EffectWrite, Args: json.RawMessage(`{}`)}
	if op == "tool.call" {
		l.server[l.calls] = rapid.SampledFrom([]string{"a", "b"}).Draw(l.t, "server")
		e.Args = fmt.Appendf(nil, `{"server":%q,"tool":"t"}`, l.server[l.calls])
	}
	if op == "proc.next" {
		l.cell = 0
	}
	if l.flip("reserves") {
		e.Reserve = l.amounts()
	}
	l.open[l.calls], l.async[l.calls] = l.add(e), async
	if !async {
		l.current = l.calls
	}
	return l.calls
}

// amounts are some that a call reserves or uses.
func (l *life) amounts() agentkernel.Amounts {
	return rapid.MapOfN(rapid.SampledFrom([]string{"coins", "tokens"}), rapid.Int64Range(0, 9), 0, 2).Draw(l.t, "amounts")
}

func (l *life) answer(call int64, e agentkernel.Entry) {
	if l.flip("settles") {
		e.Settle = l.amounts()
	}
	e.Kind, e.Call = agentkernel.EntryResult, call
	seq := l.add(e)
	delete(l.open, call)
	delete(l.asked, call)
	l.again = slices.DeleteFunc(l.again, func(c int64) bool { return c == call })
	l.results[call] = seq
	if l.async[call] {
		l.order = append(l.order, call)
	}
}

// deliver hands the program the result for which it waits.
func (l *life) deliver() {
	call := l.current
	if call == 0 && len(l.order) > 0 {
		call = l.order[0]
		l.order = l.order[1:]
	}
	delete(l.results, call)
	l.current = 0
}

// waits says that the program can do nothing now.
func (l *life) waits() bool {
	_, known := l.results[l.current]
	return l.current != 0 && !known
}

func (l *life) opened() []int64 { return slices.Sorted(maps.Keys(l.open)) }

func (l *life) step() {
	var can []string
	if !l.waits() {
		can = append(can, "go on")
	}
	if len(l.open) > 0 {
		can = append(can, "result", "unknown")
	}
	if len(l.asked) > 0 {
		can = append(can, "retry")
	}
	if len(l.again) > 0 {
		can = append(can, "made again")
	}
	if l.cell != 0 {
		can = append(can, "abort")
	}
	can = append(can, "pause", "signal", "allowed", "move", "recover")
	switch what := rapid.SampledFrom(can).Draw(l.t, "step"); what {
	case "go on":
		l.goOn()
	case "result":
		call := rapid.SampledFrom(l.opened()).Draw(l.t, "call")
		switch {
		case l.cell == 0 && l.session && l.current == call && !l.async[call] && l.entries[l.open[call]-1].Op == "proc.next":
			l.answer(call, agentkernel.Entry{Data: json.RawMessage(`{"source":"1"}`)})
			l.cell = call
		case l.server[call] != "":
			l.answer(call, rapid.SampledFrom([]agentkernel.Entry{
				{Data: json.RawMessage(`"of a tool"`), Incarnation: fmt.Sprint("i", len(l.entries))},
				{Err: agentkernel.Errorf(agentkernel.CodeSessionLost, "tool.call", "lost")},
			}).Draw(l.t, "answer"))
		default:
			l.answer(call, agentkernel.Entry{Data: json.RawMessage(`1`)})
		}
	case "unknown":
		call := rapid.SampledFrom(l.opened()).Draw(l.t, "call")
		if l.entries[l.open[call]-1].Op == "proc.next" || slices.Contains(l.again, call) {
			return
		}
		l.asked[call] = l.add(agentkernel.Entry{Kind: agentkernel.EntryPaused, Call: call, Err: agentkernel.Errorf(agentkernel.CodeOutcomeUnknown, "x", "%d", call)})
		l.paused = true
	case "retry":
		call := slices.Min(slices.Collect(maps.Keys(l.asked)))
		l.add(agentkernel.Entry{Kind: agentkernel.EntryResolve, Call: call, Decision: agentkernel.DecisionRetry})
		delete(l.asked, call)
		l.again = append(l.again, call)
	case "made again":
		l.add(agentkernel.Entry{Kind: agentkernel.EntryRetry, Call: l.again[0], Reserve: l.amounts()})
		l.again = l.again[1:]
	case "pause":
		kind := agentkernel.EntryPaused
		if l.paused {
			kind = agentkernel.EntryResumed
		}
		l.paused = !l.paused
		l.add(agentkernel.Entry{Kind: kind, Data: history.PauseData{With: agentkernel.PID(rapid.IntRange(0, 2).Draw(l.t, "with"))}.Encode()})
	case "signal":
		e := agentkernel.Entry{Kind: agentkernel.EntrySignal, Signal: agentkernel.SignalInterrupt}
		if l.flip("pending") {
			e.Data = history.SignalData{Pending: true}.Encode()
		}
		l.add(e)
	case "allowed":
		l.add(agentkernel.Entry{Kind: agentkernel.EntryAllowed, Pattern: fmt.Sprint("p", len(l.entries))})
	case "recover":
		l.add(agentkernel.Entry{Kind: agentkernel.EntryRecover})
	case "move": // all is repeated there; no image of before is left
		l.moved = l.add(agentkernel.Entry{Kind: agentkernel.EntryMoved, Data: json.RawMessage(`{"from":"x","to":"y"}`), Err: agentkernel.Errorf(agentkernel.CodeProgram, "x", "why")})
		l.bases = nil
		if l.flip("imports there") {
			l.add(agentkernel.Entry{Kind: agentkernel.EntryTools, Data: json.RawMessage(`[]`)})
		}
	case "abort":
		l.abort()
	}
}

// goOn lets the program take a result if there is one, and do something.
func (l *life) goOn() {
	if l.current != 0 || len(l.order) > 0 && l.flip("take a result") {
		l.deliver()
	}
	switch rapid.SampledFrom([]string{"print", "now", "sync", "async", "refused", "next"}).Draw(l.t, "doing") {
	case "print":
		l.add(agentkernel.Entry{Kind: agentkernel.EntryOutput, Stream: "stdout", Data: json.RawMessage(`"a\nü"`)})
	case "now":
		l.calls++
		l.add(agentkernel.Entry{Kind: agentkernel.EntryCall, Call: l.calls, Op: "time.now", Done: true, Data: json.RawMessage(`1`)})
	case "refused":
		l.calls++
		l.add(agentkernel.Entry{Kind: agentkernel.EntryCall, Call: l.calls, Op: "tool.call", Done: true, Args: json.RawMessage(`{"server":"a","tool":"t"}`),
			Err: agentkernel.Errorf(agentkernel.CodeInterrupted, "x", "interrupted")})
	case "sync":
		l.call("tool.call", false)
	case "async":
		l.call("tool.call", true)
	case "next":
		if l.session {
			l.call("proc.next", false)
		}
	}
}

// abort ends the cell that runs: what it did is unwound, and the images that hold some of it are gone.
func (l *life) abort() {
	for _, call := range l.opened() {
		l.answer(call, agentkernel.Entry{Err: agentkernel.Errorf(agentkernel.CodeInterrupted, "x", "aborted")})
	}
	l.add(agentkernel.Entry{Kind: agentkernel.EntryAborted, Call: l.cell, Err: agentkernel.Errorf(agentkernel.CodeCrashed, "x", "why")})
	l.bases = nil
	l.results, l.order, l.cell = map[int64]int64{}, nil, 0
	l.call("proc.next", false)
}

// base is what an image made now would hold.
func (l *life) base() history.Base {
	h := history.Fold(history.Base{}, l.entries)
	b := history.Base{Version: history.BaseVersion, Seq: int64(len(l.entries)), Account: h.Account, Reply: l.current, Servers: h.Servers, Pauses: h.Pauses,
		Noted: h.Noted, Arrived: slices.Clone(l.order), Cell: history.Cell{Next: l.cell}, Again: slices.Sorted(slices.Values(l.again))}
	b.Refs = slices.Concat(slices.Collect(maps.Values(l.open)), slices.Collect(maps.Values(l.results)), slices.Collect(maps.Values(l.asked)))
	if l.moved != 0 {
		b.Refs = append(b.Refs, l.moved)
	}
	return b
}

// stored is a base after it has been in an image.
func stored(t *rapid.T, b history.Base) history.Base {
	data, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	back, err := history.ParseBase(data, b.Seq)
	if err != nil {
		t.Fatal(err)
	}
	return back
}

// TestEveryBaseGivesTheSame cuts a journal at each entry and begins at each base that is in force there.
func TestEveryBaseGivesTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := &life{t: t, open: map[int64]int64{}, async: map[int64]bool{}, results: map[int64]int64{}, asked: map[int64]int64{}, server: map[int64]string{}}
		l.session = l.flip("session")
		l.add(agentkernel.Entry{Kind: agentkernel.EntryCreated})
		if l.session {
			l.call("proc.next", false)
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			l.step()
			whole := history.Fold(history.Base{}, l.entries)
			charged(t, whole.Account.Amounts, l.entries)
			for _, b := range l.bases {
				compare(t, whole, b, l.entries)
			}
			if len(l.results)-len(l.order) <= 1 {
				l.bases = append(l.bases, stored(t, l.base()))
			}
		}
	})
}

// charged checks what a journal charges, call by call: whatever moved or was aborted, each beginning of a call costs what its
// result says, or all that was reserved for it.
func charged(t *rapid.T, got *history.Amounts, entries []agentkernel.Entry) {
	t.Helper()
	var spent, held agentkernel.Amounts
	for i, e := range entries {
		if e.Kind != agentkernel.EntryCall && e.Kind != agentkernel.EntryRetry || e.Done {
			if e.Settle != nil {
				spent = spent.Plus(e.Settle)
			}
			continue
		}
		next := slices.IndexFunc(entries[i+1:], func(n agentkernel.Entry) bool {
			return n.Call == e.Call && (n.Kind == agentkernel.EntryRetry || n.Kind == agentkernel.EntryResult)
		})
		switch {
		case next < 0:
			held = held.Plus(e.Reserve)
		case entries[i+1+next].Settle == nil:
			spent = spent.Plus(e.Reserve)
		}
	}
	isSpent, isHeld := got.Used()
	if isSpent.String() != spent.String() || isHeld.String() != held.String() {
		t.Fatalf("spent %s, held %s; want %s, %s", isSpent, isHeld, spent, held)
	}
}

func compare(t *rapid.T, whole *history.History, b history.Base, entries []agentkernel.Entry) {
	t.Helper()
	var some []agentkernel.Entry
	for _, e := range entries {
		if e.Seq > b.Seq || slices.Contains(b.Refs, e.Seq) {
			some = append(some, e)
		}
	}
	for name, read := range map[string][]agentkernel.Entry{"the tail": some, "all of it": entries} {
		h := history.Fold(b, read)
		if h.Stale() {
			t.Fatalf("the base at %d is stale", b.Seq)
		}
		for what, pair := range map[string][2]any{
			"seq": {h.Seq, whole.Seq}, "account": {h.Account, whole.Account}, "pauses": {h.Pauses, whole.Pauses}, "cell": {h.Cell.Next, whole.Cell.Next},
			"moved": {h.Moved, whole.Moved}, "noted": {h.Noted, whole.Noted}, "servers": {fmt.Sprint(h.Servers), fmt.Sprint(whole.Servers)},
			"unresolved": {unresolved(h), unresolved(whole)},
		} {
			if !reflect.DeepEqual(pair[0], pair[1]) {
				t.Fatalf("%s with %s from %d of %d: %+v; from the beginning %+v", what, name, b.Seq, whole.Seq, pair[0], pair[1])
			}
		}
		queue(t, h, whole, b)
	}
}

func unresolved(h *history.History) string {
	if u := h.Unresolved; u != nil && len(u.Asked)+len(u.Again) > 0 {
		return fmt.Sprint(*u)
	}
	return "nothing"
}

// queue checks that what is left to repeat from a base on is what is left of the whole journal behind it.
func queue(t *rapid.T, h, whole *history.History, b history.Base) {
	t.Helper()
	calls, open := map[int64]bool{}, map[int64]bool{}
	for id, e := range whole.Queue.Calls {
		_, answered := whole.Queue.Results[id]
		switch {
		case e.Seq > b.Seq:
			calls[id] = true
		case !e.Done && !answered:
			open[id] = true
		}
	}
	got, gotOpen := map[int64]bool{}, map[int64]bool{}
	for id := range h.Queue.Calls {
		got[id] = true
	}
	for _, e := range h.Queue.Open {
		gotOpen[e.Call] = true
	}
	if !maps.Equal(got, calls) || !maps.Equal(gotOpen, open) {
		t.Fatalf("from %d: calls %v, open %v; want %v, %v", b.Seq, got, gotOpen, calls, open)
	}
	// Of the async results of the whole journal those that the image has not had, in the same order.
	var want []int64
	for _, id := range whole.Queue.Order {
		if whole.Queue.Results[id].Seq > b.Seq || slices.Contains(b.Arrived, id) {
			want = append(want, id)
		}
	}
	if !slices.Equal(h.Queue.Order, want) {
		t.Fatalf("from %d: results in the order %v, want %v", b.Seq, h.Queue.Order, want)
	}
	for _, id := range append(want, b.Reply) {
		if a, b := h.Queue.Results[id], whole.Queue.Results[id]; a.Seq != b.Seq {
			t.Fatalf("the result of call %d is entry %d, want %d", id, a.Seq, b.Seq)
		}
	}
	printed := 0
	for _, e := range whole.Queue.Output {
		if e.Seq > b.Seq {
			printed++
		}
	}
	if len(h.Queue.Output) != printed {
		t.Fatalf("from %d: %d outputs, want %d", b.Seq, len(h.Queue.Output), printed)
	}
}

// TestBasesBehindTheirTimeAreStale: what unwinds a base says so, and is not folded upon it.
func TestBasesBehindTheirTimeAreStale(t *testing.T) {
	next := func(seq, call int64) agentkernel.Entry {
		return agentkernel.Entry{Seq: seq, Kind: agentkernel.EntryCall, Call: call, Op: "proc.next"}
	}
	for name, last := range map[string]agentkernel.Entry{
		"moved":   {Seq: 4, Kind: agentkernel.EntryMoved, Err: agentkernel.Errorf(agentkernel.CodeProgram, "", "x")},
		"aborted": {Seq: 4, Kind: agentkernel.EntryAborted, Call: 1, Err: agentkernel.Errorf(agentkernel.CodeProgram, "", "x")},
	} {
		entries := []agentkernel.Entry{{Seq: 1, Kind: agentkernel.EntryCreated}, next(2, 1), {Seq: 3, Kind: agentkernel.EntryResult, Call: 1}, last}
		if h := history.Fold(history.Base{Version: history.BaseVersion, Seq: 3}, entries[3:]); !h.Stale() {
			t.Errorf("%s: the base is in force", name)
		}
		if h := history.Fold(history.Base{}, entries); h.Stale() {
			t.Errorf("%s: the beginning is stale", name)
		}
	}
}

// TestImageOfBeforeBases: it held a position alone, and what its kernel knew beside the journal.
func TestImageOfBeforeBases(t *testing.T) {
	b, err := history.ParseBase([]byte(`{"calls":2,"reply":2,"approved":["a.b"],"sessions":{"a":"i1"},"output":3,"tool_calls":1,"bytes_in":4,"waits":2,"running":9}`), 4)
	if err != nil || !b.Whole() {
		t.Fatalf("%+v, %v", b, err)
	}
	entries := []agentkernel.Entry{
		{Seq: 1, Kind: agentkernel.EntryCreated}, {Seq: 2, Kind: agentkernel.EntryOutput, Data: json.RawMessage(`"abc"`)},
		{Seq: 3, Kind: agentkernel.EntryCall, Call: 1, Op: "time.now", Done: true}, {Seq: 4, Kind: agentkernel.EntryCall, Call: 2, Op: "tool.call", Args: json.RawMessage(`{"server":"a"}`)},
		{Seq: 5, Kind: agentkernel.EntryResult, Call: 2, Data: json.RawMessage(`12`), Incarnation: "i2"},
	}
	h := history.Fold(b, entries)
	if a := h.Account; a.Output != 3 || a.ToolCalls != 1 || a.BytesIn != 2 || a.Calls != 2 || !slices.Equal(a.Allowed, []string{"a.b"}) {
		t.Errorf("account %+v", a)
	}
	if h.Servers["a"] != "i2" || len(h.Queue.Calls) != 0 || h.Queue.Results[2].Seq != 5 || len(h.Queue.Output) != 0 {
		t.Errorf("servers %v, queue %+v", h.Servers, h.Queue)
	}
}

// TestWhatEntriesMean says what each kind of entry does, one after the other.
func TestWhatEntriesMean(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(s, 0).UTC() }
	tool := json.RawMessage(`{"server":"a","tool":"t"}`)
	interrupted := agentkernel.Errorf(agentkernel.CodeInterrupted, "x", "interrupted")
	entries := []agentkernel.Entry{
		{Kind: agentkernel.EntryCreated, Data: json.RawMessage(`{}`)},
		{Kind: agentkernel.EntryTools, Data: json.RawMessage(`["old"]`)},
		{Kind: agentkernel.EntryCall, Call: 1, Op: "tool.call", Args: tool},
		{Kind: agentkernel.EntryResult, Call: 1, Data: json.RawMessage(`123`), Incarnation: "i1"},
		{Kind: agentkernel.EntryCall, Call: 2, Op: "tool.call", Args: tool, Origin: &agentkernel.OriginCall{PID: 3, Call: 1}}, // answered by an origin
		{Kind: agentkernel.EntryResult, Call: 2, Data: json.RawMessage(`4`), Incarnation: "i1"},
		{Kind: agentkernel.EntryCall, Call: 3, Op: "tool.call", Args: tool, Done: true, Err: agentkernel.Errorf(agentkernel.CodeDenied, "x", "no")},
		{Kind: agentkernel.EntryOutput, Data: json.RawMessage(`"a\nü"`)},
		{Kind: agentkernel.EntryPaused, At: at(10), Data: json.RawMessage(`{"with":9}`)},
		{Kind: agentkernel.EntryResumed, At: at(15)},
		{Kind: agentkernel.EntryPaused, At: at(20)},
		{Kind: agentkernel.EntrySignal, Data: history.SignalData{Pending: true}.Encode()},
		{Kind: agentkernel.EntryAllowed, Pattern: "a.*"},
	}
	fold := func(more ...agentkernel.Entry) *history.History {
		all := slices.Concat(entries, more)
		for i := range all {
			all[i].Seq = int64(i) + 1
		}
		return history.Fold(history.Base{}, all)
	}
	h := fold()
	bytes := int64(len(`{}["old"]`) + 3*len(tool) + len(`1234"a\nü"{"with":9}`) + len(`{"pending":true}`))
	want := history.Account{Calls: 3, ToolCalls: 1, BytesIn: 4, Output: 4, Journal: 128*int64(len(entries)) + bytes, Allowed: []string{"a.*"}, Interrupted: true}
	if !reflect.DeepEqual(h.Account, want) {
		t.Errorf("account %+v, want %+v", h.Account, want)
	}
	if want := (history.Pauses{At: at(20), Ended: 5 * time.Second, Paused: true}); h.Pauses != want {
		t.Errorf("pauses %+v, want %+v", h.Pauses, want)
	}
	if h.Servers["a"] != "i1" || !h.Noted || string(h.Tools) != `["old"]` || h.Moved != nil {
		t.Errorf("servers %v, tools %s, moved %v", h.Servers, h.Tools, h.Moved)
	}
	h = fold(agentkernel.Entry{Kind: agentkernel.EntryCall, Call: 4, Op: "tool.call", Args: tool, Done: true, Err: interrupted, Origin: &agentkernel.OriginCall{PID: 3, Call: 4}})
	if !h.Account.Interrupted {
		t.Error("the interrupt was taken by a call that an origin answered")
	}
	h = fold(
		agentkernel.Entry{Kind: agentkernel.EntryCall, Call: 4, Op: "time.now", Done: true, Err: interrupted},
		agentkernel.Entry{Kind: agentkernel.EntryCall, Call: 5, Op: "tool.call", Args: tool},
		agentkernel.Entry{Kind: agentkernel.EntryResult, Call: 5, Err: agentkernel.Errorf(agentkernel.CodeSessionLost, "x", "lost")},
		agentkernel.Entry{Kind: agentkernel.EntryMoved, Err: agentkernel.Errorf(agentkernel.CodeProgram, "x", "why")},
	)
	if h.Account.Interrupted || len(h.Servers) != 0 || h.Noted || h.Tools != nil || h.Moved == nil {
		t.Errorf("account %+v, servers %v, tools %s, moved %v", h.Account, h.Servers, h.Tools, h.Moved)
	}
}
