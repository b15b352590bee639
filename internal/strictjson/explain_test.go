package strictjson_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"agentkernel/internal/strictjson"
)

type span time.Duration

func (*span) UnmarshalText([]byte) error { return nil }

// itself is a type that decodes itself: what its error says of the place counts from where its text begins.
type itself []int

func (v *itself) UnmarshalJSON(raw []byte) error { return json.Unmarshal(raw, (*[]int)(v)) }

// TestExplain: whoever sent the value reads the message, and knows JSON, not Go.
func TestExplain(t *testing.T) {
	type limits struct {
		Time  float64  `json:"time"`
		Calls int64    `json:"calls"`
		Names []string `json:"names"`
	}
	type Place struct {
		N int64 `json:"n"`
	}
	type hidden struct {
		Most   *int64            `json:"most"`
		Env    map[string]string `json:"env"`
		Places []*Place          `json:"places"`
		Kept   json.RawMessage   `json:"kept"`
		Own    itself            `json:"own"`
	}
	type fetchArgs struct {
		Place
		hidden
		URL    string    `json:"url"`
		Again  bool      `json:"again"`
		Limits *limits   `json:"limits"`
		Size   *uint32   `json:"size"`
		Map    struct{}  `json:"map"`
		Span   span      `json:"span"`
		At     time.Time `json:"at"`
	}
	for raw, want := range map[string]string{
		`{"url": 5}`:                     "url must be a string, not a number",
		`{"url": ["a"]}`:                 "url must be a string, not a list",
		`{"again": "yes"}`:               "again must be true or false, not a string",
		`{"limits": {"time": "5s"}}`:     "limits.time must be a number, not a string",
		`{"limits": {"calls": 1.5}}`:     "limits.calls must be a whole number, not 1.5",
		`{"limits": {"names": {}}}`:      "limits.names must be a list, not an object",
		`{"limits": {"names": [false]}}`: "limits.names[0] must be a string, not true or false",
		`{"limits": 5}`:                  "limits must be an object, not a number",
		`{"at": "soon"}`:                 `"soon" is not a time: write 2026-12-01T10:00:00Z`,
		`{"at": "2026-13-01T10:00:00Z"}`: `"2026-13-01T10:00:00Z" is not a time: write 2026-12-01T10:00:00Z`,
		`{"at": 5}`:                      `a time is a text such as "2026-12-01T10:00:00Z"`,
		`{"size": -1}`:                   "size must be a whole number from 0, not -1",
		`{"n": 1.5}`:                     "n must be a whole number, not 1.5",
		`{"map": 5}`:                     "map must be an object, not a number",
		`{"span": 5}`:                    `span must be a text such as "5s", not a number`,
		`{"most": "5"}`:                  "most must be a whole number, not a string",
		`{"kept":[1], "MOST": "5"}`:      "MOST must be a whole number, not a string",
		`{"env": {"A": "x", "B": 1}}`:    "env.B must be a string, not a number",
		`{"env": {"a b": [1]}}`:          `env["a b"] must be a string, not a list`,
		`{"env": ["A=x"]}`:               "env must be an object, not a list",
		`{"kept":{"n":"x"}, "places": [{"n": 1}, null, {"n": "x"}]}`: "places[2].n must be a whole number, not a string",
		`{"places": [{"n": 1}, "x"]}`:                                "places[1] must be an object, not a string",
		`{"places": {"n": 1}}`:                                       "places must be a list, not an object",
		`{"url": "x", "size": 7, "own": [1, "x"]}`:                   "own[1] must be a whole number, not a string",
		`[1]`:          "the arguments must be an object, not a list",
		`5`:            "the arguments must be an object, not a number",
		`{"url": x}`:   "the arguments: line 1, column 9: a value should begin here, not 'x': a text in double quotes, a number, true, false, null, [...] or {...}",
		`{"url": "x`:   "the arguments: the JSON ends too early",
		`{"ulr": "x"}`: `there is no field "ulr"`,
	} {
		dec := json.NewDecoder(strings.NewReader(raw))
		dec.DisallowUnknownFields()
		err := dec.Decode(&fetchArgs{})
		if err == nil {
			t.Errorf("%s was taken", raw)
			continue
		}
		if got := strictjson.Explain(err, "the arguments", []byte(raw)); got != want {
			t.Errorf("%s:\n%s, want\n%s", raw, got, want)
		}
	}
	for whole, want := range map[string]string{"the body": "[1] in the body must be a string, not a number", "images": "images[1] must be a string, not a number"} {
		raw := []byte(`["x", 1]`)
		if got := strictjson.Explain(json.Unmarshal(raw, &[]string{}), whole, raw); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	raw := []byte(`{"` + strings.Repeat("ä", 200) + `": 5}`)
	long := strictjson.Explain(json.Unmarshal(raw, &map[string]string{}), "it", raw)
	if len(long) > 150 || strings.ContainsRune(long, '\uFFFD') {
		t.Errorf("%q", long)
	}
}
