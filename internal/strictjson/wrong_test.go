package strictjson_test

import (
	"encoding/json"
	"strings"
	"testing"

	"agentkernel/internal/strictjson"
)

// TestWrong: what encoding/json says of its own states is said in words of JSON, and with the place.
func TestWrong(t *testing.T) {
	const value = "a text in double quotes, a number, true, false, null, [...] or {...}"
	for raw, want := range map[string]string{
		`x`:                      "line 1, column 1: a value should begin here, not 'x': " + value,
		"{\n  \"ä\": é}":         "line 2, column 8: a value should begin here, not 'é': " + value,
		`{x: 1}`:                 "line 1, column 2: a name in double quotes should be here, not 'x'",
		`{"a", 1}`:               "line 1, column 5: a colon should follow the name, not ','",
		`{"a": 1 'b'}`:           `line 1, column 9: a comma or } should follow the value, not '\''`,
		"[1,\n2 \"a\"]":          `line 2, column 3: a comma or ] should follow the value, not '"'`,
		`{} x`:                   "line 1, column 4: nothing may follow the value, and 'x' does",
		"\"a\nb\"":               `line 1, column 3: a text cannot have '\n' in it as it is: write it as an escape, such as \n or \u0000`,
		`"\q"`:                   `line 1, column 3: a backslash and 'q' are no escape: \" \\ \/ \b \f \n \r \t and \u0041 are`,
		`"\u00x"`:                `line 1, column 6: four hexadecimal digits should follow \u, not 'x'`,
		`tru!`:                   "line 1, column 4: this is no word of JSON because of '!': there are true, false and null; a text is in double quotes",
		`-x`:                     "line 1, column 2: a number should have a digit here, not 'x'",
		`1.x`:                    "line 1, column 3: a number should have a digit behind its point, not 'x'",
		`1ex`:                    "line 1, column 3: a number should have a digit in its exponent, not 'x'",
		`{`:                      "the JSON ends too early",
		``:                       "the JSON ends too early",
		strings.Repeat("[", 1e5): "line 1, column 10001: it is nested more than 10,000 deep",
	} {
		var v any
		err := json.Unmarshal([]byte(raw), &v)
		if err == nil {
			t.Errorf("%.40q was taken", raw)
			continue
		}
		if got := strictjson.Wrong(err, []byte(raw)); got != want {
			t.Errorf("%.40q:\n%s, want\n%s", raw, got, want)
		}
	}
}
