// Package journaltest makes journals at random and compares texts with files, for tests: what reads a journal must have an answer for each, because
// one may come from somebody else's file. It must never be imported by anything but tests.
package journaltest

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"time"

	"agentkernel"
)

// Start is when each journal begins.
var Start = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

// Pick is one of a list.
func Pick(r *rand.Rand, list ...string) string { return list[r.IntN(len(list))] }

// Journal is one of at most n entries that need not make sense. back says whether its clock goes back at times.
func Journal(r *rand.Rand, n int) (entries []agentkernel.Entry, back bool) {
	back = r.IntN(10) == 0
	now := Start
	entries = append(entries, agentkernel.Entry{PID: 12, Seq: 1, Kind: agentkernel.EntryCreated, At: now,
		Data: json.RawMessage(Pick(r, `{}`, `{"limits":{"time":"1s"}}`, `[`, `null`))})
	for range r.IntN(n) {
		now = now.Add(time.Duration(r.IntN(1000)) * time.Millisecond)
		if back && r.IntN(4) == 0 {
			now = now.Add(-time.Duration(r.IntN(5000)) * time.Millisecond)
		}
		e := agentkernel.Entry{PID: 12, Seq: int64(len(entries) + 1), At: now,
			Kind: agentkernel.EntryKind(Pick(r, "call", "call", "call", "result", "result", "output", "paused", "resumed", "recover", "signal",
				"resolve", "retry", "past", "terminal", "odd")),
			Call: int64(r.IntN(6)), Op: Pick(r, "tool.call", "time.sleep", "proc.wait", "proc.spawn", "state.get", ""),
			Effect: agentkernel.Effect(Pick(r, "pure", "read", "write", "")),
			Async:  r.IntN(3) == 0, Done: r.IntN(3) == 0, Stream: Pick(r, "stdout", "stderr", "odd"), Note: Pick(r, "", "x\x1b", "from pid 1 call 2"),
			Args: json.RawMessage(Pick(r, `{"server":"s\u001b","tool":"t"}`, `{"seconds":1e300}`, `{"seconds":-1}`, `{"pid":13}`, `[]`, ``, `{`)),
			Data: json.RawMessage(Pick(r, `"text\n\u001b"`, `13`, `null`, ``, `{`, `{"state":"odd\u001b"}`)),
		}
		if r.IntN(4) == 0 {
			e.Err = &agentkernel.Error{Code: agentkernel.Code(Pick(r, "tool_error", "permission_denied", "outcome_unknown", "timeout", "odd")),
				Err: errors.New(Pick(r, "no \x1b[2J", "", "a: b"))}
		}
		e.ReadNote()
		entries = append(entries, e)
	}
	return entries, back
}
