package history

import (
	"encoding/json"

	"agentkernel/internal/journal"
)

// ExitCode reads the arguments of an exit. It follows sys.exit: None is 0, a number is itself, anything else is printed and means 1.
func ExitCode(args json.RawMessage) (code int, text string) {
	var a struct {
		Code json.RawMessage `json:"code"`
	}
	if err := json.Unmarshal(args, &a); err != nil || len(a.Code) == 0 || string(a.Code) == "null" {
		return 0, ""
	}
	var n int64
	if json.Unmarshal(a.Code, &n) == nil {
		return int(n & 0xff), ""
	}
	var yes bool
	if json.Unmarshal(a.Code, &yes) == nil {
		if yes {
			return 1, ""
		}
		return 0, ""
	}
	return 1, journal.Text(a.Code)
}
