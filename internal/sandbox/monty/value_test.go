package monty

import (
	"bytes"
	"encoding/json"
	"math"
	"math/big"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"agentkernel"
	"agentkernel/internal/journal"
	"agentkernel/internal/sandbox/monty/montypb"
)

// The forms of docs/values.md, as one table: what the worker sends, and what is written for it.
func TestValueForms(t *testing.T) {
	v := func(k *montypb.Value) *montypb.Value { return k }
	str := func(s string) *montypb.Value { return &montypb.Value{Kind: &montypb.Value_Str{Str: s}} }
	num := func(n int64) *montypb.Value { return &montypb.Value{Kind: &montypb.Value_Int{Int: n}} }
	float := func(f float64) *montypb.Value { return &montypb.Value{Kind: &montypb.Value_Float{Float: f}} }
	items := func(vs ...*montypb.Value) *montypb.Items { return &montypb.Items{Items: vs} }
	dict := func(kv ...*montypb.Value) *montypb.Dict {
		d := &montypb.Dict{}
		for i := 0; i < len(kv); i += 2 {
			d.Pairs = append(d.Pairs, &montypb.Pair{Key: kv[i], Value: kv[i+1]})
		}
		return d
	}
	asDict := func(d *montypb.Dict) *montypb.Value { return &montypb.Value{Kind: &montypb.Value_Dict{Dict: d}} }
	for _, c := range []struct {
		val    *montypb.Value
		want   string
		oneWay bool
	}{
		{v(&montypb.Value{Kind: &montypb.Value_None{None: &montypb.Unit{}}}), `null`, false},
		{v(&montypb.Value{Kind: &montypb.Value_Bool{Bool: true}}), `true`, false},
		{v(&montypb.Value{Kind: &montypb.Value_Bool{}}), `false`, false},
		{num(0), `0`, false},
		{num(math.MinInt64), `-9223372036854775808`, false},
		{v(&montypb.Value{Kind: &montypb.Value_Bigint{Bigint: &montypb.BigInt{Magnitude: []byte{1, 0, 0, 0, 0, 0, 0, 0, 0}}}}), `18446744073709551616`, false},
		{v(&montypb.Value{Kind: &montypb.Value_Bigint{Bigint: &montypb.BigInt{Negative: true, Magnitude: []byte{0x80, 0, 0, 0, 0, 0, 0, 1}}}}), `-9223372036854775809`, false},
		{float(1), `1.0`, false},
		{float(0.1), `0.1`, false},
		{float(1e22), `1e+22`, false},
		{float(math.Copysign(0, -1)), `-0.0`, false},
		{float(math.NaN()), `{"$float":"nan"}`, false},
		{float(math.Inf(1)), `{"$float":"inf"}`, false},
		{float(math.Inf(-1)), `{"$float":"-inf"}`, false},
		{str(""), `""`, false},
		{str("a\"\\\n\x01\u2028é😀"), "\"a\\\"\\\\\\n\\u0001\u2028é😀\"", false},
		{v(&montypb.Value{Kind: &montypb.Value_Bytes{Bytes: []byte{0, 255}}}), `{"$bytes":"AP8="}`, false},
		{v(&montypb.Value{Kind: &montypb.Value_List{List: items(num(1), str("a"))}}), `[1,"a"]`, false},
		{v(&montypb.Value{Kind: &montypb.Value_Tuple{Tuple: items()}}), `{"$tuple":[]}`, false},
		{v(&montypb.Value{Kind: &montypb.Value_Set{Set: items(num(9), num(10), str("a"))}}), `{"$set":["a",10,9]}`, true}, // sorted
		{v(&montypb.Value{Kind: &montypb.Value_Frozenset{Frozenset: items(num(1))}}), `{"$frozenset":[1]}`, false},
		{asDict(dict(str("b"), num(1), str("a"), num(2))), `{"b":1,"a":2}`, false},
		{asDict(dict(str("$b"), num(1))), `{"$dict":[["$b",1]]}`, false},
		{asDict(dict(num(1), str("x"), v(&montypb.Value{Kind: &montypb.Value_Tuple{Tuple: items(num(1))}}), num(2))), `{"$dict":[[1,"x"],[{"$tuple":[1]},2]]}`, false},
		{v(&montypb.Value{Kind: &montypb.Value_Date{Date: &montypb.Date{Year: 2026, Month: 11, Day: 21}}}), `{"$date":"2026-11-21"}`, false},
		{v(&montypb.Value{Kind: &montypb.Value_Time{Time: &montypb.Time{Hour: 13, Minute: 45, Microsecond: 1, OffsetSeconds: proto.Int32(7200)}}}), `{"$time":"13:45:00.000001+02:00"}`, false},
		{v(&montypb.Value{Kind: &montypb.Value_Datetime{Datetime: &montypb.DateTime{Year: 33, Month: 1, Day: 2, Hour: 3, OffsetSeconds: proto.Int32(-90)}}}), `{"$datetime":"0033-01-02T03:00:00-00:01:30"}`, false},
		{v(&montypb.Value{Kind: &montypb.Value_Datetime{Datetime: &montypb.DateTime{Year: 9999, Month: 12, Day: 31, Hour: 23, Minute: 59, Second: 59, Microsecond: 999999}}}), `{"$datetime":"9999-12-31T23:59:59.999999"}`, false},
		{v(&montypb.Value{Kind: &montypb.Value_Timedelta{Timedelta: &montypb.TimeDelta{Days: -1, Seconds: 5}}}), `{"$timedelta":[-1,5,0]}`, true}, // zeros are written out
		{v(&montypb.Value{Kind: &montypb.Value_Timezone{Timezone: &montypb.TimeZone{OffsetSeconds: -3600, Name: proto.String("X")}}}), `{"$timezone":[-3600,"X"]}`, false},
		{v(&montypb.Value{Kind: &montypb.Value_Path{Path: "a/b.txt"}}), `{"$path":"a/b.txt"}`, false},
		{v(&montypb.Value{Kind: &montypb.Value_NamedTuple{NamedTuple: &montypb.NamedTuple{Type: "P", Fields: []string{"x"}, Values: []*montypb.Value{num(1)}}}}), `{"$namedtuple":{"fields":["x"],"type":"P","values":[1]}}`, false},
		{v(&montypb.Value{Kind: &montypb.Value_Exception{Exception: &montypb.Exception{Type: "ValueError", Arg: proto.String("")}}}), `{"$exception":{"arg":"","type":"ValueError"}}`, false},
		{v(&montypb.Value{Kind: &montypb.Value_Exception{Exception: &montypb.Exception{Type: "KeyError"}}}), `{"$exception":{"arg":null,"type":"KeyError"}}`, false},

		{v(&montypb.Value{Kind: &montypb.Value_Ellipsis{Ellipsis: &montypb.Unit{}}}), `{"$repr":"Ellipsis"}`, true},
		{v(&montypb.Value{Kind: &montypb.Value_Repr{Repr: "range(0, 3)"}}), `{"$repr":"range(0, 3)"}`, true},
		{v(&montypb.Value{Kind: &montypb.Value_BuiltinFunction{BuiltinFunction: "len"}}), `{"$repr":"<built-in function len>"}`, true},
		{v(&montypb.Value{Kind: &montypb.Value_Type{Type: &montypb.Class{Name: "int"}}}), `{"$repr":"<class 'int'>"}`, true},
		{v(&montypb.Value{Kind: &montypb.Value_Cycle{Cycle: &montypb.Cycle{Placeholder: "[...]"}}}), `{"$repr":"[...]"}`, true},
		{v(&montypb.Value{Kind: &montypb.Value_Instance{Instance: &montypb.Instance{Type: &montypb.Class{Name: "P"}, Attrs: dict(str("x"), num(1))}}}), `{"$object":{"fields":{"x":1},"type":"P"}}`, true},
	} {
		wire, err := proto.Marshal(c.val)
		if err != nil {
			t.Fatal(err)
		}
		got, err := appendJSON(nil, wire)
		if err != nil || string(got) != c.want {
			t.Errorf("%v is written as %s, %v; want %s", c.val, got, err, c.want)
			continue
		}
		back, err := appendValue(nil, got)
		if err != nil {
			t.Errorf("%s does not read back: %v", got, err)
			continue
		}
		read := new(montypb.Value)
		if err := proto.Unmarshal(back, read); err != nil {
			t.Errorf("%s reads back as bytes that are no message: %v", got, err)
		} else if !c.oneWay && !sameValue(read, c.val) {
			t.Errorf("%s reads back as %v, was %v", got, read, c.val)
		}
	}
}

