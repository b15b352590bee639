package jsonc_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"agentkernel/internal/jsonc"
)

func parse(t interface{ Fatal(...any) }, src string) *jsonc.Doc {
	d, err := jsonc.Parse([]byte(src))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestEdits(t *testing.T) {
	servers := []string{"servers"}
	for name, c := range map[string]struct {
		src  string
		edit func(d *jsonc.Doc) error
		want string
	}{
		"a new member comes last, as the others are indented": {
			"{\n\t\"servers\": {\n\t\t\"a\": 1 // one\n\t}\n}\n",
			func(d *jsonc.Doc) error { return d.Set(servers, "b", json.RawMessage("2")) },
			"{\n\t\"servers\": {\n\t\t\"a\": 1, // one\n\t\t\"b\": 2\n\t}\n}\n"},
		"behind a trailing comma": {
			"{\n  \"servers\": {\n    \"a\": 1,\n  },\n}",
			func(d *jsonc.Doc) error { return d.Set(servers, "b", json.RawMessage("2")) },
			"{\n  \"servers\": {\n    \"a\": 1,\n    \"b\": 2\n  },\n}"},
		"into an empty object with a comment": {
			"{\n  \"servers\": {\n    // none yet\n  }\n}",
			func(d *jsonc.Doc) error { return d.Set(servers, "b", json.RawMessage("2")) },
			"{\n  \"servers\": {\n    // none yet\n    \"b\": 2\n  }\n}"},
		"into an object that is not there": {
			"{\n  \"x\": [1, 2]\n}\n",
			func(d *jsonc.Doc) error { return d.Set(servers, "b", json.RawMessage("2")) },
			"{\n  \"x\": [1, 2],\n  \"servers\": {\n    \"b\": 2\n  }\n}\n"},
		"into nothing": {
			"{}", func(d *jsonc.Doc) error { return d.Set(servers, "b", json.RawMessage("2")) },
			"{\n  \"servers\": {\n    \"b\": 2\n  }\n}"},
		"on one line": {
			`{"servers": {"a": 1}}`,
			func(d *jsonc.Doc) error { return d.Set(servers, "b", json.RawMessage("2")) },
			`{"servers": {"a": 1, "b": 2}}`},
		"line ends of Windows, and a byte order mark": {
			"\xef\xbb\xbf{\r\n  \"servers\": {\r\n    \"a\": 1\r\n  }\r\n}\r\n",
			func(d *jsonc.Doc) error { return d.Set(servers, "b", json.RawMessage("2")) },
			"\xef\xbb\xbf{\r\n  \"servers\": {\r\n    \"a\": 1,\r\n    \"b\": 2\r\n  }\r\n}\r\n"},
		"a value is replaced where it stands": {
			`{"servers": {"a": {"x": [1]}, /* c */ "b": 2}}`,
			func(d *jsonc.Doc) error { return d.Set(servers, "a", json.RawMessage("7")) },
			`{"servers": {"a": 7, /* c */ "b": 2}}`},
		"the first is removed": {
			"{\n  \"servers\": {\n    // about a\n    \"a\": {\n      \"x\": \"},\"\n    }, // still here\n    \"b\": 2\n  }\n}",
			func(d *jsonc.Doc) error { return d.Remove(servers, "a") },
			"{\n  \"servers\": {\n    // about a\n    // still here\n    \"b\": 2\n  }\n}"},
		"the last is removed, with the comma before it": {
			"{\n  \"servers\": {\n    \"a\": 1, // one\n    \"b\": 2\n  }\n}",
			func(d *jsonc.Doc) error { return d.Remove(servers, "b") },
			"{\n  \"servers\": {\n    \"a\": 1 // one\n  }\n}"},
		"the only one is removed": {
			"{\n  \"servers\": {\n    \"a\": 1\n  }\n}",
			func(d *jsonc.Doc) error { return d.Remove(servers, "a") },
			"{\n  \"servers\": {\n  }\n}"},
		"one that is not there": {
			`{"x": 1}`, func(d *jsonc.Doc) error { return errors.Join(d.Remove(servers, "a"), d.Remove(nil, "y")) }, `{"x": 1}`},
		"escaped names are names": {
			`{"servers": {"\u0061": 1, "b": 2}}`, func(d *jsonc.Doc) error { return d.Remove(servers, "a") }, `{"servers": {"b": 2}}`},
	} {
		t.Run(name, func(t *testing.T) {
			d := parse(t, c.src)
			if err := c.edit(d); err != nil {
				t.Fatal(err)
			}
			if got := string(d.Bytes()); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

func TestWhatIsRefused(t *testing.T) {
	for src, want := range map[string]string{
		"":                                  "line 1, column 1: the JSON ends too early",
		"[1]":                               "line 1, column 1: the top must be an object",
		"{\n  \"a\": 1\n  \"b\": 2\n}":      "line 3, column 3: a comma or } should follow the value, not '\"'",
		"{\"a\": /* open":                   "line 1, column 7",
		"{\n \"servers\": []\n}":            `line 2, column 13: "servers" must be an object`,
		`{"servers": {"a": 1, "a": 2}}`:     `line 1, column 22: the key "a" stands there twice`,
		"{\"servers\": {\"a\": 1}, } trail": "line 1, column 25: nothing may follow the value, and 't' does",
	} {
		d, err := jsonc.Parse([]byte(src))
		if err == nil {
			_, _, err = d.Members("servers")
		}
		if _, ok := errors.AsType[*jsonc.SyntaxError](err); !ok || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %q", src, err, want)
		}
	}
}

// Whatever is put in comes out again, and nothing else has changed: neither what the text means nor, but for commas and
// white space, its bytes.
func TestRandomEdits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		src := drawObject(t, 3)
		d := parse(t, src)
		before := meaning(t, d)
		key := rapid.SampledFrom([]string{"new", "ä\"", "n\\"}).Draw(t, "key")
		path := []string{"p" + rapid.StringMatching(`[0-3]`).Draw(t, "path")}
		_, had, err := d.Members(path...)
		if err != nil {
			return // a member of this name that is no object
		}
		value := json.RawMessage(rapid.SampledFrom([]string{"{}", "[1, {\"a\": 2}]", "\"},\"", "-1.5e3"}).Draw(t, "value"))
		if err := d.Set(path, key, value); err != nil {
			t.Fatal(err)
		}
		members, _, err := d.Members(path...)
		if last := members[len(members)-1]; err != nil || last.Key != key || string(last.Value) != string(value) {
			t.Fatalf("%v %v in\n%s", err, last, d.Bytes())
		}
		if err := d.Remove(path, key); err != nil {
			t.Fatal(err)
		}
		if !had {
			if err := d.Remove(nil, path[0]); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(before, meaning(t, d)); diff != "" {
			t.Fatalf("%s\n%s", src, diff)
		}
		strip := strings.NewReplacer(" ", "", "\n", "", ",", "")
		if got := string(d.Bytes()); strip.Replace(got) != strip.Replace(src) {
			t.Fatalf("was\n%s\nis\n%s", src, got)
		}
	})
}

func meaning(t interface{ Fatal(...any) }, d *jsonc.Doc) map[string]any {
	var v map[string]any
	if err := json.Unmarshal(jsonc.Plain(d.Bytes()), &v); err != nil {
		t.Fatal(err, string(d.Bytes()))
	}
	return v
}

// drawObject writes an object with comments and commas where they may stand.
func drawObject(t *rapid.T, depth int) string {
	gap := func() string {
		return rapid.SampledFrom([]string{"", " ", "\n  ", " // c, \"}\n", "/* {, */", "\n\n"}).Draw(t, "gap")
	}
	var b strings.Builder
	b.WriteString("{" + gap())
	n := rapid.IntRange(0, 3).Draw(t, "members")
	for i := range n {
		b.WriteString(`"p` + string(rune('0'+i)) + `"` + gap() + ":" + gap())
		if depth > 0 && rapid.Bool().Draw(t, "deeper") {
			b.WriteString(drawObject(t, depth-1))
		} else {
			b.WriteString(rapid.SampledFrom([]string{"1", `"a\"//b"`, "[]", `[{"x": 1}, null]`, "true"}).Draw(t, "leaf"))
		}
		b.WriteString(gap())
		if i < n-1 || rapid.Bool().Draw(t, "trailing") {
			b.WriteString("," + gap())
		}
	}
	return b.String() + "}"
}
