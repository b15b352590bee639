package intrinsic

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"
	"time"

	"agentkernel"
)

func TestCall(t *testing.T) {
	for _, c := range []struct{ name, args, want string }{
		{"digest", `["sha256", {"$bytes": "YWJj"}]`, `{"$bytes":"ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0="}`},
		{"digest", `["md5", ""]`, `{"$bytes":"1B2M2Y8AsgTpgAmY7PhCfg=="}`},
		{"digest", `["crc", ""]`, "ValueError: unsupported hash type crc"},
		{"digest", `["md5", 3]`, "TypeError: a bytes-like object is required"},
		{"digest", `["md5", {"$bytes": "*"}]`, "TypeError: a bytes-like object is required"},
		{"digest", `[]`, "TypeError: argument 1 of digest must be str"},
		{"hmac", `["sha1", {"$bytes": "a2V5"}, "msg"]`, `{"$bytes":"ECkAtyt78QMe7Ha0gEtmBSN2iWs="}`},
		{"pbkdf2", `["sha1", "p", "s", 1000000000, 20]`, "ValueError: argument 4 of pbkdf2 must be an int from 1 to 200000"},
		{"fsum", `[[0.1, 0.2, 0.3, 1e300, -1e300]]`, `0.6`},
		{"fsum", `[[]]`, `0.0`},
		{"fsum", `[[1, {"$float": "inf"}]]`, `{"$float":"inf"}`},
		{"fsum", `[["x"]]`, "TypeError: must be real number"},
		{"fsum", `[[5e-324, 5e-324]]`, `1e-323`},
		{"mean", `[[1, 2, 3]]`, `2`},
		{"mean", `[{"$tuple": [1, 2]}]`, `1.5`},
		{"mean", `[[true, 2.0, 3]]`, `2.0`},
		{"mean", `[[]]`, "ValueError: mean requires at least one data point"},
		{"mean", `[{}]`, "TypeError: argument 1 of mean must be a list"},
		{"variance", `[[1, 2, 3], 1, null, false]`, `1`},
		{"variance", `[[1.5, 2.5], 0, null, true]`, `0.5`},
		{"variance", `[[1, 2], 0, 1.0, false]`, `0.5`},
		{"variance", `[[1], 1, null, false]`, "ValueError: variance requires at least 2 data points"},
		{"over_sum", `[2, [0.025, 0.016666666666666666]]`, `48.0`},
		{"csv_rows", `["a,b\r\n\"x, \"\"y\"\"\",\n\n1", ",", "\"", null, true, false, false, 0, null]`,
			"\"a\x7fb\u0080x, \\\"y\\\"\x7f\u0080\u0081\u00801\""},
		{"csv_rows", `["a,\u007f\n\n1", ",", "\"", null, true, false, false, 0, null]`, "[[\"a\",\"\x7f\"],[],[\"1\"]]"},
		{"csv_rows", `["a,\u0080", ",", "\"", null, true, false, false, 0, null]`, "[[\"a\",\"\u0080\"]]"},
		{"csv_rows", `["", ",", "\"", null, true, false, false, 0, null]`, `[]`},
		{"csv_dicts", `["a,b\n1,\"x\"\n\n2,", null, ",", "\"", null, true, false, false, 0, null]`, `"[{\"a\":\"1\",\"b\":\"x\"},{\"a\":\"2\",\"b\":\"\"}]"`},
		{"csv_dicts", `["1,2", ["p", "q"], ",", "\"", null, true, false, false, 0, null]`, `"[{\"p\":\"1\",\"q\":\"2\"}]"`},
		{"csv_dicts", `["a,b\n1", null, ",", "\"", null, true, false, false, 0, null]`, `null`},
		{"csv_dicts", `["a,a\n1,2", null, ",", "\"", null, true, false, false, 0, null]`, `null`},
		{"csv_dicts", `["", null, ",", "\"", null, true, false, false, 0, null]`, `null`},
		{"csv_rows", `["a\"b,\"c\"d", ",", "\"", null, true, false, true, 0, null]`, "ValueError: ',' expected after '\"'"},
		{"csv_rows", `["\"a", ",", "\"", null, true, false, true, 0, null]`, "ValueError: unexpected end of data"},
		{"csv_rows", `["a", "ab", "\"", null, true, false, true, 0, null]`, `TypeError: "delimiter" must be a 1-character string`},
		{"csv_rows", `["a", ",", "\"", null, true, false, true, 9, null]`, `TypeError: bad "quoting" value`},
		{"csv_text", `[[["a", 1, null, "x,y", 1e16], ["q\"q"]], ",", "\"", null, true, false, false, 0, "\n"]`,
			`"a,1,,\"x,y\",1e+16\n\"q\"\"q\"\n"`},
		{"csv_text", `[[["a,b"]], ",", null, null, true, false, false, 3, "\n"]`, "ValueError: need to escape, but no escapechar set"},
		{"csv_text", `[[3], ",", "\"", null, true, false, false, 0, "\n"]`, "TypeError: iterable expected, not a single value"},
		{"url_quote", `["a b/é", "/", false]`, `"a%20b/%C3%A9"`},
		{"url_unquote", `["%41%zz%4"]`, `{"$bytes":"QSV6eiU0"}`},
		{"html_unescape", `["&lt;&#x27;"]`, `"<'"`},
		{"bytes_of", `[[65, 66]]`, `{"$bytes":"QUI="}`},
		{"bytes_of", `[[256]]`, "ValueError: bytes must be in range(0, 256)"},
		{"struct_pack", `[">H", [258]]`, `{"$bytes":"AQI="}`},
		{"struct_pack", `["b", [200]]`, "ValueError: 'b' format requires -128 <= number <= 127"},
		{"struct_pack", `["999999999s", [""]]`, "ValueError: total struct size too long"},
		{"struct_unpack", `["<q", {"$bytes": "//////////8="}]`, `[-1]`},
		{"struct_unpack", `["<q", {"$bytes": "/w=="}]`, "ValueError: unpack requires a buffer of 8 bytes"},
		{"mt_seed", `[1.5]`, "TypeError: a seed must be an int"},
		{"mt_block", `["x"]`, "ValueError: not a state of the generator"},
		{"csv_rows", `["a\\b\\", "\\", null, null, true, false, false, 0, null]`, "\"a\x7fb\x7f\""},
		{"digest", `["md5", "a\"]`, "TypeError: the arguments of digest are not a list"},
		{"digest", `["md5", "\q"]`, "TypeError: a bytes-like object is required"},
		{"nothing", `[]`, `NotImplementedError: there is no intrinsic "nothing"`},
		{"digest", `{}`, "TypeError: the arguments of digest are not a list"},
	} {
		got, err := Call(c.name, json.RawMessage(c.args))
		text := string(got)
		if err != nil {
			e, ok := err.(*agentkernel.Error)
			if !ok {
				t.Fatalf("%s: %T", c.name, err)
			}
			text = e.Exception + ": " + e.Message()
		} else if !json.Valid(got) {
			t.Errorf("%s: invalid JSON %s", c.name, got)
		}
		if text != c.want {
			t.Errorf("%s(%s)\ngot  %s\nwant %s", c.name, c.args, text, c.want)
		}
	}
}

