package journal_test

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"agentkernel/internal/journal"
)

// forms are the three ways through a value; whatever a hostile program or server sends, each costs time and
// memory in proportion to its length.
var forms = map[string]func(json.RawMessage) (json.RawMessage, error){
	"canonical": journal.Canonical, "plain": journal.Plain, "from plain": journal.FromPlain,
}

func nest(open, inner, end string, n int) string {
	return strings.Repeat(open, n) + inner + strings.Repeat(end, n)
}

// TestHostileValues: sorting a set in a set in a set took twice as long with each level, and a tree of small
// arrays was thirty times as large as its text. Each of these took hours or gigabytes.
func TestHostileValues(t *testing.T) {
	const mega = 1 << 18
	for name, in := range map[string]string{
		"sets in sets":            nest(`{"$frozenset":[2,`, `1`, `]}`, 200),
		"dicts by dicts":          nest(`{"$dict":[[2,1],[{"$tuple":[`, `1`, `]},0]]}`, 120),
		"unsorted objects":        nest(`{"b":`, `1`, `,"a":1}`, 400),
		"unsorted, with a weight": nest(`{"b":`, `"`+strings.Repeat("x", 4*mega)+`"`, `,"a":1}`, 400),
		"many small arrays":       "[" + strings.Repeat("[],", 2*mega) + "[]]",
		"many small objects":      "[" + strings.Repeat(`{"$":1},`, mega) + "[]]",
		"deep":                    nest("[", "", "]", 4*mega),
		"many names":              "{" + strings.Repeat(`"a":1,`, mega) + `"b":2}`,
		"dollars in dollars":      nest(`{"$a":`, `"`+strings.Repeat("x", mega)+`"`, `}`, 500),
		"a long number":           strings.Repeat("1", 8*mega),
		"a long fraction":         "0." + strings.Repeat("1", 8*mega),
		"quotes and escapes":      `"` + strings.Repeat(`\"\\`, 2*mega) + `"`,
	} {
		for form, f := range forms {
			t.Run(name+" "+form, func(t *testing.T) {
				raw := json.RawMessage(in)
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				began := time.Now()
				out, err := f(raw)
				took := time.Since(began)
				runtime.ReadMemStats(&after)
				if limit := 2 * time.Minute; took > limit { // milliseconds, where it took hours
					t.Errorf("took %s", took)
				}
				if used, limit := after.TotalAlloc-before.TotalAlloc, uint64(16*len(in)+4*mega); used > limit {
					t.Errorf("%d bytes of memory for %d of text", used, len(in))
				}
				if err == nil && !json.Valid(out) && !strings.HasPrefix(name, "deep") {
					t.Error("the outcome is no JSON")
				}
			})
		}
	}
}

// TestTangledValuesAreRefused: the work of sorting is bounded by the length of the text, whatever the machine is.
func TestTangledValuesAreRefused(t *testing.T) {
	const weight = 1 << 20
	tangled := func(depth int) json.RawMessage {
		return json.RawMessage(nest(`{"b":`, `"`+strings.Repeat("x", weight)+`"`, `,"a":1}`, depth))
	}
	if _, err := journal.Canonical(tangled(10)); err != nil {
		t.Errorf("ten unsorted objects in one another: %v", err)
	}
	if _, err := journal.Canonical(tangled(400)); err == nil || !strings.Contains(err.Error(), "nested") {
		t.Errorf("400 unsorted objects in one another: %v", err)
	}
}

func TestNamesAreThereOnce(t *testing.T) {
	for _, in := range []string{`{"a":1,"a":2}`, `{"b":[{"a":1,"c":1,"\u0061":2}]}`, `{"$set":[1],"$set":[2]}`} {
		if got, err := journal.Canonical(json.RawMessage(in)); err == nil {
			t.Errorf("Canonical(%s) = %s", in, got)
		}
	}
}

func TestNames(t *testing.T) {
	for in, want := range map[string]string{
		`{}`: "", `{"a":1}`: "a", `{"a":{"x":[1,"}"]},"b":"{","c\n":[{"d":1}]}`: "a,b,c\n", `{"$dict":[[1,2]]}`: "$dict",
	} {
		got, ok := journal.Names(json.RawMessage(in))
		if !ok || strings.Join(got, ",") != want {
			t.Errorf("Names(%s) = %q, %v", in, got, ok)
		}
	}
	for _, in := range []string{``, `null`, `[1]`, `"{"`} {
		if got, ok := journal.Names(json.RawMessage(in)); ok {
			t.Errorf("Names(%s) = %q", in, got)
		}
	}
}

// FuzzTextOf compares with encoding/json.
func FuzzTextOf(f *testing.F) {
	for _, in := range []string{``, `null`, `[{"a":"b"}]`, `{}`, ` { "a" : "b" } `, `{"b":{"a":"x"},"a":"c"}`, `{"a":1}`, `{"a":{"a":"b"}}`, `{"\u0061":"\"\u00e9"}`,
		`{"a":"b","a":"c"}`, `{"a":"b","a":1}`, `{"a":1,"a":"b"}`, `{"a":"b"`, `{"A":"b"}`, `{"a":null}`, `{"c":["}","\""],"a":"\\"}`} {
		f.Add([]byte(in))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if !utf8.Valid(in) {
			return
		}
		var members map[string]any
		var want string
		var ok bool
		if json.Unmarshal(in, &members) == nil {
			want, ok = members["a"].(string)
		}
		if got, found := journal.TextOf(in, "a"); got != want || found != ok {
			t.Errorf("TextOf(%q) = %q, %v; encoding/json has %q, %v", in, got, found, want, ok)
		}
	})
}

func TestFromPlain(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{` { "a" : [ 1 , 2.50 ] } `, `{"a":[1,2.50]}`},
		{`{"$tuple":[1]}`, `{"$dict":[["$tuple",[1]]]}`},
		{`{"a":{"b":1,"$c":{"d":2}}}`, `{"a":{"$dict":[["b",1],["$c",{"d":2}]]}}`},
		{`{"\u0024a":"\u00e9"}`, `{"$dict":[["$a","\u00e9"]]}`},
		{`[1e999,-1E+999,1e308,{"x":1e9999}]`, `[{"$float":"inf"},{"$float":"-inf"},1e308,{"x":{"$float":"inf"}}]`},
		{`"$a"`, `"$a"`},
	} {
		got, err := journal.FromPlain(json.RawMessage(c.in))
		if err != nil || string(got) != c.want {
			t.Errorf("FromPlain(%s) = %s, %v; want %s", c.in, got, err, c.want)
			continue
		}
		back, err := journal.Plain(got)
		if err != nil {
			t.Errorf("Plain(%s): %v", got, err)
		}
		var a, b any
		if json.Unmarshal([]byte(c.in), &a) == nil && json.Unmarshal(back, &b) == nil {
			x, _ := json.Marshal(a)
			y, _ := json.Marshal(b)
			if string(x) != string(y) {
				t.Errorf("%s came back as %s", x, y)
			}
		}
	}
}

func FuzzForms(f *testing.F) {
	f.Add([]byte(`{"$dict":[[{"$tuple":[1]},{"$object":{"fields":{"a":{"$float":"nan"}}}}]],"b":{"$timedelta":[1,2,3]}}`))
	f.Add([]byte(`{"$namedtuple":{"values":[1e999]}}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		for name, form := range forms {
			out, err := form(in)
			if err == nil && !json.Valid(out) && (name == "canonical" || json.Valid(in)) {
				t.Fatalf("%s of %q is not JSON: %q", name, in, out)
			}
		}
	})
}
