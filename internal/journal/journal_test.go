package journal_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"agentkernel/internal/journal"

	"pgregory.net/rapid"
)

func TestCanonical(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"empty is null", ``, `null`},
		{"keys sorted, space gone", ` { "b" : 1 , "a" : [ true , null ] } `, `{"a":[true,null],"b":1}`},
		{"big int kept", `170141183460469231731687303715884105728`, `170141183460469231731687303715884105728`},
		{"float stays float", `1.0`, `1.0`},
		{"float shortest", `1.50e0`, `1.5`},
		{"float exponent", `1E22`, `1e+22`},
		{"float without an exponent up to 1e16, as Python's repr", `9999999999999998.0`, `9999999999999998.0`},
		{"float with an exponent from 1e16", `10000000000000000.0`, `1e+16`},
		{"float without an exponent down to 1e-4", `0.0001`, `0.0001`},
		{"float with an exponent below 1e-4", `0.00009`, `9e-05`},
		{"negative zero float", `-0.0`, `-0.0`},
		{"negative zero int", `-0`, `0`},
		{"escapes shortest", `"\u0041\/\n\u0001é\ud83d\ude00"`, `"A/\n\u0001é😀"`},
		{"set sorted", `{"$set":[3,1,2]}`, `{"$set":[1,2,3]}`},
		{"dict sorted by key", `{"$dict":[[2,"b"],[1,"a"]]}`, `{"$dict":[[1,"a"],[2,"b"]]}`},
		{"tuple keeps order", `{"$tuple":[2,1]}`, `{"$tuple":[2,1]}`},
		{"list keeps order", `[2,1]`, `[2,1]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := journal.Canonical(json.RawMessage(c.in))
			if err != nil || string(got) != c.want {
				t.Errorf("Canonical(%s) = %s, %v; want %s", c.in, got, err, c.want)
			}
		})
	}
}

func TestCanonicalRefuses(t *testing.T) {
	for _, in := range []string{`{`, `[1,`, `[1,]`, `{"a"}`, `{"a":1,}`, `01`, `1.`, `nul`, `"\x"`, "\"\x01\"", `1 2`, `1e999`,
		"\"\xff\"", strings.Repeat("[", 600) + strings.Repeat("]", 600)} {
		if got, err := journal.Canonical(json.RawMessage(in)); err == nil {
			t.Errorf("Canonical(%.20q) = %s, want an error", in, got)
		}
	}
}

func TestPlainExactLosesNoNumber(t *testing.T) {
	for in, lost := range map[string]bool{
		`{"$float":"nan"}`: true, `{"a":[1,{"b":{"$float":"-inf"}}]}`: true, `{"$tuple":[{"$float":"inf"}]}`: true,
		`{"a":"$float"}`: false, `{"a":{"$tuple":[1,2.5]}}`: false, `{"$dict":[["$float","nan"]]}`: false, `[1e3]`: false, ``: false,
	} {
		plain, _ := journal.Plain(json.RawMessage(in))
		got, err := journal.PlainExact(json.RawMessage(in))
		if errors.Is(err, journal.ErrNotFinite) != lost || !lost && string(got) != string(plain) {
			t.Errorf("%s: %s, %v", in, got, err)
		}
	}
}

// A name that comes twice in a JSON object is lost to whoever reads it.
func TestPlainExactLosesNoKey(t *testing.T) {
	for in, lost := range map[string]bool{
		`{"$dict":[[1,2],["1",3]]}`: true, `[{"$dict":[["true",2],[true,3]]}]`: true, `{"$dict":[["\u0031",2],[1,3]]}`: true,
		`{"a":{"$dict":[[0,{"$dict":[[null,1],["null",{"$dict":[[5,1]]}]]}]]}}`: true, `{"$dict":[[1.5,0],["1.5",0]]}`: true,
		`{"$dict":[[1,2],["2",3],[3,{"$dict":[[1,2]]}]]}`: false, `{"$dict":[[1,0],[1.0,0]]}`: false, `{"$dict":[["$a",1],["a",1]]}`: false,
		`{"$dict":[[{"$tuple":[1]},2],["[1]",3]]}`: false,
	} {
		plain, _ := journal.Plain(json.RawMessage(in))
		got, err := journal.PlainExact(json.RawMessage(in))
		if errors.Is(err, journal.ErrSameKey) != lost || !lost && string(got) != string(plain) {
			t.Errorf("%s: %s, %v", in, got, err)
		}
	}
}

func TestPlain(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`{"a":{"$tuple":[1,{"$bytes":"AAE="}]}}`, `{"a":[1,"AAE="]}`},
		{`{"$float":"nan"}`, `null`},
		{`{"$dict":[[1,"x"],["k",2]]}`, `{"1":"x","k":2}`},
		{`{"$dict":[[{"$tuple":[1]},2]]}`, `[[[1],2]]`},
		{`{"$dict":[[1,{"$bytes":"AAE="}],["1",{"$dict":[[2,3]]}]]}`, `[[1,"AAE="],["1",{"2":3}]]`},
		{`{"a":{"$dict":[[1,{"$dict":[[true,0],["true",1]]}],["1",2]]},"b":{"$dict":[[1,2]]}}`, `{"a":[[1,[[true,0],["true",1]]],["1",2]],"b":{"1":2}}`},
		{`{"$timedelta":[1,2,500000]}`, `86402.5`},
		{`{"$datetime":"2026-11-21T00:00:00"}`, `"2026-11-21T00:00:00"`},
		{`{"$object":{"type":"P","fields":{"x":{"$set":[1]}}}}`, `{"x":[1]}`},
		{`{"$namedtuple":{"type":"P","fields":["x"],"values":[1]}}`, `[1]`},
		{`{"$unknown":1}`, `{"$unknown":1}`},
		{`{"$a":1,"b":{"$tuple":[]}}`, `{"$a":1,"b":[]}`},
	} {
		if got, err := journal.Plain(json.RawMessage(c.in)); err != nil || string(got) != c.want {
			t.Errorf("Plain(%s) = %s, %v; want %s", c.in, got, err, c.want)
		}
	}
}

func TestDiffPointsAtTheDifference(t *testing.T) {
	got := journal.Diff(json.RawMessage(`{"path":"a.txt"}`), json.RawMessage(`{"path":"b.txt"}`))
	want := "  journal: {\"path\":\"a.txt\"}\n  program: {\"path\":\"b.txt\"}\n                    ^"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Canonical is a fixed point, and agrees with encoding/json on what the value is.
func TestCanonicalProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in, err := json.Marshal(anyValue(3).Draw(t, "value"))
		if err != nil || strings.Contains(string(in), "-0") { // Go writes the float -0 as an integer
			t.Skip()
		}
		once, err := journal.Canonical(in)
		if err != nil {
			t.Fatalf("Canonical(%s): %v", in, err)
		}
		twice, err := journal.Canonical(once)
		if err != nil || string(once) != string(twice) {
			t.Fatalf("not a fixed point: %s then %s (%v)", once, twice, err)
		}
		var a, b any
		if json.Unmarshal(in, &a) != nil || json.Unmarshal(once, &b) != nil {
			t.Fatalf("unreadable: %s", once)
		}
		x, _ := json.Marshal(a)
		y, _ := json.Marshal(b)
		if string(x) != string(y) {
			t.Fatalf("value changed: %s became %s", x, y)
		}
	})
}

func anyValue(depth int) *rapid.Generator[any] {
	leaf := []*rapid.Generator[any]{
		rapid.String().AsAny(), rapid.Int().AsAny(), rapid.Bool().AsAny(), rapid.Float64().AsAny(),
	}
	if depth == 0 {
		return rapid.OneOf(leaf...)
	}
	inner := anyValue(depth - 1)
	return rapid.OneOf(append(leaf, rapid.SliceOfN(inner, 0, 4).AsAny(),
		rapid.MapOfN(rapid.String(), inner, 0, 4).AsAny())...)
}

func FuzzCanonical(f *testing.F) {
	f.Add([]byte(`{"a":[1,2.5,"x",{"$set":[1]}]}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		out, err := journal.Canonical(in)
		if err == nil && !json.Valid(out) {
			t.Fatalf("Canonical(%q) = %q is not JSON", in, out)
		}
	})
}

func BenchmarkCanonicalSmall(b *testing.B) {
	in := json.RawMessage(`{"server":"filesystem","tool":"write_file","arguments":{"path":"a.txt","content":"hello"}}`)
	for b.Loop() {
		if _, err := journal.Canonical(in); err != nil {
			b.Fatal(err)
		}
	}
}
