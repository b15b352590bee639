package sys_test

import (
	"encoding/json"
	"testing"

	"agentkernel"
	"agentkernel/internal/sys"
)

// Who calls knows JSON, not Go: no error of a part names a type of Go.
func TestDecodePart(t *testing.T) {
	for raw, want := range map[string]string{
		`{"time": "5s", "calls": 3}`: "",
		`"much"`:                     "proc.spawn: limits must be an object, not a string",
		`{"calls": "3"}`:             "proc.spawn: limits: calls must be a whole number, not a string",
		`{"time": 5}`:                `proc.spawn: limits: time must be a text such as "5s", not a number`,
		`{"time": "soon"}`:           `proc.spawn: limits: "soon" is not a duration: write 500ms, 30s or 5m`,
		`{"tme": "5s"}`:              `proc.spawn: limits: there is no field "tme"`,
	} {
		got := ""
		if err := sys.DecodePart("proc.spawn", "limits", json.RawMessage(raw), &agentkernel.Limits{}); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s:\n%s, want\n%s", raw, got, want)
		}
	}
}