// sameValue is proto.Equal where NaN equals NaN.
func sameValue(a, b *montypb.Value) bool {
	if math.IsNaN(a.GetFloat()) && math.IsNaN(b.GetFloat()) {
		return true
	}
	return proto.Equal(a, b)
}

// What the engine would end the program for is refused here.
func TestUnacceptableValues(t *testing.T) {
	for in, want := range map[string]string{
		`{"$set":[[1]]}`:                                               "not hashable",
		`{"$frozenset":[{"$tuple":[[]]}]}`:                             "not hashable",
		`{"$dict":[[{},1]]}`:                                           "not hashable",
		`{"$date":"2026-02-30"}`:                                       "not a $date",
		`{"$date":"0000-01-01"}`:                                       "not a $date",
		`{"$time":"24:00:00"}`:                                         "not a $time",
		`{"$datetime":"2026-01-01 "}`:                                  "not a $datetime",
		`{"$datetime":"2026-01-01T00:00:00+24:00"}`:                    "not a $datetime",
		`{"$float":"1.5"}`:                                             "not a $float",
		`{"$bytes":"***"}`:                                             "not base64",
		`{"$timedelta":[0,86400,0]}`:                                   "out of range",
		`{"$timezone":[86400,null]}`:                                   "$timezone",
		`{"$exception":{"type":"Nope","arg":null}}`:                    "not an exception",
		`{"$namedtuple":{"type":"P","fields":["a","b"],"values":[1]}}`: "2 fields and 1 values",
		strings.Repeat("[", 60) + strings.Repeat("]", 60):              "nested too deeply",
		strings.Repeat(`{"a":`, 40) + "1" + strings.Repeat("}", 40):    "nested too deeply",
		strings.Repeat("9", 200_000):                                   "larger than",
		"\"\xff\"":                                                     "not UTF-8",
		`"\ud800"`:                                                     "half of a surrogate pair",
		`{"a\udc00": 1}`:                                               "half of a surrogate pair",
		`"\ud8"`:                                                       "escape",
		`[1,]`:                                                         "not JSON",
		`[1 2]`:                                                        "missing",
		`{"a" 1}`:                                                      "missing",
		`tru`:                                                          "not JSON",
		`1 2`:                                                          "text after",
		`-`:                                                            "not a number",
		`{"a":1`:                                                       "missing",
		"\"a\nb\"":                                                     "control character",
	} {
		if out, err := appendValue(nil, json.RawMessage(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s gives %x, %v; want an error with %q", in, out, err, want)
		}
	}
}

// Objects that only look tagged are dicts.
func TestLooksTagged(t *testing.T) {
	for _, in := range []string{`{"$tuple":1}`, `{"$nope":[1]}`, `{"$tuple":[1],"x":2}`, `{"$set":{"a":1}}`, `{"$":1}`, `{"$date":null}`} {
		wire, err := appendValue(nil, json.RawMessage(in))
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		var v montypb.Value
		if err := proto.Unmarshal(wire, &v); err != nil || v.GetDict() == nil {
			t.Errorf("%s is %v, %v; want a dict", in, &v, err)
		}
	}
}

// genJSON draws any value of docs/values.md's first table, in canonical form. levels bounds the nesting.
func genJSON(levels int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		if levels > 0 && rapid.IntRange(0, 2).Draw(t, "container") == 0 {
			return genContainer(levels).Draw(t, "c")
		}
		return genScalar().Draw(t, "s")
	})
}

