package journal

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"agentkernel/internal/quickjson"
)

func TestCut(t *testing.T) {
	for raw, want := range map[string]string{
		`{"messages":[{"a":1},"x",[2,3]],"model":"m"}`:                    `{"model":"m"} [{"a":1} "x" [2,3]]`,
		` { "a" : 1 , "messages" : [ { "b" : "]}" } , 5 ] , "c":[1,2] } `: `{"a" : 1,"c":[1,2]} [{ "b" : "]}" } 5]`,
		`{"messages":[]}`:                       `{} []`,
		`{"m\u0065ssages":[1]}`:                 "no",
		`{"messages":{"a":[1]}}`:                "no",
		`{"messages":"x"}`:                      "no",
		`{"messages":[1],"messages":[2]}`:       "no",
		`{"model":"m"}`:                         "no",
		`[{"messages":[1]}]`:                    "no",
		`{"messages":[1]`:                       "no",
		`{"messages":["\"}],{","\\"],"b":"\\"}`: `{"b":"\\"} ["\"}],{" "\\"]`,
	} {
		items, rest, ok := Cut(json.RawMessage(raw), "messages")
		got := "no"
		if ok {
			var texts []string
			for _, item := range items {
				if !json.Valid(item) {
					t.Errorf("%s: the item %s is no JSON", raw, item)
				}
				texts = append(texts, string(item))
			}
			got = string(rest) + " [" + strings.Join(texts, " ") + "]"
			if !json.Valid(rest) {
				t.Errorf("%s: the rest %s is no JSON", raw, rest)
			}
		}
		if got != want {
			t.Errorf("%s: %s, want %s", raw, got, want)
		}
	}
}

// FuzzCut compares with what the standard library finds.
func FuzzCut(f *testing.F) {
	f.Add([]byte(`{"messages":[{"content":"a\"}]\\"},{"b":[1,{}]}],"model":"m"}`))
	f.Add([]byte(` {"x": 1.5e3 , "messages" : [ ] , "y":{"messages":[1]} }`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		items, rest, ok := Cut(raw, "messages")
		if !ok || !json.Valid(raw) {
			return
		}
		var all, left map[string]json.RawMessage
		var want []json.RawMessage
		if json.Unmarshal(raw, &all) != nil || json.Unmarshal(all["messages"], &want) != nil || json.Unmarshal(rest, &left) != nil {
			t.Fatalf("%q was cut into %q and %q", raw, items, rest)
		}
		same := func(a, b json.RawMessage) bool {
			return strings.TrimSpace(string(a)) == strings.TrimSpace(string(b))
		}
		if !slices.EqualFunc(items, want, same) {
			t.Errorf("%q has the items %q, not %q", raw, want, items)
		}
		delete(all, "messages")
		for name, value := range all {
			if !same(left[name], value) {
				t.Errorf("%q: %s is %q, not %q", raw, name, left[name], value)
			}
		}
		if len(left) != len(all) {
			t.Errorf("%q leaves %q", raw, rest)
		}
	})
}

// What a string may have as it is is found by eight bytes as it is by one.
func TestOrdinary(t *testing.T) {
	for _, special := range []byte{0, '\n', 0x1f, '"', '\\'} {
		for at := range 40 {
			for _, fill := range []string{"a", "\x7f", "\xff", " ", "!", "#", "[", "]"} {
				text := strings.Repeat(fill, 40)
				if got := quickjson.Ordinary([]byte(text[:at]+string([]byte{special})+text[at:]), 0); got != at {
					t.Fatalf("%q behind %d times %q is found at %d", special, at, fill, got)
				}
				if got := quickjson.Ordinary([]byte(text), at); got != len(text) {
					t.Fatalf("in %d times %q something is found at %d", len(text), fill, got)
				}
			}
		}
	}
}

// BenchmarkConversation is what a call with half a megabyte of messages costs before it is made.
func BenchmarkConversation(b *testing.B) {
	said := strings.Repeat("The \"quick\" brown fox jumps over the lazy dog.\nWhat does it mean? ", 14)
	args := []byte(`{"max_tokens":100,"messages":[{"role":"system","content":"x"}`)
	for len(args) < 512<<10 {
		args = fmt.Appendf(args, `,{"role":"user","content":%q}`, said)
	}
	args = append(args, `],"model":"m"}`...)
	b.Run("canonical", func(b *testing.B) {
		b.SetBytes(int64(len(args)))
		for b.Loop() {
			if _, err := Canonical(args); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("cut", func(b *testing.B) {
		b.SetBytes(int64(len(args)))
		for b.Loop() {
			if _, _, ok := Cut(args, "messages"); !ok {
				b.Fatal("it is not cut")
			}
		}
	})
}

// cutOn fails if a list that was cut out of the text before, or of its beginning, is another one than Cut gives.
func cutOn(t *testing.T, l *List, before, raw []byte) {
	t.Helper()
	items, rest, ok := Cut(raw, "messages")
	kept, left, found := l.Cut(raw, "messages", CommonPrefix(before, raw))
	if found != ok || !slices.Equal(left, rest) || ok && l.Len() != len(items) || kept > len(items) {
		t.Fatalf("%q behind %q: %q and %d items, %d of them kept, %v; want %q and %d, %v", raw, before, left, l.Len(), kept, found, rest, len(items), ok)
	}
	for i := range items {
		if !slices.Equal(l.Item(raw, i), items[i]) {
			t.Fatalf("%q behind %q: item %d is %q, want %q", raw, before, i, l.Item(raw, i), items[i])
		}
	}
	if !ok {
		*l = List{}
	}
}

func TestCutGoesOn(t *testing.T) {
	var l List
	before := ""
	for _, raw := range []string{
		`{"a": 1, "messages": [{"a":1}, 2`, `{"a": 1, "messages": [{"a":1}, 2]}`, `{"a": 1, "messages": [{"a":1}, 25], "model": "m"}`,
		`{"a": 1, "messages": [{"a":1}, 25, 3 ], "model": "m"}`, `{"a": 1, "messages": [{"a":1}, 25, 3 ], "model": "n"}`,
		`{"a": 1, "messages": [{"a":1}, 25, 3 ], "messages": []}`, `{"a": 1, "messages": [{"a":1}, 25, 3 ]}`, `{"a": 1, "messages": [{"a":1}]}`,
		`{"a": 1, "messages": []}`, `{"a": 1, "messages": [[], "x"]}`, `{"a": 1, "messages": [[], "x"`, `{"b": 1, "messages": [[], "x"]}`,
	} {
		cutOn(t, &l, []byte(before), []byte(raw))
		if before = raw; l.items == nil {
			before = ""
		}
	}
}

// FuzzCutGoesOn: what a text has in common with the one before changes nothing.
func FuzzCutGoesOn(f *testing.F) {
	f.Add([]byte(`{"messages":[{"a":1},2`), []byte(`],"b":1}`), []byte(`5,[1]]}`))
	f.Add([]byte(`{"x":"\"","messages":["\\",`), []byte(`1]}`), []byte(`"a" ] , "messages":1}`))
	f.Fuzz(func(t *testing.T, head, first, second []byte) {
		var l List
		a, b := slices.Concat(head, first), slices.Concat(head, second)
		cutOn(t, &l, nil, a)
		if l.items == nil {
			a = nil
		}
		cutOn(t, &l, a, b)
	})
}
