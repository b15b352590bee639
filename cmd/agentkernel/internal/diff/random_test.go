package diff

import (
	"math/rand/v2"
	"strings"
	"testing"

	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/journaltest"
)

// Whatever the journals hold, each call of both stands in the comparison once and in order, a run is equal to itself,
// and no control character of the program is in the text.
func TestRandomJournals(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	random := func() Run {
		entries, _ := journaltest.Journal(r, 30)
		return Run{Process: agentkernel.Process{PID: 12, Name: "x\x1b", State: agentkernel.State(journaltest.Pick(r, "exited", "failed", "waiting"))}, Entries: entries}
	}
	for range 3000 {
		a, b := random(), random()
		d := Of(a, b, Options{Exact: r.IntN(2) == 0})
		counts := [2]int{}
		last := [2]int64{}
		for _, p := range d.Calls {
			for side, c := range []*Call{p.A, p.B} {
				if c == nil {
					continue
				}
				counts[side]++
				if c.Seq <= last[side] {
					t.Fatalf("call at %d after %d: %+v", c.Seq, last[side], d.Calls)
				}
				last[side] = c.Seq
			}
		}
		if counts != [2]int{d.A.Calls, d.B.Calls} {
			t.Fatalf("%v calls shown, %d and %d made", counts, d.A.Calls, d.B.Calls)
		}
		if text := d.Text(TextOptions{All: true, Full: r.IntN(2) == 0}); strings.Contains(text, "\x1b") {
			t.Fatalf("%q", text)
		}
		if self := Of(a, a, Options{Exact: true}); !self.Equal {
			t.Fatalf("not equal to itself: %s", self.Text(TextOptions{}))
		}
	}
}
