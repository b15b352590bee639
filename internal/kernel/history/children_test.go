package history_test

import (
	"encoding/json"
	"testing"

	"agentkernel"
	"agentkernel/internal/kernel/history"
)

// A rerun starts the child anew, and those that were started before and are named behind that: 12 is waited for after 13 was started.
func TestFromWhichCallOnAChildIsAnother(t *testing.T) {
	var c history.Children
	if c.From(11) != 0 {
		t.Error("nobody started 11")
	}
	for call, pid := range map[int64]string{1: "11", 3: "12", 4: "13", 6: "14"} {
		c.Started(call, json.RawMessage(pid))
	}
	c.Started(7, json.RawMessage(`"x"`))
	for call, args := range map[int64]string{2: `{"pid":11}`, 5: `{"pid":12,"timeout":null}`, 8: `{"pid":99}`, 9: `[]`} {
		c.Named(call, json.RawMessage(args))
	}
	for child, want := range map[agentkernel.PID]int64{11: 1, 12: 3, 13: 3, 14: 6, 99: 0} {
		if got := c.From(child); got != want {
			t.Errorf("%d is started anew from call %d on, not %d", child, got, want)
		}
	}
}
