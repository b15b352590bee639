package main

import (
	"strings"
	"testing"

	"agentkernel"
	"agentkernel/cmd/agentkernel/internal/console"
)

// A child for which a task waits, and which is paused, is told of once, with why and what to do; one that asks has its question on the screen, and
// where nothing waits for a child it is nobody's trouble.
func TestPausedChildrenAreTold(t *testing.T) {
	for name, c := range map[string]struct {
		waits  string
		paused bool
		note   string
		want   int
	}{
		"by hand":           {"proc.wait", true, "", 1},
		"a budget":          {"proc.wait", true, "budget: nothing is left", 1},
		"a question":        {"proc.wait", true, agentkernel.YourAnswer + "fs.write", 0},
		"it runs":           {"proc.wait", false, "", 0},
		"the model is late": {"llm.complete fast", true, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			k, shown := &fakeKernel{}, screen{}
			k.list = []agentkernel.Process{{PID: 12, WaitsFor: []string{c.waits}}, {PID: 13, Parent: 12, Name: "program-1.py", Paused: c.paused, PauseNote: c.note}}
			told := map[string]bool{}
			w := &watch{a: &app{con: console.New(console.Config{Out: &shown, Err: &shown})}, k: &session{Kernel: k}, pid: 12}
			for range 3 {
				w.mentionPaused(t.Context(), told)
			}
			said := shown.String()
			shown = screen{}
			if w.unasked = true; c.note == agentkernel.YourAnswer+"fs.write" {
				w.mentionPaused(t.Context(), told)
				w.mentionPaused(t.Context(), told)
				if n := strings.Count(shown.String(), "waits for process 13 (program-1.py): paused · pid 13 · your answer: fs.write · continue: agentkernel resume -f 13"); n != 1 {
					t.Errorf("where no question is shown: told %d times: %s", n, shown.String())
				}
			}
			if n := strings.Count(said, "waits for process 13 (program-1.py): paused · pid 13"); n != c.want || n > 0 && !strings.Contains(said, c.note) {
				t.Errorf("told %d times, want %d: %s", n, c.want, said)
			}
			if c.want > 0 {
				contains(t, "stderr", said, "agentkernel resume -f 13", "agentkernel kill 13")
			}
		})
	}
}