func quote(t *rapid.T, s string) string {
	b, err := appendStringJSON(nil, []byte(strings.ToValidUTF8(s, "?")))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func genScalar() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		two := func(label string, hi int) string {
			return string(appendPadded(nil, int64(rapid.IntRange(0, hi).Draw(t, label)), 2))
		}
		date := func() string {
			return string(appendDate(nil, int64(rapid.IntRange(1, 9999).Draw(t, "y")), int64(rapid.IntRange(1, 12).Draw(t, "mo")), int64(rapid.IntRange(1, 28).Draw(t, "d"))))
		}
		clock := func() string {
			s := two("h", 23) + ":" + two("m", 59) + ":" + two("s", 59)
			if us := rapid.IntRange(0, 999999).Draw(t, "us"); us > 0 {
				s += "." + string(appendPadded(nil, int64(us), 6))
			}
			if rapid.Bool().Draw(t, "aware") {
				s += string(appendOffset(nil, int64(rapid.IntRange(-86399, 86399).Draw(t, "off"))))
			}
			return s
		}
		switch rapid.IntRange(0, 13).Draw(t, "kind") {
		case 0:
			return rapid.SampledFrom([]string{"null", "true", "false"}).Draw(t, "lit")
		case 1:
			return big.NewInt(rapid.Int64().Draw(t, "int")).String()
		case 2:
			n := new(big.Int).SetBytes(rapid.SliceOfN(rapid.Byte(), 1, 40).Draw(t, "mag"))
			if rapid.Bool().Draw(t, "neg") {
				n.Neg(n)
			}
			return n.String()
		case 3, 4:
			return string(appendFloatJSON(nil, rapid.Float64().Draw(t, "f")))
		case 5:
			return rapid.SampledFrom([]string{`{"$float":"nan"}`, `{"$float":"inf"}`, `{"$float":"-inf"}`, "-0.0", "5e-324", "1.7976931348623157e+308"}).Draw(t, "odd")
		case 6:
			return string(appendBytesJSON(nil, rapid.SliceOf(rapid.Byte()).Draw(t, "b")))
		case 7:
			return `{"$date":"` + date() + `"}`
		case 8:
			return `{"$time":"` + clock() + `"}`
		case 9:
			return `{"$datetime":"` + date() + "T" + clock() + `"}`
		case 10:
			d := func(hi int) string { return big.NewInt(int64(rapid.IntRange(0, hi).Draw(t, "td"))).String() }
			return `{"$timedelta":[` + rapid.SampledFrom([]string{"", "-"}).Draw(t, "sign") + "1" + d(99999999) + "," + d(86399) + "," + d(999999) + "]}"
		case 11:
			return `{"$exception":{"arg":` + quote(t, rapid.String().Draw(t, "arg")) + `,"type":"ValueError"}}`
		case 12:
			return `{"$path":` + quote(t, rapid.StringMatching(`/?([a-z]{1,3}/){0,3}[a-z]`).Draw(t, "path")) + `}`
		}
		return quote(t, rapid.String().Draw(t, "str"))
	})
}

