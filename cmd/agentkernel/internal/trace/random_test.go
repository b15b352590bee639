package trace

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/journaltest"
)

// Whatever a journal holds there is a text and a file that viewers read, without a control character of the program.
func TestRandomJournals(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for range 3000 {
		entries, back := journaltest.Journal(r, 20)
		last := entries[len(entries)-1].At
		tree := &Tree{Process: agentkernel.Process{PID: 12, Name: "x\x1b", State: agentkernel.State(journaltest.Pick(r, "waiting", "exited", "unfinished")),
			Paused: r.IntN(4) == 0, Created: journaltest.Start, WaitsFor: []string{"tool.call s.t"}}, Entries: entries}
		if tree.Process.State == agentkernel.StateExited {
			tree.Process.Ended = last
		}
		o := Options{Full: r.IntN(2) == 0, Now: last.Add(time.Second)}
		var text, file bytes.Buffer
		if err := Render(&text, tree, o); err != nil {
			t.Fatal(err)
		}
		if err := Chrome(&file, tree, o); err != nil {
			t.Fatal(err)
		}
		open := OpenText(OpenWaits(tree, o.Now))
		for what, got := range map[string]string{"text": text.String(), "file": file.String(), "open": open} {
			if strings.Contains(got, "\x1b") || what == "file" && strings.Contains(strings.ReplaceAll(got, `\\u001b`, ""), `\u001b`) {
				t.Fatalf("%s: %q\n%+v", what, got, entries)
			}
		}
		if !back {
			checkChrome(t, file.Bytes())
		}
		if t.Failed() {
			t.Fatalf("%+v", entries)
		}
	}
}
