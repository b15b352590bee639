package shape_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"agentkernel/internal/tool/shape"
)

func learn(results ...string) *shape.Learned {
	l := &shape.Learned{}
	for _, r := range results {
		l.Learn(json.RawMessage(r))
	}
	return l
}

func TestShapes(t *testing.T) {
	for name, c := range map[string]struct {
		results             []string
		typ, text, contents string
	}{
		"text":           {[]string{`"hello"`}, "str", "", ""},
		"number or none": {[]string{`1`, `null`}, "int | None", "", ""},
		"int and float":  {[]string{`1`, `1.5`}, "float", "", ""},
		"objects": {[]string{`{"name":"x","tags":["a"]}`, `{"name":"y"}`}, "dict", "",
			"\"name\": str\n\"tags\": list[str] (not always)"},
		"list of objects": {[]string{`[{"id":1,"by":{"login":"a"}}]`}, "list[dict]", "", "\"by\": dict\n    \"login\": str\n\"id\": int"},
		"empty list":      {[]string{`[]`}, "list", "", ""},
		"JSON in text":    {[]string{`"[{\"a\": 1}]"`, `" [] "`}, "str", "list[dict]", `"a": int`},
		"not always JSON": {[]string{`"{\"a\": 1}"`, `"no such user"`}, "str", "", ""},
		"broken JSON":     {[]string{`"{\"a\": "`}, "str", "", ""},
		"keys are data":   {[]string{`{"ann@example.org": {"n": 1}, "bo@example.org": {"n": 2}}`}, "dict[str, dict]", "", `"n": int`},
		"bytes":           {[]string{`{"$bytes":"aGk="}`}, "bytes", "", ""},
		"strange keys":    {[]string{`{"$dict":[["$a",1]]}`}, "dict[str, Any]", "", ""},
		"nothing":         {nil, "Any", "", ""},
		"no JSON":         {[]string{`{"a":`}, "Any", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			l := learn(c.results...)
			if l.Type() != c.typ || l.TextType() != c.text || l.Members() != c.contents {
				t.Errorf("%q %q %q", l.Type(), l.TextType(), l.Members())
			}
		})
	}
}

func TestVersionCountsChanges(t *testing.T) {
	l := learn(`{"a":1}`, `{"a":2}`, `{"a":3}`)
	if l.Version != 1 || l.Results != 3 {
		t.Errorf("version %d after %d", l.Version, l.Results)
	}
	l.Learn(json.RawMessage(`{"a":1,"b":"x"}`))
	if l.Version != 2 {
		t.Errorf("version %d", l.Version)
	}
	stored, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	again := &shape.Learned{}
	if err := json.Unmarshal(stored, again); err != nil || again.Members() != l.Members() || again.Version != 2 {
		t.Errorf("stored and read: %v %q", err, again.Members())
	}
}

// Values are in no result's shape, however large, deep or odd the result.
func TestBoundedAndWithoutValues(t *testing.T) {
	l := &shape.Learned{}
	for i := range 200 {
		var b strings.Builder
		b.WriteString(`{"secret":"hunter2"`)
		for j := range 100 {
			fmt.Fprintf(&b, `,"key_%d_%d":{"x":[[[[[[[["hunter2"]]]]]]]]}`, i, j)
		}
		l.Learn(json.RawMessage(b.String() + `}`))
	}
	l.Learn(json.RawMessage(`{"a":"` + strings.Repeat("x", shape.MaxBytes) + `"}`))
	l.Learn(json.RawMessage(strings.Repeat("[", 5000) + strings.Repeat("]", 5000)))
	stored, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	if len(stored) > 64<<10 || strings.Contains(string(stored), "hunter2") || strings.Contains(string(stored), "key_") {
		t.Errorf("%d bytes: %.300s", len(stored), stored)
	}
}

func BenchmarkLearn(b *testing.B) {
	l := &shape.Learned{}
	raw := json.RawMessage(`{"name":"x","tags":["a","b"],"size":12,"owner":{"login":"ann","id":7}}`)
	for b.Loop() {
		l.Learn(raw)
	}
}
