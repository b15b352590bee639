package encode_test

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"agentkernel/internal/llm/encode"
)

func TestBody(t *testing.T) {
	b := encode.NewBody(0)
	b.Open('{').Key("s").String("a", "b").Key("n").Int(-7).Key("f").Float(0.5).Key("t").Bool(true).Key("nil").Null()
	b.Key("list").Open('[').Int(1).Int(2).Open('{').Close('}').Open('[').Close(']').String("").Close(']')
	b.Fields(json.RawMessage(` { "x" : 1.0 } `)).Fields(json.RawMessage("{}")).Key("raw").Raw(json.RawMessage(`{"b":1, "a":2}`))
	b.Extra(map[string]json.RawMessage{"z": json.RawMessage("1"), "y": json.RawMessage("2")}).Key("d").Data("data:,", []byte{0xff, 0}).Close('}')
	got, err := b.Bytes()
	want := `{"s":"ab","n":-7,"f":0.5,"t":true,"nil":null,"list":[1,2,{},[],""],"x" : 1.0,"raw":{"b":1, "a":2},"y":2,"z":1,"d":"data:,/wA="}`
	if string(got) != want || err != nil || b.Len() != len(want) {
		t.Errorf("%s\n%s\n%v", got, want, err)
	}
}

// TestLongTexts: what was escaped before is a piece where it is long, and not copied.
func TestLongTexts(t *testing.T) {
	long, short := bytes.Repeat([]byte(`a\n`), encode.LongText), []byte(`b\"`)
	b := encode.NewBody(0).Expect(1).Open('[')
	want := "["
	for range 50 {
		b.Texts(encode.Text{Plain: "x"}, encode.Text{Escaped: long}, encode.Text{Escaped: short}, encode.Text{Escaped: long})
		want += `"x` + string(long) + string(short) + string(long) + `",`
	}
	b.Open('{').Key("n").Int(1).Close('}').Close(']')
	want += `{"n":1}]`
	whole, err := b.Bytes()
	if string(whole) != want || err != nil || b.Len() != len(want) {
		t.Errorf("%.100s has %d bytes, not %d: %v", whole, b.Len(), len(want), err)
	}
	pieces, err := b.Pieces()
	if joined := bytes.Join(pieces, nil); string(joined) != want || err != nil || len(pieces) != 201 {
		t.Errorf("%d pieces are %.100s: %v", len(pieces), joined, err)
	}
	if &pieces[1][0] != &long[0] {
		t.Error("a long text is copied")
	}
}

func TestStrings(t *testing.T) {
	for _, s := range []string{"", "plain", "a\"b\\c", "\n\r\t\x00\x1f\x7f", "<>&\u2028", "äöü€😀", strings.Repeat("\"", 100)} {
		got, _ := encode.NewBody(0).String(s).Bytes()
		var back string
		if err := json.Unmarshal(got, &back); err != nil || back != s {
			t.Errorf("%q: %s, %v", s, got, err)
		}
	}
	if got, _ := encode.NewBody(0).String("a\xffb").Bytes(); string(got) != "\"a\ufffdb\"" {
		t.Errorf("%s", got)
	}
}

// FuzzString: a string means what it meant, wherever in it there is something to escape.
func FuzzString(f *testing.F) {
	for _, s := range []string{"", "1234567", "12345678", "\"234567890\\\n", "\x1f\x20\x7f\x80", "äöü€😀 text \" more", "1234567\xff", "\x00\x01\x02\x03\x04\x05\x06\x07\x08"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, _ := encode.NewBody(0).String(s).Bytes()
		var back string
		if err := json.Unmarshal(got, &back); err != nil || back != strings.ToValidUTF8(s, "\ufffd") {
			t.Fatalf("%q becomes %s, %v", s, got, err)
		}
		if !utf8.Valid(got) {
			t.Fatalf("%q is not UTF-8", got)
		}
	})
}

func TestWhatIsNoBody(t *testing.T) {
	for name, b := range map[string]*encode.Body{
		"not JSON":    encode.NewBody(0).Raw(json.RawMessage(`{"a":`)),
		"nothing":     encode.NewBody(0).Raw(nil),
		"no object":   encode.NewBody(0).Open('{').Fields(json.RawMessage(`[1]`)),
		"no number":   encode.NewBody(0).Float(math.Inf(1)),
		"said before": encode.NewBody(0).Open('{').Key("model").Int(1).Extra(map[string]json.RawMessage{"model": json.RawMessage(`"x"`)}),
		"to come":     encode.NewBody(0).Open('{').Extra(map[string]json.RawMessage{"model": json.RawMessage(`"x"`)}, "model"),
	} {
		if _, err := b.Bytes(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestObject(t *testing.T) {
	const text = `{"type":"thinking","thinking":"","n":1.50,"o":{"b":1,  "a":2}}`
	o, err := encode.Parse([]byte(text))
	if err != nil || string(o.Bytes()) != text {
		t.Fatalf("%s, %v", o.Bytes(), err)
	}
	for _, more := range []string{`"a"`, `"\ud83d"`, `"\ude00\n"`} {
		joined, err := encode.Append(o.Get("thinking"), json.RawMessage(more))
		if err != nil {
			t.Fatal(err)
		}
		o.Set("thinking", joined)
	}
	o.Set("new", json.RawMessage("null"))
	o.Remove("n", "other")
	if got, want := string(o.Bytes()), `{"type":"thinking","thinking":"a\ud83d\ude00\n","o":{"b":1,  "a":2},"new":null}`; got != want {
		t.Errorf("%s\n%s", got, want)
	}
	for _, bad := range []string{"", "[]", `{"a":`, `{"a"}`, "null"} {
		if _, err := encode.Parse([]byte(bad)); err == nil {
			t.Errorf("%q is an object", bad)
		}
	}
	if _, err := encode.Append(nil, json.RawMessage("1")); err == nil {
		t.Error("a number was appended")
	}
}
