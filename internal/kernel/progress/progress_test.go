package progress_test

import (
	"encoding/json"
	"testing"
	"time"

	"agentkernel"
	"agentkernel/internal/kernel/history"
	"agentkernel/internal/kernel/progress"
)

func TestStuck(t *testing.T) {
	call := agentkernel.Entry{Kind: agentkernel.EntryCall, Op: "tool.call", Done: true, Args: json.RawMessage(`{"x":1}`), Data: json.RawMessage("1"), At: time.Unix(1e9, 0)}
	other := call
	other.Args = json.RawMessage(`{"x":2}`)
	var a history.Account
	limit := func(n agentkernel.Repeats) *agentkernel.Limits { return &agentkernel.Limits{Repeats: n} }
	name := func() string { return "shop.look" }
	for n := range 4 {
		want := ""
		if n >= 3 {
			want = "shop.look was made 3 times in a row with the same arguments and the same answer, since 2001-09-09T01:46:40Z"
		}
		if got := progress.Stuck(limit(3), &a, &call, name); got != want {
			t.Errorf("after %d: %q, want %q", n, got, want)
		}
		if got := progress.Stuck(limit(3), &a, &other, name); got != "" {
			t.Errorf("another call after %d: %q", n, got)
		}
		if got := progress.Stuck(limit(agentkernel.AnyRepeats), &a, &call, name); got != "" {
			t.Errorf("without a limit: %q", got)
		}
		a.Add(&call)
	}
	if note, want := progress.Note("why"), "no progress: why; resume lets it go on and counts anew, --repeats allows more"; note != want {
		t.Errorf("%q, want %q", note, want)
	}
}
