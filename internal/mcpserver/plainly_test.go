package mcpserver

import (
	"encoding/json"
	"reflect"
	"testing"
)

func TestPlainMeanings(t *testing.T) {
	type arguments struct {
		Text  string          `json:"text"`
		Real  float64         `json:"real"`
		Count int64           `json:"count"`
		Yes   bool            `json:"yes"`
		Texts []string        `json:"texts"`
		Any   json.RawMessage `json:"any"`
		Maybe *int64          `json:"maybe"`
	}
	for _, c := range []struct{ in, want string }{
		{`{"text":9,"real":"5","count":"12","yes":"True","texts":"a"}`, `{"count":12,"real":5,"text":"9","texts":["a"],"yes":true}`},
		{`{"text":true,"real":" 1.5 ","count":9.0,"maybe":"3"}`, `{"count":9,"maybe":3,"real":1.5,"text":"true"}`},
		{`{"texts":"[\"a\",\"b\"]"}`, `{"texts":["a","b"]}`},
		// What is right stays as it is, and so does what has no plain meaning.
		{`{"text":"9","real":5,"count":12,"yes":true,"texts":["a"],"any":"7"}`, ``},
		{`{"real":"NaN","count":"9.5","yes":"1","texts":7,"text":[1],"maybe":null}`, ``},
		{`{"real":"Infinity","count":1e300,"yes":1,"text":{},"other":"5"}`, ``},
		{`{"count":"9007199254740993.0"}`, ``},
		{`[1]`, ``},
	} {
		want := c.want
		if want == "" {
			want = c.in
		}
		if got := plainly(json.RawMessage(c.in), reflect.TypeFor[arguments]()); string(got) != want {
			t.Errorf("%s became %s, want %s", c.in, got, want)
		}
	}
}
