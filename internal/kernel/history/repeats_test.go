package history_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/history"
)

// journalOf writes a journal in short: a word for each entry, "name" for a call with its answer, "+name" for an intent, "-name=x" for its
// answer, "!kind" for an entry of another kind.
func journalOf(words ...string) (entries []agentkernel.Entry) {
	open, calls := map[string]int64{}, int64(0)
	for i, w := range words {
		e := agentkernel.Entry{Seq: int64(i) + 1, At: time.Unix(int64(i), 0).UTC()}
		var name, answer string
		switch w[0] {
		case '!':
			e.Kind = agentkernel.EntryKind(w[1:])
		case '-':
			e.Kind = agentkernel.EntryResult
			_, _ = fmt.Sscanf(w, "-%1s=%s", &name, &answer)
			e.Call, e.Data = open[name], json.RawMessage(answer)
		default:
			calls++
			e.Kind, e.Call, e.Op, e.Args, e.Effect = agentkernel.EntryCall, calls, "tool.call", json.RawMessage(`{}`), agentkernel.EffectRead
			switch name = w; {
			case w[0] == '+':
				name = w[1:]
				open[name] = calls
			case w == "time.sleep":
				e.Op, e.Effect = w, agentkernel.EffectPure
				open["z"] = calls
			case w == "log.write" || w == "state.get":
				e.Op, e.Effect, e.Done, e.Data = w, agentkernel.EffectPure, true, json.RawMessage("null")
			case w == "stream.next":
				e.Op, e.Done, e.Data = w, true, json.RawMessage(`["x"]`)
			case w == "origin":
				e.Done, e.Origin = true, &agentkernel.OriginCall{PID: 1, Call: 1}
			case w == "refused":
				e.Done, e.Err = true, agentkernel.Errorf(agentkernel.CodeDenied, "tool.call", "no")
			default:
				e.Done, e.Data = true, json.RawMessage("1")
			}
			if e.Op == "tool.call" {
				e.Args = fmt.Appendf(nil, `{"tool":%q}`, name)
			}
		}
		entries = append(entries, e)
	}
	return entries
}

func TestRowsOfTheSameCall(t *testing.T) {
	for _, c := range []struct {
		words []string
		times int64
		since int64
	}{
		{[]string{"a", "a", "a"}, 3, 0},
		{[]string{"+a", "-a=1", "+a", "-a=1"}, 2, 0},
		{[]string{"a", "+a", "-a=1"}, 2, 0},
		{[]string{"+a", "-a=1", "+a", "-a=2"}, 1, 2},
		{[]string{"a", "b", "a"}, 1, 2},
		{[]string{"refused", "refused"}, 2, 0},
		{[]string{"state.get", "state.get"}, 0, 0},
		{[]string{"a", "a", "+a"}, 2, 0},                           // it has no answer yet
		{[]string{"+a", "+b", "+c", "-a=1", "-b=1", "-c=1"}, 1, 2}, // in the order of the answers
		{[]string{"+a", "+b", "-b=1", "-a=1", "a"}, 2, 0},
		{[]string{"a", "time.sleep", "a"}, 1, 2},
		{[]string{"a", "a", "time.sleep"}, 0, 0},
		{[]string{"+a", "time.sleep", "-a=1", "a", "-z=null"}, 0, 0},
		{[]string{"log.write", "log.write"}, 0, 0},
		{[]string{"a", "log.write", "a"}, 1, 2},
		{[]string{"stream.next", "stream.next"}, 0, 0},
		{[]string{"origin", "origin", "a"}, 1, 2},
		{[]string{"a", "a", "!paused", "!resumed", "a"}, 1, 4},
		{[]string{"a", "!output", "a", "!recover", "a", "!moved", "a"}, 4, 0},
		{[]string{"a", "+b", "!given_up", "-b=1"}, 0, 0}, // of a cell that was aborted
		{[]string{"a", "a", "!terminal"}, 0, 0},
	} {
		var times int64
		var since time.Time
		if r := history.Fold(history.Base{}, journalOf(c.words...)).Account.Repeats; r != nil {
			times, since = r.Row(r.Call)
			if n, _ := r.Row(r.Call + 1); n != 0 {
				t.Errorf("%q: another call was made %d times", c.words, n)
			}
		}
		if times != c.times || times > 0 && since != time.Unix(c.since, 0).UTC() {
			t.Errorf("%q: %d times since %v, want %d since %d", c.words, times, since, c.times, c.since)
		}
	}
}

func TestCallPrints(t *testing.T) {
	long := func(end string) json.RawMessage {
		return json.RawMessage(`"` + strings.Repeat("x", 100_000) + end + `"`)
	}
	if one := history.CallPrint("a", long("1")); one != history.CallPrint("a", long("1")) || one == history.CallPrint("a", long("2")) || one == history.CallPrint("a", long("")) ||
		one == history.CallPrint("b", long("1")) {
		t.Error("long arguments are not told apart")
	}
	same := history.CallPrint("a", json.RawMessage(`{}`))
	for _, other := range []uint64{history.CallPrint("b", json.RawMessage(`{}`)), history.CallPrint("a", json.RawMessage(`{"x":1}`)), history.CallPrint("a", nil), history.CallPrint("a{", json.RawMessage(`}`))} {
		if same == other {
			t.Error("two calls are taken for one")
		}
	}
	if history.CallPrint("a", nil) != history.CallPrint("a", json.RawMessage("null")) {
		t.Error("a store may say null of nothing")
	}
}
