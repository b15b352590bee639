package storetest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"agentkernel"
)

// conversation is what a process has said up to an entry: each turn has all that was said before. Now and then some of it was
// forgotten, or something large was shown.
func conversation(pid agentkernel.PID, seq int64) json.RawMessage {
	out := fmt.Appendf(nil, `{"max_tokens":100,"messages":[{"content":"You are agent %d.","role":"system"}`, pid)
	for turn := seq / 50 * 50; turn <= seq; turn++ {
		text := strings.Repeat(fmt.Sprintf("turn %d of %d ü€😀 ", turn, pid), 10)
		if turn%20 == 7 {
			text = strings.Repeat(text, 150)
		}
		out = fmt.Appendf(out, `,{"content":%q,"role":"user"}`, text)
	}
	return append(out, `],"model":"fast"}`...)
}

// conversations: the arguments of paid calls have most in common with those of the calls before, and a store may write that once.
// Nothing of it may be seen.
func conversations(t *testing.T, open Opener) {
	f := start(t, open)
	first, second := f.pid(), f.pid()
	want := map[agentkernel.PID][]agentkernel.Entry{}
	say := func(pid agentkernel.PID, args json.RawMessage) {
		f.Helper()
		seq := int64(len(want[pid]) + 1)
		e := entry(pid, seq)
		e.Op, e.Effect, e.Args = "llm.complete", agentkernel.EffectPaid, args
		want[pid] = append(want[pid], e)
		pos := f.append(agentkernel.Batch{Entries: []agentkernel.Entry{e}})
		if seq%7 == 0 {
			f.flush(pos)
		}
	}
	check := func() {
		for _, pid := range []agentkernel.PID{first, second} {
			for from := int64(1); from <= int64(len(want[pid]))+1; from += 3 {
				for _, limit := range []int{0, 1, 5} {
					got, err := f.Entries(t.Context(), pid, from, limit)
					if err != nil {
						t.Fatal(err)
					}
					list := want[pid][from-1:]
					if limit > 0 {
						list = list[:min(limit, len(list))]
					}
					f.same(list, got)
				}
			}
		}
	}
	for turn := int64(1); turn <= 12; turn++ { // both begin alike, and say the same from then on
		say(first, conversation(1, turn))
		say(second, conversation(1, turn))
	}
	f.twice(check)
	for turn := int64(9); turn <= 14; turn++ { // back to an earlier turn; after a new start
		say(first, conversation(1, turn))
		say(second, conversation(2, turn))
	}
	for _, args := range []string{`{}`, `"` + strings.Repeat("x", 5000) + `"`, `"` + strings.Repeat("x", 9000) + `"`, `[` + strings.Repeat(`{"a":"}]},{"},`, 500) + `{}]`,
		`"` + strings.Repeat("y", 5<<20) + `"`, `["` + strings.Repeat("}]},{😀", 1000) + `"]`} {
		say(second, json.RawMessage(args))
	}
	f.twice(check)
}
