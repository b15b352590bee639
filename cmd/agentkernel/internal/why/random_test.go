package why

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/journaltest"
)

// Whatever a journal holds (one may come from somebody else's file), there is an answer, no part of the time is below
// zero, and where the clock did not go back the parts add up to the whole.
func TestRandomJournals(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	pick := func(list ...string) string { return journaltest.Pick(r, list...) }
	for range 5000 {
		entries, back := journaltest.Journal(r, 20)
		run := &run{p: agentkernel.Process{PID: 12, Name: "x\x1b", Created: journaltest.Start}, entries: entries, now: entries[len(entries)-1].At}
		run.running(time.Duration(r.IntN(3000)) * ms)
		run.state(agentkernel.State(pick("waiting", "running", "ready", "unfinished")), pick("tool.call a.b", "time.sleep"))
		run.p.Paused = r.IntN(5) == 0
		if r.IntN(2) == 0 {
			code := agentkernel.Code(pick("program_error", "limit_exceeded", "killed", "diverged", "crashed", "unavailable", "odd"))
			run.ends(agentkernel.State(pick("failed", "killed", "exited")), r.IntN(3), &agentkernel.Error{Code: code, Op: pick("limit.time", "limit.odd", "run"),
				Err:       errors.New(pick("RuntimeError: tool_error: no \x1b[2J", "x\ny", "; its stderr ends with:\n", "")),
				Traceback: pick("", "  File \"", "  File \"a\", line x, in y", "  File \"a\", line 3\n    x\n")})
		}
		run.after(time.Duration(r.IntN(100)) * ms)
		report := run.report()
		text := report.Text(false)
		if report.Cause.Sentence == "" || len(report.Next) == 0 || strings.ContainsAny(text, "\x1b\r") {
			t.Fatalf("%+v\n%s", run.entries, text)
		}
		s := report.Time
		sum := s.Running + s.Queued + s.Asleep + s.Paused + s.Stopped
		for _, w := range s.Waiting {
			if w.Time < 0 {
				t.Fatalf("%+v", s)
			}
			sum += w.Time
		}
		if s.Running < 0 || s.Queued < 0 || s.Asleep < 0 || s.Paused < 0 || s.Stopped < 0 {
			t.Fatalf("%+v", s)
		}
		if d := sum - s.Total; !back && (d < -time.Microsecond || d > time.Microsecond) {
			t.Fatalf("the parts are %v, the whole %v: %+v\n%+v", sum, s.Total, s, run.entries)
		}
	}
}
