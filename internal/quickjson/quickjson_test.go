package quickjson

import (
	"encoding/json"
	"testing"
)

// FuzzMembers compares with what the standard library reads.
func FuzzMembers(f *testing.F) {
	for _, raw := range []string{`{"a":"b","c":[1,{"d":"}"}]}`, ` { "a" : "x\\n\\"y" , "b" : 1.5 } `, `{}`, `{"a":"\\u00e9"}`, `{"a\\n":1}`, `[1]`, `"a"`, `{"a":"\\/"}`, "{\"a\":\"\xff\"}"} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, want := map[string]string{}, map[string]json.RawMessage{}
		if !json.Valid(raw) || !Members(raw, func(name, value []byte) bool { got[string(name)] = string(value); return true }) {
			return
		}
		if err := json.Unmarshal(raw, &want); err != nil {
			t.Fatalf("%q is no object: %v", raw, err)
		}
		for name, value := range want {
			var text string
			if have, ok := got[name]; ok && have != string(value) {
				t.Errorf("%q: %q is %q, want %q", raw, name, got[name], value)
			}
			read, inner, ok := Text(value)
			if ok && (json.Unmarshal(value, &text) != nil || read != text || string(inner) != string(value[1:len(value)-1])) {
				t.Errorf("%q: %q is read as %q, want %q", raw, value, read, text)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%q: %v, want %v", raw, got, want)
		}
	})
}