// genHashable draws scalars that are different from one another in Python too: no 1, 1.0 and True together.
func genHashable() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string { return quote(t, "k"+rapid.String().Draw(t, "key")) })
}

func genContainer(levels int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		items := func() string {
			return strings.Join(rapid.SliceOfN(genJSON(levels-1), 0, 4).Draw(t, "items"), ",")
		}
		keys := func() []string { return rapid.SliceOfNDistinct(genHashable(), 0, 4, rapid.ID[string]).Draw(t, "keys") }
		switch rapid.IntRange(0, 6).Draw(t, "container") {
		case 0:
			return `{"$tuple":[` + items() + `]}`
		case 1:
			return `{"$set":[` + strings.Join(keys(), ",") + `]}`
		case 2:
			return `{"$frozenset":[{"$tuple":[` + strings.Join(keys(), ",") + `]}]}`
		case 3:
			var pairs []string
			for _, k := range keys() {
				pairs = append(pairs, "["+k+","+genJSON(levels-1).Draw(t, "v")+"]")
			}
			return `{"$dict":[[7,null]` + strings.Join(append([]string{""}, pairs...), ",") + `]}`
		case 4:
			var members []string
			for _, k := range keys() {
				members = append(members, k+":"+genJSON(levels-1).Draw(t, "v"))
			}
			return `{` + strings.Join(members, ",") + `}`
		case 5:
			return `{"$namedtuple":{"fields":["x"],"type":"P","values":[` + genJSON(levels-1).Draw(t, "v") + `]}}`
		}
		return "[" + items() + "]"
	})
}

// Any value that goes into a real worker comes out again as it was, and dicts in their order.
func TestRoundTripThroughWorker(t *testing.T) {
	r := boundRun(t, newBackend(t), "v = None\nwhile True:\n    v = echo(v)", "echo=kernel.log").start()
	turn, err := r.box.Next(t.Context(), nil)
	rapid.Check(t, func(rt *rapid.T) {
		if err != nil {
			rt.Fatal(err)
		}
		in := genJSON(5).Draw(rt, "value")
		turn, err = r.box.Next(t.Context(), &agentkernel.Reply{ID: 1, Result: json.RawMessage(in)})
		if err != nil || turn.Kind != agentkernel.TurnCall {
			rt.Fatalf("%s ended the program: %+v %v", in, turn, err)
		}
		got := bytes.TrimSuffix(bytes.TrimPrefix(turn.Call.Args, []byte(`{"message":`)), []byte("}"))
		want, err1 := journal.Canonical(json.RawMessage(in))
		have, err2 := journal.Canonical(json.RawMessage(got))
		if err1 != nil || err2 != nil || !bytes.Equal(want, have) {
			rt.Fatalf("went in as %s\ncame out as %s (%v, %v)", want, have, err1, err2)
		}
		if !strings.Contains(in, "$set") && string(got) != in { // sets have no order to keep
			rt.Fatalf("order was not kept:\n%s\n%s", in, got)
		}
	})
}

