package history_test

import (
	"reflect"
	"testing"

	"agentkernel"
	"agentkernel/internal/kernel/history"
)

// TestPauseOf: what a kernel decides by a pause that it made, the next one decides by the note of it.
func TestPauseOf(t *testing.T) {
	short := &agentkernel.Shortage{Budget: 3, Amount: agentkernel.AmountCalls, Wants: 1, Limit: 2, Spent: 2}
	question := agentkernel.YourAnswer + "fs.write"
	for name, p := range map[string]history.Pause{
		"by hand":               history.ByHand(0, ""),
		"by hand, it asks":      history.ByHand(0, question),
		"with another":          history.ByHand(3, ""),
		"by hand, no server":    history.ByHand(0, "").Found("the server does not start"),
		"with another, none":    history.ByHand(3, "").Found("the server does not start"),
		"with another, it asks": history.ByHand(3, question),
		"unheard":               history.Unheard(question),
		"of a budget":           history.Short(short),
		"of the kernel":         {Note: "the engine is not installed"},
	} {
		if got := history.PauseOf(p.Note); !reflect.DeepEqual(got, p) {
			t.Errorf("%s: %q is read as %+v, want %+v", name, p.Note, got, p)
		}
	}
	for p, want := range map[history.Pause]string{
		history.ByHand(0, "").Found("no server"): "no server", history.ByHand(3, "").Found("no; server"): "no; server", history.ByHand(3, ""): "",
		history.ByHand(0, question): "", history.Unheard(question): "", {Note: "an error; when that is mended: resume"}: "",
	} {
		if got := p.Prevents(); got != want {
			t.Errorf("%q: %q, want %q", p.Note, got, want)
		}
	}
	for note, want := range map[string]string{
		history.ByHand(0, question).Note: "by hand; your answer: fs.write",
		history.ByHand(3, question).Note: "with process 3; your answer: fs.write",

		history.ByHand(0, question).Found("x").Note:   "by hand; your answer: fs.write",
		history.ByHand(3, "").Found("no server").Note: "with process 3; no server",
		history.Short(short).Found("no server").Note:  history.Short(short).Note,
	} {
		if note != want {
			t.Errorf("%q, want %q", note, want)
		}
	}
}