func TestNamesExist(t *testing.T) {
	for _, n := range Names() {
		if find(n) == nil {
			t.Errorf("%s is listed and not there", n)
		}
	}
}

// TestLargeInput: 50,000 rows of CSV, and sums over as many numbers, take well under the 100 ms promised.
func TestLargeInput(t *testing.T) {
	const n = 50_000
	var csv, numbers strings.Builder
	for i := range n {
		if i > 0 {
			numbers.WriteByte(',')
		}
		csv.WriteString("2026-01-17,north,\"bolt, big\",12,3.75\n")
		numbers.WriteString("12.375")
	}
	text, err := json.Marshal(csv.String())
	if err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string]string{
		"csv_rows": "[" + string(text) + `, ",", "\"", null, true, false, false, 0, null]`,
		"variance": "[[" + numbers.String() + "], 1, null, true]",
		"digest":   `["sha256", ` + string(text) + "]",
	} {
		begin := time.Now()
		out, err := Call(name, json.RawMessage(args))
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %v, %d bytes", name, time.Since(begin), len(out))
		if d := time.Since(begin); d > time.Minute { // a thousandth of it, on a machine with nothing else to do
			t.Errorf("%s took %v", name, d)
		}
	}
}

// TestLongNamesDoNotAddUp: a header of one long name over many short rows is not repeated without end.
func TestLongNamesDoNotAddUp(t *testing.T) {
	text, err := json.Marshal(strings.Repeat("n", 1<<20) + strings.Repeat("\n1", 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	out, err := Call("csv_dicts", json.RawMessage("["+string(text)+`, null, ",", "\"", null, true, false, false, 0, null]`))
	if err != nil || string(out) != "null" {
		t.Errorf("%d bytes, %v", len(out), err)
	}
}

func FuzzCall(f *testing.F) {
	f.Add("csv_rows", `["a,b", ",", "\"", null, true, false, false, 0, null]`)
	f.Add("csv_text", `[[["a", 1]], ",", "\"", "\\", false, false, false, 2, "\n"]`)
	f.Add("struct_unpack", `["<3sq?", {"$bytes": "AAAA"}]`)
	f.Add("variance", `[[1.5, 2], 1, 0.5, true]`)
	f.Add("mt_seed", `[123]`)
	f.Add("pbkdf2", `["md5", "p", "s", 3, 16]`)
	f.Fuzz(func(t *testing.T, name, args string) {
		out, err := Call(name, json.RawMessage(args))
		if err == nil && !json.Valid(out) {
			t.Fatalf("invalid JSON %q", out)
		}
	})
}

// TestHostileArguments: short arguments that ask for long work.
func TestHostileArguments(t *testing.T) {
	for name, c := range map[string]struct{ fn, args string }{
		"a huge int among many":  {"variance", "[[" + strings.Repeat("9", 19_000) + strings.Repeat(",0", 8_000_000) + "],0,null,false]"},
		"many huge ints":         {"fsum", "[[" + strings.Repeat(strings.Repeat("9", 19_000)+",", 500) + "0]]"},
		"a format without end":   {"struct_unpack", `["` + strings.Repeat("0x", 8_000_000) + `",null]`},
		"a long repeat":          {"struct_pack", `["1000000000x",[]]`},
		"many long repeats":      {"struct_pack", `["` + strings.Repeat("1000000x", 1000) + `",[]]`},
		"all is escaped":         {"url_quote", `["` + strings.Repeat(" ", 8_000_000) + `","",false]`},
		"a quote without end":    {"csv_rows", `["` + strings.Repeat(`\"`, 4_000_000) + `",{}]`},
		"entities":               {"html_unescape", `["` + strings.Repeat("&#0;&a", 1_000_000) + `"]`},
		"brackets that open":     {"fsum", "[" + strings.Repeat("[", 8_000_000)},
		"a line end without end": {"csv_text", `[[` + strings.Repeat("[],", 500_000) + `[]],",","\"",null,true,false,false,0,"` + strings.Repeat("x", 4_000_000) + `"]`},
		"a line end in each row": {"csv_text", `[[` + strings.Repeat(`["x"],`, 500_000) + `[]],",","\"",null,true,false,false,0,"` + strings.Repeat("y", 4_000_000) + `"]`},
		"more rounds than it is": {"pbkdf2", `["sha512","a","b",200001,64]`},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			began := time.Now()
			_, _ = Call(c.fn, json.RawMessage(c.args)) // an answer or an error: both are fine
			took := time.Since(began)
			runtime.ReadMemStats(&after)
			if took > 2*time.Minute {
				t.Errorf("took %s", took)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > uint64(100*len(c.args)+64<<20) {
				t.Errorf("%d bytes of memory for %d", used, len(c.args))
			}
		})
	}
}