// Large values take time in proportion to their size, and little of it.
func TestLargeValues(t *testing.T) {
	b := newBackend(t, func(c *Config) { c.MaxFrame = 64 << 20 })
	rows := `[{"id":1,"name":"row","price":1.5,"tags":["a","b"]}` + strings.Repeat(`,{"id":1,"name":"row","price":1.5,"tags":["a","b"]}`, 19_999) + `]`
	for name, val := range map[string]string{"text": `"` + strings.Repeat("x", 5<<20) + `"`, "rows": rows, "escapes": `"` + strings.Repeat(`\n`, 1<<20) + `"`} {
		t.Run(name, func(t *testing.T) {
			r := boundRun(t, b, "x = get()\nput(x)\nlen(x)", "get=kernel.self", "put=kernel.log")
			r.answer = func(c agentkernel.Call) agentkernel.Reply {
				if c.Op == "proc.self" {
					return agentkernel.Reply{Result: json.RawMessage(val)}
				}
				if got := strings.TrimSuffix(strings.TrimPrefix(string(c.Args), `{"message":`), "}"); got != val {
					t.Errorf("%d bytes came back, not the same as the %d that went in", len(got), len(val))
				}
				return agentkernel.Reply{Result: json.RawMessage("null")}
			}
			if turn, err := r.finish(); err != nil || turn.Kind != agentkernel.TurnExit {
				t.Fatalf("%+v %v", turn, err)
			}
		})
	}
}

// A result that the engine cannot take is an error at the call, not the end of the program.
func TestUnacceptableResultRaises(t *testing.T) {
	b := newBackend(t, func(c *Config) { c.MaxFrame = 1 << 20 })
	for name, val := range map[string]string{
		"deep":  strings.Repeat("[", 60) + strings.Repeat("]", 60),
		"large": `"` + strings.Repeat("x", 2<<20) + `"`,
		"wrong": `{"$set":[[]]}`,
	} {
		r := boundRun(t, b, "try:\n    get()\nexcept RuntimeError as e:\n    print(e)\nprint(get())", "get=kernel.self")
		n := 0
		r.answer = func(agentkernel.Call) agentkernel.Reply {
			if n++; n == 1 {
				return agentkernel.Reply{Result: json.RawMessage(val)}
			}
			return agentkernel.Reply{Result: json.RawMessage("5")}
		}
		turn, err := r.finish()
		if err != nil || turn.Kind != agentkernel.TurnExit || !strings.HasPrefix(r.out.String(), "unsupported: ") || !strings.HasSuffix(r.out.String(), "\n5\n") {
			t.Errorf("%s: %+v %v\n%s", name, turn, err, r.out.String())
		}
	}
}

// FuzzDecode: no bytes of a worker may do more than be refused.
func FuzzDecode(f *testing.F) {
	for _, in := range []string{`null`, `[1,{"$set":["a",2]},{"$datetime":"2026-01-01T00:00:00+01:00"}]`, `{"$dict":[[1,{"$bytes":"AP8="}]]}`,
		`{"$namedtuple":{"type":"P","fields":["x"],"values":[{"$exception":{"type":"ValueError","arg":"x"}}]}}`, `18446744073709551616`} {
		wire, err := appendValue(nil, json.RawMessage(in))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(wire)
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		out, err := appendJSON(nil, wire)
		if err != nil {
			return
		}
		if !json.Valid(out) {
			t.Fatalf("%x gives %q, which is not JSON", wire, out)
		}
		if len(out) > 64+40*len(wire) {
			t.Fatalf("%d bytes became %d", len(wire), len(out))
		}
	})
}

// FuzzEncode: whatever is taken is a message that reads back as canonically the same.
func FuzzEncode(f *testing.F) {
	for _, in := range []string{`null`, ` [1, 2.5e3 ,"\u00e9\ud83d\ude00"]`, `{"$tuple":[{"$frozenset":[1]}]}`, `{"$object":{"type":"P","fields":{"a":1}}}`, `{"$timezone":[0,null]}`, `{"$a":1}`} {
		f.Add([]byte(in))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		wire, err := appendValue(nil, in)
		if err != nil {
			return
		}
		if err := proto.Unmarshal(wire, new(montypb.Value)); err != nil {
			t.Fatalf("%s gives bytes that are no message: %v", in, err)
		}
		once, err := appendJSON(nil, wire)
		if err != nil {
			t.Fatalf("%s does not come back: %v", in, err)
		}
		wire, err = appendValue(nil, once)
		if err != nil {
			t.Fatalf("%s became %s, which is refused: %v", in, once, err)
		}
		if twice, err := appendJSON(nil, wire); err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%s is not stable: %s, %s, %v", in, once, twice, err)
		}
	})
}
